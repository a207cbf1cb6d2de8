"""Linear on the right, exponential on the left: elu, celu, selu, xielu. 0 belongs to the left piece."""

import math
from fractions import Fraction

import jax.numpy as jnp
from jaxtyping import Array, Float

from actlab.activations.derivatives import elementwise, with_derivatives
from actlab.activations.exponential import decay, limit_of, magnitude, times
from actlab.activations.sigmoidal import softplus

# Klambauer et al. 2017, in full.
SELU_SCALE = 1.0507009873554804934193349852946
SELU_ALPHA = 1.6732632423543772848170429916717
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
        lambda x: jnp.where(x > 0, right * x, -left * decay(*_distance(x, inverse)).lost),
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
    return _exponential_unit(x, SELU_SCALE, SELU_SCALE * SELU_ALPHA)


def _start(alpha: float) -> float:
    """softplus(_start(alpha)) = alpha."""
    return math.log(math.expm1(alpha))


XIELU_THETA = {"theta_p": _start(XIELU_START), "theta_n": _start(XIELU_START - XIELU_BETA)}


@elementwise
def xielu(
    x: Float[Array, "*S"],
    theta_p: Float[Array, ""] | float = XIELU_THETA["theta_p"],
    theta_n: Float[Array, ""] | float = XIELU_THETA["theta_n"],
) -> Float[Array, "*S"]:
    """p x^2 + b x where x > 0, else n (e^x - 1) - n x + b x; b = 1/2, p = softplus(theta_p), n = b + softplus(theta_n).

    Huang and Schlag 2024, arXiv:2411.13010. Left of 0 it is written n (e^x - 1) - softplus(theta_n) x. The authors'
    code has expm1(min(x, -1e-6)), which makes f(0) = -1e-6 n; here is its limit, f(0) = 0. f''(0) = n. Next to the
    zeros of f and f', which depend on theta_n, the error is that of numbers of size 1: 4 units of 2^-23.
    """
    p, rest = (softplus(jnp.asarray(theta, x.dtype)) for theta in (theta_p, theta_n))
    right, left = jnp.where(x > 0, x, 0), jnp.where(x > 0, 0, x)
    return right * (p * right + XIELU_BETA) + ((XIELU_BETA + rest) * _exponential_unit(left, 1.0, 1.0) - rest * left)
