"""Gaussian moments of an activation and the gains that follow from them."""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np
import scipy  # loads scipy.special at its first use, which takes a sixth of a second
from jaxtyping import Float

from actlab.activations.catalogue import get
from actlab.activations.definition import Activation, require_elementwise
from actlab.activations.proofs.formulas import derivatives, exact_of, exact_of_value
from actlab.activations.proofs.jets import Piecewise
from actlab.activations.proofs.measured import derivatives_of
from actlab.errors import UserError

REACH = 14.0  # beyond 14 standard deviations phi times any eighth power is below 1e-33
_NODES = 20
SMALLEST_SCALE, LARGEST_SCALE = 1e-30, 1e30


@dataclasses.dataclass(frozen=True)
class Moments:
    """Expectations over z of N(0, scale^2), z the input of f.

    A gated form is h = act(z1) value(z2), z1 and z2 independent N(0, scale^2). `mean`, `second_moment`, `variance`,
    `kurtosis` and the gains are those of h; `slope_*`, `curvature_*` and `negative_slope_share` those of act.

    forward_gain g: weights of variance g^2 / fan_in after the activation keep the second moment of its input,
    g = scale / sqrt(E f^2), or scale / sqrt(E h^2). It is sqrt 2 for relu at every scale, and is the usual
    1 / sqrt(E f^2) at scale 1. backward_gain: the same for gradients, 1 / sqrt(E f'^2), or
    1 / sqrt(E (dh/dz1)^2 + E (dh/dz2)^2), since the gradients of the two projections add up.
    A gain is infinite where the moment is 0; the kurtosis of a constant is nan.
    """

    name: str
    scale: float
    gated: bool
    sampled: bool  # from float32 values of the function; otherwise integrals of its exact formula
    mean: float
    second_moment: float
    variance: float
    kurtosis: float  # E (f - E f)^4 / variance^2; 3 for a Gaussian
    slope_mean: float
    slope_second_moment: float
    curvature_second_moment: float  # Dirac deltas at kinks left out
    negative_slope_share: float  # P(f'(z) < 0)
    forward_gain: float
    backward_gain: float
    gate_slope_second_moment: float | None  # E (dh/dz1)^2; None where not gated
    value_slope_second_moment: float | None  # E (dh/dz2)^2


@dataclasses.dataclass(frozen=True)
class _Sample:
    """A function at the nodes of a quadrature."""

    z: np.ndarray
    weight: np.ndarray
    value: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray
    negative_slope_share: float
    sampled: bool

    def mean(self, of: np.ndarray) -> float:
        return float(self.weight @ of)

    def raw(self, power: int) -> float:
        """E f^power, by way of numbers near 1, so that no power overflows before it must."""
        size = float(np.max(np.abs(self.value))) or 1.0
        return self.mean((self.value / size) ** power) * size**power


def check_scale(scale: Any) -> float:
    """The scale as a float.

    Raises:
        UserError: if it is not a number from 1e-30 to 1e30.
    """
    if isinstance(scale, bool) or not isinstance(scale, Real):
        raise UserError(f"scale={scale!r} is not a number: give the standard deviation of the input, like 1.0.")
    value = float(scale)
    if not math.isfinite(value) or value <= 0:
        raise UserError(f"scale={value} is not a finite positive number: give the standard deviation of the input.")
    if not SMALLEST_SCALE <= value <= LARGEST_SCALE:
        raise UserError(f"scale={value} is out of range: give one from {SMALLEST_SCALE} to {LARGEST_SCALE}.")
    return value


def moments(name: str, scale: Any = 1.0) -> Moments:
    """Gaussian moments and gains of an activation at its parameters, trainable scalars at their start.

    Those of the catalogue are integrals of the exact formula in float64, good to 1e-9 of their size. An activation of
    your own without one is sampled in float32 at 262,144 points: good to about 1e-4 where it has kinks.

    Raises:
        UserError: for an unknown name, a scale that is not a number from 1e-30 to 1e30, and a function without an
            exact formula that is not elementwise or not finite.
    """
    return _moments(get(name), check_scale(scale))


def _sample(fn: Callable, exact: Piecewise | None, record: Activation, scale: float) -> _Sample:
    with np.errstate(all="ignore"):
        sample = _sample_of_function(fn, record, scale) if exact is None else _sample_of_formula(exact, scale)
    for what, values in (("value", sample.value), ("slope", sample.slope)):
        wrong = np.flatnonzero(~np.isfinite(values))
        if wrong.size:
            where = f"is {values[wrong[0]]:g} at {sample.z[wrong[0]]:.3g}"
            raise UserError(
                f"activation {record.name!r} has no moments at scale={scale:g}: its {what} {where}, which its function "
                "must not give (jnp.where passes on the nan of a branch that it leaves out)."
            )
    return sample


