"""Activations that level off: tanh, sigmoid, softsign on both sides, softplus and the exponential units on the left.

All but softsign are functions of e = e^-|x|, which neither overflows nor loses its small end. The exponential units
(elu, celu, selu, xielu) are linear or quadratic on the right and exponential on the left; 0 belongs to the left piece.
Below the functions stand their exact formulas, from which bounds and moments are computed.
"""

import math
from fractions import Fraction

import jax.numpy as jnp
from jaxtyping import Array, Float

from actlab.activations.definition import elementwise, traced_once, with_derivatives
from actlab.activations.precise.arithmetic import (
    Decay,
    Tail,
    almost,
    decay,
    limit_of,
    magnitude,
    polynomial,
    tail_of,
    times,
)
from actlab.activations.proofs.jets import HALF, Jet, Piecewise, decaying, halves, log1p


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


_with_tanh = with_derivatives(*traced_once(_tanh, _tanh_slope, _tanh_curvature))


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


_with_logistic = with_derivatives(*traced_once(logistic, logistic_slope, logistic_curvature))


@elementwise
def sigmoid(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """1 / (1 + e^-x), the logistic function. Verhulst 1845."""
    return _with_logistic(x)


def _softplus(x: Array) -> Array:
    # log1p(e^-|x|) = -log1p(-p) = p + p^2 (1/2 + p/3 + ...).
    p = _tail(x).value
    return jnp.maximum(x, 0) + (p + p * (p * polynomial("log_rest", p)))


_with_softplus = with_derivatives(*traced_once(_softplus, logistic, logistic_slope))


@elementwise
def softplus(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """log(1 + e^x) = max(x, 0) + log1p(e^-|x|). Dugas et al. 2001."""
    return _with_softplus(x)


def _softsign(x: Array) -> Array:
    finite = jnp.clip(x, jnp.finfo(x.dtype).min, jnp.finfo(x.dtype).max)
    return finite / (1 + jnp.abs(finite))


def _one_plus(a: Array) -> tuple[Array, Array]:
    """1 + a rounded, and the rounding error relative to it."""
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


_with_softsign = with_derivatives(*traced_once(_softsign, _softsign_slope, _softsign_curvature))


@elementwise
def softsign(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """x / (1 + |x|); f''(0) = 0, the mean of -2 and 2. Bergstra et al. 2009."""
    return _with_softsign(x)


# Klambauer et al. 2017, in full.
SELU_SCALE = Fraction("1.0507009873554804934193349852946")
SELU_ALPHA = Fraction("1.6732632423543772848170429916717")
XIELU_BETA = 0.5
XIELU_START = 0.8


def _distance(x: Array, inverse: Fraction) -> tuple[Array, Array | float]:
    """|x inverse| as a sum of two numbers."""
    if inverse == 1:
        return magnitude(x, limit_of(x)), 0.0
    a, low = times(jnp.abs(x), inverse)
    return magnitude(a, limit_of(x)), jnp.where(a < limit_of(x), low, 0)


def _exponential_unit(x: Array, right: float, left: float, inverse: Fraction = Fraction(1)) -> Array:
    """Right x where x > 0, else left (e^(x inverse) - 1)."""
    slope, curvature = left * float(inverse), left * float(inverse) ** 2
    return with_derivatives(
        # At 0 the left one would turn the sign of the zero.
        lambda x: jnp.where(x >= 0, right * x, -left * decay(*_distance(x, inverse)).lost),
        lambda x: jnp.where(x > 0, right, decay(*_distance(x, inverse)).times(slope)),
        lambda x: jnp.where(x > 0, 0, decay(*_distance(x, inverse)).times(curvature)),
    )(x)


@elementwise
def elu(x: Float[Array, "*S"], alpha: float = 1.0) -> Float[Array, "*S"]:
    """x where x > 0, else alpha (e^x - 1); f'(0) = f''(0) = alpha. Clevert et al. 2015, arXiv:1511.07289.

    The usual f' = expm1(x) + 1 is 0 from -17 downwards in float32; this one from -87.
    """
    return _exponential_unit(x, 1.0, alpha)


@elementwise
def celu(x: Float[Array, "*S"], alpha: float = 1.0) -> Float[Array, "*S"]:
    """x where x > 0, else alpha (e^(x / alpha) - 1); f''(0) = 1 / alpha. Barron 2017, arXiv:1704.07483."""
    return _exponential_unit(x, 1.0, alpha, 1 / Fraction(alpha))


@elementwise
def selu(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """L x where x > 0, else L A (e^x - 1), L = 1.0507..., A = 1.6732...; f'(0) = L A.

    Klambauer et al. 2017, arXiv:1706.02515.
    """
    return _exponential_unit(x, float(SELU_SCALE), float(SELU_SCALE) * float(SELU_ALPHA))


def _theta_for(alpha: float) -> float:
    """The inverse of softplus: softplus(_theta_for(alpha)) = alpha."""
    return math.log(math.expm1(alpha))


XIELU_THETA = {"theta_p": _theta_for(XIELU_START), "theta_n": _theta_for(XIELU_START - XIELU_BETA)}


@elementwise
def xielu(
    x: Float[Array, "*S"],
    theta_p: Float[Array, ""] | float = XIELU_THETA["theta_p"],
    theta_n: Float[Array, ""] | float = XIELU_THETA["theta_n"],
) -> Float[Array, "*S"]:
    """p x^2 + b x where x > 0, else n (e^x - 1) - n x + b x; b = 1/2, p = softplus(theta_p), n = b + softplus(theta_n).

    Huang and Schlag 2024, arXiv:2411.13010. Left of 0 it is written n (e^x - 1) - softplus(theta_n) x. The authors'
    code has expm1(min(x, -1e-6)), so that f(0) = -1e-6 n; here f(0) = 0, its limit. f''(0) = n. Close to the zeros of
    f and f', which depend on theta_n, the error is that of numbers of size 1: 4 units of 2^-23.
    """
    p, rest = (softplus(jnp.asarray(theta, x.dtype)) for theta in (theta_p, theta_n))
    right, left = jnp.where(x > 0, x, 0), jnp.where(x > 0, 0, x)
    return right * (p * right + XIELU_BETA) + ((XIELU_BETA + rest) * _exponential_unit(left, 1.0, 1.0) - rest * left)


def _tanh_right(x: Jet) -> Jet:
    return 2 / (1 + decaying(2 * x)) - 1


def exact_tanh() -> Piecewise:
    """tanh x = 2 / (1 + e^-2x) - 1."""
    return exact_penalized_tanh(1.0)


def exact_penalized_tanh(slope: float) -> Piecewise:
    """tanh x, left of 0 slope tanh x."""
    return halves(lambda x: _tanh_right(-x) * -slope, _tanh_right)


def exact_sigmoid() -> Piecewise:
    """1 / (1 + e^-x)."""
    return halves(lambda x: 1 - 1 / (1 + decaying(-x)), lambda x: 1 / (1 + decaying(x)))


def _softplus_right(x: Jet) -> Jet:
    """For x >= 0."""
    return x + log1p(decaying(x))


def exact_softplus() -> Piecewise:
    """log(1 + e^x)."""
    return halves(lambda x: log1p(decaying(-x)), _softplus_right)


def exact_softsign() -> Piecewise:
    """x / (1 + |x|)."""
    return halves(lambda x: 1 / (1 - x) - 1, lambda x: 1 - 1 / (1 + x))


def exact_elu(alpha: float) -> Piecewise:
    """x, left of 0 alpha (e^x - 1)."""
    return halves(lambda x: (decaying(-x) - 1) * alpha, lambda x: x)


def exact_celu(alpha: float) -> Piecewise:
    """x, left of 0 alpha (e^(x / alpha) - 1)."""
    return halves(lambda x: (decaying(x * (-1 / Fraction(alpha))) - 1) * alpha, lambda x: x, unit=alpha)


def exact_selu() -> Piecewise:
    """L x, left of 0 L A (e^x - 1)."""
    return halves(lambda x: (decaying(-x) - 1) * (SELU_SCALE * SELU_ALPHA), lambda x: x * SELU_SCALE)


def exact_xielu(theta_p: float, theta_n: float) -> Piecewise:
    """p x^2 + x / 2, left of 0 (r + 1/2) (e^x - 1) - r x; p, r the softplus of the thetas."""

    def softplus_of(theta: float, x: Jet) -> Jet:
        size = x.constant(abs(theta))
        return _softplus_right(size) if theta > 0 else log1p(decaying(size))

    def left(x: Jet) -> Jet:
        rest = softplus_of(theta_n, x)
        return (rest + HALF) * (decaying(-x) - 1) - rest * x

    return halves(left, lambda x: x * (softplus_of(theta_p, x) * x + HALF))
