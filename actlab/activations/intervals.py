"""Interval arithmetic in numpy: every operation contains all true results of its operands' members.

Each float64 result of + - * / is within half a unit in the last place (IEEE 754) and is moved outward by one unit.
Sums that are 0 are exact and stay; products keep the sign that their factors have. Endpoints may be infinite: an
interval is a set of real numbers, so 0 times anything is 0. Moore, Kearfott and Cloud 2009, chapters 2 and 4.
Run it under np.errstate(all="ignore"): overflow and 0 * infinity are met on purpose.
"""

import functools
from fractions import Fraction
from typing import Any

import numpy as np

from actlab.activations.jets import Constant

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
