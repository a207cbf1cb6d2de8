"""The command that lists the claims: what it prints, and what it refuses."""

import json

import commands
import pytest

from actlab.cli import claims


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The command in an empty folder; returns what it prints, on one line."""
    monkeypatch.chdir(tmp_path)
    return lambda *words: " ".join(commands.run(claims.main, *words).split())


def test_the_command_prints_one_claim_in_full(run):
    out = run("--id=a06")
    assert "A06" in out and "true" in out and "Phi(0) = 0.5, GELU(0) = 0." in out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--id=D01"], "--id=D01"),
        (["--source=D"], "--source=D"),
        (["--kind=maths"], "did you mean 'math'"),
        (["--verdict=flase"], "did you mean 'false'"),
        (["--id=A20", "--source=A"], "leave out --source"),
        (["--id=A20", "--questions"], "leave out --questions"),
        (["--questions", "--kind=math", "--verdict=true"], "leave out --kind, --verdict"),
        (["--results=nowhere"], "--results=nowhere is not a folder"),
    ],
)
def test_bad_flags_are_refused(refused, words, told):
    assert told in refused(claims.main, *words)


def test_text_kind_and_verdict_filter_together(run):
    out = run("--source=C", "--kind=math", "--verdict=imprecise")
    assert out.endswith("3 claims: 3 imprecise")
    for id in ("C18", "C25", "C26"):
        assert id in out
    assert "C15" not in out and "A02" not in out


def test_a_filter_that_nothing_passes_says_so(run):
    assert run("--kind=reference", "--verdict=false").endswith("0 claims")


def test_secondary_sources_and_experiments_are_shown(run):
    out = run("--kind=interpretation")
    assert "open (X-12)" in out and "[secondary source]" in out.replace("│ ", "")


def test_questions_are_answered(run):
    out = run("--questions")
    assert all(f"Q{n}" in out for n in range(1, 6)) and "-0.0376110859081" in out


def test_results_of_studies_are_read_from_their_folder(run, tmp_path):
    for folder, word in (("experiments", "true"), ("elsewhere", "false")):
        (tmp_path / folder / "seeds").mkdir(parents=True)
        content = {"claims": {"B07": {"verdict": word, "evidence": "six seeds."}}}
        (tmp_path / folder / "seeds" / "verdicts.json").write_text(json.dumps(content))
    assert "verdict true (X-1)" in run("--id=B07")
    assert "verdict false (X-1)" in run("--id=B07", "--results=elsewhere")


def test_without_the_studies_a_warning_says_what_counts_as_open(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, error = commands.call(claims.main, "--id=B07")
    assert code == 0 and "open" in out and error.startswith("warning     experiments has no verdicts.json")
    (tmp_path / "experiments/study").mkdir(parents=True)
    assert commands.call(claims.main, "--id=B07") == (0, out, error)
    (tmp_path / "experiments/study/verdicts.json").write_text('{"claims": {}}')
    assert commands.call(claims.main, "--id=B07") == (0, out, "")
