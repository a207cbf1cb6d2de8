"""Lanes: each is the solo run, the length of calls changes no bit, a diverging lane disturbs nobody."""

import functools
import pathlib

import jax
import numpy as np
import pytest

from actlab import config as config_lib, models
from actlab.config import replace
from actlab.data.tokenizer_kinds import Specials
from actlab.training import programs
from actlab.training.devices import compute_dtype, memory_need, memory_of
from actlab.training.losses import Examples
from actlab.training.objectives import NEXT_TOKEN, MaskedToken
from actlab.training.programs import Lane

pytestmark = pytest.mark.optimized

LANES = (Lane(1, 1e-3, 0.1), Lane(2, 1e-2, 0.0))
OVER = ["map", "vmap"]


def windows_of(lanes, n_steps):
    rngs = [np.random.default_rng(lane.seed) for lane in lanes]
    return np.stack([rng.integers(0, 24, (n_steps, 4, 9)) for rng in rngs]).astype(np.int32)


def put(program, windows):
    return program.rows(lambda lanes, rows: windows[lanes, :, rows])


@pytest.fixture(scope="module")
def program_of(build, tiny):
    """(lanes, over) -> a program of the smallest model."""
    return lambda lanes, over="map": build(replace(tiny, **{"devices.lanes_by": over}), lanes)


@pytest.fixture(scope="module")
def trained(program_of):
    """(lanes, the steps of each call, over) -> the state after all of them, the loss of every step."""

    def train(lanes, calls=(3, 3), over="map"):
        program = program_of(lanes, over)
        state, windows, metrics = program.init(), windows_of(lanes, sum(calls)), []
        first = 0
        for n_steps in calls:
            chunk = np.zeros((len(lanes), 3, 4, 9), np.int32)
            chunk[:, :n_steps] = windows[:, first : first + n_steps]
            state, new = program.train(state, put(program, chunk), n_steps)
            metrics.append(np.asarray(new.loss)[:, :n_steps])
            first += n_steps
        return jax.device_get(state), np.concatenate(metrics, axis=1)

    return train


@pytest.mark.parametrize("over", OVER)
def test_each_lane_is_the_solo_run(trained, over):
    state, losses = trained(LANES, over=over)
    same = np.testing.assert_array_equal if over == "map" else _close
    for index, lane in enumerate(LANES):
        solo, solo_losses = trained([lane])
        same(losses[index], solo_losses[0])
        ours, theirs = (dict(jax.tree_util.tree_leaves_with_path(one.params)) for one in (state, solo))
        assert ours.keys() == theirs.keys()
        for path, array_R in ours.items():
            # The gradient of a key's bias is 0 but for rounding, which Adam scales up to a step.
            if over == "map" or not jax.tree_util.keystr(path).endswith("['qkv']['bias']"):
                same(array_R[index], theirs[path][0])
    assert not np.array_equal(losses[0], losses[1])


def _close(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_learning_rate_and_weight_decay_are_each_lanes_own(trained):
    decayed, _ = trained((Lane(1, 1e-2, 0.0), Lane(1, 1e-2, 5.0)))
    norms = np.asarray([np.linalg.norm(k) for k in decayed.params["block_0"]["feed_forward"]["up"]["kernel"]])
    assert norms[1] < norms[0] * 0.95, "weight decay shrinks matrices"
    slower, _ = trained((Lane(1, 1e-2, 0.0), Lane(1, 1e-3, 0.0)))
    scales = slower.params["final_norm"]["scale"]
    assert not np.array_equal(scales[0], scales[1])


def test_how_steps_are_cut_into_calls_changes_no_bit(trained):
    whole, losses = trained(LANES[:1], calls=(3, 3))
    pieces, piece_losses = trained(LANES[:1], calls=(1, 2, 1, 1, 1))
    np.testing.assert_array_equal(losses, piece_losses)
    jax.tree.map(np.testing.assert_array_equal, whole, pieces)
    assert whole.step.tolist() == [6]
    assert trained(LANES[:1], calls=(2,))[0].step.tolist() == [2], "steps beyond n_steps are not taken"


@pytest.mark.parametrize("over", OVER)
def test_a_diverging_lane_is_frozen_and_changes_no_bit_of_the_others(trained, over):
    calm, _ = trained(LANES, over=over)
    mixed, losses = trained((LANES[0], Lane(1, 1e30, 0.1)), over=over)
    end = int(np.flatnonzero(~np.isfinite(losses[1]))[0]) + 1
    assert mixed.step.tolist() == [6, end] and end < 6
    assert mixed.diverged.tolist() == [False, True]
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[0], b[0]), mixed.params, calm.params)


