"""Bounds of an activation without an exact formula, measured: what a search on a grid finds, and nothing proves.

The function and its derivatives by autodiff are evaluated in float32, as they are trained: at 2,048 points per unit
from -32 to 32, and at 64 per doubling from there to 131,072. A feature narrower than that, or farther out, is not seen.
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from actlab.activations.definition import Activation, require_elementwise
from actlab.activations.proofs.bounds import Bounds, Enclosure, Extremum

REACH = 32
_PER_UNIT = 2048
_PER_DOUBLING = 64
_DOUBLINGS = 12  # beyond REACH
_EQUAL = 4e-7  # values as near as this, of numbers around 1, are equal in float32
_GAP = 8  # points that rounding may lift out of a run
_POINT = 0.05  # places nearer than this are one
_LEVEL = 1e-3  # what changes less, relatively, over the last doubling has a limit
_JUMP = 0.01  # the least jump of values around 1
_ROUNDED = 1e-5  # of large values may be rounding
_MOST_JUMPS = 64
_HALVINGS = 24
_DECIMALS = 5  # of the place of a jump
BESIDE = 2e-5  # of 0 and of each jump, for its one-sided limits

Numbers = Float[np.ndarray, " n"]


def derivatives_of(fn: Callable[..., jax.Array], x: Numbers) -> Float[np.ndarray, "3 n"]:
    """f, f', f'' of an elementwise function at float32 numbers, as rows; f' by autodiff as training has it."""
    slope = _slope(fn)
    # The initialiser of a model asks for a gain while it is traced; the gain must be a number even then.
    with jax.ensure_compile_time_eval():
        points = jnp.asarray(x, jnp.float32)
        return np.stack([np.asarray(f(points), np.float64) for f in (fn, slope, _slope(slope))])


def _slope(fn: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    def slope(x: jax.Array) -> jax.Array:
        value, pull = jax.vjp(fn, x)
        return pull(jnp.ones_like(value))[0]

    return slope


@functools.lru_cache(maxsize=1024)
def measured_bounds(record: Activation) -> Bounds:
    """The bounds of an elementwise activation as the grid shows them: each end of an enclosure is the number found.

    An extremum that is only approached where the grid ends is a limit, without a place. Where values of the tail
    neither settle nor run away, as those of a sine do, the limit is nan. Points at which a value is nan are left out.
    """
    require_elementwise(record)
    with np.errstate(all="ignore"):
        (kinks, _), (places, jumps) = (_jumps(record.fn, _grid(), order) for order in (1, 0))
        x = np.union1d(_grid(), [one + side for one in (0.0, *kinks, *places) for side in (-BESIDE, BESIDE)])
        value, slope, curvature = derivatives_of(record.fn, x)
        least, most = _infimum(x, value), _supremum(x, value)
        falls, rises = _infimum(x, slope), _supremum(x, slope)
        bend = _supremum(x, np.abs(curvature))
    lipschitz = math.inf if jumps else max(abs(falls.value.low), abs(rises.value.high))
    return Bounds(
        proven=False,
        minimum=least.value,
        minimum_at=least.place,
        maximum=most.value,
        maximum_at=most.place,
        slope_infimum=falls.value,
        slope_infimum_at=falls.place,
        slope_supremum=rises.value,
        slope_supremum_at=rises.place,
        lipschitz=Enclosure(lipschitz, lipschitz),
        curvature_supremum=bend.value,
        curvature_supremum_at=bend.place,
        limit_left=_limit(value[_PER_DOUBLING::-1]),
        limit_right=_limit(value[-_PER_DOUBLING - 1 :]),
        monotone=(falls.value.low >= -_EQUAL and min(jumps, default=0) >= 0)
        or (rises.value.high <= _EQUAL and max(jumps, default=0) <= 0),
        kinks=kinks,
    )


@functools.cache
def _grid() -> Numbers:
    tail = REACH * 2.0 ** (np.arange(1, _DOUBLINGS * _PER_DOUBLING + 1) / _PER_DOUBLING)
    near = np.arange(-REACH * _PER_UNIT, REACH * _PER_UNIT + 1) / _PER_UNIT
    return np.concatenate([-tail[::-1], near, tail]).astype(np.float32).astype(np.float64)


def _limit(outwards: Numbers) -> float:
    """What the values of the last doubling settle at; an infinity if they run away, nan if they do neither."""
    known = outwards[~np.isnan(outwards)]
    if not known.size or np.isinf(known[-1]):
        return float(known[-1]) if known.size else math.nan
    if np.ptp(known) <= _LEVEL * max(1.0, abs(known[-1])):
        return float(known[-1])
    steps = np.diff(known)
    return math.inf if np.all(steps >= 0) else -math.inf if np.all(steps <= 0) else math.nan


def _supremum(x: Numbers, y: Numbers) -> Extremum:
    negated = _infimum(x, -y)
    return Extremum(-negated.value, negated.place)


def _infimum(x: Numbers, y: Numbers) -> Extremum:
    # Of a function that ends, the last points that have a value are no tail.
    limits = [_limit(y[_PER_DOUBLING::-1]), _limit(y[-_PER_DOUBLING - 1 :])]
    x, y = x[~np.isnan(y)], y[~np.isnan(y)]
    if not y.size:
        return Extremum(Enclosure(math.nan, math.nan), None)
    least = float(np.min(y))
    size = min(1.0, 16 * float(np.ptp(y)) or 1.0)  # less than 1 of a function of small values
    least = 0.0 if abs(least) <= _EQUAL * size else least
    if -math.inf in (least, *limits):
        return Extremum(Enclosure(-math.inf, -math.inf), None)
    near = _EQUAL * max(size, abs(least))
    low = y <= least + near
    place = _place(x, y, low)
    # If the value is as low at an end of the grid, and nowhere higher between, the place is rounding and this a limit.
    others = x[y > least + 16 * near]
    if place and math.isfinite(place.low) and math.isfinite(place.high) and others.size:
        if low[0] and place.low < others[0] or low[-1] and place.high > others[-1]:
            place = None
    return Extremum(Enclosure(least, least), place)


def _place(x: Numbers, y: Numbers, low: Bool[np.ndarray, " n"]) -> Enclosure | None:
    """The rightmost run of points at which y is least; a run to the end of the grid counts if y is constant on it."""
    found = np.flatnonzero(low)
    runs = np.split(found, np.flatnonzero(np.diff(found) > _GAP) + 1)
    for first, last in ((run[0], run[-1]) for run in reversed(runs)):
        start, stop = float(x[first]), float(x[last])
        to_left, to_right = first == 0, last == len(x) - 1
        if not (to_left or to_right):
            middle = (start + stop) / 2
            return Enclosure(middle, middle) if stop - start < _POINT else Enclosure(start, stop)
        constant = np.flatnonzero(y[first : last + 1] == y[first if to_left else last]) + first
        near, far = (constant[-1], last) if to_left else (constant[0], first)
        # A function that only comes near its limit differs from it over a distance, one with a bend is there at once.
        if len(constant) > 1 and abs(x[far] - x[near]) < _POINT:
            return Enclosure(-math.inf if to_left else float(x[near]), math.inf if to_right else float(x[near]))
    return None


def _jumps(fn: Callable[..., jax.Array], x: Numbers, order: int) -> tuple[tuple[float, ...], list[float]]:
    """Where f^(order) jumps within REACH, and by how much: steps that bisection does not make smaller.

    At one place it may jump twice, up and down again.
    """
    value, slope = derivatives_of(fn, x)[order : order + 2]
    known = np.isfinite(value) & np.isfinite(slope) & (np.abs(x) <= REACH)
    x, value, steep = x[known], value[known], np.abs(slope[known])
    steps = np.abs(np.diff(value))
    # Of small values smaller steps are jumps, and large values are rounded by more.
    jump = _JUMP * min(1.0, float(np.ptp(value)) if value.size else 1.0)
    jump += _ROUNDED * float(np.max(np.abs(value), initial=0.0))
    jumps = np.flatnonzero(steps > jump + 4 * np.diff(x) * np.maximum(steep[1:], steep[:-1]))
    jumps = jumps[np.argsort(-steps[jumps], kind="stable")][:_MOST_JUMPS]
    low, high, left, right = x[jumps], x[jumps + 1], value[jumps], value[jumps + 1]
    for _ in range(_HALVINGS if jumps.size else 0):
        middle = ((low + high) / 2).astype(np.float32).astype(np.float64)
        between = derivatives_of(fn, middle)[order]
        between = np.where(np.isnan(between), left, between)
        in_left = np.abs(between - left) >= np.abs(right - between)
        high, right = np.where(in_left, middle, high), np.where(in_left, between, right)
        low, left = np.where(in_left, low, middle), np.where(in_left, left, between)
    kept = np.abs(right - left) > jump / 2
    places = np.round(high[kept], _DECIMALS) + 0.0
    return tuple(sorted(set(places.tolist()))), (right - left)[kept].tolist()
