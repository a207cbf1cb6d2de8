"""polynorm: the one activation that looks at a whole vector."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from actlab.activations.derivatives import elementwise

POLYNORM_THETA = {"w0": 1 / 3, "w1": 1 / 3, "w2": 1 / 3, "bias": 0.0}


def _normalised(v: Array) -> Array:
    mean = jnp.mean(jnp.square(v), axis=-1, keepdims=True)
    return v * jax.lax.rsqrt(jnp.where(mean > 0, mean, 1))


@elementwise
def polynorm(
    x: Float[Array, "*S F"],
    w0: Float[Array, ""] | float = POLYNORM_THETA["w0"],
    w1: Float[Array, ""] | float = POLYNORM_THETA["w1"],
    w2: Float[Array, ""] | float = POLYNORM_THETA["w2"],
    bias: Float[Array, ""] | float = POLYNORM_THETA["bias"],
) -> Float[Array, "*S F"]:
    """w0 n(x^3) + w1 n(x^2) + w2 n(x) + bias, n(v) = v / rms(v) over the last axis.

    Zhuo et al. 2024, arXiv:2411.03884, without an epsilon, which makes tiny vectors vanish. A vector of zeros has no
    direction: there n is the identity, so that value (the bias) and all derivatives are finite. Next to it the slope
    is as steep as the formula says, 1 / rms(x).
    """
    # n(v) has degree 0: over the largest of a vector, a constant, x^3 neither overflows nor underflows to 0.
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(x), axis=-1, keepdims=True))
    # XLA divides by multiplying with the inverse, and that of the largest numbers of all is flushed to 0.
    quarter = jnp.where(largest > 1, 0.25, 1)
    x = (x * quarter) / jnp.where(largest > 0, largest * quarter, 1)
    return w0 * _normalised(x**3) + w1 * _normalised(jnp.square(x)) + w2 * _normalised(x) + bias
