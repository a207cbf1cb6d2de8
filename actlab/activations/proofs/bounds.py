"""Certified bounds of an activation, its slope and its curvature: branch and bound with interval Taylor arithmetic.

To find the infimum of g = f^(k), the line is cut into boxes; the outermost are infinite. On each box the formula gives
enclosures of g and g'. A box whose g lies above a value that g is known to take is dropped. A box on which g' has one
sign is replaced by the end at which g is least. Any other box is cut up, until its width is 2^-40 of its position.

The tails [r, infinity] are boxes like any other, since the atoms have enclosures there too. If g' >= c > 0 towards
-infinity, g has no lower bound. If g is monotone on a tail, its infimum there is a limit that it does not take: g is
analytic, a monotone analytic function that takes its limit is constant, and a constant shows by its g', which is
exactly 0. Otherwise r doubles until the enclosure of g on the tail decides within 1e-9.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator

import numpy as np

from actlab.activations.proofs.intervals import INTERVALS, Interval
from actlab.activations.proofs.jets import Jet, Piece, Piecewise
from actlab.errors import UserError

FIRST_REACH = 32.0  # of the finite boxes at the start, in units of the function
N_FIRST = 128
N_PARTS = 16
NARROW = 2.0**-40
SMALL = 1e-100  # a box with a smaller range of values is not cut further
TAIL_TOLERANCE = 1e-9
MOST_DOUBLINGS = 200
FAR = 2.0**60


@dataclasses.dataclass(frozen=True)
class Enclosure:
    """A number known to lie in [low, high]; both are infinite where the number is."""

    low: float
    high: float

    @property
    def width(self) -> float:
        """high - low, 0 for an infinite number."""
        return 0.0 if self.low == self.high else self.high - self.low

    @property
    def value(self) -> float:
        """The middle; finite ends are at most their width off."""
        return self.low if self.low == self.high else self.low + (self.high - self.low) / 2

    def __neg__(self) -> "Enclosure":
        return Enclosure(-self.high, -self.low)


@dataclasses.dataclass(frozen=True)
class Extremum:
    """An infimum or supremum and where it is taken; None: nowhere, it is a limit at infinity."""

    value: Enclosure
    place: Enclosure | None


@dataclasses.dataclass
class _Candidates:
    """Boxes that may hold the infimum, with lower bounds of g; `ceiling` is an upper bound of the infimum."""

    ceiling: float = math.inf
    boxes: list[tuple[float, float, float]] = dataclasses.field(default_factory=list)
    limits: list[float] = dataclasses.field(default_factory=list)

    def add(self, bounds: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        self.boxes += zip(bounds.tolist(), low.tolist(), high.tolist(), strict=True)

    def result(self) -> Extremum:
        boxes = [box for box in self.boxes if box[0] <= self.ceiling]
        floor = min([box[0] for box in boxes] + self.limits)
        return Extremum(Enclosure(floor, self.ceiling), _rightmost(boxes) if boxes else None)


def _rightmost(boxes: list[tuple[float, float, float]]) -> Enclosure:
    """The last group of boxes that touch."""
    _, left, right = max(boxes, key=lambda box: box[2])
    for _, low, high in sorted(boxes, key=lambda box: -box[2]):
        if high >= left:
            left = min(left, low)
    return Enclosure(left, right)


def ranges(piece: Piece, low: np.ndarray, high: np.ndarray, order: int) -> tuple[Interval, Interval]:
    """Enclosures of f^(order) and f^(order + 1) on boxes."""
    jet = piece.at(Jet.variable(Interval(low, high), order + 1, INTERVALS))
    return _as_interval(jet.derivative(order), low), _as_interval(jet.derivative(order + 1), low)


def _as_interval(value: "Interval | int", like: np.ndarray) -> Interval:
    low, high = (value, value) if isinstance(value, int) else (value.low, value.high)
    # nan: the formula has no value somewhere in the box, so it has no bound there.
    low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    return Interval(np.broadcast_to(low, like.shape), np.broadcast_to(high, like.shape))


def infimum(function: Piecewise, order: int, sign: int = 1) -> Extremum:
    """The infimum of sign * f^(order), where one-sided limits at breaks count.

    `value` is as narrow as rounding allows, about 1e-12 of the numbers met. `place` is an enclosure of where it is
    taken: about 1e-12 wide for one point, the whole piece where g is constant, and the rightmost place where several
    have values that intervals cannot tell apart, as for an even function.

    Raises:
        UserError: where a tail cannot be decided.
    """
    candidates = _Candidates()
    with np.errstate(all="ignore"):
        for piece in function.pieces:
            if _search(piece, function.unit, order, sign, candidates):
                return Extremum(Enclosure(-math.inf, -math.inf), None)
        return candidates.result()


def _edges(piece: Piece, unit: float) -> np.ndarray:
    reach = unit * FIRST_REACH
    low = piece.low if math.isfinite(piece.low) else min(0.0, piece.high) - reach
    high = piece.high if math.isfinite(piece.high) else max(0.0, piece.low) + reach
    return np.unique([piece.low, *np.linspace(low, high, N_FIRST + 1), piece.high])


def _search(piece: Piece, unit: float, order: int, sign: int, found: _Candidates) -> bool:
    """Adds the piece's candidates; True where it has no lower bound."""
    edges = _edges(piece, unit)
    _, slope = ranges(piece, edges[:1], edges[-1:], order)
    points, boxes = edges[np.isfinite(edges)], (edges[:-1], edges[1:])
    if _flat(slope)[0]:
        boxes = (edges[:1], edges[-1:])
    far = np.array([end for end in (-FAR * unit, FAR * unit) if piece.low < end < piece.high])
    n_doublings = 0
    while boxes[0].size or points.size:
        # One evaluation for points, boxes and far points, whose values g approaches in the tails.
        lows, highs = (np.concatenate([end, points, far]) for end in boxes)
        value, slope = ranges(piece, lows, highs, order)
        if sign < 0:
            value, slope = -value, -slope
        found.ceiling = min(found.ceiling, float(np.min(value.high)))
        n_boxes, n_all = boxes[0].size, boxes[0].size + points.size
        _take_points(piece, points, *_part(slice(n_boxes, n_all), value, slope), found)
        value, slope = _part(slice(n_boxes), value, slope)
        if np.any(_endless(boxes, slope)):
            return True
        near = np.asarray(value.low <= found.ceiling)
        value, slope = _part(near, value, slope)
        points, boxes, n_tails = _next((boxes[0][near], boxes[1][near]), value, slope, unit, found)
        far = far[:0]
        n_doublings += n_tails
        if n_doublings > MOST_DOUBLINGS:
            raise UserError(
                "an exact formula has a tail that cannot be enclosed: write it with decaying and normal_tail, "
                "so that each side is a polynomial and a rest that vanishes."
            )
    return False


