"""The command that tests the machinery: its exit code says whether all holds."""

import commands
import pytest

from actlab.adaptive import simulation
from actlab.analysis import validity
from actlab.cli import validate


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The command in an empty folder; returns its exit code and what it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(simulation, "WORLDS", simulation.WORLDS[:1])
    return lambda *words: commands.call(validate.main, "--repeats=100", *words)[:2]


def rows(tables, **changes):
    return [
        tables.row(name, 1e-3, seed, 1.0 + seed / 50 + (seed * len(name) % 3) / 100, **changes)
        for name in ("gelu", "tanh_relu")
        for seed in range(3)
    ]


def test_all_holds_where_there_are_no_results(run, monkeypatch):
    monkeypatch.setattr(validity, "WORLDS", (*validity.WORLDS[:3], validity.WORLDS[-1]))
    code, out = run("--n_seeds=6", "--seed=1")
    assert code == 0
    assert "all 13 checks hold, over 100 simulated studies each; 2 known limits are shown" in out
    assert "10% of the seeds collapse at the top rate" in out and "; power " in out
    assert "saves runs" in out


@pytest.fixture
def floors_alone(monkeypatch):
    """Of the checks those of results, and a single world."""
    monkeypatch.setattr(validity, "WORLDS", validity.WORLDS[:1])
    monkeypatch.setattr(validity, "_at_given_rates", lambda *_: iter(()))


def test_the_studies_of_the_folder_are_read_by_default_and_others_by_flag(run, tables, tmp_path, floors_alone):
    tables.write(tmp_path / "experiments" / "one" / "results.csv", rows(tables))
    code, out = run("--nocompare")
    assert code == 0 and "none of 6 runs" in out and "saves runs" not in out
    other = tables.write(tmp_path / "two" / "results.csv", rows(tables, floor=0.99)[:2])
    code, out = run(f"--runs={other}", "--nocompare")
    assert code == 0 and "none of 2 runs" in out


def test_a_loss_below_the_floor_is_exit_code_1_and_a_sentence(run, tables, tmp_path, floors_alone):
    path = tables.write(tmp_path / "results.csv", rows(tables, floor=1.01))
    code, out = run(f"--runs={path}", "--nocompare")
    assert code == 1
    assert "not valid: a validation loss below the corpus's floor: 2 of 6 runs, gelu-lr0.001-seed0 with 1.0000" in out
