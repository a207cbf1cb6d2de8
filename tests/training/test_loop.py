"""The loop: stopping anywhere and going on gives what never stopping gives; divergence is a result."""

import jax
import numpy as np
import pytest

from actlab import models
from actlab.config import replace
from actlab.training import traces
from actlab.training.checkpoint import Checkpoints
from actlab.training.cohort import Cohort, Lane, lane_of
from actlab.training.loop import Feed, Loop, boundary
from actlab.training.objectives import NEXT_TOKEN
from actlab.training.records import TIME_FIELDS, Workdir


def feed(lanes):
    def batch(seed, step, rows):
        return np.random.default_rng((seed, step)).integers(0, 24, (4, 9)).astype(np.int32)[rows]

    validation = np.random.default_rng(0).integers(0, 24, (2, 4, 9)).astype(np.int32)
    return Feed(
        batch, tuple(lane.seed for lane in lanes), NEXT_TOKEN.scored(validation, np.ones((2, 4, 8), np.float32))
    )


PROBED = {"model.n_layers": 2, "train.probe_every": 5, "train.census_every": 4}


def session(path, config, lanes=None, stop_after=None, watchers=()):
    """One session in a workdir; stops when asked for the `stop_after`th time whether to stop."""
    lanes = lanes or [lane_of(config)]
    cohort = Cohort(models.build(config.model), config, lanes)
    workdir = Workdir(path)
    workdir.open(config)
    checkpoints = Checkpoints(path / "checkpoints", config.train.keep_checkpoints)
    state, step, _ = checkpoints.restore_latest(cohort.abstract_state())
    asked = iter(range(1_000_000))
    loop = Loop(config, cohort, [f"run{index}" for index in range(len(lanes))], feed(lanes), workdir, watchers)
    result = loop.run(checkpoints, (state, step), lambda: stop_after is not None and next(asked) >= stop_after)
    workdir.close()
    return result


def rows(path):
    workdir = Workdir(path)
    return [{key: value for key, value in row.items() if key not in TIME_FIELDS} for row in workdir.metrics()]


@pytest.mark.parametrize("stops", [(2, 1, 1), (0, 0, 3)])
def test_stopped_and_resumed_is_never_stopped_to_the_bit(tmp_path, tiny, stops):
    whole, _, _ = session(tmp_path / "whole", tiny)
    for stop_after in stops:
        _, step, stopped = session(tmp_path / "pieces", tiny, stop_after=stop_after)
        assert stopped and step < 12
    pieces, step, stopped = session(tmp_path / "pieces", tiny)
    assert (step, stopped) == (12, False)
    jax.tree.map(np.testing.assert_array_equal, pieces, whole)
    assert rows(tmp_path / "pieces") == rows(tmp_path / "whole")


def test_every_logged_step_and_every_evaluation_has_one_row(tmp_path, tiny):
    session(tmp_path / "w", replace(tiny, **{"train.log_every": 5}))
    seen = [(row["split"], row["step"]) for row in rows(tmp_path / "w")]
    assert sorted(seen) == sorted(
        [("train", 5), ("train", 10), ("train", 12), *(("validation", step) for step in (0, 4, 8, 12))]
    )


def test_boundaries_depend_on_the_step_alone_and_hit_every_evaluation(tiny):
    config = replace(tiny, **{"train.n_steps": 23, "train.eval_every": 5, "train.checkpoint_every": 10})
    ends, step = [], 0
    while step < 23:
        step = boundary(config, step)
        ends.append(step)
    assert ends == [3, 5, 6, 9, 10, 12, 15, 18, 20, 21, 23]


def test_a_diverged_run_ends_with_a_row_that_says_so(tmp_path, tiny):
    config = replace(tiny, **{"optimizer.learning_rate": 1e30, "optimizer.warmup_steps": 0})
    _, step, stopped = session(tmp_path / "w", config)
    *before, last = rows(tmp_path / "w")
    assert not stopped and step < 12
    assert last["status"] == "diverged" and last["loss"] is None
    assert all("status" not in row for row in before)
    assert session(tmp_path / "w", config)[2] is False, "a second session ends too"


