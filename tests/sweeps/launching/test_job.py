"""Jobs: each has its part of the sweep, whatever the sweep."""

import json
import sys

import pytest

from actlab import activations
from actlab.config import Config, replace
from actlab.sweeps.launching.jobs import Job


def command(tmp_path, activation):
    config = replace(Config(), sweep={"model.activation": (activation,)})
    return Job(3, "x", ("x",), config, tmp_path / "jobs", ("configs/mine.py:small",)).command()


def test_a_job_reads_its_frozen_config_and_code_only_where_an_activation_is_code(tmp_path):
    paths = [f"--config={tmp_path}/jobs/3.json", f"--workdir={tmp_path}/jobs/3", "--extend"]
    words = [sys.executable, "-m", "actlab.main", *paths]
    assert command(tmp_path, "gelu_scale(s=0.25)") == words
    activations.register(activations.Activation("bent", lambda x: 2 * x, "2x", "ours"))
    words.insert(4, "--activations=configs/mine.py:small")
    assert command(tmp_path, "bent") == words


@pytest.mark.parametrize(
    "changes",
    [
        {"model.head_activation": "bent"},
        {"model.pooler_activation": "bent", "model.n_classes": 2},
        {
            "finetune.swap.from": "gelu",
            "finetune.swap.to": "bent",
            "finetune.swap.blocks": 1,
            "finetune.from_checkpoint": "w",
        },
    ],
)
def test_code_is_named_wherever_the_activation_stands(tmp_path, changes):
    activations.register(activations.Activation("bent", lambda x: 2 * x, "2x", "ours"))
    config = replace(Config(), **{"model.kind": "encoder", **changes, "sweep": {"seed": (1, 2)}})
    words = Job(3, "x", ("x",), config, tmp_path / "jobs", ("a.py", "mine.py")).command()
    assert words[4:6] == ["--activations=a.py", "--activations=mine.py"]


def test_before_it_starts_a_job_has_no_step_no_words_and_no_results(tmp_path):
    job = Job(0, "x", ("x",), Config(), tmp_path / "jobs", ())
    assert (job.step(), job.last_words(), job.results()) == (0, "nothing", None)


def test_a_row_cut_short_is_not_read_as_a_step(tmp_path):
    job = Job(0, "x", ("x",), Config(), tmp_path, ())
    job.workdir.path.mkdir()
    (job.workdir.path / "metrics.jsonl").write_text('{"run": "x", "step": 5}\n{"run": "x", "step": 6}\n{"st')
    job.log.write_text("one\n\ntwo  \n\n")
    assert (job.step(), job.last_words()) == (6, "two")


def test_programs_of_a_job_that_train_one_after_the_other_are_one_way(tmp_path, tables):
    job = Job(0, "x", ("a", "b", "c", "d"), replace(Config(), **{"train.n_steps": 3600}), tmp_path, "")
    job.workdir.path.mkdir()
    job.workdir.write_manifest({"parts": {"0": ["a", "b"], "1": ["c", "d"]}})
    seen = []
    for run, step in (("b", 1200), ("b", 3600), ("d", 0), ("d", 3600)):
        with (job.workdir.path / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({"run": run, "step": step}) + "\n")
        if step == 3600:
            done = [
                tables.row("relu", 1e-3, seed, 1.0, run=name)
                for seed, name in enumerate("abcd"[: 2 + 2 * (run == "d")])
            ]
            tables.write(job.workdir.path / "results.csv", done)
        seen.append(job.step())
    assert seen == [600, 1800, 1800, 3600]
