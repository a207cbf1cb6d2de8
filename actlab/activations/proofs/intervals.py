"""Interval arithmetic in numpy: every result contains all true results for the members of its operands.

Each float64 result of + - * / is within half a unit in the last place (IEEE 754) and is moved outward by one unit.
Sums that are 0 are exact and stay; products keep the sign that their factors have. Endpoints may be infinite: an
interval is a set of real numbers, so 0 times anything is 0. Moore, Kearfott and Cloud 2009, chapters 2 and 4.
Run it under np.errstate(all="ignore"): overflow and 0 * infinity are expected.

The atoms (see jets.py) rise or fall on either side of one peak, so the values at the ends of an interval, and the
peak's if it is inside, enclose them; also at infinity, where all are 0. The enclosures trust the libraries this far,
in units in the last place of float64: np.exp and np.log1p within 8 (measured: below 1), scipy.special.erfcx within 64
(measured: below 8). tests/activations/test_intervals.py measures them again against mpmath.
"""

import functools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import scipy  # loads scipy.special at its first use, which takes a sixth of a second

from actlab.activations.proofs.jets import HALF, ONE_OVER_SQRT_2_PI, Arithmetic, Constant
from actlab.errors import UserError

Ends = Any  # an array or a number of float64


def _down(x: Ends) -> Ends:
    return np.nextafter(x, -np.inf)


def _up(x: Ends) -> Ends:
    return np.nextafter(x, np.inf)


class Interval:
    """The real numbers from low to high, for each entry of two arrays.

    low is never +infinity and high never -infinity: infinite ends stand for unbounded sets of finite numbers.
    """

    __slots__ = ("high", "low")

    def __init__(self, low: Ends, high: Ends) -> None:
        self.low, self.high = low, high

    def __add__(self, other: "Interval | int") -> "Interval":
        other = enclose(other) if isinstance(other, int) else other
        low, high = self.low + other.low, self.high + other.high
        return Interval(np.where(low == 0, low, _down(low)), np.where(high == 0, high, _up(high)))

    __radd__ = __add__

    def __neg__(self) -> "Interval":
        return Interval(-self.high, -self.low)

    def __sub__(self, other: "Interval") -> "Interval":
        return self + -other

    def __mul__(self, other: "Interval | int") -> "Interval":
        other = enclose(other) if isinstance(other, int) else other
        if other.low.ndim == 0 and other.low == other.high:
            return self._scaled(other.low)
        a, b, c, d = self.low, self.high, other.low, other.high
        products = a * c, a * d, b * c, b * d
        # fmin and fmax skip the nan of 0 * infinity; another product is 0 then, or all four are nan.
        low = np.fmin(np.fmin(products[0], products[1]), np.fmin(products[2], products[3]))
        high = np.fmax(np.fmax(products[0], products[1]), np.fmax(products[2], products[3]))
        low, high = (_down(np.where(np.isnan(low), 0, low)), _up(np.where(np.isnan(high), 0, high)))
        up, down, other_up, other_down = a >= 0, b <= 0, c >= 0, d <= 0
        zero = (up & down) | (other_up & other_down)
        at_least_0 = zero | (up & other_up) | (down & other_down)
        at_most_0 = zero | (up & other_down) | (down & other_up)
        return Interval(np.where(at_least_0 & (low < 0), 0, low), np.where(at_most_0 & (high > 0), 0, high))

    def _scaled(self, factor: Ends) -> "Interval":
        """The product with one number; the general rule in fewer steps."""
        if factor == 0:
            return Interval(np.zeros_like(self.low), np.zeros_like(self.high))
        a, b = (self.low, self.high) if factor > 0 else (-self.high, -self.low)
        low, high = _down(a * abs(factor)), _up(b * abs(factor))
        return Interval(np.where((a >= 0) & (low < 0), 0, low), np.where((b <= 0) & (high > 0), 0, high))

    def times_at_least_0(self, other: "Interval") -> "Interval":
        """The product of intervals that are both >= 0 and finite; the general rule in fewer steps."""
        return Interval(np.maximum(_down(self.low * other.low), 0), _up(self.high * other.high))

    def reciprocal(self) -> "Interval":
        """1 / x; the whole line where 0 is inside or an end."""
        inside = (self.low <= 0) & (self.high >= 0)
        low, high = _down(1 / self.high), _up(1 / self.low)
        low, high = np.where((self.low > 0) & (low < 0), 0, low), np.where((self.high < 0) & (high > 0), 0, high)
        return Interval(np.where(inside, -np.inf, low), np.where(inside, np.inf, high))

    def __truediv__(self, other: "Interval") -> "Interval":
        return self * other.reciprocal()

    def power(self, k: int) -> "Interval":
        """x^k for k >= 0."""
        return self * self.power(k - 1) if k > 1 else self if k else enclose(1)


