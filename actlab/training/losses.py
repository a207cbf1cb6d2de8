"""Losses in nats, computed in float32."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from actlab.models import Model, Readout

# The most logits in memory at once, 218 MB in float32. Fewer means more chunks, and each chunk adds a gradient as large
# as the output matrix: at 30M parameters a step took 1.02 times as long as without chunks, with a third of this number
# 1.10 times, for 5% less memory (experiments/performance/tried.md).
MOST_LOGITS = 52 * 2**20
# On a GPU so many times that: each chunk reads and writes the sum of the gradients, 3.7% of a step of 124M on an H200.
LARGER = 4
# On a CPU fewer, which stay in its cache, where the output matrix's gradient stays there too: a step takes 0.74 to 0.98
# of the time. A larger matrix is slower in chunks, and so are products of few tokens.
CACHED_LOGITS, CACHED_MATRIX, LEAST_TOKENS = 4 * 2**20, 2 * 2**20, 256


class Examples(NamedTuple):
    """Rows of tokens and the targets at K positions of each; N stands for further leading axes."""

    tokens: Int[Array, "*N B L"]
    targets: Int[Array, "*N B K"]
    weights: Float[Array, "*N B K"]  # of the losses of the targets
    places: Int[Array, "*N B K"] | None = None  # None: every position, K = L
    real: Bool[Array, "*N B L"] | None = None  # False for padding; None: no padding

    @property
    def inputs(self) -> dict[str, Any]:
        """The model's arguments beside its parameters."""
        return {"tokens_BL": self.tokens, "real_BL": self.real, "places_BP": self.places}

    def of_targets(self, array_NBL: Shaped[np.ndarray, "*N B _"]) -> Shaped[np.ndarray, "*N B K"]:
        """What an array has at each target, of a value per position or already per target."""
        return array_NBL if self.places is None else np.take_along_axis(array_NBL, np.asarray(self.places), axis=-1)

    @property
    def counted(self) -> Float[Array, "*N B L"] | Float[np.ndarray, "*N B L"]:
        """Weights of tokens in measurements of hidden units: of those that are not padding, or that have a target."""
        if self.real is not None:
            return self.real.astype(self.weights.dtype)
        if self.places is not None:  # rows without padding, of which some positions have a target
            return jnp.ones(self.tokens.shape, self.weights.dtype)
        return self.weights


def loss(model: Model, params: Any, examples: Examples, key: PRNGKeyArray | None = None) -> Float[Array, ""]:
    """Sum over all targets of weight times loss, in nats; logits that are too many to hold are computed in chunks.

    `key` is for activations that are stochastic in training.
    """
    x_BKD, readout, _ = model.hidden(params, **examples.inputs, key=key)
    return of_hidden(model, x_BKD, readout, examples)


def of_hidden(model: Model, x_BKD: Float[Array, "B K D"], readout: Readout, examples: Examples) -> Float[Array, ""]:
    """`loss` from what `model.hidden` gives."""
    n_chunks = _n_chunks(model, readout, examples)
    if n_chunks == 1:
        return weighted_sum(x_BKD, readout, examples.targets, examples.weights)
    return chunked_sum(n_chunks, x_BKD, readout, examples.targets, examples.weights)


def of_targets(
    model: Model, params: Any, examples: Examples, counts_hits: bool
) -> tuple[Float[Array, "B K"], Float[Array, ""] | None]:
    """Weight times loss of each target, in nats; if asked for, the sum of the weights of those that are ranked first.

    Logits that are too many to hold are computed in chunks, as in `loss`.
    """
    x_BKD, readout, _ = model.hidden(params, **examples.inputs)
    n_chunks, n_places = _n_chunks(model, readout, examples), examples.targets.shape[1]

    def of_chunk(chunk: Any) -> tuple[Array, Array | None]:
        x_BLD, targets_BL, weights_BL = chunk
        logits_TV = readout.logits(x_BLD.reshape(-1, x_BLD.shape[-1]))
        losses_BL = cross_entropy(logits_TV, targets_BL.reshape(-1)).reshape(targets_BL.shape) * weights_BL
        if not counts_hits:
            return losses_BL, None
        return losses_BL, ((logits_TV.argmax(axis=-1) == targets_BL.reshape(-1)) * weights_BL.reshape(-1)).sum()

    losses, hits = jax.lax.map(of_chunk, _cut(n_chunks, (x_BKD, examples.targets, examples.weights)))
    return _join(losses, n_places), None if hits is None else hits.sum()


