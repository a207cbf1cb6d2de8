"""What the explorer shows of one activation: properties, moments over the input scale, and curves of f, f' and f''."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import jax
import numpy as np
from jaxtyping import Float

from actlab.activations.catalogue import get
from actlab.activations.definition import Activation
from actlab.activations.proofs.formulas import FLOATS, exact_of
from actlab.activations.proofs.jets import Jet, Piece
from actlab.activations.proofs.measured import BESIDE, derivatives_of
from actlab.activations.proofs.moments import Moments, moments
from actlab.activations.properties import Properties, properties

SCALES = tuple(round(0.1 * step, 1) for step in range(1, 41))
SCALE = 1.0  # the slider's first position, and the scale of the properties
REACH = 8  # curves cover -8 to 8
HOVER = 0.25  # a curve has a point at every multiple: these answer the pointer, and a curve may be cut at any of them
_FINE = 1 / 128
_TOLERANCE = 5e-4  # the largest error of linear interpolation between two points
_POINT = 1e-3  # an extremum enclosed more narrowly than this is one point
Values = Float[np.ndarray, " n"]


@dataclasses.dataclass(frozen=True)
class Facts:
    """An activation with its properties; moments and curves are computed on first use."""

    record: Activation
    properties: Properties

    @property
    def name(self) -> str:
        """The name in the catalogue."""
        return self.record.name

    @functools.cached_property
    def moments(self) -> tuple[Moments, ...]:
        """Moments at each of SCALES."""
        return tuple(moments(self.name, scale) for scale in SCALES)

    @functools.cached_property
    def curves(self) -> tuple[list[tuple[float, float]], ...]:
        """Points (x, y) of f, f' and f''."""
        return curves(self.properties)


def facts(name: str, complete: bool = True) -> Facts:
    """What the explorer shows of an activation.

    Args:
        name: of an activation.
        complete: computes everything now, which takes half a second, most of it for the dead zones.

    Raises:
        UserError: the name is unknown.
    """
    found = Facts(get(name), properties(name, SCALE))
    if complete:
        _ = found.properties.dead_zones, found.moments, found.curves
    return found


def curves(known: Properties) -> tuple[list[tuple[float, float]], ...]:
    """f, f' and f'' in float64 from the exact formulas, with as few points as linear interpolation needs.

    Without a formula they are float32 values of the function and of its derivatives by autodiff. Kinks and extrema are
    points. At a jump, a point with y = NaN between the two sides breaks the line. Of a vector-valued activation it is
    the formula at scale 1.
    """
    record = get(known.name)
    exact = exact_of(record, 1.0)
    if exact is None:
        ends = (-math.inf, *known.kinks, math.inf)
        pieces = [(low, high, functools.partial(_measured, record.fn, low, high)) for low, high in pairwise(ends)]
    else:
        pieces = [(piece.low, piece.high, functools.partial(_exact, piece)) for piece in exact.pieces]
    fixed = np.unique([*np.arange(-REACH, REACH + HOVER, HOVER), *_extrema(known)])
    return tuple(_joined(_piece(*piece, order, fixed) for piece in pieces) for order in range(3))


def _exact(piece: Piece, x: Values, order: int) -> Values:
    with np.errstate(all="ignore"):
        value = piece.at(Jet.variable(x, 2, FLOATS)).derivative(order)
    return np.broadcast_to(np.asarray(value, np.float64), x.shape)


def _measured(fn: Callable[..., jax.Array], low: float, high: float, x: Values, order: int) -> Values:
    """At a kink, from the inside of the piece."""
    return derivatives_of(fn, np.clip(x, low + BESIDE, high - BESIDE))[order]


def _extrema(known: Properties) -> Iterable[float]:
    """The extrema that are points within reach."""
    places = (
        known.minimum_at,
        known.maximum_at,
        known.slope_infimum_at,
        known.slope_supremum_at,
        known.curvature_supremum_at,
    )
    return (place.value for place in places if place and place.width < _POINT and abs(place.value) <= REACH)


def _piece(
    low: float, high: float, evaluate: Callable[[Values, int], Values], order: int, fixed: Values
) -> list[tuple[float, float]]:
    low, high = max(low, -REACH), min(high, REACH)
    if low >= high:
        return []
    x = np.unique([low, *np.arange(-REACH, REACH, _FINE), *fixed, high])
    x = x[(low <= x) & (x <= high)]
    y = evaluate(x, order)
    x, y = x[np.isfinite(y)], y[np.isfinite(y)]
    kept = _thin(x, y, np.flatnonzero(np.isin(x, [low, *fixed, high])).tolist())
    return list(zip(x[kept].tolist(), y[kept].tolist(), strict=True))


def _thin(x: Values, y: Values, fixed: Sequence[int]) -> list[int]:
    """Indices of the points to keep: the fixed ones, then again and again the one farthest from the line of its two."""
    kept, todo = set(fixed), list(pairwise(fixed))
    while todo:
        first, last = todo.pop()
        inside = slice(first + 1, last)
        off = np.abs(y[inside] - np.interp(x[inside], x[[first, last]], y[[first, last]]))
        if off.size and off.max() > _TOLERANCE:
            middle = first + 1 + int(off.argmax())
            kept.add(middle)
            todo += [(first, middle), (middle, last)]
    return sorted(kept)


def _joined(pieces: Iterable[list[tuple[float, float]]]) -> list[tuple[float, float]]:
    points: list[tuple[float, float]] = []
    for piece in filter(None, pieces):
        if points:
            (x, before), (_, after) = points[-1], piece[0]
            if math.isclose(before, after, abs_tol=_TOLERANCE):
                piece = piece[1:]
            else:
                points.append((x, math.nan))
        points += piece
    return points
