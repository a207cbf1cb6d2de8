"""mish, as a rational function of p = sigmoid(-|x|): no logarithm.

With s = sigmoid(-x), tanh(log(1 + e^x)) = (1 - s^2) / (1 + s^2). s is p on the right; on the left it is 1 - p, and
1 - s^2 = y, 1 + s^2 = 2 - y with y = p (2 - p), which keeps the small end.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from actlab.activations.derivatives import elementwise, with_derivatives
from actlab.activations.exponential import Tail, decay, expansion, inside, limit_of, magnitude, tail_of


def _tail(x: Array) -> tuple[Array, Tail]:
    a = magnitude(x, limit_of(x))
    return a, tail_of(a)


def _value(x: Array) -> Array:
    # 1 + g is the fraction above on the right, and that over p on the left.
    a, scaled = _tail(x)
    p = scaled.value
    squared = p * p
    g = jnp.where(x < 0, p * (1 - p), -2 * squared) * (1 / jnp.where(x < 0, 2 - p * (2 - p), 1 + squared))
    left = scaled.times(-a)
    return jnp.where(x < 0, left, x) + jnp.where(x < 0, left, a) * g


def _slope(x: Array) -> Array:
    a, scaled = _tail(x)
    p = scaled.value
    y = p * (2 - p)
    squared = p * p
    inverse = 1 / jnp.where(x < 0, 2 - y, 1 + squared)
    left = scaled.times((1 - a) + p * (a * (2 - p) - (2 + (2 - p) * (2 - p)) / 4))
    w = y * inverse
    right = 1 + squared * (((4 * a) * ((1 - p) * inverse) - 2) * inverse)
    away = jnp.where(x < 0, left + left * (w * (2 + w)), right)
    return jnp.where(inside("mish_slope", x), expansion("mish_slope", x), away)


def _curvature(x: Array) -> Array:
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


_with_mish = with_derivatives(_value, _slope, _curvature)


@elementwise
def mish(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """x tanh(log(1 + e^x)). Misra 2019, arXiv:1908.08681."""
    return _with_mish(x)