def test_a_diverged_lane_is_out_and_the_others_train_on_as_if_alone(tmp_path, tiny):
    config = replace(tiny, **{"optimizer.warmup_steps": 0})
    calm, wild = Lane(3, 1e-3, 0.1), Lane(4, 1e30, 0.1)
    session(tmp_path / "alone", config, [calm])
    session(tmp_path / "both", config, [calm, wild], stop_after=3)
    session(tmp_path / "both", config, [calm, wild])
    both = rows(tmp_path / "both")
    assert [row for row in both if row["run"] == "run0"] == rows(tmp_path / "alone")
    assert [row.get("status") for row in both if row["run"] == "run1"][-1] == "diverged"
    assert sum("status" in row for row in both) == 1


def steps_of(path, name="run0"):
    return traces.read_steps(Workdir(path).traces(), name)


@pytest.fixture(scope="module")
def probed(tiny, tmp_path_factory):
    """A run with probes and what it left, in which nobody stopped it; ReLU units of a small model do die."""
    config = replace(tiny, **PROBED, **{"model.activation": "relu", "optimizer.learning_rate": 0.3})
    path = tmp_path_factory.mktemp("probed")
    state, _, _ = session(path, config)
    return config, path, state


def test_probes_have_a_row_at_their_multiples_at_0_and_at_the_end(probed):
    _, path, _ = probed
    found = {row["step"]: row for row in rows(path) if row["split"] == "probe"}
    assert list(found) == [0, 4, 5, 8, 10, 12]
    assert [step for step, row in found.items() if "post_mean" in row] == [0, 5, 10, 12]
    assert [step for step, row in found.items() if "dead_fraction" in row] == [0, 4, 8, 12]
    assert found[12]["layer_1/dead_fraction"] > found[0]["layer_1/dead_fraction"] == 0
    assert found[12]["dead_rate_bound"] == pytest.approx(1 - 0.05 ** (1 / 64))


def test_every_step_and_every_dead_unit_is_kept(probed):
    _, path, _ = probed
    logged = [row for row in rows(path) if row["split"] == "train"]
    loss, grad_norm = steps_of(path)
    assert [row["loss"] for row in logged] == loss.tolist()
    assert [row["grad_norm"] for row in logged] == grad_norm.tolist()
    censuses = traces.read_censuses(Workdir(path).traces(), "run0")
    assert censuses.steps_P.tolist() == [0, 4, 8, 12]
    shares = [row["layer_1/dead_fraction"] for row in rows(path) if "dead_fraction" in row]
    assert censuses.dead_PLF[:, 1].mean(axis=1).tolist() == shares


@pytest.mark.parametrize("stops", [(0, 2, 1)])
def test_probes_of_a_stopped_run_are_those_of_one_never_stopped(tmp_path, probed, stops):
    config, whole, state = probed
    for stop_after in stops:
        session(tmp_path, config, stop_after=stop_after)
    pieces, _, _ = session(tmp_path, config)
    jax.tree.map(np.testing.assert_array_equal, pieces, state)
    assert rows(tmp_path) == rows(whole)
    for ours, theirs in zip(steps_of(tmp_path), steps_of(whole), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    dead = [traces.read_censuses(Workdir(path).traces(), "run0") for path in (tmp_path, whole)]
    jax.tree.map(np.testing.assert_array_equal, *dead)


def test_probing_changes_no_bit_of_the_run(tmp_path, probed):
    config, path, state = probed
    off = replace(config, **{"train.probe_every": 0, "train.census_every": 0})
    quiet, _, _ = session(tmp_path, off)
    jax.tree.map(np.testing.assert_array_equal, quiet, state)
    assert rows(tmp_path) == [row for row in rows(path) if row["split"] != "probe"]


def test_probes_of_a_lane_are_those_of_the_run_alone_and_end_where_it_diverges(tmp_path, probed):
    config, alone, _ = probed
    calm, wild = lane_of(config), Lane(4, 1e30, 0.1)
    session(tmp_path, config, [wild, calm])
    both = rows(tmp_path)
    assert [row for row in both if row["run"] == "run1"] == [{**row, "run": "run1"} for row in rows(alone)]
    end = next(row["step"] for row in both if "status" in row)
    assert {row["step"] for row in both if row["run"] == "run0" and row["split"] == "probe"} == {
        step for step in (0, 4, 5, 8, 10) if step < end
    }
    loss, _ = steps_of(tmp_path, "run0")
    assert len(loss) == end and np.isfinite(loss[:-1]).all() and not np.isfinite(loss[-1])
    np.testing.assert_array_equal(steps_of(tmp_path, "run1"), steps_of(alone))
