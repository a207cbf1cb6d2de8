"""x times a sigmoid of x: silu, swish, quick_gelu, gelu_tanh; and mish, which is close to them.

All are functions of p = sigmoid(-a), a = |z|, where z, the argument of the sigmoid, is held in two numbers. For z < 0
the slope is p ((1 - a) + a p). It has one root, near which a polynomial replaces the formula. The right half follows
from f'(-x) = 1 - f'(x).

mish is a rational function of p = sigmoid(-|x|), without a logarithm. With s = sigmoid(-x),
tanh(log(1 + e^x)) = (1 - s^2) / (1 + s^2). On the right s is p. On the left it is 1 - p, and 1 - s^2 = y,
1 + s^2 = 2 - y with y = p (2 - p), which keeps the small end.

Below the functions stand their exact formulas, from which bounds and moments are computed.
"""

from fractions import Fraction
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from actlab.activations.definition import elementwise, floating, traced_once, with_derivatives
from actlab.activations.precise.arithmetic import (
    LN_2,
    Decay,
    Tail,
    decay,
    decay_of_octaves,
    expansion,
    inside,
    limit_of,
    magnitude,
    short,
    split,
    square,
    tail,
    tail_of,
    times,
)
from actlab.activations.proofs.jets import Constant, Jet, Piecewise, decaying, halves

QUICK_GELU_BETA = Fraction("1.702")  # Hendrycks and Gimpel 2016, section 2
SQRT_2_OVER_PI = Fraction("0.797884560802865355879892119868763736951717262329869315331")
LINEAR = 2 * SQRT_2_OVER_PI
THIRD = LINEAR * Fraction("0.044715")
CUBIC_RATES = (LINEAR, Fraction(0), THIRD)  # gelu_tanh is x sigmoid(v(x)), v(x) = LINEAR x + THIRD x^3


class _Gate(NamedTuple):
    """The magnitude a + low of a sigmoid's argument, and whether that is negative."""

    a: Array
    low: Array | float
    negative: Array

    @property
    def decay(self) -> Decay:
        """e^-(a + low)."""
        return decay(self.a, self.low)

    @property
    def tail(self) -> Tail:
        """sigmoid(-(a + low))."""
        return tail_of(self.a, self.low)


def _gate(x: Array, beta: Array | None = None) -> _Gate:
    """The gate sigmoid(beta x)."""
    limit = limit_of(x)
    if beta is None:
        return _Gate(magnitude(x, limit), 0.0, x < 0)
    z, low = times(x, beta)
    a = magnitude(z, limit)
    return _Gate(a, jnp.where(a < limit, jnp.where(z < 0, -low, low), 0), z < 0)


def _gated(x: Array, a: Array, p: Tail) -> Array:
    """x times the sigmoid whose tail is p; a is |x|, cut where p is 0."""
    return jnp.maximum(x, 0) - p.times(a)


def _value(x: Array, gate: _Gate) -> Array:
    # By the sign of the argument, not of x: with beta < 0 the gate is closed on the right.
    part = gate.tail.times(jnp.where(gate.a < limit_of(x), x, 0))
    return jnp.where(gate.negative, part, x - part)


def _slope(gate: _Gate) -> Array:
    a, low, p = gate.a, gate.low, gate.tail
    away = (1 - a) + (a * p.value - low * (1 - p.value))
    left = p.times(jnp.where(inside("silu_slope", a), expansion("silu_slope", a, low), away))
    return jnp.where(gate.negative, left, 1 - left)


def _curvature(gate: _Gate, factor: float | Array = 1.0) -> Array:
    """The curvature times a factor, which may keep the product from underflow."""
    a, low, e = gate.a, gate.low, gate.decay
    # 2 - a tanh(a/2), where tanh(a/2) = 1 - 2p.
    p = e.value / (1 + e.value)
    bracket = (2 - a) + (2 * a * p - low * (1 - 2 * p))
    around = e.times(factor * expansion("silu_curvature", a, low))
    return jnp.where(inside("silu_curvature", a), around, e.logistic_slope(factor * bracket))


_with_silu = with_derivatives(
    *traced_once(lambda x: _value(x, _gate(x)), lambda x: _slope(_gate(x)), lambda x: _curvature(_gate(x)))
)


