"""Activations that saturate on both sides, and softplus, whose slope does.

All are functions of e = e^-|x|, which neither overflows nor loses its small end.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from actlab.activations.derivatives import elementwise, with_derivatives
from actlab.activations.exponential import Decay, Tail, almost, decay, limit_of, magnitude, polynomial, tail_of


def _decay(x: Array) -> Decay:
    return decay(magnitude(x, limit_of(x)))


def _tail(x: Array) -> Tail:
    return tail_of(magnitude(x, limit_of(x)))


def _tanh(x: Array) -> Array:
    lost = _decay(2 * x).lost
    return jnp.copysign(lost / (2 - lost), x)


def _tanh_slope(x: Array) -> Array:
    e = _decay(2 * x)
    return e.times(4 / (1 + e.value * (2 + e.value)))


def _tanh_curvature(x: Array) -> Array:
    e = _decay(2 * x)
    return e.logistic_slope(-8 * jnp.sign(x) * (e.lost / (1 + e.value)))


_with_tanh = with_derivatives(_tanh, _tanh_slope, _tanh_curvature)


@elementwise
def tanh(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """(e^x - e^-x) / (e^x + e^-x), as (1 - e^-2|x|) / (1 + e^-2|x|) with the sign of x.

    Its slope is 4 e^-2|x| / (1 + e^-2|x|)^2: the usual 1 - tanh^2 is 0 from 9 onwards in float32.
    """
    return _with_tanh(x)


@elementwise
def penalized_tanh(x: Float[Array, "*S"], slope: float = 0.25) -> Float[Array, "*S"]:
    """tanh x where x > 0, else slope tanh x; f'(0) = slope. Xu et al. 2016, arXiv:1602.05980."""
    return jnp.where(x > 0, 1, slope).astype(x.dtype) * _with_tanh(x)


def logistic(x: Array) -> Array:
    """1 / (1 + e^-x)."""
    p = _tail(x).value
    return jnp.where(x < 0, p, 1 - p)


def logistic_slope(x: Array) -> Array:
    """logistic'(x), even in x."""
    p = _tail(x)
    return p.times(1 - p.value)


def logistic_curvature(x: Array) -> Array:
    """logistic''(x) = -logistic'(x) tanh(x/2)."""
    e = _decay(x)
    return e.logistic_slope(-jnp.sign(x) * (e.lost / (1 + e.value)))


_with_logistic = with_derivatives(logistic, logistic_slope, logistic_curvature)


@elementwise
def sigmoid(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """1 / (1 + e^-x), the logistic function. Verhulst 1845."""
    return _with_logistic(x)


def _softplus(x: Array) -> Array:
    # log1p(e^-|x|) = -log1p(-p) = p + p^2 (1/2 + p/3 + ...).
    p = _tail(x).value
    return jnp.maximum(x, 0) + (p + p * (p * polynomial("log_rest", p)))


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
