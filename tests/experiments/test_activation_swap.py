"""The study of swapped activations: its stages fit together, its tables are what the rows say, a task is learned."""

import csv
import json
import pathlib

import numpy as np
import pytest
import scripts

from actlab import config as config_lib
from actlab.analysis.effects import t_interval
from actlab.config import presets, replace, sweep
from actlab.errors import UserError
from actlab.sweeps import origin, session
from actlab.workdir.records import Workdir

ROOT = pathlib.Path(__file__).parents[2] / "experiments/activation_swap"
STAGES = ("pretrain", "swap", "finetune", "continued")


def module_of(name):
    return scripts.load(ROOT / f"{name}.py")


STUDY, SUMMARY = module_of("stages"), module_of("summary")
SEEDS = STUDY.SEEDS


def config_of(stage):
    return config_lib.from_mapping(STUDY.get_config(stage).to_dict())


@pytest.mark.parametrize("size", ["", "_paper"])
def test_every_stage_starts_from_runs_that_an_earlier_one_trains(size):
    runs = {stage: {run.name: run.config for run in sweep.expand(config_of(stage + size))} for stage in STAGES}
    for stage in STAGES[1:]:
        for name, config in runs[stage].items():
            path, _, run = origin.name_of(config).partition(":")
            folder, earlier = path.rsplit("/", 1)
            theirs = runs[earlier][run]
            assert folder == f"runs/activation_swap{size}" and theirs.seed == config.seed, name
            assert theirs.model.activation == config.model.activation
            if stage == "continued":
                assert theirs.finetune.swap == config.finetune.swap and theirs.finetune.fold == config.finetune.fold
    assert {config.finetune.swap.blocks for config in runs["swap"].values()} == {0, 1, 2, 3, 4}
    assert len(runs["swap"]) == 13 * len(runs["pretrain"]) / 2


def test_an_unknown_stage_is_answered_with_the_nearest():
    with pytest.raises(UserError, match="did you mean 'pretrain'"):
        STUDY.get_config("pretrian")


FIRST_LOSS = {"kept": 0.0, "relu": 0.2, "folded": 0.1, "gelu_tanh": 1e-5}  # above no swap, per block


def kind(config):
    swap = config.finetune.swap
    return "kept" if not swap.blocks else "folded" if config.finetune.fold else swap.to


def loss_of(config, step):
    """Planted: a jump that grows with the blocks and scatters with the seed, half of it regained by the end."""
    jump = config.finetune.swap.blocks * FIRST_LOSS[kind(config)] * (1 + config.seed / 100)
    scratch = 0.3 * (config.model.activation == "relu") * (-1) ** config.seed  # as often above as below
    return 5 + config.seed / 7 + (jump + scratch) * (0.5 if step else 1.0)


@pytest.fixture
def trained(tmp_path):
    """What the stages leave behind, with losses made up."""
    for stage in STAGES:
        workdir, config = tmp_path / "runs" / stage, config_of(stage)
        workdir.mkdir(parents=True)
        (workdir / "config.json").write_text(config_lib.to_json(config))
        known = {"fingerprint": "0123456789abcdef", "documents": {"train": 6400}, "tokens": {"train": 819_200}}
        Workdir(workdir).write_manifest({"data": known})
        with (workdir / "metrics.jsonl").open("w") as file:
            for run in sweep.expand(config):
                for step in (0, 300):
                    row = {"run": run.name, "step": step, "loss": loss_of(run.config, step), "accuracy": 0.1}
                    file.write(json.dumps(row | {"split": "validation"}) + "\n")
                    file.write(json.dumps(row | {"split": "train"}) + "\n")
                    file.write(json.dumps(row | {"split": "probe", "dead_fraction": step / 600}) + "\n")
    return tmp_path / "runs"


@pytest.fixture
def stages(trained):
    return SUMMARY.curves(SUMMARY.collect(trained))


