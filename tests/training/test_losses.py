"""The loss against a plain float64 computation."""

import dataclasses
import functools
import math
import re
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from actlab import models
from actlab.config import replace
from actlab.models import Readout
from actlab.training import losses, probing, step as steps
from actlab.training.losses import chunked_sum, cross_entropy, weighted_sum
from actlab.training.objectives import NEXT_TOKEN


@pytest.fixture(params=["own", "gpu"])
def powers(request, monkeypatch):
    """Cross-entropy by both of its ways, a GPU's too."""
    if request.param == "gpu":
        monkeypatch.setattr(losses, "_powers", losses._powers_on_gpu)


@pytest.mark.usefixtures("powers")
@given(seed=st.integers(0, 10_000), scale=st.sampled_from([0.1, 1.0, 30.0]))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_cross_entropy_is_minus_log_softmax(seed, scale):
    rng = np.random.default_rng(seed)
    logits, targets = rng.normal(size=(2, 3, 5)) * scale, rng.integers(0, 5, (2, 3))
    shifted = logits - logits.max(-1, keepdims=True)
    log_softmax = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    expected = -np.take_along_axis(log_softmax, targets[..., None], -1)[..., 0]
    np.testing.assert_allclose(
        cross_entropy(jnp.array(logits, jnp.float32), jnp.array(targets)), expected, rtol=1e-4, atol=1e-5
    )


@pytest.mark.usefixtures("powers")
def test_huge_logits_give_finite_losses_and_gradients():
    logits = jnp.array([[[1e4, -1e4, 0.0]]])
    loss, slope = jax.value_and_grad(lambda x: cross_entropy(x, jnp.array([[1]])).sum())(logits)
    assert loss == 2e4
    np.testing.assert_allclose(slope, [[[1.0, -1.0, 0.0]]])


@pytest.mark.usefixtures("powers")
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_loss_of_logits_that_are_no_numbers_is_none_either(bad):
    logits = np.zeros((3, 300), np.float32)
    logits[0, 299] = logits[1, 0] = bad
    logits[2, [0, 1, 7]] = -np.inf
    found = cross_entropy(jnp.array(logits), jnp.array([1, 1, 2]))
    assert not np.isfinite(found[:2]).any()
    np.testing.assert_allclose(found[2], np.log(297), rtol=1e-6)


@pytest.mark.parametrize(("platform", "n_reductions"), [("cuda", 1), ("cpu", 0)])
def test_on_a_gpu_one_reduction_finds_the_largest_logit_and_the_sum(platform, n_reductions):
    for dtype in (jnp.float32, jnp.bfloat16):
        logits, targets = jax.ShapeDtypeStruct((4, 7), dtype), jax.ShapeDtypeStruct((4,), jnp.int32)
        text = jax.jit(cross_entropy).trace(logits, targets).lower(lowering_platforms=(platform,)).as_text()
        assert len(re.findall(r":2 = stablehlo\.reduce\(", text)) == n_reductions


@pytest.mark.usefixtures("powers")
def test_the_gradient_is_softmax_less_the_target():
    rng = np.random.default_rng(0)
    logits, targets, weights = rng.normal(size=(6, 5)) * 3, rng.integers(0, 5, 6), rng.normal(size=6)
    loss = lambda x: (cross_entropy(x, jnp.array(targets)) * jnp.float32(weights)).sum()
    ours = jax.jit(jax.grad(loss))(np.float32(logits))
    softmax = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    np.testing.assert_allclose(ours, (softmax - np.eye(5)[targets]) * weights[:, None], rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("powers")
def test_the_second_derivative_is_that_of_softmax():
    rng = np.random.default_rng(1)
    logits = rng.normal(size=5)
    of_row = lambda x: cross_entropy(x[None], jnp.array([2]))[0]
    softmax = np.exp(logits) / np.exp(logits).sum()
    expected = np.diag(softmax) - np.outer(softmax, softmax)
    np.testing.assert_allclose(jax.hessian(of_row)(np.float32(logits)), expected, rtol=1e-5, atol=1e-6)


def inputs(dtype=jnp.float32, bias=True):
    rng = np.random.default_rng(0)
    x, kernel, weights = (rng.normal(size=shape) for shape in ((3, 8, 6), (6, 11), (3, 8)))
    readout = Readout(jnp.array(kernel, dtype), jnp.array(np.linspace(-1, 1, 11), jnp.float32) if bias else None)
    return jnp.array(x, dtype), readout, jnp.array(rng.integers(0, 11, (3, 8))), jnp.array(weights, jnp.float32)


@functools.partial(jax.jit, static_argnums=0)
def both(numbers, arguments):
    """Value and gradients of the whole and of chunked sums, times 3 so that the cotangent is not 1; plain sums."""
    sums = [weighted_sum, *(functools.partial(chunked_sum, n_chunks) for n_chunks in numbers)]
    slopes = [jax.value_and_grad(lambda *a, one=one: 3 * one(*a), (0, 1, 3))(*arguments) for one in sums]
    return slopes, [one(*arguments) for one in sums]


@pytest.mark.parametrize("bias", [True, False])
def test_chunks_change_neither_the_sum_nor_its_gradients(bias):
    (whole, *chunked), (whole_sum, *chunked_sums) = both((1, 2, 3, 5, 8), inputs(bias=bias))
    for of_number, its_sum in zip(chunked, chunked_sums, strict=True):
        jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=2e-5, atol=2e-5), of_number, whole)
        np.testing.assert_allclose(its_sum, whole_sum, rtol=1e-4, atol=1e-5)


