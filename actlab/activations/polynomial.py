"""Activations made of straight and parabolic pieces, and polynorm. Each is exact to a rounding or two.

At a kink the docstring says which one-sided slope is taken. f'' leaves out the Dirac deltas at kinks. Below the
functions stand their exact formulas, from which bounds and moments are computed.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from actlab.activations.definition import elementwise, with_derivatives
from actlab.activations.proofs.jets import Constant, Jet, Piece, Piecewise, halves, whole


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
    # With slope 0, -infinity would give 0 * infinity = NaN.
    return jnp.where(x > 0, x, slope * x) if slope else jax.nn.relu(x)


@elementwise
def prelu(x: Float[Array, "*S"], slope: Float[Array, ""] | float = 0.25) -> Float[Array, "*S"]:
    """leaky_relu whose slope is learned. He et al. 2015, arXiv:1502.01852; starts at 0.25, section 2.1."""
    # Also where x > 0 is infinite the slope has a finite gradient.
    return jnp.where(x > 0, x, slope * jnp.where(x > 0, 0, x))


@elementwise
def relu6(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """min(max(0, x), 6); f'(0) = f'(6) = 0. Krizhevsky 2010."""
    inside = lambda x: ((x > 0) & (x < 6)).astype(x.dtype)
    return with_derivatives(lambda x: jnp.clip(x, 0, 6), inside, jnp.zeros_like)(x)


@elementwise
def relu2(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """max(0, x)^2; f''(0) = 0. So et al. 2021 (Primer), arXiv:2109.08668, section 3."""
    relu = lambda x: jnp.maximum(x, 0)
    bend = lambda x: 2 * (x > 0).astype(x.dtype)
    return with_derivatives(lambda x: jnp.square(relu(x)), lambda x: 2 * relu(x), bend)(x)


@elementwise
def leaky_relu2(x: Float[Array, "*S"], slope: float = 0.5) -> Float[Array, "*S"]:
    """leaky_relu(x)^2: x^2 where x > 0, else slope^2 x^2; f''(0) = 2 slope^2. modded-nanogpt, records of 2026."""
    if isinstance(slope, (int, float)) and not slope:
        return relu2(x)  # where 0 times -inf is 0
    square = lambda x: jnp.where(x > 0, 1.0, slope**2).astype(x.dtype)
    return with_derivatives(
        lambda x: jnp.square(jnp.where(x > 0, x, slope * x)), lambda x: square(x) * 2 * x, lambda x: 2 * square(x)
    )(x)


@elementwise
def hard_tanh(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """x cut to [-1, 1]; f'(-1) = f'(1) = 0. Collobert 2004."""
    inside = lambda x: (jnp.abs(x) < 1).astype(x.dtype)
    return with_derivatives(lambda x: jnp.clip(x, -1, 1), inside, jnp.zeros_like)(x)


@elementwise
def hard_sigmoid(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """(x + 3) / 6 cut to [0, 1]; f'(-3) = f'(3) = 0. Howard et al. 2019, arXiv:1905.02244, section 5.2."""
    inside = lambda x: jnp.where(jnp.abs(x) < 3, 1 / 6, 0).astype(x.dtype)
    return with_derivatives(_gate, inside, jnp.zeros_like)(x)


@elementwise
def hard_swish(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """x hard_sigmoid(x); f'(-3) = 0, f'(3) = 1, f''(-3) = f''(3) = 0.

    Howard et al. 2019, arXiv:1905.02244, section 5.2.
    """
    return with_derivatives(
        # Cut at -3, for -infinity times the gate's 0 would be NaN.
        lambda x: jnp.maximum(x, -3) * _gate(x),
        lambda x: jnp.where(jnp.abs(x) < 3, (2 * jnp.clip(x, -3, 3) + 3) / 6, (x > 0).astype(x.dtype)),
        lambda x: jnp.where(jnp.abs(x) < 3, 1 / 3, 0).astype(x.dtype),
    )(x)


def _gate(x: Array) -> Array:
    return jnp.clip(x + 3, 0, 6) / 6


INVERSE_SQRT_15 = Fraction("0.2581988897471611256786176933188266407222")
INVERSE_SQRT_3 = Fraction("0.5773502691896257645091487805019574556476")
POLYNORM_THETA = {"w0": 1 / 3, "w1": 1 / 3, "w2": 1 / 3, "bias": 0.0}


def _inverse_rms(v: Array) -> Array:
    mean = jnp.mean(jnp.square(v), axis=-1, keepdims=True)
    return jax.lax.rsqrt(jnp.where(mean > 0, mean, 1))


@elementwise
def polynorm(
    x: Float[Array, "*S F"],
    w0: Float[Array, ""] | float = POLYNORM_THETA["w0"],
    w1: Float[Array, ""] | float = POLYNORM_THETA["w1"],
    w2: Float[Array, ""] | float = POLYNORM_THETA["w2"],
    bias: Float[Array, ""] | float = POLYNORM_THETA["bias"],
) -> Float[Array, "*S F"]:
    """w0 n(x^3) + w1 n(x^2) + w2 n(x) + bias, n(v) = v / rms(v) over the last axis.

    Zhuo et al. 2024, arXiv:2411.03884, without their epsilon, which makes tiny vectors vanish. A vector of zeros has no
    direction; there n is the identity, so that the value (the bias) and all derivatives are finite. Close to it the
    slope is as steep as the formula says, 1 / rms(x).
    """
    # n(c v) = n(v) for c > 0. Dividing by the largest entry keeps x^3 from overflow and from underflow to 0.
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(x), axis=-1, keepdims=True, initial=0))
    # XLA divides by multiplying with the inverse, and it flushes the inverse of the largest numbers to 0.
    quarter = jnp.where(largest > 1, 0.25, 1)
    x = (x * quarter) / jnp.where(largest > 0, largest * quarter, 1)
    square = x * x
    cube = square * x
    # Scalars of a row first: a slope then needs sums of one array times another, with no third one kept for it.
    return (w0 * _inverse_rms(cube)) * cube + (w1 * _inverse_rms(square)) * square + (w2 * _inverse_rms(x)) * x + bias


def _nothing(x: Jet) -> Jet:
    return x * 0


def _same(x: Jet) -> Jet:
    return x


def exact_identity() -> Piecewise:
    """x."""
    return whole(_same)


def exact_relu() -> Piecewise:
    """max(0, x)."""
    return halves(_nothing, _same)


def exact_leaky_relu(slope: float) -> Piecewise:
    """x, left of 0 slope x."""
    return halves(lambda x: x * slope, _same)


def exact_relu2() -> Piecewise:
    """max(0, x)^2."""
    return halves(_nothing, lambda x: x * x)


def exact_leaky_relu2(slope: float) -> Piecewise:
    """x^2, left of 0 slope^2 x^2."""
    return halves(lambda x: x * x * Fraction(slope) ** 2, lambda x: x * x)


def _clipped(low: Constant, high: Constant, left: float, right: float, middle: Callable[[Jet], Jet]) -> Piecewise:
    pieces = Piece(-math.inf, left, lambda x: low), Piece(left, right, middle), Piece(right, math.inf, lambda x: high)
    return Piecewise(pieces)


def exact_relu6() -> Piecewise:
    """min(max(0, x), 6)."""
    return _clipped(0, 6, 0.0, 6.0, _same)


def exact_hard_tanh() -> Piecewise:
    """x cut to [-1, 1]."""
    return _clipped(-1, 1, -1.0, 1.0, _same)


def exact_hard_sigmoid() -> Piecewise:
    """(x + 3) / 6 cut to [0, 1]."""
    return _clipped(0, 1, -3.0, 3.0, lambda x: (x + 3) * Fraction(1, 6))


def exact_hard_swish() -> Piecewise:
    """x hard_sigmoid(x)."""
    middle = Piece(-3.0, 3.0, lambda x: x * (x + 3) * Fraction(1, 6))
    return Piecewise((Piece(-math.inf, -3.0, _nothing), middle, Piece(3.0, math.inf, _same)))


def exact_polynorm(scale: float, w0: float, w1: float, w2: float, bias: float) -> Piecewise:
    """The limit of many features of N(0, scale^2), where rms(x^k) = sqrt(E x^2k).

    With u = x / scale it is w0 u^3 / sqrt 15 + w1 u^2 / sqrt 3 + w2 u + bias.
    """
    cubic, square = Fraction(w0) * INVERSE_SQRT_15, Fraction(w1) * INVERSE_SQRT_3

    def cubic_of(x: Jet) -> Jet:
        u = x * (1 / Fraction(scale))
        return u * (u * (u * cubic + square) + w2) + bias

    return whole(cubic_of, unit=scale)
