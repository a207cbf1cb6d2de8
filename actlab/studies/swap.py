"""Another activation in trained blocks: the change of the mean, folded into the next bias."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from actlab import activations
from actlab.models import Model
from actlab.models.layers import Hidden
from actlab.models.model import Params
from actlab.training.losses import Examples

FOLD_TOKENS = 2**14  # over which a mean is taken


def folded(
    before: Model,
    after: Model,
    params: Params,
    rows_NBW: Int[Array, "N B W"],
    examples_of: Callable[[Array, Array], Examples],
) -> Params:
    """Parameters of `before` with the biases for `after`, in whose swapped blocks the mean output then stays.

    For a block in which f becomes g, with z the units' inputs in `before` and W the down projection [F, D],

        bias <- bias + E[f(z) - g(z)] W

    over the tokens that count of N batches, whose examples are made of their rows and number. Each block's mean is
    kept for the inputs it had: where several are swapped, the later ones see others.
    """
    pairs = {
        index: (before.spec.of_block(index).activation, after.spec.of_block(index).activation)
        for index in range(before.spec.n_layers)
    }
    changed = {index: pair for index, pair in pairs.items() if pair[0] != pair[1]}

    if not changed:
        return params

    def sums(batch: tuple[Array, Array]) -> tuple[Array, dict[int, Array]]:
        examples = examples_of(*batch)
        _, _, hidden = before.hidden(params, examples.tokens, examples.segments, examples.real)
        real = jnp.ones(examples.tokens.shape) if examples.real is None else examples.real
        counted_T = real.reshape(-1).astype(jnp.float32)
        shifts = {index: _shift(hidden[index], *pair, counted_T) for index, pair in changed.items()}
        return counted_T.sum(), shifts

    # A map is compiled as one program; called one by one, the operations of a model are hundreds.
    parts = jax.lax.map(sums, (rows_NBW, jnp.arange(len(rows_NBW))))
    counts, shifts = jax.tree.map(lambda part: np.asarray(part, np.float64).sum(axis=0), parts)
    return params | {
        f"block_{index}": _with_bias(params[f"block_{index}"], shift / counts) for index, shift in shifts.items()
    }


def _shift(units: Hidden, name: str, other: str, counted_T: Float[Array, "T"]) -> Float[Array, "F"]:
    """Sum over the tokens that count of f(z) - g(z), of each unit."""
    z_TF = units.z_TF.astype(jnp.float32)
    return ((activations.get(name).fn(z_TF) - activations.get(other).fn(z_TF)) * counted_T[:, None]).sum(axis=0)


def _with_bias(block: Params, shift_F: Float[np.ndarray, "F"]) -> Params:
    feed_forward = block["feed_forward"]
    down = feed_forward["down"]
    bias_D = np.asarray(down["bias"] + shift_F @ np.asarray(down["kernel"], np.float64), np.float32)
    return block | {"feed_forward": feed_forward | {"down": down | {"bias": bias_D}}}
