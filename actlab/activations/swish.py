"""x times a sigmoid of x: silu, swish, quick_gelu, gelu_tanh; and mish, which is near them.

All are functions of e = e^-a, a = |z|, where the sigmoid's argument z is held in two numbers. For z < 0 the slope is
e b(a) / (1 + e)^2 with a bracket b that has one root; near it a polynomial stands in for the formula of b.
The right half follows from f'(-x) = 1 - f'(x).
"""

from fractions import Fraction
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from actlab.activations.derivatives import elementwise, floating, with_derivatives
from actlab.activations.exponential import Decay, almost, decay, limit_of, magnitude, near_root, short, split, times
from actlab.activations.sigmoidal import square_of_one_plus

QUICK_GELU_BETA = Fraction("1.702")  # Hendrycks and Gimpel 2016, section 2
SQRT_2_OVER_PI = Fraction("0.797884560802865355879892119868763736951717262329869315331")
CUBIC = Fraction("0.044715")


class _Gate(NamedTuple):
    """The magnitude a + low of a sigmoid's argument, whether it is negative, and e^-(a + low)."""

    a: Array
    low: Array | float
    negative: Array
    e: Decay


def _gate(x: Array, beta: Fraction | Array = Fraction(1)) -> _Gate:
    """The gate sigmoid(beta x)."""
    limit = limit_of(x)
    if isinstance(beta, Fraction) and beta == 1:
        a = magnitude(x, limit)
        return _Gate(a, 0.0, x < 0, decay(a))
    z, low = times(x, beta)
    a = magnitude(z, limit)
    low = jnp.where(a < limit, jnp.where(z < 0, -low, low), 0)
    return _Gate(a, low, z < 0, decay(a, low))


def _value(x: Array, gate: _Gate) -> Array:
    largest = float(jnp.finfo(x.dtype).max)
    left = gate.e.times(jnp.clip(x, -largest, largest))  # infinity must not meet 0
    return jnp.where(gate.negative, left, x) / (1 + gate.e.value)


def _slope(gate: _Gate) -> Array:
    e = gate.e.value
    bracket = near_root("silu_slope", gate.a, gate.low, ((1 - gate.a) - gate.low) + e)
    left = gate.e.times(bracket / square_of_one_plus(e))
    return jnp.where(gate.negative, left, 1 - left)


def _curvature(gate: _Gate, factor: float | Array = 1.0) -> Array:
    """Times a factor, which may save the product from underflow."""
    e = gate.e.value
    # 2 - a tanh(a/2), where tanh(a/2) = 1 - 2e / (1 + e).
    bracket = ((2 - gate.a) - gate.low) + 2 * (e / (1 + e)) * gate.a
    bracket = near_root("silu_curvature", gate.a, gate.low, bracket)
    return gate.e.times(factor * bracket / square_of_one_plus(e))


_with_silu = with_derivatives(lambda x: _value(x, _gate(x)), lambda x: _slope(_gate(x)), lambda x: _curvature(_gate(x)))
_with_quick_gelu = with_derivatives(
    lambda x: _value(x, _gate(x, QUICK_GELU_BETA)),
    lambda x: _slope(_gate(x, QUICK_GELU_BETA)),
    lambda x: _curvature(_gate(x, QUICK_GELU_BETA), float(QUICK_GELU_BETA)),
)


