"""f, f' and f'' as few points as a line needs, of the exact formulas in float64."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float

from actlab.activations.catalogue import get
from actlab.activations.extrema import Enclosure
from actlab.activations.floats import FLOATS
from actlab.activations.formulas import exact_of
from actlab.activations.jets import Jet
from actlab.activations.piecewise import Piece
from actlab.activations.properties import Properties

REACH = 8  # curves go from -8 to 8
HOVER = 0.25  # multiples of it are always points: they answer a pointer, and a curve may be cut at any of them
_FINE = 1 / 128
_TOLERANCE = 5e-4  # what a line between two points may be off
_POINT = 1e-3  # an extremum that is enclosed so closely is one point
Values = Float[np.ndarray, " n"]


def curves(known: Properties) -> tuple[list[tuple[float, float]], ...]:
    """Points (x, y) of f, f' and f''; y is NaN where the line is to break, between the two sides of a jump.

    Kinks and extrema are points. Of a vector-valued activation it is the formula at the scale 1.
    """
    exact = exact_of(get(known.name), 1.0)
    assert exact is not None  # its properties are known
    fixed = np.unique([*np.arange(-REACH, REACH + HOVER, HOVER), *_extrema(known)])
    return tuple(_joined(_piece(piece, order, fixed) for piece in exact.pieces) for order in range(3))


def _extrema(known: Properties) -> Iterable[float]:
    places = (
        known.minimum_at,
        known.maximum_at,
        known.slope_infimum_at,
        known.slope_supremum_at,
        known.curvature_supremum_at,
    )
    return (place.value for place in places if place is not None and _is_point(place))


def _is_point(place: Enclosure) -> bool:
    return place.width < _POINT and abs(place.value) <= REACH


def _piece(piece: Piece, order: int, fixed: Values) -> list[tuple[float, float]]:
    low, high = max(piece.low, -REACH), min(piece.high, REACH)
    if low >= high:
        return []
    x = np.unique([low, *np.arange(-REACH, REACH, _FINE), *fixed, high])
    x = x[(low <= x) & (x <= high)]
    with np.errstate(all="ignore"):
        value = piece.formula(Jet.variable(x, 2, FLOATS)).derivative(order)
    y = np.broadcast_to(np.asarray(value, np.float64), x.shape)
    kept = _thin(x, y, np.flatnonzero(np.isin(x, [low, *fixed, high])).tolist())
    return list(zip(x[kept].tolist(), y[kept].tolist(), strict=True))


def _thin(x: Values, y: Values, fixed: Sequence[int]) -> list[int]:
    """Indices of the points to keep: the fixed ones, and between two the one that is farthest from their line."""
    kept, todo = set(fixed), list(zip(fixed, fixed[1:], strict=False))
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
