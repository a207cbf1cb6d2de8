"""Attention, causal or to all tokens: ours, or the flash attention of cuDNN or of a TPU; and over a cache."""

import functools
import math
import re
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float

# Finite, so that a row without any allowed key gives no NaN; exp of it is exactly 0 in float32.
MASKED = -1e30


def self_attention(
    q_BLHK: Float[Array, "B L H K"],
    k_BLHK: Float[Array, "B L H K"],
    v_BLHK: Float[Array, "B L H K"],
    causal: bool,
    real_BL: Bool[Array, "B L"] | None = None,
    kernel: str = "own",
    scale: float | None = None,
    rows: NamedSharding | None = None,
) -> Float[Array, "B L H K"]:
    """Attention of each position to itself and those before it if `causal`, else to all that are real, or to all.

    See `attend` and `kernel_for`.
    """
    n_rows, length = q_BLHK.shape[:2]
    if real_BL is None and kernel == "splash" and fits_splash(length):
        return splash(q_BLHK, k_BLHK, v_BLHK, causal, scale, rows)
    if real_BL is None and kernel == "cudnn":
        arrays = q_BLHK, k_BLHK, v_BLHK
        return jax.nn.dot_product_attention(*arrays, scale=scale, is_causal=causal, implementation="cudnn")
    in_parts = kernel == "parts"
    if not causal:
        mask = (jnp.ones((n_rows, length), bool) if real_BL is None else real_BL)[:, None, None, :]
        return attend(q_BLHK, k_BLHK, v_BLHK, mask, scale, in_parts)
    positions_L = jnp.arange(length)
    mask = positions_L[None, :] <= positions_L[:, None]
    size = length
    if in_parts:
        size = 64 if length < 256 else 128
    out = []
    for begin in range(0, length, size):
        queries, keys = slice(begin, begin + size), slice(begin + size)
        arrays = q_BLHK[:, queries], k_BLHK[:, keys], v_BLHK[:, keys]
        out.append(attend(*arrays, mask[queries, keys], scale, in_parts))
    return jnp.concatenate(out, axis=1)


def kernel_for(device: Any, dtype: DTypeLike, head: int) -> str:
    """The fastest kernel on a device: "cudnn" and "splash" are flash attention, without a second derivative; or ours.

    cuDNN serves 16-bit heads of a multiple of 8, up to 128, on CUDA 8.0 or later; splash is JAX's kernel for TPUs, for
    16-bit heads of a multiple of 64, and long rows only (`fits_splash`). Ours is "own", and on CPU "parts": XLA runs
    the products of a batch there one after the other on one core, and those of two halves of the heads side by side;
    and where attention is causal, a block of queries is not multiplied with the keys after it.
    jax.nn.dot_product_attention is no faster there.
    """
    if device.platform == "cpu":
        return "parts"
    if jnp.dtype(dtype).itemsize != 2:
        return "own"
    if device.platform == "tpu":
        return "splash" if head % 64 == 0 else "own"
    if device.platform not in ("gpu", "cuda") or head % 8 or head > 128:
        return "own"
    capability = getattr(device, "compute_capability", "")  # AMD's has letters, like gfx90a
    return "cudnn" if re.fullmatch(r"\d+\.\d+", capability) and float(capability) >= 8 else "own"


def fits_splash(length: int) -> bool:
    """Whether rows are long enough for the TPU's kernel, and a multiple of its least block.

    By the compiler's count for a v5e, forward and backward of 16,384 tokens in 6 heads of 64, it moves 1.0 GB where
    ours moves 0.5 (128 tokens a row), 0.8 (256) and 1.7 (512).
    """
    return length >= 512 and length % 128 == 0


def splash(
    q_BLHK: Float[Array, "B L H K"],
    k_BLHK: Float[Array, "B L H K"],
    v_BLHK: Float[Array, "B L H K"],
    causal: bool,
    scale: float | None = None,
    rows: NamedSharding | None = None,
    interpret: bool = False,
) -> Float[Array, "B L H K"]:
    """JAX's flash attention for TPUs, on each device for the rows that it has; `interpret` runs it anywhere, slowly."""
    from jax.experimental.pallas.ops.tpu.splash_attention import (
        splash_attention_kernel as kernels,
        splash_attention_mask as masks,
    )

    _, length, n_heads, size = q_BLHK.shape
    mask = (masks.CausalMask if causal else masks.FullMask)((length, length))
    block = next(block for block in (512, 256, 128) if length % block == 0)
    names = ("q", "kv", "kv_compute", "q_dkv", "kv_dkv", "kv_dkv_compute", "q_dq", "kv_dq")
    blocks: Any = {f"block_{name}": block for name in names}
    sizes = kernels.BlockSizes(**blocks)
    of_row: Any = kernels.make_splash_mha(
        masks.MultiHeadMask([mask] * n_heads), block_sizes=sizes, head_shards=1, q_seq_shards=1, interpret=interpret
    )

    # The compiler of kernels refuses to multiply 16-bit inputs in float32, which a program asks of all its products.
    precise = functools.partial(jax.default_matmul_precision, "default" if q_BLHK.dtype.itemsize == 2 else "float32")

    def forward(*arrays_BLHK: Array) -> Array:
        with precise():
            return jnp.swapaxes(jax.vmap(of_row)(*(jnp.swapaxes(array, 1, 2) for array in arrays_BLHK)), 1, 2)

    def backward(pullback: Any, dout_BLHK: Array) -> Any:
        with precise():
            return pullback(dout_BLHK)

    of_rows = jax.custom_vjp(forward)
    of_rows.defvjp(functools.partial(jax.vjp, forward), backward)
    on_each: Any = of_rows
    if rows is not None:
        on_each = jax.shard_map(of_rows, mesh=rows.mesh, in_specs=rows.spec, out_specs=rows.spec, check_vma=False)
    q_BLHK = q_BLHK * q_BLHK.dtype.type(1 / math.sqrt(size) if scale is None else scale)
    return on_each(q_BLHK, k_BLHK, v_BLHK)


