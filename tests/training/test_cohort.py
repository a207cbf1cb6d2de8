"""Lanes: each is the solo run, the length of calls changes no bit, a diverging lane disturbs nobody."""

import jax
import numpy as np
import pytest

from actlab import models
from actlab.config import replace
from actlab.training.cohort import Cohort, Lane, compute_dtype
from actlab.training.losses import Examples
from actlab.training.objectives import NEXT_TOKEN

LANES = (Lane(1, 1e-3, 0.1), Lane(2, 1e-2, 0.0), Lane(1, 3e-3, 0.1))


def windows_of(lanes, n_steps):
    rngs = [np.random.default_rng(lane.seed) for lane in lanes]
    return np.stack([rng.integers(0, 24, (n_steps, 4, 9)) for rng in rngs]).astype(np.int32)


def put(cohort, windows):
    return cohort.rows(lambda lanes, rows: windows[lanes, :, rows])


def trained(tiny, lanes, calls=(3, 3), over="map"):
    cohort = Cohort(models.build(tiny.model), replace(tiny, **{"devices.lanes_by": over}), lanes)
    state, windows, metrics = cohort.init(), windows_of(lanes, sum(calls)), []
    first = 0
    for n_steps in calls:
        chunk = np.zeros((len(lanes), 3, 4, 9), np.int32)
        chunk[:, :n_steps] = windows[:, first : first + n_steps]
        state, new = cohort.train(state, put(cohort, chunk), n_steps)
        metrics.append(np.asarray(new.loss)[:, :n_steps])
        first += n_steps
    return jax.device_get(state), np.concatenate(metrics, axis=1)


@pytest.mark.parametrize("over", ["map", "vmap"])
def test_each_lane_is_the_solo_run(tiny, over):
    state, losses = trained(tiny, LANES, over=over)
    for index, lane in enumerate(LANES):
        solo, solo_losses = trained(tiny, [lane])
        same = np.testing.assert_array_equal if over == "map" else _close
        same(losses[index], solo_losses[0])
        jax.tree.map(lambda a, b: same(a[index], b[0]), state.params, solo.params)  # noqa: B023
    assert not np.array_equal(losses[0], losses[1])


def _close(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_learning_rate_and_weight_decay_are_each_lanes_own(tiny):
    lanes = (Lane(1, 1e-2, 0.0), Lane(1, 1e-2, 5.0), Lane(1, 1e-3, 0.0))
    state, _ = trained(tiny, lanes)
    norms = np.asarray([np.linalg.norm(k) for k in state.params["block_0"]["feed_forward"]["up"]["kernel"]])
    scales = state.params["final_norm"]["scale"]
    assert norms[1] < norms[0] * 0.95, "weight decay shrinks matrices"
    assert not np.array_equal(scales[0], scales[2])


def test_how_steps_are_cut_into_calls_changes_no_bit(tiny):
    whole, losses = trained(tiny, LANES[:1], calls=(3, 3))
    pieces, piece_losses = trained(tiny, LANES[:1], calls=(1, 2, 1, 1, 1))
    np.testing.assert_array_equal(losses, piece_losses)
    jax.tree.map(np.testing.assert_array_equal, whole, pieces)


def test_steps_beyond_n_steps_are_not_taken(tiny):
    state, _ = trained(tiny, LANES[:1], calls=(2,))
    assert state.step.tolist() == [2]


@pytest.mark.parametrize("over", ["map", pytest.param("vmap", marks=pytest.mark.slow)])
def test_a_diverging_lane_is_frozen_and_changes_no_bit_of_the_others(tiny, over):
    calm, _ = trained(tiny, (LANES[0], LANES[1]), over=over)
    mixed, losses = trained(tiny, (LANES[0], Lane(1, 1e30, 0.1)), over=over)
    end = int(np.flatnonzero(~np.isfinite(losses[1]))[0]) + 1
    assert mixed.step.tolist() == [6, end] and end < 6
    assert mixed.diverged.tolist() == [False, True]
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[0], b[0]), mixed.params, calm.params)


