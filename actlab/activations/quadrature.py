"""Nodes and weights for expectations under N(0, scale^2), exact to rounding for piecewise analytic functions."""

import functools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

REACH = 14.0  # beyond 14 standard deviations phi times any eighth power is below 1e-33
_NODES = 20


@functools.cache
def _legendre() -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.legendre.leggauss(_NODES)


def gaussian_nodes(
    scale: float, breaks: Sequence[float], unit: float
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Nodes z in increasing order and weights w with E f(z) = sum w f(z), z of N(0, scale^2).

    Gauss-Legendre of 20 nodes on panels that double in width with the distance from 0 and from each break, starting
    well below `unit` and `scale`: a feature of any size at those places is resolved. No panel crosses a break.
    """
    finest = min(unit, scale) / 8
    n_panels = int(np.ceil(np.log2(2 * REACH * scale / finest))) + 1
    ladder = finest * 2.0 ** np.arange(n_panels)
    steps = np.concatenate([-ladder[::-1], [0.0], ladder])
    edges = np.unique(np.concatenate([centre + steps for centre in {0.0, *breaks}]).clip(-REACH * scale, REACH * scale))
    nodes, weights = _legendre()
    half, middle = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
    z = (middle[:, None] + half[:, None] * nodes).ravel()
    weight = (half[:, None] * weights).ravel() * np.exp(-np.square(z / scale) / 2) / (scale * np.sqrt(2 * np.pi))
    return z, weight


def dense_nodes(scale: float, n_nodes: int = 2**18) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """The midpoint rule on 12 standard deviations to each side: for functions whose kinks are not known."""
    u = (np.arange(n_nodes) + 0.5) * (24.0 / n_nodes) - 12.0
    return u * scale, np.exp(-np.square(u) / 2) * (24.0 / n_nodes / np.sqrt(2 * np.pi))
