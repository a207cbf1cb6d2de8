"""Activations that saturate on both sides, and softplus, whose slope does.

All are functions of e = e^-|x|, which neither overflows nor loses its small end.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from actlab.activations.derivatives import elementwise, with_derivatives
from actlab.activations.exponential import Decay, almost, decay, limit_of, lost, magnitude, polynomial


def _decay(x: Array) -> Decay:
    return decay(magnitude(x, limit_of(x)))


def _lost(x: Array) -> Array:
    return lost(magnitude(x, limit_of(x)))


def _tanh(x: Array) -> Array:
    difference = _lost(2 * x)
    return jnp.copysign(difference / (2 - difference), x)


def _tanh_slope(x: Array) -> Array:
    e = _decay(2 * x)
    return e.times(4 / square_of_one_plus(e.value))


def _tanh_curvature(x: Array) -> Array:
    e = _decay(2 * x)
    return e.times(-8 * jnp.sign(x) * _lost(2 * x) / cube_of_one_plus(e.value))


def square_of_one_plus(e: Array) -> Array:
    """(1 + e)^2 with less rounding than the square of a sum."""
    return 1 + e * (2 + e)


def cube_of_one_plus(e: Array) -> Array:
    """(1 + e)^3, likewise."""
    return 1 + e * (3 + e * (3 + e))


_with_tanh = with_derivatives(_tanh, _tanh_slope, _tanh_curvature)


@elementwise
def tanh(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """(e^x - e^-x) / (e^x + e^-x), as (1 - e^-2|x|) / (1 + e^-2|x|) with the sign of x.

    Its slope is 4 e^-2|x| / (1 + e^-2|x|)^2: the usual 1 - tanh^2 is 0 from 9 onwards in float32.
    """
    return _with_tanh(x)


@elementwise
def penalized_tanh(x: Float[Array, "*S"], slope: float = 0.25) -> Float[Array, "*S"]:
    """tanh x where x > 0, else slope tanh x; f'(0) = slope. Xu et al. 2016, arXiv:1602.05980, equation 8."""
    return jnp.where(x > 0, 1, slope).astype(x.dtype) * _with_tanh(x)


def logistic(x: Array) -> Array:
    """1 / (1 + e^-x)."""
    e = _decay(x).value
    return jnp.where(x < 0, e, 1) / (1 + e)


def logistic_slope(x: Array) -> Array:
    """logistic'(x) = e / (1 + e)^2, even in x."""
    e = _decay(x)
    return e.times(1 / square_of_one_plus(e.value))


def logistic_curvature(x: Array) -> Array:
    """logistic''(x) = -sign(x) e (1 - e) / (1 + e)^3."""
    e = _decay(x)
    return e.times(-jnp.sign(x) * _lost(x) / cube_of_one_plus(e.value))


_with_logistic = with_derivatives(logistic, logistic_slope, logistic_curvature)


@elementwise
def sigmoid(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """1 / (1 + e^-x), the logistic function. Verhulst 1845."""
    return _with_logistic(x)


def _softplus(x: Array) -> Array:
    # log1p(e) = 2 artanh(z) with z = e / (2 + e), at most 1/3.
    e = _decay(x).value
    twice = e / (1 + e / 2)
    squared = jnp.square(twice / 2)
    return jnp.maximum(x, 0) + (twice + twice * (squared * polynomial("log_rest", squared)))


_with_softplus = with_derivatives(_softplus, logistic, logistic_slope)


@elementwise
def softplus(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """log(1 + e^x) = max(x, 0) + log1p(e^-|x|). Dugas et al. 2001."""
    return _with_softplus(x)


def _softsign(x: Array) -> Array:
    finite = jnp.clip(x, jnp.finfo(x.dtype).min, jnp.finfo(x.dtype).max)
    return finite / (1 + jnp.abs(finite))


def _one_plus(a: Array) -> tuple[Array, Array]:
    """1 + a as a number and the relative rest."""
    a = jnp.minimum(a, jnp.finfo(a.dtype).max)
    whole = almost(1 + a)
    rest = jnp.where(a < 1, (1 - whole) + a, (a - whole) + 1)
    return whole, rest / whole


def _softsign_slope(x: Array) -> Array:
    whole, rest = _one_plus(jnp.abs(x))
    return (1 - 2 * rest) / jnp.square(whole)


def _softsign_curvature(x: Array) -> Array:
    whole, rest = _one_plus(jnp.abs(x))
    return -2 * jnp.sign(x) * (1 - 3 * rest) / whole**3


_with_softsign = with_derivatives(_softsign, _softsign_slope, _softsign_curvature)


@elementwise
def softsign(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """x / (1 + |x|); f''(0) = 0, the mean of -2 and 2. Bergstra et al. 2009."""
    return _with_softsign(x)