def test_lanes_of_one_seed_start_equal_and_of_another_differ(program_of):
    kernels = [
        jax.device_get(program_of(lanes).init().params["block_0"]["attention"]["qkv"]["kernel"])
        for lanes in (LANES, (LANES[0], Lane(1, 3e-3, 0.1)))
    ]
    np.testing.assert_array_equal(kernels[1][0], kernels[1][1])
    assert not np.array_equal(kernels[0][0], kernels[0][1])


def test_evaluation_is_the_mean_over_weights(program_of):
    program = program_of(LANES)
    windows = windows_of(LANES[:1], 2)[0]
    weights = np.zeros((2, 4, 8), np.float32)
    weights[1, 2, :5] = 1
    pieces = [NEXT_TOKEN.scored(windows[one], weights[one]) for one in (slice(1), slice(1, 2))]
    only = program.evaluate(program.init(), pieces[1:])[0].loss
    whole, losses = program.evaluate(program.init(), [NEXT_TOKEN.scored(windows, weights)])
    np.testing.assert_allclose(whole.loss, only, rtol=1e-6)
    np.testing.assert_allclose(losses.sum(axis=(1, 2, 3)) / 5, only, rtol=1e-6)
    assert losses.shape == (2, 2, 4, 8) and (losses[:, weights == 0] == 0).all()
    apart, in_pieces = program.evaluate(program.init(), pieces)
    np.testing.assert_allclose(apart.loss, only, rtol=1e-6)
    np.testing.assert_allclose(in_pieces, losses, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(only, np.log(24), rtol=0.1, err_msg="a mean, of parameters that know nothing")
    assert whole.accuracy is None
    assert only.shape == (2,) and only[0] != only[1]


def test_a_probe_is_traced_once():
    traced = []
    double = lambda x: traced.append(1) or 2 * x
    assert jax.jit(functools.partial(programs._reproducible, double))(np.float32(3), 1) == 6 and len(traced) == 1


@pytest.mark.parametrize(
    ("kind", "n_batches"), [pytest.param("decoder", 4, marks=pytest.mark.slow), ("decoder", 5), ("encoder", 5)]
)
def test_batches_that_are_evaluated_together_have_the_losses_of_each_alone(build, tiny, kind, n_batches):
    """With three layers two or three are, of which the last may be filler."""
    config = replace(tiny, **{"model.n_layers": 3, "model.kind": kind})
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 20, (4 * n_batches, 9)).astype(np.int32)
    objective = NEXT_TOKEN
    if kind == "encoder":
        objective, rows = MaskedToken(Specials(20, 21, 22, 23), 20, 0.3, True), rows[:, 1:]
        rows[rng.random(rows.shape) < 0.3] = 23
        scored = objective.scored(rows)
    else:
        scored = objective.scored(rows, rng.random((len(rows), 8)).astype(np.float32))
    batches = jax.tree.map(lambda array: array.reshape(n_batches, 4, *array.shape[1:]), scored)
    program = build(config, LANES, objective)
    state = program.init()
    together = program.evaluate(state, [batches])
    alone = [jax.tree.map(lambda array, n=n: array[n : n + 1], batches) for n in range(n_batches)]
    apart = program.evaluate(state, alone)
    assert together[1].shape == apart[1].shape == (2, n_batches, 4, batches.targets.shape[-1])
    np.testing.assert_allclose(together[1], apart[1], rtol=1e-5, atol=1e-6)
    for name, ours in together[0]._asdict().items():
        if ours is not None:
            np.testing.assert_allclose(ours, getattr(apart[0], name), rtol=1e-5)
    assert (together[0].accuracy is not None) == (kind == "encoder")