def confusion(model: Model, params: Any, examples: Examples) -> Float[Array, "C C"]:
    """Sum of the weights of rows by their class (first axis) and the class that the model predicts (second)."""
    x_B1D, readout, _ = model.hidden(params, **examples.inputs)
    found_B = readout.logits(x_B1D[:, 0]).argmax(axis=-1)
    n_classes = readout.kernel_DV.shape[1]
    return jnp.zeros((n_classes, n_classes)).at[examples.targets[:, 0], found_B].add(examples.weights[:, 0])


def macro_f1(confusion: Float[np.ndarray, "*S C C"]) -> Float[np.ndarray, "*S"]:
    """Mean over classes of F1 = 2 TP / (2 TP + FP + FN), from documents of each class (row) by answer (column).

    A class that is neither a label nor an answer has no F1 and is left out, as in scikit-learn; without documents the
    mean is 0.
    """
    hits = np.diagonal(confusion, axis1=-2, axis2=-1)
    there = confusion.sum(axis=-1) + confusion.sum(axis=-2)  # 2 TP + FP + FN
    scores = np.divide(2 * hits, there, out=np.zeros_like(there, dtype=np.float64), where=there > 0)
    return np.asarray(scores.sum(axis=-1) / np.maximum((there > 0).sum(axis=-1), 1))


