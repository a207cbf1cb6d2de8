"""Lanczos against planted spectra; products and eigenvalues of a tiny model against its dense matrices."""

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from jax.flatten_util import ravel_pytree

from actlab import models
from actlab.config import replace
from actlab.probes import curvature
from actlab.training import losses, probing
from actlab.training.objectives import NEXT_TOKEN


@functools.partial(jax.jit, static_argnums=1)
def top_of(matrix, n_iterations=20):
    return curvature.top_eigenvalue(lambda v: matrix @ v, len(matrix), n_iterations)


def rotated(spectrum, seed):
    basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(spectrum),) * 2))[0]
    return ((basis * spectrum) @ basis.T).astype(np.float32)


@settings(max_examples=30)
@given(st.lists(st.floats(-10, 10, width=32), min_size=12, max_size=12), st.integers(0, 2**32 - 1))
def test_a_space_that_is_gone_through_gives_the_largest_eigenvalue(spectrum, seed):
    top = top_of(rotated(spectrum, seed))
    assert top.value == pytest.approx(max(spectrum), abs=1e-4 * (1 + max(np.abs(spectrum))))


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1), st.floats(-1, 1))
def test_the_planted_curvature_of_a_large_quadratic_is_within_the_residual(seed, shift):
    rng = np.random.default_rng(seed)
    spectrum = np.append(rng.uniform(-1, 1, 299), 2.5) + shift
    value, residual = top_of(rotated(spectrum, seed))
    assert value <= spectrum.max() + 1e-4
    assert value >= spectrum.max() - residual - 1e-4 and residual < 0.05


def test_a_quadratic_is_its_own_hessian():
    matrix = rotated([4.0, 1.0, -7.0], 0)
    loss = lambda p: 0.5 * jnp.vdot(p["a"], jnp.asarray(matrix) @ p["a"])
    product = curvature.hessian_product(loss, {"a": jnp.ones(3)})
    np.testing.assert_allclose(product(jnp.asarray([1.0, 2.0, 3.0])), matrix @ [1.0, 2.0, 3.0], rtol=1e-5)
    assert curvature.top_eigenvalue(product, 3).value == pytest.approx(4.0, rel=1e-4), "largest, not largest in size"


@pytest.fixture(scope="module")
def dense(tiny):
    """A model of some 200 parameters far from its start: (model, params, windows, weights, Hessian, Gauss-Newton)."""
    shape = {"n_layers": 1, "d_model": 4, "n_heads": 1, "d_ff": 8, "context": 4, "vocab_size": 6}
    changes = {f"model.{name}": value for name, value in shape.items()}
    model = models.build(replace(tiny, **changes, **{"model.activation": "swiglu"}).model)
    rng = np.random.default_rng(0)
    params = jax.tree.map(
        lambda leaf: np.float32(rng.normal(0, 0.25, leaf.shape) if leaf.ndim > 1 else np.ones(leaf.shape)),
        models.shapes(model),
    )
    windows, weights = jnp.array(rng.integers(0, 6, (3, 5))), np.ones((3, 4), np.float32)
    weights[2, 2:] = 0
    flat, unravel = ravel_pytree(params)

    def logits(flat):
        return model.apply(unravel(flat), windows[:, :-1])[0]

    def loss(flat):
        of_each = losses.cross_entropy(logits(flat), windows[:, 1:])
        return (of_each * weights).sum() / weights.sum()

    @jax.jit
    def derivatives(flat):
        return jax.jacrev(jax.grad(loss))(flat), jax.jacrev(logits)(flat), jax.nn.softmax(logits(flat))

    hessian, jacobian, p = (np.asarray(array, np.float64) for array in derivatives(flat))
    jacobian, p = jacobian.reshape(12, 6, -1), p.reshape(12, 6)
    bend = weights.reshape(12, 1, 1) / 10 * (np.eye(6) * p[:, :, None] - p[:, :, None] * p[:, None, :])
    return model, params, windows, weights, hessian, np.einsum("tvp,tvw,twq->pq", jacobian, bend, jacobian)


def test_the_models_top_eigenvalues_are_those_of_its_dense_matrices(dense):
    model, params, windows, weights, hessian, gauss_newton = dense
    found = jax.jit(functools.partial(probing.curvature_step, model))(params, NEXT_TOKEN.scored(windows, weights))
    assert set(found) == {f"{name}_{part}" for name in ("hessian", "gauss_newton") for part in ("top", "residual")}
    for name, matrix in (("hessian", hessian), ("gauss_newton", gauss_newton)):
        largest = np.linalg.eigvalsh((matrix + matrix.T) / 2)[-1]
        assert found[f"{name}_top"] == pytest.approx(largest, rel=1e-2), name
        assert abs(found[f"{name}_top"] - largest) <= found[f"{name}_residual"] + 1e-4 * largest, name
    assert found["hessian_top"] != pytest.approx(float(found["gauss_newton_top"]), rel=1e-3)


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_where_flash_attention_trains_the_model_its_curvature_is_that_of_ours(tiny, monkeypatch, kind):
    """cuDNN's attention has no second derivative."""
    model = models.build(replace(tiny, **{"model.kind": kind}).model, jnp.bfloat16)
    flashing = dataclasses.replace(model, spec=dataclasses.replace(model.spec, attention="cudnn"))
    params = models.shapes(model)
    batch = NEXT_TOKEN.scored(np.zeros((2, 9), np.int32), np.ones((2, 8), np.float32))
    monkeypatch.setattr(jax.nn, "dot_product_attention", lambda *_, **__: pytest.fail("flash attention"))

    def traced(model):
        text = str(jax.make_jaxpr(functools.partial(probing.curvature_step, model))(params, batch))
        return re.sub("0x[0-9a-f]+", "", text)  # addresses of functions

    assert model.spec.attention == "own" and traced(flashing) == traced(model)
