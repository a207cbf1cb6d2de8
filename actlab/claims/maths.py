"""Float64 references for the checks: catalogue entries and their derivatives, Gaussian means, GELU in closed form."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy import optimize, special

from actlab import activations

# Every shape compiles each operation anew, so arrays are padded to one of these.
_SIZES = (2048, 2**17)
_PANELS, _NODES, _REACH = 50, 20, 12.0  # phi(12) is 2e-32

Numbers = Float[np.ndarray, "*S"]


def value(name: str, z: Numbers | float) -> Numbers:
    """f(z) of a catalogue entry."""
    return _evaluate(activations.get(name).fn, z)


def slope(name: str, z: Numbers | float) -> Numbers:
    """f'(z), by autodiff."""
    return _evaluate(_derivative(activations.get(name).fn), z)


def curvature(name: str, z: Numbers | float) -> Numbers:
    """f''(z), by autodiff; the Dirac at a kink is left out."""
    return _evaluate(_derivative(_derivative(activations.get(name).fn)), z)


def mean(function: Callable[[Numbers], Numbers], scale: float = 1.0, *, negative: bool = False) -> float:
    """E[function(scale Z)], Z ~ N(0, 1), by Gauss-Legendre panels; with `negative` over Z < 0 alone.

    Good to about 1e-12 for functions that are smooth but for a kink at 0, where two panels meet.
    """
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    edges = np.linspace(-_REACH, 0.0 if negative else _REACH, _PANELS + 1)
    half = np.diff(edges)[:, None] / 2
    z = (edges[:-1, None] + half * (1 + nodes)).reshape(-1)
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return float(np.sum((half * weights).reshape(-1) * density * function(scale * z)))


def silent_below(fn: Callable[[jax.Array], jax.Array]) -> float:
    """The largest z at and below which autodiff's gradient in bfloat16 is exactly 0; -inf if none is, to -100."""
    z = np.arange(0x8001, 0xC2C8, dtype=np.uint16).view(jnp.bfloat16)  # -1e-40 down to -99.5
    with jax.default_device(jax.devices("cpu")[0]):
        gradient = np.asarray(_derivative(fn)(jnp.asarray(z))).astype(np.float32)
    alive = np.flatnonzero(gradient)
    return float(z[alive[-1] + 1]) if alive.size and alive[-1] + 1 < z.size else -np.inf


def _derivative(fn: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
    return lambda x: jax.jvp(fn, (x,), (jnp.ones_like(x),))[1]


def _evaluate(fn: Callable[[jax.Array], jax.Array], z: Numbers | float) -> Numbers:
    z = np.asarray(z, np.float64)
    # On the CPU even where there is an accelerator: not every one has float64.
    flat = z.reshape(-1)
    size = next(size for size in _SIZES if flat.size <= size)
    padded = np.concatenate([flat, np.ones(size - flat.size)])  # every activation is finite at 1
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        result = np.asarray(fn(jnp.asarray(padded)))
    return result[: flat.size].reshape(z.shape)


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
    return root(lambda z: float(slope(name, z)), -3.0, 0.0)


def steepest_fall() -> float:
    """The z in (-3, -1) where GELU's slope is least."""
    return root(lambda z: float(curvature("gelu", z)), -3.0, -1.0)


def mean_under(mu: float, sigma: float) -> float:
    """E[GELU(z)], z ~ N(mu, sigma^2): mu Phi(r) + sigma^2 / sqrt(1 + sigma^2) phi(r), r = mu / sqrt(1 + sigma^2)."""
    width = np.sqrt(1 + sigma**2)
    return float(mu * Phi(mu / width) + sigma**2 / width * phi(mu / width))
