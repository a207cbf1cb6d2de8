"""The loop: stopping anywhere and going on gives what never stopping gives; divergence is a result."""

import itertools
import types

import jax
import numpy as np
import pytest
from outcomes import metrics

from actlab import models
from actlab.config import replace
from actlab.training import loop
from actlab.training.checkpoint import newest
from actlab.training.loop import Prober
from actlab.training.objectives import NEXT_TOKEN
from actlab.training.programs import Lane, Program, boundary, lane_of
from actlab.workdir import documents, traces
from actlab.workdir.records import Workdir

pytestmark = pytest.mark.optimized


@pytest.mark.parametrize("stops", [(2, 1, 1), (0, 0, 3)])
def test_stopped_and_resumed_is_never_stopped_to_the_bit(session, tmp_path, tiny, stops):
    whole, _, _ = session(tmp_path / "whole", tiny)
    for stop_after in stops:
        _, step, stopped = session(tmp_path / "pieces", tiny, stop_after=stop_after)
        assert stopped and step < 12 and newest(tmp_path / "pieces" / "checkpoints") == step
    pieces, step, stopped = session(tmp_path / "pieces", tiny)
    assert (step, stopped) == (12, False)
    jax.tree.map(np.testing.assert_array_equal, pieces, whole)
    assert metrics(tmp_path / "pieces") == metrics(tmp_path / "whole")
    assert documents_rows(tmp_path / "pieces") == documents_rows(tmp_path / "whole") != []