def test_jumps_are_paired_by_seed(stages):
    rows = {(row["to"], row["blocks"], row["fold"]): row for row in SUMMARY.jumps(stages)}
    assert len(rows) == 13 and rows["", 0, False]["jump"] == 0
    for k in (1, 2, 3, 4):
        for to, fold, each in (("relu", False, 0.2), ("relu", True, 0.1), ("gelu_tanh", False, 1e-5)):
            row = rows[to, k, fold]
            expected = np.array([k * each * (1 + seed / 100) for seed in SEEDS])
            assert row["jump"] == pytest.approx(expected.mean(), abs=1e-9) and row["seeds"] == len(SEEDS)
            assert (row["low"], row["high"]) == pytest.approx(t_interval(expected), abs=1e-9)


def test_epochs_have_every_arm_at_every_evaluation(stages):
    rows = [row for row in SUMMARY.epochs(stages) if row["stage"] == "swap"]
    assert len(rows) == 26 and {(row["step"], row["epoch"]) for row in rows} == {(0, 0.0), (300, 0.75)}
    for row in rows:
        losses = np.array([5 + seed / 7 for seed in SEEDS])
        if not row["blocks"]:
            assert row["loss"] == pytest.approx(losses.mean())
            assert (row["low"], row["high"]) == pytest.approx(t_interval(losses))
        assert row["dead_fraction"] == row["step"] / 600 and row["accuracy"] == pytest.approx(0.1)
        assert row["majority_accuracy"] == ""


def test_verdicts_tell_a_jump_from_none_and_no_difference_from_an_equal_loss(stages):
    found = {(row["stage"], row["step"], row["first"], row["second"]): row for row in SUMMARY.compare(stages)}
    for k in (1, 2, 3, 4):
        assert found["swap", 0, "gelu", f"gelu, relu in {k}"]["verdict"] == "supported"
        assert found["swap", 0, f"gelu, relu in {k}, mean folded", f"gelu, relu in {k}"]["verdict"] == "supported"
    for stage in ("finetune", "continued"):
        row = found[stage, 300, "gelu", "gelu, relu in 4"]
        expected = np.array([-4 * 0.1 * (1 + seed / 100) for seed in SEEDS])
        assert row["verdict"] == "supported" and row["interval"] == pytest.approx(t_interval(expected))
    noisy = found["finetune", 300, "gelu", "relu"]
    assert noisy["verdict"] == "undecided"
    said = SUMMARY.words(noisy)
    assert "loss of (gelu) < (relu) undecided at this scale" in said and "neither a difference nor equivalence" in said
    assert {row[:2] for row in found} == {
        ("pretrain", 300),
        ("swap", 0),
        ("swap", 300),
        ("finetune", 300),
        ("continued", 300),
    }


def test_a_null_control_that_scatters_around_nothing_is_equivalent(trained):
    rows = SUMMARY.collect(trained)
    for row in rows:
        if row["to"] == "gelu_tanh":
            row["loss"] += 1e-4 * (-1) ** row["seed"]
    null = [row for row in SUMMARY.compare(SUMMARY.curves(rows)) if row["second"] == "gelu, gelu_tanh in 4"]
    assert len(null) == 4 and {row["verdict"] for row in null} == {"equivalent"}


def test_tables_verdicts_and_figures_are_written_and_made_again_from_the_table_of_runs(trained, tmp_path, capsys):
    folder = tmp_path / "study"
    SUMMARY.main([str(trained), str(folder)])
    said = capsys.readouterr().out
    assert "right after the swap, step 300: loss of (gelu) < (gelu, relu in 4) supported at this scale" in said
    names = {"evaluations.csv", "jumps.csv", "epochs.csv", "verdicts.json", "report.html"}
    names |= {f"{figure}.{form}" for figure in ("jumps", "epochs") for form in ("png", "svg", "pdf")}
    written = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert written.keys() == names
    assert b"swapped blocks" in written["jumps.svg"] and b"relu, mean folded" in written["jumps.svg"]
    assert json.loads(written["verdicts.json"])["claims"] == {}
    for name in names - {"evaluations.csv"}:
        (folder / name).unlink()
    SUMMARY.main([str(folder), str(folder)])
    again = {path.name: path.read_bytes() for path in folder.iterdir()}
    # A PDF names its fonts anew each time.
    assert again.keys() == names and all(again[name] == written[name] for name in names if not name.endswith(".pdf"))


