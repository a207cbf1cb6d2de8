"""The command that compares what was trained again: its rows, its exit codes, one sentence for bad input."""

import commands
import pytest

from actlab import config as config_lib
from actlab.cli import replicate
from actlab.config import Config
from actlab.workdir.records import Workdir


@pytest.fixture
def study(tables, tmp_path):
    rows = [
        tables.row("gelu", 1e-3, seed, 1.0 + seed / 100 + warmup / 100) | {"optimizer.warmup_steps": warmup}
        for warmup in (0, 32)
        for seed in range(6)
    ]
    return tables.write(tmp_path / "study" / "results.csv", rows).parent


def one_run(tables, folder, loss, warmup):
    """A workdir of one run: its warmup is in its config alone."""
    path = tables.write(folder / "results.csv", [tables.row("gelu", 1e-3, 77, loss)])
    config = config_lib.replace(Config(), **{"optimizer.warmup_steps": warmup})
    path.with_name("config.json").write_text(config_lib.to_json(config))
    return path.parent


def test_a_run_of_another_seed_is_placed_by_its_config(study, tables, tmp_path):
    folder = one_run(tables, tmp_path / "again", 1.33, 32)
    out = commands.run(replicate.main, study, folder)
    assert "verdict     replicated: 1 of 1 inside; the farthest has p 0.49 after Holm" in out
    (row,) = [line for line in out.splitlines() if line.startswith("gelu-lr0.001-seed77")]
    assert row.split()[1:] == ["1.3300", "1.2931", "to", "1.3969", "6", "yes", "0.49"]


def test_one_far_outside_is_exit_code_1_and_runs_of_other_places_go_together(study, tables, tmp_path):
    folders = [one_run(tables, tmp_path / f"again{warmup}", 1.33, warmup) for warmup in (0, 32)]
    code, out, _ = commands.call(replicate.main, study, *folders)
    assert code == 1 and "verdict     not replicated: 1 of 2 inside" in out


def test_runs_on_other_data_are_refused(study, tables, tmp_path, refused):
    rows = tables.write(
        study / "results.csv", [tables.row("gelu", 1e-3, seed, 1.0) | {"data_fingerprint": "ab" * 6} for seed in (1, 2)]
    )
    folder = one_run(tables, tmp_path / "again", 1.0, 0)
    Workdir(folder).write_manifest({"data": {"fingerprint": "cd" * 32}})
    told = refused(replicate.main, rows, folder)
    assert "data_fingerprint" in told and "cd" * 6 in told and "ab" * 6 in told


@pytest.mark.parametrize(
    ("status", "words"),
    [("stopped", "gelu-lr0.001-seed3 is not trained to its end"), ("waiting", "no run was trained")],
)
def test_a_run_that_is_not_done_is_told_though_the_study_has_it(study, tables, tmp_path, refused, status, words):
    row = tables.row("gelu", 1e-3, 3, 1.0, status=status) | {"optimizer.warmup_steps": 0}
    assert words in refused(replicate.main, study, tables.write(tmp_path / "again" / "results.csv", [row]))


def test_one_table_is_none_to_compare(study, refused):
    assert "two tables are needed" in refused(replicate.main, study)
    assert "would be compared with itself" in refused(replicate.main, study, study)
    assert "would be compared with itself" in refused(replicate.main, study, f"{study}/results.csv")