def _n_chunks(model: Model, readout: Readout, examples: Examples) -> int:
    n_rows, n_places = examples.targets.shape
    vocab_size, most = readout.kernel_DV.shape[1], MOST_LOGITS
    if model.spec.platform == "gpu" and not model.spec.remat:
        most *= LARGER
    if model.spec.platform == "cpu" and readout.kernel_DV.size <= CACHED_MATRIX:
        most = min(most, max(CACHED_LOGITS, LEAST_TOKENS * vocab_size))
    return chunks(n_rows // model.n_splits, n_places, vocab_size, most)


def chunks(n_rows: int, length: int, vocab_size: int, most: int) -> int:
    """Chunks of positions for a device's rows: the fewest of `most` logits, or up to twice as many if they are even."""
    # Uneven chunks are padded, and padding costs as much as a position.
    least = min(length, -(-n_rows * length * vocab_size // most))
    return next((n for n in range(least, 2 * least) if length % n == 0), least)


def weighted_sum(
    x_BLD: Float[Array, "B L D"], readout: Readout, targets_BL: Int[Array, "B L"], weights_BL: Float[Array, "B L"]
) -> Float[Array, ""]:
    """sum(weights * cross_entropy(logits of x, targets))."""
    logits_TV = readout.logits(x_BLD.reshape(-1, x_BLD.shape[-1]))
    return (cross_entropy(logits_TV, targets_BL.reshape(-1)) * weights_BL.reshape(-1)).sum()


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def chunked_sum(
    n_chunks: int,
    x_BLD: Float[Array, "B L D"],
    readout: Readout,
    targets_BL: Int[Array, "B L"],
    weights_BL: Float[Array, "B L"],
) -> Float[Array, ""]:
    """weighted_sum, one chunk of positions at a time.

    The forward pass computes the gradient of each chunk while its logits are in memory, and the backward pass only
    scales it, so nothing is computed twice.
    """
    chunks = _cut(n_chunks, (x_BLD, targets_BL, weights_BL))
    return jax.lax.map(lambda chunk: weighted_sum(chunk[0], readout, *chunk[1:]), chunks).sum()


def _chunked_forward(n_chunks: int, x_BLD: Array, readout: Readout, targets_BL: Array, weights_BL: Array) -> Any:
    def add(total: Any, chunk: Any) -> Any:
        x, targets, weights = chunk
        of_chunk = jax.value_and_grad(weighted_sum, (0, 1, 3))(x, readout, targets, weights)
        loss, (dx, dreadout, dweights) = of_chunk
        return jax.tree.map(jnp.add, total, (loss, dreadout)), (dx, dweights)

    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.float32), readout)
    chunks = _cut(n_chunks, (x_BLD, targets_BL, weights_BL))
    (loss, dreadout), pieces = jax.lax.scan(add, (jnp.float32(0), zeros), chunks)
    dreadout = jax.tree.map(lambda total, leaf: total.astype(leaf.dtype), dreadout, readout)
    return loss, (dreadout, *(_join(piece, x_BLD.shape[1]) for piece in pieces))


def _chunked_backward(n_chunks: int, gradients: Any, dloss: Array) -> Any:
    scale = lambda leaf: (leaf * dloss).astype(leaf.dtype)
    dreadout, dx_BLD, dweights_BL = jax.tree.map(scale, gradients)
    return dx_BLD, dreadout, None, dweights_BL


chunked_sum.defvjp(_chunked_forward, _chunked_backward)


def _cut(n_chunks: int, arrays_BL: Any) -> Any:
    """Chunks [n, B, L/n, ...] of positions, because rows may lie on different devices.

    Padded with zeros: their weights of 0 keep them out of every sum.
    """

    def cut(array: Array) -> Array:
        n_rows, length = array.shape[:2]
        size = -(-length // n_chunks)
        padded = jnp.pad(array, [(0, 0), (0, size * n_chunks - length)] + [(0, 0)] * (array.ndim - 2))
        return jnp.moveaxis(padded.reshape(n_rows, n_chunks, size, *array.shape[2:]), 1, 0)

    return jax.tree.map(cut, arrays_BL)


def _join(chunks: Array, length: int) -> Array:
    """The inverse of _cut for one array."""
    joined = jnp.moveaxis(chunks, 0, 1)
    return joined.reshape(joined.shape[0], -1, *joined.shape[3:])[:, :length]


@jax.custom_vjp
def cross_entropy(logits: Float[Array, "*S V"], targets: Int[Array, "*S"]) -> Float[Array, "*S"]:
    """-log softmax(logits)[target], in nats per token."""
    return _cross_entropy_forward(logits, targets)[0]


def _cross_entropy_forward(logits: Array, targets: Array) -> tuple[Array, Any]:
    chosen = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    most, powers, total = jax.lax.platform_dependent(logits, chosen, cuda=_powers_on_gpu, default=_powers)
    return jnp.log(total) + (most - chosen), (powers, targets, total)


def _powers(logits: Array, chosen: Array) -> tuple[Array, Array, Array]:
    """The largest logit, e to the power of each logit less that, and the sum of the powers."""
    # `chosen` is never the larger, so it changes no number. But XLA then reads it before the exponentials, which can
    # overwrite the logits.
    most = jax.lax.stop_gradient(jnp.maximum(logits.max(axis=-1), chosen))
    # Kept for the backward pass: on CPU a sum that computes them itself takes five times as long. (One without a
    # backward pass still does.)
    powers = jnp.exp(logits - most[..., None])
    return most, powers, powers.sum(axis=-1)


def _powers_on_gpu(logits: Array, _: Array) -> tuple[Array, Array, Array]:
    most, total = most_and_total(logits)
    return most, jnp.exp(logits - most[..., None]), total


@jax.custom_jvp
def most_and_total(logits: Float[Array, "*S V"]) -> tuple[Float[Array, "*S"], Float[Array, "*S"]]:
    """(m, sum of exp(logits - m)) with m the largest logit, which derivatives take as given.

    Both in one reduction, which reads the logits once (Milakov and Gimelshein 2018, arXiv:1805.02867, algorithm 3): a
    tenth of a step of 30M on an H200 (experiments/performance/tried.md).
    """

    def join(one: Sequence[Array], other: Sequence[Array]) -> tuple[Array, Array]:
        (most_1, total_1), (most_2, total_2) = one, other
        shrunk = jnp.exp(-jnp.abs(most_1 - most_2))
        total = jnp.where(most_1 >= most_2, total_1 + shrunk * total_2, shrunk * total_1 + total_2)
        return jnp.maximum(most_1, most_2), total

    # The least number, not -inf: two of those have no difference.
    nothing = jnp.array(jnp.finfo(logits.dtype).min, logits.dtype), jnp.zeros((), logits.dtype)
    return tuple(jax.lax.reduce((logits, jnp.ones_like(logits)), nothing, join, (logits.ndim - 1,)))


@most_and_total.defjvp
def _most_and_total_jvp(primals: Any, tangents: Any) -> Any:
    (logits,), (dlogits,) = primals, tangents
    most, total = most_and_total(logits)
    powers = jnp.exp(logits - most[..., None])
    return (most, total), (jnp.zeros_like(most), (powers * dlogits).sum(axis=-1))


def _cross_entropy_backward(saved: Any, dloss: Array) -> Any:
    # One pass over the logits; autodiff would scatter the targets' part into a second array of that size.
    powers, targets, total = saved
    is_target = jax.lax.broadcasted_iota(targets.dtype, powers.shape, powers.ndim - 1) == targets[..., None]
    return powers * (dloss / total)[..., None] - jnp.where(is_target, dloss[..., None], 0), None


cross_entropy.defvjp(_cross_entropy_forward, _cross_entropy_backward)
