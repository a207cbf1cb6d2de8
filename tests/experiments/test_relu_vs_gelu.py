"""The follow-up arms of relu_vs_gelu: each changes one thing, and their table is what the rows say."""

import csv
import pathlib

import commands
import numpy as np
import pytest
import scripts

from actlab import config as config_lib
from actlab.analysis.effects import holm, t_interval, t_test
from actlab.config import sweep
from actlab.errors import UserError

ROOT = pathlib.Path(__file__).parents[2] / "experiments/relu_vs_gelu"


STUDY, ARMS = (scripts.load(ROOT / name) for name in ("study.py", "arms.py"))
SEEDS = (1, 2, 3)
PLAIN = {"relu": (1.2, 1.25, 1.2), "gelu": (1.1, 1.2, 1.14)}
GAIN = {"relu": (1.2, 1.2, 1.2), "gelu": (1.21, 1.2, 1.23)}


def config_of(preset):
    return config_lib.from_mapping(STUDY.get_config(preset).to_dict())


def test_arms_change_one_thing():
    plain = config_lib.flat(config_of("small"))
    changed = {
        arm: {path for path, value in config_lib.flat(config_of(arm)).items() if value != plain[path]}
        for arm in STUDY.ARMS
    }
    assert {arm: paths - {"sweep"} for arm, paths in changed.items()} == {
        "gain": {"model.init"},
        "fan_in": {"model.init"},
        "twice": {"train.n_steps"},
        "four_times": {"train.n_steps"},
        "biases": {"model.use_bias"},
        "no_decay": {"optimizer.weight_decay"},
    }
    assert dict(config_of("twice").sweep)["optimizer.warmup_steps"] == (64,)
    assert len(sweep.expand(config_of("gain"))) == 24
    assert set(ARMS.LABELS) == {*STUDY.ARMS, ARMS.PLAIN}


@pytest.mark.parametrize(("preset", "near"), [("gian", "gain"), ("char-gian", "char-gain"), ("smal", "small")])
def test_an_arm_that_is_not_known_is_answered_with_the_nearest(preset, near):
    with pytest.raises(UserError, match=f"did you mean '{near}'"):
        config_of(preset)


@pytest.fixture
def rows(tables):
    def of(losses, rate=3e-3, warmup=32, **changes):
        axes = {"optimizer.warmup_steps": warmup} | changes
        return [
            tables.row(name, rate, seed, loss, **axes)
            for name in losses
            for seed, loss in zip(SEEDS, losses[name], strict=True)
        ]

    return of


def made(folder, capsys):
    ARMS.main([str(folder)])
    with (folder / "arms.csv").open(newline="") as file:
        return list(csv.DictReader(file)), capsys.readouterr().out.splitlines()


def test_gaps_and_their_changes_are_paired_by_seed_and_corrected_over_the_arms(tables, rows, tmp_path, capsys):
    without = rows({"relu": (2.0, 2.0, 2.0), "gelu": (3.0, 3.0, 3.0)}, warmup=0)
    tables.write(tmp_path / "results.csv", [*without, *rows(PLAIN), *rows(PLAIN, 1e-3)])
    tables.write(tmp_path / "gain/results.csv", rows(GAIN)[::-1])  # whatever the order of the table
    found, printed = made(tmp_path, capsys)
    assert [(row["arm"], row["learning_rate"]) for row in found] == [("plain", "0.003"), ("gain", "0.003")]
    gaps = [np.subtract(losses["gelu"], losses["relu"]) for losses in (PLAIN, GAIN)]
    corrected = holm([t_test(gap) for gap in gaps])
    for row, gap, p in zip(found, gaps, corrected, strict=True):
        held = [float(row[key]) for key in ("gap", "gap_low", "gap_high", "gap_p_holm")]
        np.testing.assert_allclose(held, [gap.mean(), *t_interval(gap), p], rtol=1e-6)
        assert row["gap_family"] == "2"
    assert found[0]["change"] == "" and found[1]["change_family"] == "1"
    assert float(found[1]["change"]) == pytest.approx((gaps[1] - gaps[0]).mean())
    assert float(found[1]["change_p_holm"]) == pytest.approx(t_test(gaps[1] - gaps[0]))
    assert float(found[0]["relu_sd"]) == pytest.approx(np.std(PLAIN["relu"], ddof=1))
    assert len(printed) == 4 and printed[3].startswith("| initialisation by gain | 0.003 | 1.200 (0.000) | 1.213 ")
    assert (tmp_path / "arms.svg").is_file()


def test_a_rate_counts_once_every_run_of_the_arm_is_done(tables, rows, tmp_path, capsys):
    tables.write(tmp_path / "results.csv", [*rows(PLAIN), *rows(PLAIN, 1e-3)])
    waiting = [{**row, "status": "waiting"} for row in rows({"gelu": GAIN["gelu"]}, 1e-3, 64)]
    half = [*rows(GAIN, 3e-3, 64), *rows({"relu": GAIN["relu"]}, 1e-3, 64), *waiting]
    tables.write(tmp_path / "twice/results.csv", half)
    found, _ = made(tmp_path, capsys)
    assert {row["learning_rate"] for row in found} == {"0.003"}


def test_without_an_arm_it_says_what_to_train(tables, rows, tmp_path):
    with pytest.raises(UserError, match="folder of an arm"):
        commands.run(ARMS.main, tmp_path)
    tables.write(tmp_path / "results.csv", rows(PLAIN))
    with pytest.raises(UserError, match="folder of an arm"):
        commands.run(ARMS.main, tmp_path)


@pytest.mark.skipif(not (ROOT / "arms.csv").is_file(), reason="no arm is trained yet")
def test_the_committed_table_follows_from_the_committed_runs(tmp_path, capsys):
    for path in ROOT.glob("**/results.csv"):
        (tmp_path / path.relative_to(ROOT)).parent.mkdir(exist_ok=True)
        (tmp_path / path.relative_to(ROOT)).write_bytes(path.read_bytes())
    found, printed = made(tmp_path, capsys)
    assert (tmp_path / "arms.csv").read_text() == (ROOT / "arms.csv").read_text() and found
    page = (ROOT / "README.md").read_text()
    assert "\n".join(printed) in page


def test_the_table_at_10m_is_what_its_rows_say():
    table = commands.run(scripts.load(ROOT / "char.py").main).strip()
    assert table in (ROOT / "char.md").read_text()
    for label, arm, line in (("by gain", "char-gain", 3), ("0.02", "char", 7)):
        rows = list(csv.DictReader((ROOT / arm / "results.csv").read_text().splitlines()))
        relu, gelu = (
            np.array([float(row["test_loss"]) for row in rows if (row["activation"], row["learning_rate"]) == cell])
            for cell in (("relu", "0.001"), ("gelu", "0.001"))
        )
        told = " | ".join(f"{losses.mean():.4f} ({losses.std(ddof=1):.4f}), 8" for losses in (relu, gelu))
        assert table.splitlines()[line] == f"| {label} | 0.001 | {told} | {gap(gelu, relu)} |"


def gap(gelu, relu):
    low, high = t_interval(gelu - relu)
    return f"{(gelu - relu).mean():.4f} ({low:.4f} to {high:.4f})"