@elementwise
def silu(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """x sigmoid(x). Elfwing et al. 2017, arXiv:1702.03118; Hendrycks and Gimpel 2016, section 2."""
    return _with_silu(x)


def _quick_decay(x: Array) -> tuple[Array, Decay]:
    """a = |x| and e^(-1.702 a)."""
    a = magnitude(x, limit_of(x) / 1.75)
    (high, low), a_high = split(QUICK_GELU_BETA / LN_2, a), short(a)
    octaves, rest = a_high * high, (a - a_high) * high + a * low
    return a, decay_of_octaves(octaves, rest)


def _quick_tail(x: Array) -> tuple[Array, Tail]:
    a, e = _quick_decay(x)
    return a, tail(e)


def _quick_slope(x: Array) -> Array:
    a, p = _quick_tail(x)
    beta = float(QUICK_GELU_BETA)
    away = (1 - beta * a) + a * (beta * p.value)
    left = p.times(jnp.where(inside("quick_gelu_slope", a), expansion("quick_gelu_slope", a), away))
    return jnp.where(x < 0, left, 1 - left)


def _quick_curvature(x: Array) -> Array:
    a, e = _quick_decay(x)
    z = float(QUICK_GELU_BETA) * a
    around = e.times(expansion("quick_gelu_curvature", a))
    away = e.logistic_slope(float(QUICK_GELU_BETA) * ((2 - z) + 2 * z * (e.value / (1 + e.value))))
    return jnp.where(inside("quick_gelu_curvature", a), around, away)


_with_quick_gelu = with_derivatives(*traced_once(lambda x: _gated(x, *_quick_tail(x)), _quick_slope, _quick_curvature))


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
    finite = jnp.where(gate.a < limit_of(x), x, 0)
    by_beta = gate.tail.times(finite) * (finite * (1 - gate.tail.value))  # x^2 sigmoid'(beta x)
    return _swish(x, beta), dx * _swish_slope(x, beta) + dbeta * by_beta


@_swish_slope.defjvp
def _swish_slope_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (x, beta), (dx, dbeta) = primals, tangents
    gate = _gate(x, beta)
    finite = jnp.where(gate.a < limit_of(x), x, 0)
    return _swish_slope(x, beta), dx * _curvature(gate, beta) + dbeta * _curvature(gate, finite)


@elementwise
def swish(x: Float[Array, "*S"], beta: Float[Array, ""] | float = 1.0) -> Float[Array, "*S"]:
    """x sigmoid(beta x) with beta learned, from 1. Ramachandran et al. 2017, arXiv:1710.05941, section 5."""
    return _swish(x, jnp.asarray(beta, x.dtype))


def _cubic(x: Array) -> tuple[Array, Array, Array]:
    """a = |x| and u = 2 sqrt(2 / pi) (a + 0.044715 a^3), in octaves, as a number of half the bits and the rest."""
    a = magnitude(x, 24.5 if x.dtype == jnp.float64 else 11.5)  # u stays within the limit of decay
    (linear, linear_low), (cubic, cubic_low) = split(LINEAR / LN_2, a), split(THIRD / LN_2, a)
    a_high, squared = short(a), short(a * a)
    a_low = a - a_high
    squared_low = (a_high * a_high - squared) + a_low * (a + a_high)
    # u / a and then u as sums of two numbers; products of short numbers are exact.
    ratio = short(linear + cubic * squared)
    ratio_low = ((linear - ratio) + cubic * squared) + (linear_low + (cubic_low * (a * a) + cubic * squared_low))
    return a, a_high * ratio, a_low * ratio + a * ratio_low


def _cubic_tail(x: Array) -> tuple[Array, Tail]:
    """a and sigmoid(-u)."""
    a, octaves, low = _cubic(x)
    return a, tail(decay_of_octaves(octaves, low))


def _cubic_slope(x: Array) -> Array:
    a, p = _cubic_tail(x)
    linear, cubic = float(LINEAR), float(3 * THIRD) * (a * a)
    slope = linear + cubic
    rest = (linear - slope) + cubic
    away = (1 - a * slope) + a * (slope * p.value - rest)
    left = p.times(jnp.where(inside("gelu_tanh_slope", a), expansion("gelu_tanh_slope", a), away))
    return jnp.where(x < 0, left, 1 - left)


def _cubic_curvature(x: Array) -> Array:
    a, octaves, low = _cubic(x)
    e = decay_of_octaves(octaves, low)
    slope, slope_low = _cubic_slope_of(a)
    # 2 u' + a u'' - a u'^2 tanh(u/2)
    steep = a * (slope * slope + slope_low * (2 * slope + slope_low))
    bracket = (2 * slope + (2 * slope_low + float(6 * THIRD) * (a * a))) - steep * (e.lost / (1 + e.value))
    around = e.times(expansion("gelu_tanh_curvature", a))
    return jnp.where(inside("gelu_tanh_curvature", a), around, e.logistic_slope(bracket))


def _cubic_slope_of(a: Array) -> tuple[Array, Array]:
    """The slope of u as a number of half the bits and the rest."""
    (linear, linear_low), (cubic, cubic_low) = split(LINEAR, a), split(3 * THIRD, a)
    squared, squared_low = square(a)
    squared_high = short(squared)
    high = short(linear + cubic * squared_high)
    low = ((linear - high) + cubic * squared_high) + (linear_low + cubic * ((squared - squared_high) + squared_low))
    return high, low + cubic_low * (a * a)


_with_gelu_tanh = with_derivatives(*traced_once(lambda x: _gated(x, *_cubic_tail(x)), _cubic_slope, _cubic_curvature))


@elementwise
def gelu_tanh(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """(x/2) (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3). Hendrycks and Gimpel 2016, section 2.

    Written as x sigmoid(2u), the same function, because 1 + tanh u cancels: in bfloat16 that form
    is exactly 0, with zero gradient, from -3.06 downwards; this one from -10.
    """
    return _with_gelu_tanh(x)


def gelu_tanh_jax(x: Any) -> Float[Array, "*S"]:
    """gelu_tanh as jax.nn and flax.linen compute it by default, including its errors, to reproduce their runs."""
    return jax.nn.gelu(floating(x, "gelu_tanh_jax"), approximate=True)


def _mish_tail(x: Array) -> tuple[Array, Tail]:
    a = magnitude(x, limit_of(x))
    return a, tail_of(a)


def _mish_value(x: Array) -> Array:
    # 1 + g is the fraction above on the right, and that over p on the left.
    a, scaled = _mish_tail(x)
    p = scaled.value
    squared = p * p
    g = jnp.where(x < 0, p * (1 - p), -2 * squared) * (1 / jnp.where(x < 0, 2 - p * (2 - p), 1 + squared))
    left = scaled.times(-a)
    return jnp.where(x < 0, left, x) + jnp.where(x < 0, left, a) * g


def _mish_slope(x: Array) -> Array:
    a, scaled = _mish_tail(x)
    p = scaled.value
    y = p * (2 - p)
    squared = p * p
    inverse = 1 / jnp.where(x < 0, 2 - y, 1 + squared)
    left = scaled.times((1 - a) + p * (a * (2 - p) - (2 + (2 - p) * (2 - p)) / 4))
    w = y * inverse
    right = 1 + squared * (((4 * a) * ((1 - p) * inverse) - 2) * inverse)
    away = jnp.where(x < 0, left + left * (w * (2 + w)), right)
    return jnp.where(inside("mish_slope", x), expansion("mish_slope", x), away)


def _mish_curvature(x: Array) -> Array:
    a = magnitude(x, limit_of(x))
    tail, both = decay(a), decay(jnp.minimum(2 * a, limit_of(x)))
    e = tail.value
    left = (2 - a) + e * ((4 - a) + e * ((3 + 1.5 * a) + e * (1 + a)))
    left = tail.times(left, _cube_rest(e + e * e / 2))
    left = jnp.where(inside("mish_curvature_left", x), tail.times(expansion("mish_curvature_left", -a)), left)
    right = (2 - 2 * a) + e * ((6 - 3 * a) + e * ((8 + 2 * a) + e * (4 + 2 * a)))
    right = both.times(4 * right, _cube_rest(2 * (e + e * e)))
    right = jnp.where(inside("mish_curvature_right", x), both.times(expansion("mish_curvature_right", a)), right)
    outer = jnp.where(x < 0, left, right)
    return jnp.where(inside("mish_curvature_middle", x), expansion("mish_curvature_middle", x), outer)


def _cube_rest(h: Array) -> Array:
    """1 / (1 + h)^3 - 1."""
    g = h / (1 + h)
    return -g * (3 - g * (3 - g))


_with_mish = with_derivatives(*traced_once(_mish_value, _mish_slope, _mish_curvature))


@elementwise
def mish(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """x tanh(log(1 + e^x)). Misra 2019, arXiv:1908.08681."""
    return _with_mish(x)


def exact_gelu_tanh() -> Piecewise:
    """x sigmoid(v(x)); right of 0, x - x e^-v / (1 + e^-v)."""

    def left(a: Jet) -> Jet:
        return -decaying(a, 1, CUBIC_RATES) / (1 + decaying(a, 0, CUBIC_RATES))

    return halves(lambda x: left(-x), lambda x: x + left(x))


def exact_swish(beta: Constant) -> Piecewise:
    """x sigmoid(beta x) = y sigmoid(y) / beta, y = beta x, for beta > 0."""
    beta = Fraction(beta)

    def left(a: Jet) -> Jet:
        return -decaying(a, 1) / (1 + decaying(a)) * (1 / beta)

    return halves(lambda x: left(x * -beta), lambda x: x + left(x * beta), unit=float(1 / beta))


def exact_silu() -> Piecewise:
    """x sigmoid(x)."""
    return exact_swish(1)


def exact_quick_gelu() -> Piecewise:
    """x sigmoid(1.702 x)."""
    return exact_swish(QUICK_GELU_BETA)


def exact_mish() -> Piecewise:
    """x tanh(softplus x) = x n (n + 2) / (n (n + 2) + 2), n = e^x; right of 0, x - 2 x e^2 / (1 + 2 e + 2 e^2)."""

    def left(x: Jet) -> Jet:
        e = decaying(-x)
        return -decaying(-x, 1) * (e + 2) / (e * (e + 2) + 2)

    def right(x: Jet) -> Jet:
        e = decaying(x)
        return x - 2 * decaying(x, 1, (Fraction(2),)) / (1 + 2 * e * (1 + e))

    return halves(left, right)