def test_batches_that_are_evaluated_together_take_no_more_memory_than_training(build, tiny):
    config = replace(tiny, **{"model.n_layers": 3, "model.vocab_size": 4096})
    program = build(config, LANES[:1])
    batches = NEXT_TOKEN.scored(np.zeros((6, 4, 9), np.int32), np.ones((6, 4, 8), np.float32))
    train, evaluate = (
        program.lower(name, batches).compile().memory_analysis().temp_size_in_bytes for name in ("train", "evaluate")
    )
    assert evaluate <= train


def test_lanes_are_as_many_as_the_program_was_built_for(program_of):
    with pytest.raises(ValueError, match="1 lanes"):
        program_of(LANES).with_lanes(LANES[:1])


def test_training_compiled_ahead_is_the_same(program_of, trained):
    program = program_of(LANES[:1]).compile()
    _, metrics = program.train(program.init(), put(program, windows_of(LANES[:1], 3)), 3)
    _, losses = trained(LANES[:1], calls=(3,))
    np.testing.assert_array_equal(metrics.loss, losses)


def test_no_function_depends_on_probes_or_on_what_else_is_not_compiled(tiny, pytestconfig):
    """So that training costs the same with and without probes, and that tests may share programs."""
    not_compiled = pytestconfig.pluginmanager.get_plugin(str(pathlib.Path(__file__).parents[1] / "conftest.py"))
    every = {"log": 2, "eval": 3, "checkpoint": 6, "probe": 5, "census": 7, "curvature": 8}
    changes = {
        "data.dir": "elsewhere",
        "log.tensorboard": True,
        "seed": 7,
        "sweep": {"seed": (7, 8)},
        "optimizer.learning_rate": 0.5,
        "optimizer.weight_decay": 0.3,
        **{f"train.{name}_every": steps for name, steps in every.items()},
    }
    assert changes.keys() == set(not_compiled.NOT_COMPILED)
    flat, other = config_lib.flat(tiny), replace(tiny, **changes)
    assert {path for path, value in config_lib.flat(other).items() if value != flat[path]} == changes.keys()
    batches = NEXT_TOKEN.scored(windows_of(LANES[:1], 2)[0], np.ones((2, 4, 8), np.float32))
    # With a target the tests' cache of programs is not asked.
    both = [programs.build(models.build(tiny.model), c, LANES[:1], target=jax.devices()[:1]) for c in (tiny, other)]
    for name in programs.Functions._fields:
        examples = jax.tree.map(lambda leaf: leaf[0], batches) if name in ("probe", "curvature") else batches
        first, second = (program.lower(name, examples).as_text() for program in both)
        assert first == second, name


def test_what_is_lowered_for_a_target_is_what_runs_there_and_holds_no_array(tiny, program_of):
    model, lanes = models.build(tiny.model), [LANES[0], LANES[0]._replace(seed=7)]
    target = programs.build(model, replace(tiny, **{"devices.lanes_by": "map"}), lanes, target=jax.devices()[:1])
    assert all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in target.lanes)
    here = program_of(lanes)
    batches = NEXT_TOKEN.scored(windows_of(lanes[:1], 2)[0], np.ones((2, 4, 8), np.float32))
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), batches)
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), batches)
    for name in here.functions._fields:
        examples = one if name in ("probe", "curvature") else shapes
        assert target.lower(name, examples).as_text() == here.lower(name, examples).as_text(), name
    state = here.init()
    for name, arguments in (("init", (here.lanes.seed,)), ("evaluate", (state.params, here._put_batches(batches)))):
        found = target.lower(name, shapes).compile()(*arguments)
        jax.tree.map(np.testing.assert_array_equal, found, getattr(here.functions, name)(*arguments))


