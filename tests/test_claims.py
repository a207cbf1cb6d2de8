"""The command that lists the claims: what it prints, and one sentence for bad input."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from absl import flags
from absl.testing import flagsaver

from actlab import claims
from actlab.errors import UserError

ROOT = pathlib.Path(__file__).parents[1]


def shell(arguments, folder):
    return subprocess.run(
        [sys.executable, "-m", "actlab.claims", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """The command in this process, in an empty folder; returns what it prints, on one line."""
    monkeypatch.chdir(tmp_path)
    if not flags.FLAGS.is_parsed():
        flags.FLAGS(["claims"])

    def run(**values):
        with flagsaver.flagsaver(**values):
            claims.main([])
        return " ".join(capsys.readouterr().out.split())

    return run


def test_the_command_prints_one_claim_in_full(tmp_path):
    done = shell(["--id=a06"], tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    assert "A06" in done.stdout and "true" in done.stdout and "Phi(0) = 0.5, GELU(0) = 0." in done.stdout


def test_bad_input_ends_with_code_2_and_one_sentence(tmp_path):
    done = shell(["--id=D01"], tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == "actlab: --id=D01 is no claim: give one of A01 to A57, B01 to B23, C01 to C30.\n"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"text": "D"}, "--text=D"),
        ({"kind": "maths"}, "did you mean 'math'"),
        ({"verdict": "flase"}, "did you mean 'false'"),
        ({"id": "A20", "text": "A"}, "--id stands alone: leave out --text"),
        ({"id": "A20", "questions": True}, "--id stands alone: leave out --questions"),
        ({"questions": True, "kind": "math", "verdict": "true"}, "leave out --kind, --verdict"),
        ({"results": "nowhere"}, "--results=nowhere is no folder"),
    ],
)
def test_bad_flags(run, values, words):
    with pytest.raises(UserError, match=words):
        run(**values)


def test_text_kind_and_verdict_filter_together(run):
    out = run(text="C", kind="math", verdict="imprecise")
    assert out.endswith("3 claims: 3 imprecise")
    for id in ("C18", "C25", "C26"):
        assert id in out
    assert "C15" not in out and "A02" not in out


def test_a_filter_that_nothing_passes_says_so(run):
    assert run(kind="reference", verdict="false").endswith("0 claims")


def test_secondary_sources_and_experiments_are_shown(run):
    out = run(kind="interpretation")
    assert "open (X-12)" in out and "[secondary source]" in out.replace("│ ", "")


def test_questions_are_answered(run):
    out = run(questions=True)
    assert all(f"Q{n}" in out for n in range(1, 6)) and "-0.0376110859081" in out


def test_results_of_studies_are_read_from_their_folder(run, tmp_path):
    for folder, word in (("experiments", "true"), ("elsewhere", "false")):
        (tmp_path / folder / "seeds").mkdir(parents=True)
        content = {"claims": {"B07": {"verdict": word, "evidence": "six seeds."}}}
        (tmp_path / folder / "seeds" / "verdicts.json").write_text(json.dumps(content))
    assert "verdict true (X-1)" in run(id="B07")
    assert "verdict false (X-1)" in run(id="B07", results="elsewhere")