@elementwise
def silu(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """x sigmoid(x). Elfwing et al. 2017, arXiv:1702.03118, equation 10; Hendrycks and Gimpel 2016, section 2."""
    return _with_silu(x)


@elementwise
def quick_gelu(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """x sigmoid(1.702 x). Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2."""
    return _with_quick_gelu(x)


@jax.custom_jvp
def _swish(x: Array, beta: Array) -> Array:
    return _value(x, _gate(x, beta))


@jax.custom_jvp
def _swish_slope(x: Array, beta: Array) -> Array:
    return _slope(_gate(x, beta))


@_swish.defjvp
def _swish_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (x, beta), (dx, dbeta) = primals, tangents
    gate = _gate(x, beta)
    inside = jnp.where(gate.a < limit_of(x), x, 0)
    by_beta = gate.e.times(jnp.square(inside / (1 + gate.e.value)))  # x^2 sigmoid'(beta x)
    return _swish(x, beta), dx * _swish_slope(x, beta) + dbeta * by_beta


@_swish_slope.defjvp
def _swish_slope_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (x, beta), (dx, dbeta) = primals, tangents
    gate = _gate(x, beta)
    inside = jnp.where(gate.a < limit_of(x), x, 0)
    return _swish_slope(x, beta), dx * _curvature(gate, beta) + dbeta * _curvature(gate, inside)


@elementwise
def swish(x: Float[Array, "*S"], beta: Float[Array, ""] | float = 1.0) -> Float[Array, "*S"]:
    """x sigmoid(beta x) with beta learned, from 1. Ramachandran et al. 2017, arXiv:1710.05941, section 5."""
    return _swish(x, jnp.asarray(beta, x.dtype))


class _Cubic(NamedTuple):
    """a = |x|, the slope of u = 2 sqrt(2 / pi) (a + 0.044715 a^3), and e^-u."""

    a: Array
    slope: Array
    e: Decay


def _cubic(x: Array) -> _Cubic:
    a = magnitude(x, 26.0 if x.dtype == jnp.float64 else 12.0)  # u stays within the limit of decay
    (linear, linear_low), (cubic, cubic_low) = split(2 * SQRT_2_OVER_PI, a), split(2 * SQRT_2_OVER_PI * CUBIC, a)
    a_high, squared = short(a), short(a * a)
    a_low = a - a_high
    squared_low = (a_high * a_high - squared) + a_low * (a + a_high)
    # u / a and then u as sums of two numbers; products of short numbers are exact.
    both = short(linear + cubic * squared)
    both_low = ((linear - both) + cubic * squared) + (linear_low + (cubic_low * (a * a) + cubic * squared_low))
    rest = a_low * both + a * both_low
    u = almost(a_high * both + rest)
    low = (a_high * both - u) + rest
    slope = (3 * both - 2 * linear) + (3 * both_low - 2 * linear_low)
    return _Cubic(a, slope, decay(u, low))


def _cubic_value(x: Array) -> Array:
    a, _, e = _cubic(x)
    return jnp.where(x < 0, e.times(-a), x) / (1 + e.value)


def _cubic_slope(x: Array) -> Array:
    a, slope, e = _cubic(x)
    bracket = near_root("gelu_tanh_slope", a, 0.0, (1 - a * slope) + e.value)
    left = e.times(bracket / square_of_one_plus(e.value))
    return jnp.where(x < 0, left, 1 - left)


def _cubic_curvature(x: Array) -> Array:
    a, slope, e = _cubic(x)
    steep = a * slope
    turning = float(12 * SQRT_2_OVER_PI * CUBIC) * (a * a)
    bracket = near_root(
        "gelu_tanh_curvature", a, 0.0, slope * ((2 - steep) + 2 * (e.value / (1 + e.value)) * steep) + turning
    )
    return e.times(bracket / square_of_one_plus(e.value))


_with_gelu_tanh = with_derivatives(_cubic_value, _cubic_slope, _cubic_curvature)


@elementwise
def gelu_tanh(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """(x/2) (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3). Hendrycks and Gimpel 2016, section 2.

    Written as x sigmoid(2u), the same function, because 1 + tanh u cancels: in bfloat16 that form
    is exactly 0, with zero gradient, from -3.06 downwards; this one from -10.
    """
    return _with_gelu_tanh(x)


def gelu_tanh_jax(x: Any) -> Float[Array, "*S"]:
    """gelu_tanh as jax.nn and flax.linen compute it by default: to reproduce their runs, faults included."""
    return jax.nn.gelu(floating(x, "gelu_tanh_jax"), approximate=True)