def test_what_is_not_trained_is_named(trained, tmp_path):
    with pytest.raises(UserError, match="nowhere has no stage that was trained"):
        SUMMARY.collect(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"evaluations\.csv"):
        SUMMARY.read(tmp_path / "evaluations.csv")
    rows = SUMMARY.collect(trained)
    with pytest.raises(UserError, match="the stage swap is not trained"):
        SUMMARY.jumps(SUMMARY.curves([row for row in rows if row["stage"] != "swap"]))
    with pytest.raises(UserError, match="pretrain: gelu has one seed"):
        SUMMARY.curves([row for row in rows if row["seed"] == 1])


def test_a_run_that_diverged_is_refused_not_dropped(trained):
    path = trained / "finetune/metrics.jsonl"
    lines = path.read_text().splitlines()
    first = json.loads(lines[0]) | {"loss": None}
    path.write_text("\n".join([json.dumps(first), *lines[1:]]) + "\n")
    with pytest.raises(UserError, match="diverged by step 0: train the stage at"):
        SUMMARY.collect(trained)


@pytest.mark.slow
def test_the_stages_follow_each_other_at_the_smallest_size(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny = {
        "model.d_model": 16,
        "model.context": 16,
        "data.n_stories": 64,
        "train.eval_tokens": 1000,
        "train.n_steps": 4,
        "train.eval_every": 2,
        "train.checkpoint_every": 4,
        "optimizer.warmup_steps": 1,
        "train.probe_every": 0,
        "train.census_every": 0,
    }
    for stage in STAGES:
        config = config_of(stage)
        axes = {key: values[:3] if "swap" in key else values for key, values in config.sweep}
        if stage == "swap":  # those that the stage after it starts from
            ends = (STUDY.NONE, STUDY.ALL, STUDY.FOLDED)
            axes = {key: ends if "swap" in key else values for key, values in axes.items()}
        config = replace(config, **tiny, sweep={**axes, "seed": (1, 2)})
        assert session.run(config, stage, tmp_path / "runs/activation_swap" / stage, ["test"]) == 0
    SUMMARY.main(["runs/activation_swap", str(tmp_path)])
    jumps = list(csv.DictReader((tmp_path / "jumps.csv").read_text().splitlines()))
    assert [float(row["jump"]) != 0 for row in jumps] == [False, True, True]
    stages = {row["stage"] for row in SUMMARY.read(tmp_path / "evaluations.csv")}
    assert stages == set(STAGES)


@pytest.mark.slow
def test_a_wish_is_told_from_a_pretrained_encoder_far_better_than_by_the_majority(tmp_path):
    """The presets small of bert and finetuned, cut to two minutes."""
    shared = {"model.d_model": 64, "train.probe_every": 0, "train.census_every": 0, "data.dir": str(tmp_path / "data")}
    schedule = {
        "train.n_steps": 600,
        "train.eval_every": 300,
        "train.checkpoint_every": 300,
        "train.eval_tokens": 2**14,
    }
    own = {"model.activation": "gelu", "data.n_stories": 6400}
    pretraining = presets.bert("small", {**shared, **schedule, **own})
    config = config_lib.from_mapping(pretraining.to_dict())
    assert session.run(config, "bert", tmp_path / "bert", ["test"]) == 0
    task = {
        "finetune.task": "wish",
        "finetune.from_checkpoint": str(tmp_path / "bert"),
        "optimizer.learning_rate": 1e-3,
    }
    config = config_lib.from_mapping(presets.finetuned("small", {**shared, **task}).to_dict())
    assert session.run(config, "wish", tmp_path / "wish", ["test"]) == 0
    (row,) = Workdir(tmp_path / "wish").results()
    assert float(row["majority_accuracy"]) < 0.7 and float(row["accuracy"]) > 0.9 and float(row["macro_f1"]) > 0.9