def _flat(slope: Interval) -> np.ndarray:
    return (slope.low == 0) & (slope.high == 0)


def _endless(boxes: tuple[np.ndarray, np.ndarray], slope: Interval) -> np.ndarray:
    """Where g falls without end: its slope is bounded away from 0."""
    return (np.isinf(boxes[0]) & (slope.low > 0)) | (np.isinf(boxes[1]) & (slope.high < 0))


def _part(which: "slice | np.ndarray", value: Interval, slope: Interval) -> tuple[Interval, Interval]:
    return Interval(value.low[which], value.high[which]), Interval(slope.low[which], slope.high[which])


def _take_points(piece: Piece, points: np.ndarray, value: Interval, slope: Interval, found: _Candidates) -> None:
    """Adds the points at which g may be least, but not those from which it falls further inside the piece."""
    further = ((slope.low > 0) & (points > piece.low)) | ((slope.high < 0) & (points < piece.high))
    near = (value.low <= found.ceiling) & ~further
    found.add(value.low[near], points[near], points[near])


def _next(
    boxes: tuple[np.ndarray, np.ndarray], value: Interval, slope: Interval, unit: float, found: _Candidates
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray], int]:
    """The next points and boxes, and the number of tails to cut; what is decided goes to `found`."""
    low, high = boxes
    flat, rising, falling = _flat(slope), slope.low >= 0, slope.high <= 0
    narrow = high - low <= NARROW * np.maximum(np.maximum(np.abs(low), np.abs(high)), unit)
    done = flat | (~(rising | falling) & (narrow | (value.high - value.low < SMALL)) & np.isfinite(high - low))
    found.add(value.low[done], low[done], high[done])
    at_left, at_right = rising & ~done, falling & ~rising & ~done
    points = np.unique(np.concatenate([low[at_left], high[at_right]]))
    to_tail = (at_left & np.isinf(low)) | (at_right & np.isinf(high))
    open_tail = ~(rising | falling) & ~done & np.isinf(high - low)
    undecided = (to_tail | open_tail) & (value.low < found.ceiling - TAIL_TOLERANCE * max(1.0, abs(found.ceiling)))
    found.limits += value.low[(to_tail | open_tail) & ~undecided].tolist()
    tails = _cut_tails(low[undecided], high[undecided])
    plain = ~(done | rising | falling | open_tail)
    parts = _cut(low[plain], high[plain])
    joined = (np.concatenate([parts[0], tails[0]]), np.concatenate([parts[1], tails[1]]))
    return points[np.isfinite(points)], joined, int(undecided.sum())


