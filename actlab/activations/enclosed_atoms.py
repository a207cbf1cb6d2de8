"""The atoms in interval arithmetic.

Each is monotone to either side of one peak, so that its values at the ends of an interval, and the peak's if that is
inside, enclose it; also at infinity, where all are 0. What is trusted of the libraries, in units in the last place of
float64: np.exp and np.log1p are within 8 (measured: below 1), scipy.special.erfcx within 64 (measured: below 8);
tests/activations/test_intervals.py measures them again against mpmath.
"""

import functools
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import scipy.optimize
import scipy.special

from actlab.activations.atoms import HALF, ONE_OVER_SQRT_2_PI
from actlab.activations.intervals import Ends, Interval, at, enclose
from actlab.activations.jets import Arithmetic, Constant
from actlab.errors import UserError

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


def _bracket(excess: Callable[[Interval], Interval], guess: float) -> Interval:
    """A proven bracket of the peak: the excess is > 0 before and < 0 after it."""
    before, after = np.float64(guess * (1 - 1e-12)), np.float64(guess * (1 + 1e-12))
    if not (excess(at(before)).low > 0 and excess(at(after)).high < 0):
        raise ArithmeticError(f"no peak is proven near {guess}.")
    return Interval(before, after)


@functools.cache
def _decay_peak(k: int, rates: tuple[Fraction, ...]) -> tuple[float, float, float]:
    """Ends of a bracket of the peak of x^k e^-v, and a bound of its height. x v'(x), which grows, is k there."""
    if k == 0:
        return 0.0, 0.0, 1.0
    steps = tuple((j + 1) * rate for j, rate in enumerate(rates))
    excess = lambda x: enclose(k) - _exponent(x, steps)  # noqa: E731
    plain = lambda x: k - sum(float(step) * x ** (j + 1) for j, step in enumerate(steps))  # noqa: E731
    bracket = _bracket(excess, _solve(plain, k))
    return _height(bracket, k, _decay_at(bracket.low, rates))


@functools.cache
def _tail_peak(k: int) -> tuple[float, float, float]:
    """The same of x^k Phi(-x). x phi(x) / Phi(-x), which grows, is k there."""
    if k == 0:
        return 0.0, 0.0, 0.5
    density = lambda x: _decay_at(x.low, _GAUSS) * enclose(ONE_OVER_SQRT_2_PI)  # noqa: E731
    excess = lambda x: _tail_at(x.low) * k - x * density(x)  # noqa: E731
    plain = lambda x: k * np.sqrt(np.pi / 2) * scipy.special.erfcx(x / np.sqrt(2)) - x  # noqa: E731
    bracket = _bracket(excess, _solve(plain, k))
    return _height(bracket, k, _tail_at(bracket.low))


def _solve(falling: Callable[[float], float], k: int) -> float:
    high = 1.0
    while falling(high) > 0:
        high *= 2
    return scipy.optimize.root_scalar(falling, bracket=(0.0, high), method="brentq", xtol=1e-300).root


def _height(bracket: Interval, k: int, decay: Interval) -> tuple[float, float, float]:
    height = Interval(bracket.high, bracket.high).power(k) * decay
    return float(bracket.low), float(bracket.high), float(height.high)


class Intervals(Arithmetic):
    """The arithmetic of certified bounds."""

    def constant(self, value: Constant) -> Interval:
        """An enclosure of the number."""
        return enclose(value)

    def decays(self, x: Interval, rates: Sequence[Fraction], powers: Sequence[int]) -> dict[int, Interval]:
        """x^k e^-v(x) for each k."""
        at_points = lambda ends, powers: _powers_at(ends, _decay_at(ends, rates), powers)  # noqa: E731
        return _unimodal(x, at_points, lambda k: _decay_peak(k, tuple(rates)), powers)

    def normal_tails(self, x: Interval, powers: Sequence[int]) -> dict[int, Interval]:
        """x^k Phi(-x) for each k."""
        return _unimodal(x, lambda ends, powers: _powers_at(ends, _tail_at(ends), powers), _tail_peak, powers)

    def log1p(self, x: Interval) -> Interval:
        """log(1 + x), which grows."""
        return _allow(np.log1p(x.low), np.log1p(x.high), EXP_ULP)


INTERVALS = Intervals()