def test_lanes_of_one_seed_start_equal_and_of_another_differ(tiny):
    params = jax.device_get(Cohort(models.build(tiny.model), tiny, LANES).init().params)
    kernel = params["block_0"]["attention"]["qkv"]["kernel"]
    np.testing.assert_array_equal(kernel[0], kernel[2])
    assert not np.array_equal(kernel[0], kernel[1])


def test_evaluation_is_the_mean_over_weights(tiny):
    cohort = Cohort(models.build(tiny.model), tiny, LANES)
    windows = windows_of(LANES[:1], 3)[0]
    weights = np.zeros((3, 4, 8), np.float32)
    weights[1, 2, :5] = 1
    only = cohort.evaluate(cohort.init(), NEXT_TOKEN.scored(windows[1:2], weights[1:2])).loss
    whole = cohort.evaluate(cohort.init(), NEXT_TOKEN.scored(windows, weights))
    np.testing.assert_allclose(whole.loss, only, rtol=1e-6)
    assert whole.accuracy is None
    assert only.shape == (3,) and only[0] == only[2] != only[1]


def test_training_compiled_ahead_is_the_same(tiny):
    cohort = Cohort(models.build(tiny.model), tiny, LANES[:1])
    windows = put(cohort, windows_of(LANES[:1], 3))
    cohort.compile()
    _, metrics = cohort.train(cohort.init(), windows, 3)
    _, losses = trained(tiny, LANES[:1], calls=(3,))
    np.testing.assert_array_equal(metrics.loss, losses)


def test_what_is_not_probed_costs_training_nothing(tiny):
    changes = ({}, {"train.probe_every": 1, "train.census_every": 1})
    off, on = (Cohort(models.build(tiny.model), replace(tiny, **change), LANES[:1]).compile() for change in changes)
    assert off.cost_analysis() == on.cost_analysis()
    assert off.memory_analysis().temp_size_in_bytes == on.memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize("over", ["map", pytest.param("vmap", marks=pytest.mark.slow)])
def test_probes_of_each_lane_are_those_of_the_solo_run(tiny, over):
    windows, weights = windows_of(LANES[:1], 2)[0], np.ones((2, 4, 8), np.float32)

    def probed(lanes):
        cohort = Cohort(models.build(tiny.model), replace(tiny, **{"devices.lanes_by": over}), lanes)
        state = cohort.init()
        first_batch = NEXT_TOKEN.scored(windows[0], weights[0])
        return cohort.probe(state, first_batch), cohort.census(state, NEXT_TOKEN.scored(windows, weights))

    found, dead = probed(LANES)
    solo, solo_dead = probed(LANES[1:2])
    assert found.keys() == solo.keys()
    for name, values in found.items():
        np.testing.assert_allclose(values[1], solo[name][0], rtol=0 if over == "map" else 1e-3, err_msg=name)
        assert name == "loss" or not np.array_equal(values[0], values[1]) or values[0] == 0, name
    np.testing.assert_array_equal(dead[1], solo_dead[0])


@pytest.mark.parametrize(("dtype", "precision"), [("float32", "HIGHEST"), ("tensorfloat32", "HIGH")])
def test_float32_products_are_float32_on_a_gpu_unless_asked(tiny, dtype, precision):
    config = replace(tiny, **{"train.dtype": dtype})
    assert compute_dtype(config) == np.float32
    cohort = Cohort(models.build(config.model, compute_dtype(config)), config, LANES[:1])
    windows = jax.ShapeDtypeStruct((1, 3, 4, 9), np.int32)
    batches = Examples(*(jax.ShapeDtypeStruct((2, 4, 8), dtype) for dtype in (np.int32, np.int32, np.float32)))
    state = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), cohort.abstract_state())
    for traced in (
        cohort._train.trace(state, cohort._hyper, windows, jax.ShapeDtypeStruct((), np.int32)),
        cohort._evaluate.trace(state.params, batches),
    ):
        text = traced.lower(lowering_platforms=("cuda",)).as_text()
        products = [line for line in text.splitlines() if "stablehlo.dot_general" in line]
        assert products and all(f"precision = [{precision}, {precision}]" in line for line in products)