def _cut(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    share = np.arange(N_PARTS + 1) / N_PARTS
    edges = low[:, None] + (high - low)[:, None] * share
    edges[:, -1] = high
    return edges[:, :-1].ravel(), edges[:, 1:].ravel()


def _cut_tails(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[r, infinity] as [r, 2r] and [2r, infinity]."""
    middle = np.where(np.isinf(low), 2 * high, 2 * low)
    return np.concatenate([low, middle]), np.concatenate([middle, high])


LIMIT_TOLERANCE = 1e-9
JUMP_TOLERANCE = 1e-9  # of the values at a break, and of the unit


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Enclosures proven by interval arithmetic, at most 1e-6 wide, or 1e-6 of the number where that is above 1.

    Those of an activation without an exact formula are `measured.measured_bounds`, and `proven` is false.

    Where an extremum is taken is enclosed too: a point about as closely; a whole interval where the function is
    constant (relu's minimum: [-inf, 0]); the rightmost of several points (tanh's curvature: 0.658, not -0.658). None
    means a limit at infinity, taken nowhere within 32 of the distances over which the function bends. At a kink both
    one-sided limits of slope and curvature count. Curvature leaves out the Dirac deltas, which sit at the `kinks`: the
    points where the slope is proven to jump, by at least a few units in the last place. A function that jumps itself,
    by more than 1e-9 of its values, has no Lipschitz constant: it is infinite.
    """

    proven: bool
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
    monotone: bool | None  # never falls, or never rises; None if intervals cannot tell
    kinks: tuple[float, ...]


@functools.lru_cache(maxsize=1024)
def bounds_of(function: Piecewise) -> Bounds:
    """The bounds of an exact formula.

    Raises:
        UserError: where a tail of it cannot be enclosed.
    """
    least, most = infimum(function, 0), _supremum(function, 0)
    falls, rises = infimum(function, 1), _supremum(function, 1)
    curvature = _larger(_supremum(function, 2), infimum(function, 2))
    jumps = _jumps(function)
    return Bounds(
        proven=True,
        minimum=least.value,
        minimum_at=least.place,
        maximum=most.value,
        maximum_at=most.place,
        slope_infimum=falls.value,
        slope_infimum_at=falls.place,
        slope_supremum=rises.value,
        slope_supremum_at=rises.place,
        lipschitz=Enclosure(math.inf, math.inf) if jumps else _larger(rises, falls).value,
        curvature_supremum=curvature.value,
        curvature_supremum_at=curvature.place,
        limit_left=_limit(function.pieces[0], -FAR * function.unit),
        limit_right=_limit(function.pieces[-1], FAR * function.unit),
        monotone=_monotone(falls.value, rises.value, jumps),
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


def _monotone(falls: Enclosure, rises: Enclosure, jumps: list[int]) -> bool | None:
    if (falls.low >= 0 and -1 not in jumps) or (rises.high <= 0 and 1 not in jumps):
        return True
    return False if (falls.high < 0 or -1 in jumps) and (rises.low > 0 or 1 in jumps) else None


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


def _at_breaks(function: Piecewise) -> Iterator[tuple[float, tuple[Interval, Interval], tuple[Interval, Interval]]]:
    """Each break, with enclosures of f and f' before and after it."""
    for left, right in itertools.pairwise(function.pieces):
        point = np.array([left.high])
        with np.errstate(all="ignore"):
            yield left.high, ranges(left, point, point, 0), ranges(right, point, point, 0)


def _kinks(function: Piecewise) -> Iterator[float]:
    for point, (_, before), (_, after) in _at_breaks(function):
        if before.high[0] < after.low[0] or after.high[0] < before.low[0]:
            yield point


def _jumps(function: Piecewise) -> list[int]:
    """The sign of each jump of f. A break that is rounded leaves a gap that is none."""
    found = []
    for _, (before, _), (after, _) in _at_breaks(function):
        rounding = JUMP_TOLERANCE * max(function.unit, np.abs(before.high[0]), np.abs(after.high[0]))
        if after.low[0] - before.high[0] > rounding or before.low[0] - after.high[0] > rounding:
            found.append(1 if after.low[0] > before.high[0] else -1)
    return found