def _sample_of_formula(exact: Piecewise, scale: float) -> _Sample:
    z, weight = gaussian_nodes(scale, exact.breaks, exact.unit)
    rows = derivatives(exact, z)
    pieces = np.split(np.arange(z.size), np.searchsorted(z, exact.breaks))
    ends = np.array([(piece.low, piece.high) for piece in exact.pieces]) / scale
    slope = lambda x: float(derivatives(exact, np.array([x]))[1, 0])
    share = sum(_negative_share(z[i], rows[1, i], slope, scale, end) for i, end in zip(pieces, ends, strict=True))
    return _Sample(z, weight, *rows, negative_slope_share=float(share), sampled=False)


def _negative_share(
    x: np.ndarray, slopes: np.ndarray, slope: Callable[[float], float], scale: float, ends: np.ndarray
) -> float:
    """P(f' < 0) on one piece, whose ends come in units of the scale: its roots lie between nodes of opposite sign.

    A slope that underflows to 0 counts with the sign it had before; one that is 0 on the whole piece is not negative.
    """
    alive = np.flatnonzero(slopes)
    if not alive.size:
        return 0.0
    signs = np.sign(slopes[alive])
    turns = np.flatnonzero(np.diff(signs))
    roots = [_root(slope, float(x[alive[i]]), float(x[alive[i + 1]])) for i in turns]
    masses = np.diff(scipy.special.ndtr([ends[0], *(root / scale for root in roots), ends[1]]))
    return float(masses[(0 if signs[0] < 0 else 1) :: 2].sum())


def _root(slope: Callable[[float], float], low: float, high: float) -> float:
    import scipy.optimize  # see intervals

    return scipy.optimize.root_scalar(slope, bracket=(low, high), method="brentq", xtol=1e-300).root


def _sample_of_function(fn: Callable, record: Activation, scale: float) -> _Sample:
    if not record.elementwise:
        raise UserError(f"activation {record.name!r} is not elementwise: give its record an exact formula.")
    require_elementwise(record)
    z, weight = dense_nodes(scale)
    value, slope, curvature = derivatives_of(fn, z)
    share = float(weight @ (slope < 0))
    return _Sample(z, weight, value, slope, curvature, negative_slope_share=share, sampled=True)


def _gain(second_moment: float, scale: float) -> float:
    return scale / math.sqrt(second_moment) if second_moment else math.inf


@functools.lru_cache(maxsize=1024)
def _moments(record: Activation, scale: float) -> Moments:
    act = _sample(record.fn, exact_of(record, scale), record, scale)
    slope_square = act.mean(np.square(act.slope))
    if record.gated:
        value = _sample(record.value_fn, exact_of_value(record), record, scale)
        mean, second_moment, third, fourth = (act.raw(k) * value.raw(k) for k in (1, 2, 3, 4))
        variance = second_moment - mean**2
        central = fourth - 4 * mean * third + 6 * mean**2 * second_moment - 3 * mean**4
        kurtosis = central / variance**2 if variance else math.nan
        by_gate, by_value = slope_square * value.raw(2), act.raw(2) * value.mean(np.square(value.slope))
        sampled, gradient_square = act.sampled or value.sampled, by_gate + by_value
    else:
        mean, second_moment = act.raw(1), act.raw(2)
        spread = act.value - mean
        variance = act.mean(np.square(spread))
        variance = variance if variance > 1e-24 * second_moment else 0.0  # of a constant there is only rounding
        kurtosis = act.mean(np.square(np.square(spread) / variance)) if variance else math.nan
        by_gate, by_value = None, None
        sampled, gradient_square = act.sampled, slope_square
    return Moments(
        name=record.name,
        scale=scale,
        gated=record.gated,
        sampled=sampled,
        mean=mean,
        second_moment=second_moment,
        variance=variance,
        kurtosis=kurtosis,
        slope_mean=act.mean(act.slope),
        slope_second_moment=slope_square,
        curvature_second_moment=act.mean(np.square(act.curvature)),
        negative_slope_share=act.negative_slope_share,
        forward_gain=_gain(second_moment, scale),
        backward_gain=_gain(gradient_square, 1.0),
        gate_slope_second_moment=by_gate,
        value_slope_second_moment=by_value,
    )


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


def dense_nodes(scale: float) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """The midpoint rule on 12 standard deviations to each side: for functions whose kinks are not known."""
    n_nodes = 2**18
    u = (np.arange(n_nodes) + 0.5) * (24.0 / n_nodes) - 12.0
    return u * scale, np.exp(-np.square(u) / 2) * (24.0 / n_nodes / np.sqrt(2 * np.pi))
