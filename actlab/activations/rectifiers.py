"""Activations made of straight and parabolic pieces. Each is exact to a rounding or two.

At a kink every function takes the piece that the docstring of its slope names; f'' leaves Dirac deltas out.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from actlab.activations.derivatives import elementwise, with_derivatives


@elementwise
def identity(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """x."""
    return x


@elementwise
def relu(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """max(0, x); f'(0) = 0. Nair and Hinton 2010."""
    return jax.nn.relu(x)


@elementwise
def leaky_relu(x: Float[Array, "*S"], slope: float = 0.01) -> Float[Array, "*S"]:
    """x where x > 0, else slope x; f'(0) = slope. Maas et al. 2013."""
    # slope 0 must not meet infinity.
    return jnp.where(x > 0, x, slope * x) if slope else jax.nn.relu(x)


@elementwise
def prelu(x: Float[Array, "*S"], slope: Float[Array, ""] | float = 0.25) -> Float[Array, "*S"]:
    """leaky_relu whose slope is learned. He et al. 2015, arXiv:1502.01852; starts at 0.25, section 2.1."""
    return jnp.where(x > 0, x, slope * x)


@elementwise
def relu6(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """min(max(0, x), 6); f'(0) = f'(6) = 0. Krizhevsky 2010."""
    inside = lambda x: ((x > 0) & (x < 6)).astype(x.dtype)  # noqa: E731
    return with_derivatives(lambda x: jnp.clip(x, 0, 6), inside, jnp.zeros_like)(x)


@elementwise
def relu2(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """max(0, x)^2; f''(0) = 0. So et al. 2021 (Primer), arXiv:2109.08668, section 3."""
    relu = lambda x: jnp.maximum(x, 0)  # noqa: E731
    return with_derivatives(lambda x: jnp.square(relu(x)), lambda x: 2 * relu(x), lambda x: 2 * _step(x))(x)


def _step(x: Array) -> Array:
    return (x > 0).astype(x.dtype)


@elementwise
def leaky_relu2(x: Float[Array, "*S"], slope: float = 0.5) -> Float[Array, "*S"]:
    """leaky_relu(x)^2: x^2 where x > 0, else slope^2 x^2; f''(0) = 2 slope^2. modded-nanogpt, records of 2026."""
    square = lambda x: jnp.where(x > 0, 1.0, slope**2).astype(x.dtype)  # noqa: E731
    return with_derivatives(
        lambda x: jnp.square(jnp.where(x > 0, x, slope * x)), lambda x: square(x) * 2 * x, lambda x: 2 * square(x)
    )(x)


@elementwise
def hard_tanh(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """x cut to [-1, 1]; f'(-1) = f'(1) = 0. Collobert 2004."""
    inside = lambda x: (jnp.abs(x) < 1).astype(x.dtype)  # noqa: E731
    return with_derivatives(lambda x: jnp.clip(x, -1, 1), inside, jnp.zeros_like)(x)


@elementwise
def hard_sigmoid(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """(x + 3) / 6 cut to [0, 1]; f'(-3) = f'(3) = 0. Howard et al. 2019, arXiv:1905.02244, section 5.2."""
    inside = lambda x: jnp.where(jnp.abs(x) < 3, 1 / 6, 0).astype(x.dtype)  # noqa: E731
    return with_derivatives(_gate, inside, jnp.zeros_like)(x)


@elementwise
def hard_swish(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """x hard_sigmoid(x); f'(-3) = 0, f'(3) = 1, f''(-3) = f''(3) = 0.

    Howard et al. 2019, arXiv:1905.02244, section 5.2.
    """
    return with_derivatives(
        # -infinity must not meet the 0 of the gate.
        lambda x: jnp.maximum(x, -3) * _gate(x),
        lambda x: jnp.where(jnp.abs(x) < 3, (2 * jnp.clip(x, -3, 3) + 3) / 6, (x > 0).astype(x.dtype)),
        lambda x: jnp.where(jnp.abs(x) < 3, 1 / 3, 0).astype(x.dtype),
    )(x)


def _gate(x: Array) -> Array:
    return jnp.clip(x + 3, 0, 6) / 6
