"""The command that compares: what it prints and writes, and one sentence for bad input."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from absl import flags
from absl.testing import flagsaver

from actlab import verdict
from actlab.errors import UserError

ROOT = pathlib.Path(__file__).parents[1]


@pytest.fixture
def study(tables, tmp_path):
    """The results of three activations, three rates and five seeds; gelu is planted best."""
    levels = {"gelu": 0.0, "relu": 0.05, "tanh": 0.2}
    rows = [
        tables.row(name, rate, seed, 1.5 + level + seed / 100 + (seed * rate * 1e4 % 7) / 1000 + abs(rate - 3e-3) * 9)
        for name, level in levels.items()
        for rate in (1e-3, 3e-3, 1e-2)
        for seed in range(5)
    ]
    return tables.write(tmp_path / "study" / "results.csv", rows).parent


@pytest.fixture
def run(capsys):
    """The command in this process; returns what it prints."""
    if not flags.FLAGS.is_parsed():
        flags.FLAGS(["verdict"])

    def run(*paths, **values):
        with flagsaver.flagsaver(**values):
            verdict.main([str(path) for path in paths])
        return capsys.readouterr().out

    return run


def shell(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "actlab.verdict", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_prints_a_verdict_and_writes_it_beside_the_results(study):
    done = shell(study, "--question=gelu<relu")
    assert done.returncode == 0 and done.stderr == ""
    (sentence,) = [line for line in done.stdout.splitlines() if line.startswith("verdict ")]
    assert "supported: the loss of gelu is lower than that of relu, at this scale" in sentence
    content = json.loads((study / "verdicts.json").read_text())
    assert content["comparisons"][0]["verdicts"] == [sentence.removeprefix("verdict").strip()]
    before = (study / "verdicts.json").read_bytes()
    assert shell(study, "--question=gelu<relu").returncode == 0
    assert (study / "verdicts.json").read_bytes() == before


def test_bad_input_ends_with_code_2_and_one_sentence(tmp_path):
    done = shell(tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    assert (
        done.stderr == f"actlab: {tmp_path} holds no results.csv: give a workdir whose runs are done, or such a file.\n"
    )


def test_without_a_question_all_pairs_are_compared(study, run):
    out = run(study / "results.csv")
    assert "gelu < relu" in out and "gelu < tanh" in out and "relu < tanh" in out
    assert "supported: gelu has the lowest loss" in out and "LR sensitivity" in out
    assert (study / "verdicts.json").is_file()


def test_a_question_may_be_repeated_and_a_baseline_named(study, run):
    out = run(study, question=["gelu<relu", "tanh<relu"], baseline="relu")
    assert "supported: the loss of gelu" in out and "refuted: the loss of tanh" in out
    assert "gelu < tanh" not in out and "Dunnett     gelu p " in out


def test_the_margin_is_that_of_equivalence(study, run, tables, tmp_path):
    rows = [
        tables.row(name, 1e-3, seed, 1.0 + seed * (name == "relu") / 1000 - 0.002 * (name == "relu"))
        for name in ("relu", "gelu")
        for seed in range(5)
    ]
    path = tables.write(tmp_path / "near" / "results.csv", rows)
    assert "equivalent: " in run(path)
    assert "undecided: " in run(path, margin=1e-4)


def test_several_tables_are_one_and_need_a_place(study, run, tables, tmp_path):
    rows = [tables.row("silu", rate, seed, 1.4 + seed / 90) for rate in (1e-3, 3e-3, 1e-2) for seed in range(5)]
    other = tables.write(tmp_path / "other" / "results.csv", rows).parent
    with pytest.raises(UserError, match="--verdicts is missing: 2 tables"):
        run(study, other)
    out = run(study, other, verdicts=str(tmp_path / "both.json"))
    assert "silu < gelu" in out and str(tmp_path / "both.json") in out
    assert not (study / "verdicts.json").exists()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"question": ["gelu"]}, "--question='gelu' is no question"),
        ({"question": ["glue<relu"]}, "glue is not in the table: did you mean 'gelu'"),
        ({"baseline": "elu"}, "--baseline=elu is not in the table"),
        ({"margin": 0.0}, "margin=0"),
    ],
)
def test_bad_flags(study, run, values, words):
    with pytest.raises(UserError, match=words):
        run(study, **values)
    assert not (study / "verdicts.json").exists()


def test_no_table_is_no_comparison(run):
    with pytest.raises(UserError, match="no table is given"):
        run()