def at(x: Ends) -> Interval:
    """The points themselves; infinities are taken as unbounded sets."""
    return Interval(np.where(x == np.inf, np.finfo(np.float64).max, x), np.where(x == -np.inf, -np.finfo(float).max, x))


@functools.lru_cache(maxsize=4096)
def enclose(value: Constant) -> Interval:
    """A number: exact where it is a float64, else a unit in the last place to either side of the nearest.

    So wide, it also holds an irrational number that `value` gives to 40 digits.
    """
    nearest = np.float64(float(value))
    exact = Fraction(value) == Fraction(float(nearest))
    return Interval(nearest, nearest) if exact else Interval(np.float64(_down(nearest)), np.float64(_up(nearest)))


EXP_ULP = 8
ERFCX_ULP = 64
_EPS = float(np.finfo(np.float64).eps)
_TINY = 1e-320  # covers what underflows
_INVERSE_SQRT_2 = Fraction("0.707106781186547524400844362104849039284835937688474036588")
_GAUSS = (Fraction(0), HALF)


def _allow(low: Ends, high: Ends, ulp: int) -> Interval:
    """[low, high], computed by a library that errs by `ulp` units; what is >= 0 stays so."""
    widened = low - np.abs(low) * (ulp * _EPS) - _TINY, high + np.abs(high) * (ulp * _EPS) + _TINY
    return Interval(np.where((low >= 0) & (widened[0] < 0), 0, widened[0]), widened[1])


def _exponent(x: Interval, rates: Sequence[Fraction]) -> Interval:
    """v(x) by Horner's rule."""
    total = enclose(rates[-1])
    for rate in reversed(rates[:-1]):
        total = total * x + enclose(rate)
    return total * x


def _decay_at(x: Ends, rates: Sequence[Fraction]) -> Interval:
    """e^-v(x) at points x >= 0, at most 1, and 1 at 0."""
    v = _exponent(at(x), rates)
    e = _allow(np.exp(-v.high), np.exp(-v.low), EXP_ULP)
    return Interval(np.where(v.high == 0, 1, e.low), np.minimum(e.high, 1))


def _tail_at(x: Ends) -> Interval:
    """Phi(-x) = erfcx(x / sqrt 2) e^(-x^2/2) / 2 at points x >= 0; erfcx falls."""
    y = at(x) * enclose(_INVERSE_SQRT_2)
    scaled = _allow(scipy.special.erfcx(y.high), scipy.special.erfcx(y.low), ERFCX_ULP)
    return scaled * _decay_at(x, _GAUSS) * enclose(HALF)


def _powers_at(x: Ends, decay: Interval, powers: Sequence[int]) -> dict[int, Interval]:
    finite = np.where(np.isinf(x), 0, x)  # x^k e^-v is 0 at infinity
    product = Interval(np.where(np.isinf(x), 0, decay.low), np.where(np.isinf(x), 0, decay.high))
    products = {0: product}
    for k in range(1, max(powers) + 1):
        products[k] = product = product.times_at_least_0(Interval(finite, finite))
    return {k: products[k] for k in powers}