def test_the_time_of_a_run_is_that_of_all_its_sessions(session, tmp_path, tiny, monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr(loop, "time", types.SimpleNamespace(perf_counter=lambda: float(next(clock))))
    session(tmp_path / "w", tiny, stop_after=3)
    before = max(row["seconds"] for row in Workdir(tmp_path / "w").metrics())
    session(tmp_path / "w", tiny)
    seconds = [row["seconds"] for row in Workdir(tmp_path / "w").metrics()]
    assert before >= 3 and seconds == sorted(seconds) and seconds[-1] > before + 3


@pytest.mark.slow
def test_the_speed_counts_the_lanes_that_still_train(session, tmp_path, tiny, monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr(loop, "time", types.SimpleNamespace(perf_counter=lambda: float(next(clock))))
    monkeypatch.setattr(loop, "has_ended", lambda call: False)  # whether it has depends on the machine

    def speeds(rate):
        place = tmp_path / str(rate)
        session(place, tiny, [Lane(3, 1e-3, 0.1), Lane(4, rate, 0.1)])
        rows = [row for row in Workdir(place).metrics() if row["split"] == "train" and row["run"] == "run0"]
        return {row["step"]: row["tokens_per_second"] for row in rows}

    both, one = speeds(3e-3), speeds(1e30)
    assert one[1] == both[1] and one[12] == both[12] / 2 > 0


@pytest.mark.parametrize("ready", [(True, True), (True, False), (False, False)])
def test_a_call_has_ended_when_all_its_metrics_are_there(ready):
    metrics = [types.SimpleNamespace(is_ready=lambda one=one: one) for one in ready]
    assert loop.has_ended(loop.Call(0, 1, metrics)) == all(ready)


def documents_rows(path):
    """The rows of the test set's documents."""
    return [row for row in Workdir(path).traces() if row["kind"] == "documents"]


def test_the_test_set_is_evaluated_once_after_the_last_step(session, tmp_path, tiny, feed_of):
    lanes = [Lane(4, 1e30, 0.1), Lane(5, 3e-3, 0.1)]
    session(tmp_path / "w", tiny, lanes, stop_after=3)
    assert "test" not in {row["split"] for row in metrics(tmp_path / "w")} and not documents_rows(tmp_path / "w")
    state, _, _ = session(tmp_path / "w", tiny, lanes)
    found = {row["run"]: row for row in metrics(tmp_path / "w") if row["split"] == "test"}
    assert list(found) == ["run1"], "not the lane that diverged"
    assert [row["run"] for row in metrics(tmp_path / "w") if row["split"] == "test"] == list(found), "once"
    made = documents.made(Workdir(tmp_path / "w").traces(), ["run0", "run1"])
    Workdir(tmp_path / "w").write_made(made)
    kept = documents.read(tmp_path / "w" / "test_documents.npz")
    assert list(kept) == list(found)
    # The same in numpy, in float64, from the model's logits.
    feed, model = feed_of(lanes), models.build(tiny.model)
    windows, targets = (np.concatenate([getattr(one, name) for one in feed.test]) for name in ("tokens", "targets"))
    params = jax.tree.map(lambda array_R: array_R[1], jax.device_get(state.params))
    logits, _ = jax.jit(model.apply)(params, windows.reshape(-1, 8))
    logits = np.asarray(logits, np.float64).reshape(4, 4, 8, 24)
    losses = np.log(np.exp(logits).sum(axis=-1)) - np.take_along_axis(logits, targets[..., None], -1)[..., 0]
    losses, of_target = losses.ravel()[:-8], feed.test_documents.ravel()[:-8]
    found, kept = found["run1"], kept["run1"]
    assert found["step"] == 12 and found["loss"] == pytest.approx(losses.mean(), rel=1e-5)
    np.testing.assert_array_equal(kept.targets, [20] * 6)
    expected = [losses[of_target == number].sum() for number in range(6)]
    np.testing.assert_allclose(kept.nats, expected, rtol=1e-5)
    assert kept.nats.sum() / kept.targets.sum() == pytest.approx(found["loss"], rel=1e-6)


def test_a_run_that_an_older_version_finished_is_left_as_it_is(session, tmp_path, tiny):
    session(tmp_path / "w", tiny)
    for name, field, value in (("metrics.jsonl", "split", "test"), ("traces.jsonl", "kind", "documents")):
        lines = (tmp_path / "w" / name).read_text().splitlines(keepends=True)
        (tmp_path / "w" / name).write_text("".join(line for line in lines if f'"{field}": "{value}"' not in line))
    before = metrics(tmp_path / "w")
    _, step, stopped = session(tmp_path / "w", tiny)
    assert (step, stopped) == (12, False) and metrics(tmp_path / "w") == before and not documents_rows(tmp_path / "w")


def test_every_logged_step_and_every_evaluation_has_one_row(session, tmp_path, tiny):
    session(tmp_path / "w", replace(tiny, **{"train.log_every": 5}))
    seen = [(row["split"], row["step"]) for row in metrics(tmp_path / "w")]
    assert sorted(seen) == sorted(
        [("train", 5), ("train", 10), ("train", 12), *(("validation", step) for step in (0, 4, 8, 12)), ("test", 12)]
    )


def test_boundaries_depend_on_the_step_alone_and_hit_every_evaluation_and_checkpoint(tiny):
    config = replace(tiny, **{"train.n_steps": 23, "train.eval_every": 5, "train.checkpoint_every": 7})
    ends, step = [], 0
    while step < 23:
        step = boundary(config, step)
        ends.append(step)
    assert ends == [3, 5, 6, 7, 9, 10, 12, 14, 15, 18, 20, 21, 23]


def test_checkpoints_are_kept_at_their_own_steps_also_between_evaluations(session, tmp_path, tiny):
    session(tmp_path / "w", replace(tiny, **{"train.eval_every": 4, "train.checkpoint_every": 5}))
    assert sorted(int(path.name) for path in (tmp_path / "w/checkpoints").glob("[0-9]*")) == [10, 12]


def test_a_diverged_run_ends_with_a_row_that_says_so(session, tmp_path, tiny):
    config = replace(tiny, **{"optimizer.learning_rate": 1e30})
    _, step, stopped = session(tmp_path / "w", config)
    *before, last = metrics(tmp_path / "w")
    assert not stopped and step < 12
    assert last["status"] == "diverged" and last["loss"] is None
    assert all("status" not in row for row in before)
    assert session(tmp_path / "w", config)[2] is False, "a second session ends too"


def test_a_diverged_lane_is_out_and_the_others_train_on_as_if_alone(session, tmp_path, tiny):
    calm, wild = Lane(3, 1e-3, 0.1), Lane(4, 1e30, 0.1)
    session(tmp_path / "alone", tiny, [calm])
    session(tmp_path / "both", tiny, [calm, wild], stop_after=3)
    session(tmp_path / "both", tiny, [calm, wild])
    both = metrics(tmp_path / "both")
    assert [row for row in both if row["run"] == "run0"] == metrics(tmp_path / "alone")
    assert documents_rows(tmp_path / "both") == documents_rows(tmp_path / "alone") != []
    assert [row.get("status") for row in both if row["run"] == "run1"][-1] == "diverged"
    assert sum("status" in row for row in both) == 1


def steps_of(path, name="run0"):
    return traces.read_steps(Workdir(path).traces(), name)


@pytest.fixture(scope="module")
def probed(session, tiny, tmp_path_factory):
    """A run with probes that was never stopped, and what it left."""
    config = replace(tiny, **{"train.probe_every": 5, "train.census_every": 4, "optimizer.learning_rate": 0.3})
    path = tmp_path_factory.mktemp("probed")
    state, _, _ = session(path, config)
    return config, path, state


def test_the_device_evaluates_step_0_while_the_host_traces_the_probes(session, tiny, tmp_path, monkeypatch):
    order = []

    def watched(of, name):
        real = getattr(of, name)
        monkeypatch.setattr(of, name, lambda self, *args: order.append(name) or real(self, *args))

    for of, name in ((Program, "evaluation"), (Prober, "measure"), (Program, "scores")):
        watched(of, name)
    session(tmp_path, tiny, stop_after=0)
    assert order[:3] == ["evaluation", "measure", "scores"]


def test_probes_have_a_row_at_their_multiples_at_0_and_at_the_end(probed):
    _, path, _ = probed
    found = {row["step"]: row for row in metrics(path) if row["split"] == "probe"}
    assert list(found) == [0, 4, 5, 8, 10, 12]
    assert [row["split"] for row in metrics(path) if row["step"] == 0] == ["validation", "probe"]
    assert [step for step, row in found.items() if "post_mean" in row] == [0, 5, 10, 12]
    assert [step for step, row in found.items() if "dead_fraction" in row] == [0, 4, 8, 12]
    assert found[12]["layer_0/dead_fraction"] > found[0]["layer_0/dead_fraction"] == 0
    assert found[12]["dead_rate_bound"] == pytest.approx(1 - 0.05 ** (1 / 64))


def test_every_step_and_every_dead_unit_is_kept(probed):
    _, path, _ = probed
    logged = [row for row in metrics(path) if row["split"] == "train"]
    loss, grad_norm = steps_of(path)
    assert [row["loss"] for row in logged] == loss.tolist()
    assert [row["grad_norm"] for row in logged] == grad_norm.tolist()
    censuses = traces.read_censuses(Workdir(path).traces(), "run0")
    assert censuses.steps_P.tolist() == [0, 4, 8, 12]
    shares = [row["layer_0/dead_fraction"] for row in metrics(path) if "dead_fraction" in row]
    assert censuses.dead_PLF[:, 0].mean(axis=1).tolist() == shares


@pytest.mark.parametrize("stops", [(0, 2, 1)])
def test_probes_of_a_stopped_run_are_those_of_one_never_stopped(session, tmp_path, probed, stops):
    config, whole, state = probed
    for stop_after in stops:
        session(tmp_path, config, stop_after=stop_after)
    pieces, _, _ = session(tmp_path, config)
    jax.tree.map(np.testing.assert_array_equal, pieces, state)
    assert metrics(tmp_path) == metrics(whole)
    for ours, theirs in zip(steps_of(tmp_path), steps_of(whole), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    dead = [traces.read_censuses(Workdir(path).traces(), "run0") for path in (tmp_path, whole)]
    jax.tree.map(np.testing.assert_array_equal, *dead)


def test_probing_changes_no_bit_of_the_run(session, tmp_path, probed):
    """Neither its calls, which end where a probe is due, nor what the probes do with the state.

    Both runs share a compiled program here. That it would be the same program without probes is tested in
    test_programs.py.
    """
    config, path, state = probed
    off = replace(config, **{"train.probe_every": 0, "train.census_every": 0})
    quiet, _, _ = session(tmp_path, off)
    jax.tree.map(np.testing.assert_array_equal, quiet, state)
    assert metrics(tmp_path) == [row for row in metrics(path) if row["split"] != "probe"]


def test_probes_of_a_lane_are_those_of_the_run_alone_and_end_where_it_diverges(session, tmp_path, probed):
    config, alone, _ = probed
    calm, wild = lane_of(config), Lane(4, 1e30, 0.1)
    session(tmp_path, config, [wild, calm])
    both = metrics(tmp_path)
    assert [row for row in both if row["run"] == "run1"] == [{**row, "run": "run1"} for row in metrics(alone)]
    end = next(row["step"] for row in both if "status" in row)
    assert {row["step"] for row in both if row["run"] == "run0" and row["split"] == "probe"} == {
        step for step in (0, 4, 5, 8, 10) if step < end
    }
    loss, _ = steps_of(tmp_path, "run0")
    assert len(loss) == end and np.isfinite(loss[:-1]).all() and not np.isfinite(loss[-1])
    np.testing.assert_array_equal(steps_of(tmp_path, "run1"), steps_of(alone))


VALIDATION = NEXT_TOKEN.scored(np.zeros((2, 4, 9), np.int32), np.ones((2, 4, 8), np.float32))


class Made(Program):
    """Stands for a compiled program: two lanes, two layers of three units."""

    n_lanes = 2

    def __init__(self):
        pass

    def probe(self, state, batch):
        assert batch.tokens.shape == (4, 8)
        return {"post_mean": np.float32([1, 2])}

    def curvature(self, state, batch):
        return {"hessian_top": np.float32([3, 4])}

    def census(self, state, validation):
        dead = np.zeros((2, 2, 3), bool)
        dead[1, 0, :2] = True
        return dead


def prober(tiny, **changes):
    config = replace(tiny, **{f"train.{name}": value for name, value in changes.items()})
    return Prober(config, Made(), VALIDATION)


def test_what_is_due_together_is_one_row_per_lane(tiny):
    ours = prober(tiny, probe_every=2, census_every=4, curvature_every=8)
    keys = [set(ours.measure(None, step)[0][1]) if step % 2 == 0 else None for step in range(9)]
    dead = {"dead_fraction", "dead_rate_bound", "layer_0/dead_fraction", "layer_1/dead_fraction"}
    assert keys[2] == keys[6] == {"post_mean"} and keys[4] == {"post_mean"} | dead
    assert keys[0] == keys[8] == {"post_mean", "hessian_top"} | dead
    assert ours.measure(None, 3) == ([], None)


def test_dead_units_are_counted_by_lane_and_layer(tiny):
    (first, second), dead_RUF = prober(tiny, census_every=1).measure(None, 1)
    assert first["dead_fraction"] == 0 and dead_RUF.sum() == 2
    assert (second["dead_fraction"], second["layer_0/dead_fraction"]) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert second["dead_rate_bound"] == pytest.approx(1 - 0.05 ** (1 / 64))
    whole_vectors = replace(tiny, **{"model.activation": "polynorm", "train.census_every": 1})
    assert Prober(whole_vectors, Made(), VALIDATION).measure(None, 1) == ([], None)
