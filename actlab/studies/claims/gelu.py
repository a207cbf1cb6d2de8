"""GELU in closed form by scipy, and the numbers that several claims need."""

import functools
from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Float
from scipy import optimize, special

from actlab.studies.claims import curves

Numbers = Float[np.ndarray, "*S"]
# As jax.nn writes it, where 1 + tanh cancels.
jax_tanh_form = functools.partial(jax.nn.gelu, approximate=True)


def Phi(z: Numbers | float) -> Numbers:  # noqa: N802 - the symbol
    """Distribution function of N(0, 1)."""
    return np.asarray(special.ndtr(np.asarray(z, np.float64)))


def phi(z: Numbers | float) -> Numbers:
    """Density of N(0, 1)."""
    return np.asarray(np.exp(-(np.asarray(z, np.float64) ** 2) / 2) / np.sqrt(2 * np.pi))


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that changes sign between low and high is 0, by Brent's method."""
    return float(optimize.root_scalar(function, bracket=(low, high), method="brentq", xtol=1e-14).root)


def turning_point(name: str = "gelu") -> float:
    """The z in (-3, 0) where the slope is 0: left of it the function falls as z rises."""
    return root(lambda z: float(curves.slope(name, z)), -3.0, 0.0)


def steepest_fall(name: str = "gelu") -> float:
    """The z in (-3, -1) where the slope is least."""
    return root(lambda z: float(curves.curvature(name, z)), -3.0, -1.0)


def mean_under(mu: float, sigma: float) -> float:
    """E[GELU(z)], z ~ N(mu, sigma^2): mu Phi(r) + sigma^2 / sqrt(1 + sigma^2) phi(r), r = mu / sqrt(1 + sigma^2)."""
    width = np.sqrt(1 + sigma**2)
    return float(mu * Phi(mu / width) + sigma**2 / width * phi(mu / width))
