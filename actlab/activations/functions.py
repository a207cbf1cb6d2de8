"""Pure elementwise activation functions, [...] -> [...], in the dtype of their input."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

SQRT_2_OVER_PI = math.sqrt(2 / math.pi)


def relu(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """max(0, x), with derivative 0 at 0. Nair and Hinton 2010."""
    return jax.nn.relu(x)


def tanh(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """(e^x - e^-x) / (e^x + e^-x)."""
    return jnp.tanh(x)


def elu(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """x where x > 0, else e^x - 1. Clevert et al. 2015, arXiv:1511.07289, equation 15 with alpha = 1."""
    return jax.nn.elu(x)


def gelu(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """x Phi(x), Phi the standard normal distribution function: the exact form. Hendrycks and Gimpel 2016."""
    return jax.nn.gelu(x, approximate=False)


def gelu_tanh(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """(x/2) (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3). Hendrycks and Gimpel 2016, section 2.

    Written as x sigmoid(2u), the same function, because 1 + tanh u cancels: in bfloat16 that form
    is exactly 0, with zero gradient, from -3.06 downwards; this one from -10.
    """
    return x * jax.nn.sigmoid(2 * SQRT_2_OVER_PI * (x + 0.044715 * x**3))


def silu(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """x sigmoid(x), also called swish. Elfwing et al. 2017, arXiv:1702.03118, equation 10."""
    return jax.nn.silu(x)