def test_chunks_in_bfloat16_keep_dtypes_and_add_up_in_float32():
    (whole, chunked), _ = both((4,), inputs(jnp.bfloat16))
    dtypes = lambda tree: [leaf.dtype for leaf in jax.tree.leaves(tree)]
    assert dtypes(chunked) == dtypes(whole)
    assert chunked[0].dtype == jnp.float32 and chunked[1][0].dtype == jnp.bfloat16
    close = lambda a, b: np.testing.assert_allclose(np.float32(a), np.float32(b), rtol=0.03, atol=0.03)
    jax.tree.map(close, chunked, whole)


@pytest.mark.parametrize("over", [jax.vmap, lambda f: functools.partial(jax.lax.map, lambda lane: f(*lane))])
def test_chunks_work_in_lanes(over):
    x, readout, targets, weights = inputs()
    lanes = jnp.stack([x, 2 * x])
    slope = jax.jit(jax.grad(lambda x: chunked_sum(4, x, readout, targets, weights)))
    ours = over(slope)(lanes) if over is jax.vmap else over(slope)((lanes,))
    for lane in range(2):
        np.testing.assert_allclose(ours[lane], slope(lanes[lane]), rtol=1e-5, atol=1e-5)


def test_a_hessian_vector_product_goes_through_chunks():
    x, readout, targets, weights = inputs()
    product = lambda f: jax.jit(lambda x: jax.jvp(jax.grad(f), (x,), (jnp.cos(x),))[1])(x)
    whole = product(lambda x: weighted_sum(x, readout, targets, weights))
    chunked = product(lambda x: chunked_sum(4, x, readout, targets, weights))
    np.testing.assert_allclose(chunked, whole, rtol=1e-4, atol=1e-5)
    assert np.abs(whole).max() > 0.1


def test_few_logits_are_whole_and_many_are_cut_into_equal_chunks():
    chunks = functools.partial(losses.chunks, most=losses.MOST_LOGITS)
    assert chunks(16, 128, 256) == 1
    assert chunks(64, 128, 50_304) == 8
    assert chunks(64, 150, 50_304) == 10, "not 9, which would be uneven"
    assert chunks(64, 127, 50_304) == 8, "a prime length is cut unevenly"
    assert chunks(4096, 2, 50_304) == 2, "never finer than a position"


@pytest.mark.parametrize("changes", [{}, {"model.tie_embeddings": False, "model.use_bias": True}])
def test_training_and_evaluation_are_the_same_in_chunks(tiny, monkeypatch, changes):
    config = replace(tiny, **changes)
    model = models.build(config.model)
    rng, shapes = np.random.default_rng(5), models.shapes(model)
    params = jax.tree.map(lambda leaf: np.float32(rng.normal(0, 0.5, leaf.shape)), shapes)
    windows, weights = rng.integers(0, 24, (4, 9)), np.ones((4, 8), np.float32)
    weights[1, 3:] = 0

    @functools.partial(jax.value_and_grad, has_aux=True)
    def outcome(params, examples):
        found = steps.eval_step(model, params, examples, counts_hits=True)
        return losses.loss(model, params, examples), found

    @jax.jit
    def both(params, examples):
        whole = outcome(params, examples)
        monkeypatch.setattr(losses, "MOST_LOGITS", 4 * 24 * 2)
        assert losses.chunks(4, 8, 24, losses.MOST_LOGITS) == 4
        return whole, outcome(params, examples)

    whole, chunked = both(params, NEXT_TOKEN.scored(windows, weights))
    (loss, found), _ = whole
    assert found.losses.shape == (4, 8) and found.losses.sum() == pytest.approx(float(loss), rel=1e-5)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5), chunked, whole)


def test_no_array_of_a_chunked_step_has_all_logits(tiny, monkeypatch):
    model = models.build(replace(tiny, **{"model.vocab_size": 1000}).model)
    params = models.shapes(model)
    windows, weights = jax.ShapeDtypeStruct((32, 9), jnp.int32), jax.ShapeDtypeStruct((32, 8), jnp.float32)

    config = replace(tiny, **{"model.vocab_size": 1000})
    state = jax.eval_shape(lambda: steps.init_state(model, config, jnp.int32(0)))
    lane = steps.Lane(jnp.int32(1), jnp.float32(1e-3), jnp.float32(0.1))

    def sizes():
        """Elements of the largest array of a gradient, and of a probe."""
        step = jax.grad(lambda p, w, v: losses.loss(model, p, NEXT_TOKEN.scored(w, v)))
        probe = lambda s, w, v: probing.probe_step(model, config, lane, s, NEXT_TOKEN.scored(w, v))
        return [largest(step, params), largest(probe, state)]

    def largest(function, first):
        jaxpr = str(jax.make_jaxpr(function)(first, windows, weights))
        return max(math.prod(map(int, shape.split(","))) for shape in re.findall(r"f32\[([\d,]+)\]", jaxpr))

    logits = 32 * 8 * 1000
    assert min(sizes()) >= logits
    monkeypatch.setattr(losses, "MOST_LOGITS", 32 * 1000)
    assert max(sizes()) <= logits / 4


