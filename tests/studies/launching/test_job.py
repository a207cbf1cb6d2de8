"""Jobs: each has its part of the sweep, whatever the sweep."""

import json
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actlab import activations, config_flag
from actlab.config import Config, replace
from actlab.studies import sweep
from actlab.studies.launching.job import Job, narrow

VALUES = {
    "model.activation": ("relu", "gelu", "tanh"),
    "optimizer.learning_rate": (1e-3, 1e-2, 1e-1),
    "seed": (1, 2, 3),
    "train.n_steps": (100, 200, 300),
    "optimizer.weight_decay": (0.0, 0.1),
}


@st.composite
def sweeps(draw):
    """Axes of one to three fields each, of traced and static fields in any company."""
    fields = draw(st.permutations(list(VALUES)))
    axes = {}
    while fields:
        n = draw(st.integers(1, min(3, len(fields))))
        mine, fields = fields[:n], fields[n:]
        row = (
            st.tuples(*(st.sampled_from(VALUES[field]) for field in mine))
            if n > 1
            else st.sampled_from(VALUES[mine[0]])
        )
        axes[", ".join(mine)] = draw(st.lists(row, min_size=1, max_size=3, unique=True))
    return axes


@settings(max_examples=50)
@given(sweeps())
def test_the_parts_of_a_sweep_are_its_cohorts(axes):
    config = replace(Config(), sweep=axes)
    for cohort in sweep.cohorts(sweep.expand(config)):
        assert list(sweep.expand(narrow(config, cohort))) == cohort


def test_a_run_without_a_sweep_is_its_own_part():
    assert narrow(Config(), sweep.expand(Config())) == Config()


def command(tmp_path, activation):
    config = replace(Config(), sweep={"model.activation": (activation,)})
    return Job(3, "x", ("x",), config, tmp_path / "jobs", "configs/mine.py:small").command()


def test_a_job_reads_its_frozen_config_and_code_only_where_an_activation_is_code(tmp_path):
    words = [sys.executable, "-m", "actlab.main", f"--config={tmp_path}/jobs/3.json", f"--workdir={tmp_path}/jobs/3"]
    assert command(tmp_path, "gelu_scale(s=0.25)") == words
    activations.register(activations.Activation("bent", lambda x: 2 * x, "2x", "ours"))
    words[3] += ":configs/mine.py:small"
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
    words = Job(3, "x", ("x",), config, tmp_path / "jobs", "mine.py").command()
    assert words[3] == f"--config={tmp_path}/jobs/3.json:mine.py"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("configs/x.py:small", "configs/x.py:small"),
        ("runs/x.json", ""),
        ("runs/x.json:configs/y.py", "configs/y.py"),
        ("runs/x.json:configs/y.py:small.json", "configs/y.py:small.json"),
    ],
)
def test_a_job_is_given_what_is_code_of_a_config(path, code):
    assert config_flag.code(path) == code


def test_before_it_starts_a_job_has_no_step_no_words_and_no_results(tmp_path):
    job = Job(0, "x", ("x",), Config(), tmp_path / "jobs", "")
    assert (job.step(), job.last_words(), job.results()) == (0, "nothing", None)


def test_a_row_cut_short_is_not_read_as_a_step(tmp_path):
    job = Job(0, "x", ("x",), Config(), tmp_path, "")
    job.workdir.path.mkdir()
    (job.workdir.path / "metrics.jsonl").write_text('{"run": "x", "step": 5}\n{"run": "x", "step": 6}\n{"st')
    job.log.write_text("one\n\ntwo  \n\n")
    assert (job.step(), job.last_words()) == (6, "two")


def test_programs_of_a_job_that_train_one_after_the_other_are_one_way(tmp_path, tables):
    job = Job(0, "x", ("a", "b", "c", "d"), replace(Config(), **{"train.n_steps": 3600}), tmp_path, "")
    job.workdir.path.mkdir()
    (job.workdir.path / "manifest.json").write_text(json.dumps({"parts": {"0": ["a", "b"], "1": ["c", "d"]}}))
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


@pytest.mark.parametrize("path", ["configs/x.py", "configs/x.py:small", "runs/x.json:configs/y.py"])
def test_the_default_workdir_is_named_after_the_config_file(path):
    assert config_flag.label(path) == "x"
