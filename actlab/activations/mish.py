"""mish, as a rational function of e^x: no logarithm, no tanh."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from actlab.activations.derivatives import elementwise, with_derivatives
from actlab.activations.exponential import Decay, decay, limit_of, magnitude, near_root
from actlab.activations.sigmoidal import cube_of_one_plus, square_of_one_plus


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
    bracket = near_root("mish_slope", -a, 0.0, 4 * (1 - a) + e * ((6 - 4 * a) + e * (4 + e)))
    left = bracket / (4 * square_of_one_plus(e * (e + 2) / 2))
    under = 2 * e * (1 + e)
    right = ((1 + 2 * e) * (1 + under) + 4 * a * e * e * (1 + e)) / square_of_one_plus(under)
    return jnp.where(x < 0, tail.times(left), right)


def _curvature(x: Array) -> Array:
    a, tail = _decay(x)
    e = tail.value
    left = (4 - 2 * a) + e * ((8 - 2 * a) + e * ((6 + 3 * a) + e * (2 + 2 * a)))
    left = near_root("mish_curvature_left", -a, 0.0, left) / (2 * cube_of_one_plus(e * (e + 2) / 2))
    right = (2 - 2 * a) + e * ((6 - 3 * a) + e * ((8 + 2 * a) + e * (4 + 2 * a)))
    right = near_root("mish_curvature_right", a, 0.0, right) * 4 / cube_of_one_plus(2 * e * (1 + e))
    return jnp.where(x < 0, tail.times(left), decay(2 * a).times(right))


_with_mish = with_derivatives(_value, _slope, _curvature)


@elementwise
def mish(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """x tanh(log(1 + e^x)). Misra 2019, arXiv:1908.08681, equation 1."""
    return _with_mish(x)