@pytest.mark.parametrize(
    ("confusion", "expected"),
    [
        ([[3, 1], [2, 4]], (6 / 9 + 8 / 11) / 2),
        ([[5, 0], [0, 5]], 1.0),
        ([[0, 5], [5, 0]], 0.0),
        ([[6, 0], [4, 0]], (12 / 16 + 0) / 2),  # nothing is taken for a positive: F1 of the positives is 0
        ([[7, 0], [0, 0]], 1.0),  # one class only, and no other answer: the other has no F1
        ([[5, 2], [0, 0]], (10 / 12 + 0) / 2),  # no positives, but two answers that say so
        ([[2, 0, 0], [0, 0, 0], [1, 0, 1]], (4 / 5 + 2 / 3) / 2),
        ([[0, 0], [0, 0]], 0.0),
    ],
)
def test_macro_f1(confusion, expected):
    assert losses.macro_f1(np.array(confusion, float)) == pytest.approx(expected)


def test_macro_f1_of_many_lanes_is_that_of_each():
    lanes = np.array([[[3.0, 1], [2, 4]], [[7, 0], [0, 0]]])
    assert losses.macro_f1(lanes).tolist() == [losses.macro_f1(lane) for lane in lanes]


def test_chunks_are_as_many_as_the_rows_of_one_device_ask_for(tiny, monkeypatch):
    monkeypatch.setattr(losses, "MOST_LOGITS", 24 * 8)  # of one row
    mesh = AbstractMesh((1, 2, 4), ("lane", "data", "fsdp"), axis_types=(AxisType.Auto,) * 3)
    model = models.build(tiny.model)
    split = dataclasses.replace(
        model, spec=dataclasses.replace(model.spec, rows=NamedSharding(mesh, PartitionSpec(("data", "fsdp"))))
    )
    params = models.shapes(model)
    examples = losses.Examples(*(jnp.zeros((16, 8), dtype) for dtype in (int, int, float)))

    def n_chunks(model):
        jaxpr = jax.make_jaxpr(lambda params: losses.loss(model, params, examples))(params)
        return [int(length) for length in re.findall(r"length=(\d+)", str(jaxpr))]

    # A GPU holds four times as many.
    large = dataclasses.replace(model, spec=dataclasses.replace(model.spec, platform="gpu"))
    again = dataclasses.replace(large, spec=dataclasses.replace(large.spec, remat=True))
    assert (n_chunks(model), n_chunks(split), n_chunks(large), n_chunks(again)) == ([8], [2], [4], [8])


@pytest.mark.parametrize(
    ("platform", "d_model", "vocab_size", "rows", "n_chunks"),
    [
        ("cpu", 128, 16_384, 16, 8),  # of 4M logits, 256 tokens
        ("cpu", 64, 32_768, 16, 8),  # of 256 tokens, 8M logits
        ("cpu", 64, 32_769, 16, 2),  # an output matrix of more than 2M
        ("cpu", 128, 2048, 16, 1),
        ("tpu", 128, 16_384, 16, 1),
        ("gpu", 128, 16_384, 16, 1),
    ],
)
def test_on_a_cpu_logits_that_the_cache_can_hold_are_cut_to_stay_there(
    tiny, platform, d_model, vocab_size, rows, n_chunks
):
    model = models.build(replace(tiny, **{"model.vocab_size": vocab_size, "model.d_model": d_model}).model)
    model = dataclasses.replace(model, spec=dataclasses.replace(model.spec, platform=platform))
    readout = Readout(jnp.zeros((d_model, vocab_size)), None)
    examples = losses.Examples(*(jnp.zeros((rows, 128), dtype) for dtype in (int, int, float)))
    assert losses._n_chunks(model, readout, examples) == n_chunks


@pytest.mark.parametrize(("found", "platform"), [("cpu", "cpu"), ("gpu", "gpu"), ("cuda", "gpu"), ("tpu", "tpu")])
def test_a_model_knows_the_platform_of_its_program(tiny, monkeypatch, found, platform):
    device = types.SimpleNamespace(platform=found, compute_capability="9.0")
    monkeypatch.setattr(NamedSharding, "device_set", {id(device): device}.values())
    rows = NamedSharding(jax.make_mesh((1,), ("data",)), PartitionSpec("data"))
    assert models.build(tiny.model).on(rows).spec.platform == platform


def test_every_token_of_rows_without_padding_counts_though_few_have_a_target():
    few_BK = jnp.ones((2, 3), jnp.int32)
    examples = losses.Examples(jnp.ones((2, 8), jnp.int32), few_BK, few_BK / 6, places=few_BK)
    np.testing.assert_array_equal(examples.counted, np.ones((2, 8)))
