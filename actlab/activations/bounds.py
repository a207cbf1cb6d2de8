"""Certified bounds of an activation, its slope and its curvature."""

import dataclasses
import functools
import math

import numpy as np

from actlab.activations.extrema import FAR, Enclosure, Extremum, infimum, ranges
from actlab.activations.piecewise import Piece, Piecewise
from actlab.errors import UserError

LIMIT_TOLERANCE = 1e-9


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Enclosures proven by interval arithmetic, at most 1e-6 wide, or 1e-6 of the number where that is above 1.

    Where an extremum is taken is enclosed too: a point about as closely, as a whole interval where the function is
    constant (relu's minimum: [-inf, 0]), the rightmost of several (tanh's curvature: 0.658, not -0.658). None: it is
    a limit at infinity, taken nowhere within 32 of the distances over which the function bends. At a kink both
    one-sided limits of slope and curvature count. Curvature leaves Dirac deltas out: they sit at the `kinks`, where
    the slope is proven to jump, which needs a jump of a few units in the last place.
    """

    minimum: Enclosure
    minimum_at: Enclosure | None
    maximum: Enclosure
    maximum_at: Enclosure | None
    slope_infimum: Enclosure
    slope_infimum_at: Enclosure | None
    slope_supremum: Enclosure
    slope_supremum_at: Enclosure | None
    lipschitz: Enclosure  # sup |f'|
    curvature_supremum: Enclosure  # sup |f''|
    curvature_supremum_at: Enclosure | None
    limit_left: float  # at -infinity
    limit_right: float
    monotone: bool | None  # the slope never changes sign; None where the arithmetic cannot tell
    kinks: tuple[float, ...]


@functools.lru_cache(maxsize=1024)
def bounds_of(function: Piecewise) -> Bounds:
    """The bounds of an exact formula.

    Raises:
        UserError: where a tail of it cannot be enclosed.
    """
    least, most = infimum(function, 0), _supremum(function, 0)
    falls, rises = infimum(function, 1), _supremum(function, 1)
    curvature = _larger(_supremum(function, 2), infimum(function, 2, sign=1))
    return Bounds(
        minimum=least.value,
        minimum_at=least.place,
        maximum=most.value,
        maximum_at=most.place,
        slope_infimum=falls.value,
        slope_infimum_at=falls.place,
        slope_supremum=rises.value,
        slope_supremum_at=rises.place,
        lipschitz=_larger(rises, falls).value,
        curvature_supremum=curvature.value,
        curvature_supremum_at=curvature.place,
        limit_left=_limit(function.pieces[0], -FAR * function.unit),
        limit_right=_limit(function.pieces[-1], FAR * function.unit),
        monotone=_monotone(falls.value, rises.value),
        kinks=tuple(_kinks(function)),
    )


def _supremum(function: Piecewise, order: int) -> Extremum:
    negated = infimum(function, order, sign=-1)
    return Extremum(-negated.value, negated.place)


def _larger(top: Extremum, bottom: Extremum) -> Extremum:
    """The larger of |top| and |bottom|, a supremum and an infimum of the same function; the rightmost if equal."""
    a, b = top.value, -bottom.value
    value = Enclosure(max(a.low, b.low), max(a.high, b.high))
    if a.high < b.low or b.high < a.low:
        return Extremum(value, top.place if a.low > b.high else bottom.place)
    places = [place for place in (top.place, bottom.place) if place is not None]
    return Extremum(value, max(places, key=lambda place: place.high, default=None))


def _monotone(falls: Enclosure, rises: Enclosure) -> bool | None:
    if falls.low >= 0 or rises.high <= 0:
        return True
    return False if falls.high < 0 < rises.low else None


def _limit(piece: Piece, far: float) -> float:
    """f at infinity, from its enclosure on [far, infinity]: infinite where the slope is bounded away from 0 there."""
    low, high = sorted((far, math.copysign(math.inf, far)))
    with np.errstate(all="ignore"):
        value, slope = ranges(piece, np.array([low]), np.array([high]), 0)
    direction = (slope.low[0] > 0) * 1 - (slope.high[0] < 0) * 1
    if direction:
        return float(math.copysign(math.inf, far) * direction)
    low, high = float(value.low[0]), float(value.high[0])
    if not high - low <= LIMIT_TOLERANCE * max(1.0, abs(low)):
        raise UserError("an exact formula has no limit at infinity that can be enclosed: write it with decaying.")
    middle = 0.0 if low <= 0 <= high else (low + high) / 2
    short = float(f"{middle:.12g}")
    return short if low <= short <= high else middle


def _kinks(function: Piecewise) -> list[float]:
    kinks = []
    for left, right in zip(function.pieces, function.pieces[1:], strict=False):
        point = np.array([left.high])
        with np.errstate(all="ignore"):
            (_, before), (_, after) = ranges(left, point, point, 0), ranges(right, point, point, 0)
        if before.high[0] < after.low[0] or after.high[0] < before.low[0]:
            kinks.append(left.high)
    return kinks
