"""mish, as a rational function of e^x: no logarithm, no tanh."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from actlab.activations.derivatives import elementwise, with_derivatives
from actlab.activations.exponential import Decay, decay, limit_of, magnitude, near_root


def _decay(x: Array) -> tuple[Array, Decay]:
    a = magnitude(x, limit_of(x))
    return a, decay(a)


def _value(x: Array) -> Array:
    # tanh(log(1 + n)) = n (n + 2) / (n (n + 2) + 2), n = e^x; on the right both are divided by n^2.
    _, tail = _decay(x)
    e = tail.value
    over = jnp.where(x < 0, e + 2, 1 + 2 * e)
    under = jnp.where(x < 0, e * (e + 2) + 2, over + 2 * e * e)
    left = tail.times(jnp.maximum(x, jnp.finfo(x.dtype).min))  # infinity must not meet 0
    return jnp.where(x < 0, left, x) * (over / under)


def _slope(x: Array) -> Array:
    a, tail = _decay(x)
    e = tail.value
    left_under, right_under = e * (e + 2) + 2, 1 + 2 * e * (1 + e)
    bracket = near_root("mish_slope", -a, 0.0, 4 * (1 - a) + e * ((6 - 4 * a) + e * (4 + e)))
    right = ((1 + 2 * e) * right_under + 4 * a * e * e * (1 + e)) / jnp.square(right_under)
    return jnp.where(x < 0, tail.times(bracket / jnp.square(left_under)), right)


def _curvature(x: Array) -> Array:
    a, tail = _decay(x)
    e = tail.value
    left_under, right_under = e * (e + 2) + 2, 1 + 2 * e * (1 + e)
    left = (4 - 2 * a) + e * ((8 - 2 * a) + e * ((6 + 3 * a) + e * (2 + 2 * a)))
    left = near_root("mish_curvature_left", -a, 0.0, left) / left_under**3
    right = (2 - 2 * a) + e * ((6 - 3 * a) + e * ((8 + 2 * a) + e * (4 + 2 * a)))
    right = e * near_root("mish_curvature_right", a, 0.0, right) / right_under**3
    return tail.times(4 * jnp.where(x < 0, left, right))


_with_mish = with_derivatives(_value, _slope, _curvature)


@elementwise
def mish(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """x tanh(log(1 + e^x)). Misra 2019, arXiv:1908.08681, equation 1."""
    return _with_mish(x)