def attend(
    q_BLHK: Float[Array, "B L H K"],
    k_BMHK: Float[Array, "B M H K"],
    v_BMHK: Float[Array, "B M H K"],
    mask: Bool[Array, "L M"] | Bool[Array, "B 1 1 M"],
    scale: float | None = None,
    halves: bool = False,
) -> Float[Array, "B L H K"]:
    """softmax(scale q k^T) v with the softmax in float32; the mask is True where a query may look.

    The scale is 1/sqrt(K) by default. With `halves` the heads are computed in two parts.
    """
    q_BLHK = q_BLHK * q_BLHK.dtype.type(1 / math.sqrt(q_BLHK.shape[-1]) if scale is None else scale)
    n_heads = q_BLHK.shape[2]
    cuts = (n_heads // 2,) if halves and n_heads > 1 else ()
    parts = zip(*(jnp.split(array, cuts, axis=2) for array in (q_BLHK, k_BMHK, v_BMHK)), strict=True)
    out = [jnp.swapaxes(_attend(*(jnp.swapaxes(array, 1, 2) for array in part), mask), 1, 2) for part in parts]
    return jnp.concatenate(out, axis=2)


@jax.custom_vjp
def _attend(q_BHLK: Array, k_BHMK: Array, v_BHMK: Array, mask: Array) -> Array:
    return _attend_forward(q_BHLK, k_BHMK, v_BHMK, mask)[0]


def _attend_forward(q_BHLK: Array, k_BHMK: Array, v_BHMK: Array, mask: Array) -> tuple[Array, Any]:
    scores_BHLM = jnp.where(mask, _product("bhlk,bhmk->bhlm", q_BHLK, k_BHMK), MASKED)
    weights_BHLM = jnp.exp(scores_BHLM - scores_BHLM.max(axis=-1, keepdims=True))
    # Rows are divided by their sums after the product with v, which is narrower, and so again in the backward pass.
    inverse_BHL1 = 1 / weights_BHLM.sum(axis=-1, keepdims=True)
    weights_BHLM = weights_BHLM.astype(v_BHMK.dtype)
    out_BHLK = (_product("bhlm,bhmk->bhlk", weights_BHLM, v_BHMK) * inverse_BHL1).astype(v_BHMK.dtype)
    return out_BHLK, (q_BHLK, k_BHMK, v_BHMK, weights_BHLM, inverse_BHL1, out_BHLK)


def _attend_backward(saved: Any, dout_BHLK: Array) -> Any:
    q_BHLK, k_BHMK, v_BHMK, weights_BHLM, inverse_BHL1, out_BHLK = saved
    dtype = v_BHMK.dtype
    dout_BHLK = dout_BHLK.astype(jnp.float32) * inverse_BHL1
    inner_BHL1 = (dout_BHLK * out_BHLK).sum(axis=-1, keepdims=True)
    dout_BHLK = dout_BHLK.astype(dtype)
    dweights_BHLM = _product("bhlk,bhmk->bhlm", dout_BHLK, v_BHMK)
    # In rows with an allowed key masked scores have weight 0, so no gradient; other rows have no weight in a loss.
    dscores_BHLM = (weights_BHLM * (dweights_BHLM - inner_BHL1)).astype(dtype)
    dq_BHLK = _product("bhlm,bhmk->bhlk", dscores_BHLM, k_BHMK)
    # Transposed, which on CPU is faster by a third to a half.
    dk_BHMK = jnp.swapaxes(_product("bhlk,bhlm->bhkm", q_BHLK, dscores_BHLM), 2, 3)
    dv_BHMK = jnp.swapaxes(_product("bhlk,bhlm->bhkm", dout_BHLK, weights_BHLM), 2, 3)
    return *(array.astype(dtype) for array in (dq_BHLK, dk_BHMK, dv_BHMK)), None


_attend.defvjp(_attend_forward, _attend_backward)


def _product(formula: str, left: Array, right: Array) -> Array:
    return jnp.einsum(formula, left, right, preferred_element_type=jnp.float32)