def _unimodal(
    x: Interval,
    at_points: Callable[[Ends, Sequence[int]], dict[int, Interval]],
    peak: Callable[[int], tuple[float, float, float]],
    powers: Sequence[int],
) -> dict[int, Interval]:
    if np.any(x.low < 0):
        raise UserError("an exact formula has decaying or normal_tail of x < 0: write that side in terms of -x.")
    bottom, top = at_points(x.low, powers), at_points(x.high, powers)
    enclosed = {}
    for k in powers:
        low, high = np.minimum(bottom[k].low, top[k].low), np.maximum(bottom[k].high, top[k].high)
        before, after, height = peak(k)
        inside = (x.low <= after) & (x.high >= before)
        enclosed[k] = Interval(low, np.where(inside, np.maximum(high, height), high))
    return enclosed


@functools.cache
def _decay_peak(k: int, rates: tuple[Fraction, ...]) -> tuple[float, float, float]:
    """`_peak` of x^k e^-v. x v'(x), which grows, is k there."""
    if k == 0:
        return 0.0, 0.0, 1.0
    steps = tuple((j + 1) * rate for j, rate in enumerate(rates))
    excess = lambda x: enclose(k) - _exponent(x, steps)
    plain = lambda x: k - sum(float(step) * x ** (j + 1) for j, step in enumerate(steps))
    return _peak(k, excess, plain, lambda x: _decay_at(x, rates))


@functools.cache
def _tail_peak(k: int) -> tuple[float, float, float]:
    """`_peak` of x^k Phi(-x). x phi(x) / Phi(-x), which grows, is k there."""
    if k == 0:
        return 0.0, 0.0, 0.5
    density = lambda x: _decay_at(x.low, _GAUSS) * enclose(ONE_OVER_SQRT_2_PI)
    excess = lambda x: _tail_at(x.low) * k - x * density(x)
    plain = lambda x: k * np.sqrt(np.pi / 2) * scipy.special.erfcx(x / np.sqrt(2)) - x
    return _peak(k, excess, plain, _tail_at)


def _peak(
    k: int,
    excess: Callable[[Interval], Interval],
    plain: Callable[[float], float],
    falling: Callable[[Ends], Interval],
) -> tuple[float, float, float]:
    """Ends of a bracket of the peak of x^k times a falling function, and a bound of the peak's height.

    The slope has the sign of the excess, which proves the bracket around the root of `plain`.
    """
    import scipy.optimize  # a third of a second, which no start of a training needs

    high = 1.0
    while plain(high) > 0:
        high *= 2
    guess = scipy.optimize.root_scalar(plain, bracket=(0.0, high), method="brentq", xtol=1e-300).root
    before, after = np.float64(guess * (1 - 1e-12)), np.float64(guess * (1 + 1e-12))
    if not (excess(at(before)).low > 0 and excess(at(after)).high < 0):
        raise ArithmeticError(f"no peak is proven near {guess}.")
    height = Interval(after, after).power(k) * falling(before)
    return float(before), float(after), float(height.high)


class Intervals(Arithmetic):
    """The arithmetic of certified bounds."""

    def constant(self, value: Constant) -> Interval:
        """An enclosure of the number."""
        return enclose(value)

    def decays(self, x: Interval, rates: Sequence[Fraction], powers: Sequence[int]) -> dict[int, Interval]:
        """x^k e^-v(x) for each k."""
        at_points = lambda ends, powers: _powers_at(ends, _decay_at(ends, rates), powers)
        return _unimodal(x, at_points, lambda k: _decay_peak(k, tuple(rates)), powers)

    def normal_tails(self, x: Interval, powers: Sequence[int]) -> dict[int, Interval]:
        """x^k Phi(-x) for each k."""
        return _unimodal(x, lambda ends, powers: _powers_at(ends, _tail_at(ends), powers), _tail_peak, powers)

    def log1p(self, x: Interval) -> Interval:
        """log(1 + x), which grows."""
        return _allow(np.log1p(x.low), np.log1p(x.high), EXP_ULP)


INTERVALS = Intervals()
