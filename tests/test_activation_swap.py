"""The study of swapped activations: its stages fit together, its tables are what the rows say, a task is learned."""

import importlib.util
import json
import pathlib

import numpy as np
import pytest

from actlab import config as config_lib
from actlab import presets
from actlab.config import replace
from actlab.errors import UserError
from actlab.studies import origin, session, sweep
from actlab.studies.statistics import t_interval
from actlab.training.records import Workdir

ROOT = pathlib.Path(__file__).parents[1] / "experiments/activation_swap"
STAGES = ("pretrain", "swap", "finetune", "continued")


def module_of(name):
    spec = importlib.util.spec_from_file_location(f"activation_swap_{name}", ROOT / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STUDY, SUMMARY = module_of("stages"), module_of("summary")


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


@pytest.fixture
def swapped(tmp_path):
    """What the stage swap leaves behind, with losses made up."""
    workdir, config = tmp_path / "runs/swap", config_of("swap")
    workdir.mkdir(parents=True)
    (workdir / "config.json").write_text(config_lib.to_json(config))
    (workdir / "manifest.json").write_text(
        json.dumps({"data": {"documents": {"train": 6400}, "tokens": {"train": 819_200}}})
    )
    rows = []
    for run in sweep.expand(config):
        k, folded = run.config.finetune.swap.blocks, run.config.finetune.fold
        loss = 5 + run.config.seed / 7 + k * (0.1 if folded else 0.2 + run.config.seed / 100)
        scores = ((0, loss), (300, loss - 1))
        rows += [
            {"run": run.name, "step": step, "split": "validation", "loss": at, "accuracy": 0.1} for step, at in scores
        ]
        rows.append({"run": run.name, "step": 300, "split": "train", "loss": 0.0})
    (workdir / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return workdir


def test_jumps_are_paired_by_seed(swapped):
    rows = {row["arm"]: row for row in SUMMARY.jumps(swapped)}
    assert len(rows) == 13 and rows["gelu-torelu-blocks0-foldFalse"]["jump"] == 0
    plain, folded = (rows[f"gelu-torelu-blocks3-fold{fold}"] for fold in (False, True))
    assert folded["jump"] == pytest.approx(0.3) and folded["high"] - folded["low"] < 1e-6
    expected = np.array([3 * (0.2 + seed / 100) for seed in (1, 2, 3)])
    assert (plain["low"], plain["high"]) == pytest.approx(t_interval(expected)) and plain["seeds"] == 3


def test_epochs_have_every_arm_at_every_evaluation_and_the_tables_are_written(swapped, tmp_path):
    rows = SUMMARY.epochs(swapped)
    assert len(rows) == 26 and {(row["step"], row["epoch"]) for row in rows} == {(0, 0.0), (300, 0.75)}
    (tmp_path / "tables").mkdir()
    SUMMARY.main([str(swapped.parent), str(tmp_path / "tables")])
    assert len((tmp_path / "tables/epochs.csv").read_text().splitlines()) == 27
    assert (tmp_path / "tables/jumps.csv").read_text().startswith("arm,seeds,loss,jump,low,high\n")


def test_a_stage_that_is_not_trained_is_named(tmp_path):
    with pytest.raises(UserError, match="swap has no config.json: train that stage first"):
        SUMMARY.jumps(tmp_path / "swap")


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
    jumps = (tmp_path / "jumps.csv").read_text().splitlines()
    assert len(jumps) == 4 and float(jumps[1].split(",")[3]) == 0 and float(jumps[2].split(",")[3]) != 0


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
