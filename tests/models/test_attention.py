"""Attention against the textbook formula and JAX's own, forward and backward; which kernel serves where."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from actlab.models import attention

CAUSAL = functools.partial(attention.self_attention, causal=True)


def qkv(dtype=jnp.float32, length=8, head=16):
    return [jnp.asarray(array, dtype) for array in np.random.default_rng(0).normal(size=(4, 2, length, 3, head))]


@functools.partial(jax.jit, static_argnums=0)
def gradients(attend, q, k, v, weigh):
    return jax.grad(lambda *qkv: (attend(*qkv).astype(jnp.float32) * weigh.astype(jnp.float32)).sum(), (0, 1, 2))(
        q, k, v
    )


@functools.partial(jax.jit, static_argnums=0)
def values_and_gradients(attend, q, k, v, weigh):
    return attend(q, k, v), *gradients(attend, q, k, v, weigh)


def test_causal_attention_is_its_formula():
    q, k, v, _ = (np.asarray(array, np.float64) for array in qkv())
    scores = np.einsum("blhk,bmhk->bhlm", q, k) / 4
    scores[..., ~np.tri(8, dtype=bool)] = -np.inf
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    expected = np.einsum("bhlm,bmhk->blhk", weights, v)
    np.testing.assert_allclose(jax.jit(CAUSAL)(*qkv()[:3]), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("dtype", "tolerance"), [(jnp.float32, 2e-5), (jnp.bfloat16, 0.05)])
def test_its_gradients_are_those_of_jaxs_own(dtype, tolerance):
    theirs = functools.partial(jax.nn.dot_product_attention, is_causal=True, implementation="xla")
    exact = gradients(theirs, *qkv())
    for ours, reference in zip(gradients(CAUSAL, *qkv(dtype)), exact, strict=True):
        assert ours.dtype == dtype
        np.testing.assert_allclose(np.float32(ours), reference, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("n_heads", "length", "causal"),
    [
        *((n_heads, 64, causal) for n_heads in (1, 2, 3) for causal in (True, False)),
        (2, 130, True),
        (3, 300, True),
    ],
)
def test_halves_of_the_heads_and_blocks_of_queries_give_the_same(n_heads, length, causal):
    arrays = [array[:, :, :n_heads] for array in qkv(length=length)]
    real = None if causal else jnp.arange(length)[None] < jnp.array([[40], [length]])

    def attended(kernel):
        attend = functools.partial(attention.self_attention, causal=causal, real_BL=real, kernel=kernel)
        return values_and_gradients(attend, *arrays)

    for whole, parts in zip(attended("own"), attended("parts"), strict=True):
        np.testing.assert_allclose(whole, parts, rtol=1e-4, atol=1.5e-8 * length)  # sums of as many terms


def test_parts_leave_out_the_products_with_later_keys():
    shapes = jax.eval_shape(lambda *arrays: arrays, *qkv(length=512)[:3])

    def flops(kernel):
        return jax.jit(functools.partial(CAUSAL, kernel=kernel)).lower(*shapes).cost_analysis()["flops"]

    assert 0.6 < flops("parts") / flops("own") < 0.65  # 10 of 16 blocks


def test_huge_scores_give_finite_gradients():
    q, k, v, weigh = qkv()
    for slope in gradients(CAUSAL, 1e4 * q, 1e4 * k, v, weigh):
        assert np.isfinite(slope).all()


def test_a_hessian_vector_product_agrees_with_jaxs_own():
    q, k, v, weigh = qkv()

    def product(attend):
        slope = jax.grad(lambda q: (jnp.sin(attend(q, k, v)) * weigh).sum())
        return jax.jit(lambda q: jax.jvp(slope, (q,), (weigh,))[1])(q)

    theirs = functools.partial(jax.nn.dot_product_attention, is_causal=True, implementation="xla")
    np.testing.assert_allclose(product(CAUSAL), product(theirs), rtol=1e-3, atol=1e-4)


class Device(NamedTuple):
    platform: str
    compute_capability: str


@pytest.mark.parametrize(
    ("platform", "capability", "dtype", "head", "kernel"),
    [
        ("gpu", "9.0", jnp.bfloat16, 64, "cudnn"),
        ("gpu", "8.0", jnp.float16, 128, "cudnn"),
        ("cpu", "", jnp.bfloat16, 64, "parts"),
        ("cpu", "", jnp.float32, 20, "parts"),
        ("tpu", "", jnp.bfloat16, 64, "splash"),
        ("tpu", "", jnp.bfloat16, 32, "own"),
        ("tpu", "", jnp.float32, 64, "own"),
        ("gpu", "9.0", jnp.float32, 64, "own"),
        ("gpu", "7.5", jnp.bfloat16, 64, "own"),
        ("gpu", "gfx90a", jnp.bfloat16, 64, "own"),
        ("gpu", "9.0", jnp.bfloat16, 20, "own"),
        ("gpu", "9.0", jnp.bfloat16, 256, "own"),
    ],
)
def test_flash_attention_serves_where_cudnn_has_it(platform, capability, dtype, head, kernel):
    assert attention.kernel_for(Device(platform, capability), dtype, head) == kernel


@pytest.mark.parametrize("causal", [True, False])
def test_the_kernel_of_tpus_equals_ours_forward_and_backward(causal):
    arrays = qkv(jnp.float32, length=256, head=64)
    splash = functools.partial(attention.splash, causal=causal, interpret=True)
    ours = functools.partial(attention.self_attention, causal=causal)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    jax.tree.map(close, values_and_gradients(splash, *arrays), values_and_gradients(ours, *arrays))


@pytest.mark.parametrize("causal", [True, False])
def test_flash_kernels_serve_rows_without_padding(causal, monkeypatch):
    called = []
    cudnn = lambda q, k, v, *, scale, is_causal, implementation: called.append((implementation, is_causal)) or q
    monkeypatch.setattr(jax.nn, "dot_product_attention", cudnn)
    monkeypatch.setattr(attention, "splash", lambda q, k, v, causal, *_: called.append(("splash", causal)) or q)
    q, k, v, _ = qkv(length=512)
    for kernel in ("cudnn", "splash"):
        attention.self_attention(q, k, v, causal, kernel=kernel)
        attention.self_attention(q, k, v, False, jnp.ones((2, 512), bool), kernel)
    assert called == [("cudnn", causal), ("splash", causal)]


def test_flash_attention_lowers_for_cuda_forward_and_backward(monkeypatch):
    stablehlo = pytest.importorskip("jax._src.cudnn.fused_attention_stablehlo")
    monkeypatch.setattr(stablehlo, "check_cudnn_version", lambda: 91000)
    monkeypatch.setattr(stablehlo, "check_compute_capability", lambda capability: True)
    flash = functools.partial(CAUSAL, kernel="cudnn")
    text = gradients.trace(flash, *qkv(jnp.bfloat16, length=64)).lower(lowering_platforms=("cuda",)).as_text()
    assert "__cudnn$fmhaSoftmax" in text and "__cudnn$fmhaSoftmaxBackward" in text


@pytest.mark.gpu
@pytest.mark.parametrize("length", [8, 128])
@pytest.mark.parametrize("causal", [True, False])
def test_flash_attention_equals_ours(causal, length):
    arrays = qkv(jnp.bfloat16, length=length, head=64)
    assert attention.kernel_for(jax.devices()[0], jnp.bfloat16, 64) == "cudnn"
    attend = functools.partial(attention.self_attention, causal=causal)
    flash = functools.partial(attend, kernel="cudnn")
    exact = [array.astype(jnp.float32) for array in arrays]
    close = lambda a, b: np.testing.assert_allclose(np.float32(a), b, rtol=0.05, atol=0.05)
    jax.tree.map(close, values_and_gradients(flash, *arrays), values_and_gradients(attend, *exact))