@pytest.mark.parametrize("over", ["map", pytest.param("vmap", marks=pytest.mark.slow)])
def test_probes_of_each_lane_are_those_of_the_solo_run(program_of, over):
    windows, weights = windows_of(LANES[:1], 2)[0], np.ones((2, 4, 8), np.float32)

    def probed(lanes, over):
        program = program_of(lanes, over)
        state = program.init()
        first_batch = NEXT_TOKEN.scored(windows[0], weights[0])
        return program.probe(state, first_batch), program.census(state, NEXT_TOKEN.scored(windows, weights))

    found, dead = probed(LANES, over)
    solo, solo_dead = probed(LANES[1:], "map")
    assert found.keys() == solo.keys()
    for name, values in found.items():
        np.testing.assert_allclose(values[1], solo[name][0], rtol=0 if over == "map" else 1e-3, err_msg=name)
        assert name == "loss" or not np.array_equal(values[0], values[1]) or values[0] == 0, name
    np.testing.assert_array_equal(dead[1], solo_dead[0])


def test_lanes_in_turn_take_one_lanes_memory_and_a_copy_of_its_state(tiny, build):
    config = replace(
        tiny, **{"model.n_layers": 1, "model.d_model": 64, "model.vocab_size": 2048, "devices.lanes_by": "map"}
    )
    one, four = (memory_need(build(config, LANES[:1] * n).compile().functions.train) for n in (1, 4))
    assert four.work < one.work + 1.3 * one.state
    needed = four.state + four.work
    assert memory_of(one, 4, by_map=True) == pytest.approx(needed, rel=0.05)


@pytest.mark.parametrize(("dtype", "precision"), [("float32", "HIGHEST"), ("tensorfloat32", "HIGH")])
def test_float32_products_are_float32_on_a_gpu_unless_asked(tiny, dtype, precision):
    config = replace(tiny, **{"train.dtype": dtype})
    assert compute_dtype(config) == np.float32
    program = programs.build(models.build(config.model, compute_dtype(config)), config, LANES[:1])
    windows = jax.ShapeDtypeStruct((1, 3, 4, 9), np.int32)
    batches = Examples(*(jax.ShapeDtypeStruct((2, 4, 8), dtype) for dtype in (np.int32, np.int32, np.float32)))
    state = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), program.abstract_state)
    for traced in (
        program.functions.train.trace(state, program.lanes, windows, jax.ShapeDtypeStruct((), np.int32)),
        program.functions.evaluate.trace(state.params, batches),
    ):
        text = traced.lower(lowering_platforms=("cuda",)).as_text()
        products = [line for line in text.splitlines() if "stablehlo.dot_general" in line]
        assert products and all(f"precision = [{precision}, {precision}]" in line for line in products)


def test_recomputed_blocks_give_the_same_gradients(tiny, build):
    """How much memory that saves, only the compilers of GPUs and TPUs show: experiments/targets."""
    found, texts = [], []
    for remat in (False, True):
        program = build(replace(tiny, **{"devices.remat": remat}), LANES[:1])
        texts.append(program.lower("train").as_text())
        state, metrics = program.train(program.init(), put(program, windows_of(LANES[:1], 3)), 3)
        found.append((np.asarray(metrics.loss), np.asarray(metrics.grad_norm)))
    jax.tree.map(_close, *found)
    first, again = (text.count("stablehlo.dot_general") for text in texts)
    assert again > first, "nothing is computed again"


def test_a_call_reads_no_rows_beyond_the_next_interval(tiny, build):
    off = {"train.probe_every": 0, "train.census_every": 0, "optimizer.warmup_steps": 0}
    long = {"train.steps_per_call": 100_000, "train.n_steps": 40, "train.eval_every": 60, "train.checkpoint_every": 60}
    for changes, longest in (({}, 40), ({"train.eval_every": 30}, 30), ({"train.probe_every": 7}, 7)):
        config = replace(tiny, **off | long | changes)
        assert build(config, LANES[:1]).rows_shape[1] == programs.boundary(config, 0) == longest
