"""Certified infimum of f, f' or f'' over the whole line: branch and bound with interval Taylor arithmetic.

The line is cut into boxes, the outermost of them infinite. On each box the formula gives enclosures of g = f^(k) and
g'. A box whose g lies above a value that g is known to take is dropped; one where g' has a sign is replaced by the end
at which g is least; any other is cut up, until it is 2^-40 of its place wide.

The tails [r, infinity] are boxes like any other, since the atoms are enclosed there too. If g' >= c > 0 towards
-infinity, then g has no lower bound. If g is monotone, its infimum there is a limit that it does not take, since g is
analytic: a monotone analytic function that takes its limit is constant, and a constant is seen by its g', which is
exactly 0. Otherwise r doubles until the enclosure of g on the tail decides within 1e-9.
"""

import dataclasses
import math

import numpy as np

from actlab.activations.enclosed_atoms import INTERVALS
from actlab.activations.intervals import Interval
from actlab.activations.jets import Jet
from actlab.activations.piecewise import Piece, Piecewise
from actlab.errors import UserError

FIRST_REACH = 32.0  # of the finite boxes at the start, in units of the function
N_FIRST = 128
N_PARTS = 16
NARROW = 2.0**-40
SMALL = 1e-100  # cutting a box with a smaller range of values decides nothing
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
    jet = piece.formula(Jet.variable(Interval(low, high), order + 1, INTERVALS))
    return _as_interval(jet.derivative(order), low), _as_interval(jet.derivative(order + 1), low)


def _as_interval(value: "Interval | int", like: np.ndarray) -> Interval:
    low, high = (value, value) if isinstance(value, int) else (value.low, value.high)
    # A formula that has no value somewhere is not bounded there.
    low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    return Interval(np.broadcast_to(low, like.shape), np.broadcast_to(high, like.shape))


def infimum(function: Piecewise, order: int, sign: int = 1) -> Extremum:
    """The infimum of sign * f^(order), where one-sided limits at breaks count.

    `value` is as narrow as rounding allows, about 1e-12 of the numbers met. `place` is an enclosure of where it is
    taken: about 1e-12 wide for one point, the whole piece where g is constant, and the rightmost of places that the
    arithmetic cannot tell apart, as those of an even function.

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
        # One call for points, boxes and what g nears in the tails.
        lows, highs = (np.concatenate([end, points, far]) for end in boxes)
        value, slope = _signed(ranges(piece, lows, highs, order), sign)
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


def _signed(pair: tuple[Interval, Interval], sign: int) -> tuple[Interval, Interval]:
    return pair if sign > 0 else (-pair[0], -pair[1])


def _flat(slope: Interval) -> np.ndarray:
    return (slope.low == 0) & (slope.high == 0)


def _endless(boxes: tuple[np.ndarray, np.ndarray], slope: Interval) -> np.ndarray:
    """g falls without end: its slope is bounded away from 0."""
    return (np.isinf(boxes[0]) & (slope.low > 0)) | (np.isinf(boxes[1]) & (slope.high < 0))


def _part(which: "slice | np.ndarray", value: Interval, slope: Interval) -> tuple[Interval, Interval]:
    return Interval(value.low[which], value.high[which]), Interval(slope.low[which], slope.high[which])


def _take_points(piece: Piece, points: np.ndarray, value: Interval, slope: Interval, found: _Candidates) -> None:
    """Adds the points at which g may be least: not those where it leads further down to a side that is there."""
    further = ((slope.low > 0) & (points > piece.low)) | ((slope.high < 0) & (points < piece.high))
    near = (value.low <= found.ceiling) & ~further
    found.add(value.low[near], points[near], points[near])


def _next(
    boxes: tuple[np.ndarray, np.ndarray], value: Interval, slope: Interval, unit: float, found: _Candidates
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray], int]:
    """Points and boxes to look at next; what is decided goes to `found`."""
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
