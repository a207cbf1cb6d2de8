"""The language of exact formulas: truncated Taylor series, pieces of the line, and transcendental atoms.

A formula is written once, for jets. It then gives its value and its derivatives in any arithmetic: arrays of float64
for moments, intervals for certified bounds. Automatic differentiation by Taylor arithmetic: Griewank and Walther 2008,
chapter 13.

How to write one whose enclosures are finite on infinite tails: each side of 0 has its own formula, in which e^-x is
taken of x >= 0 only. A power of x and the decay that defeats it are one atom, `decaying(x, k)` for x^k e^-x: it has a
finite enclosure on [32, infinity], where the product of enclosures of x and e^-x has none. Where a slope has one sign,
choose the form that shows it (tanh x = 2 / (1 + e^-2x) - 1, not (1 - e) / (1 + e)), so that intervals see it.
"""

import abc
import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from actlab.errors import UserError

Constant = int | float | Fraction


class Arithmetic(abc.ABC):
    """What numbers must offer besides + - * and 1 / x: constants, and the values of the atoms below."""

    @abc.abstractmethod
    def constant(self, value: Constant) -> Any:
        """The number, exact or enclosed."""

    @abc.abstractmethod
    def decays(self, x: Any, rates: Sequence[Fraction], powers: Sequence[int]) -> dict[int, Any]:
        """x^k e^-v(x) for each k, v(x) = rates[0] x + rates[1] x^2 + ..., for x >= 0, infinity included."""

    @abc.abstractmethod
    def normal_tails(self, x: Any, powers: Sequence[int]) -> dict[int, Any]:
        """x^k Phi(-x) for each k, for x >= 0, infinity included."""

    @abc.abstractmethod
    def log1p(self, x: Any) -> Any:
        """log(1 + x) for x > -1."""


def _plus(a: Any, b: Any) -> Any:
    if isinstance(a, int) and a == 0:
        return b
    return a if isinstance(b, int) and b == 0 else a + b


def _times(a: Any, b: Any) -> Any:
    for this, other in ((a, b), (b, a)):
        if isinstance(this, int):
            return 0 if this == 0 else other if this == 1 else other * this
    return a * b


class Jet:
    """Taylor coefficients f^(k)(x) / k! of a function, k = 0, 1, ...

    A coefficient is a number of the arithmetic, or an integer, which is exact: a zero derivative stays exactly zero.
    """

    def __init__(self, coefficients: Sequence[Any], arithmetic: Arithmetic) -> None:
        self.coefficients = tuple(coefficients)
        self.arithmetic = arithmetic

    @classmethod
    def variable(cls, x: Any, order: int, arithmetic: Arithmetic) -> "Jet":
        """x itself: (x, 1, 0, ...), with derivatives up to `order`."""
        return cls((x, 1, *[0] * (order - 1))[: order + 1], arithmetic)

    def constant(self, value: Constant) -> "Jet":
        """A constant as a jet of the same order."""
        zeros = [0] * (len(self.coefficients) - 1)
        return Jet((self.arithmetic.constant(value), *zeros), self.arithmetic)

    def derivative(self, k: int) -> Any:
        """f^(k); the integer 0 where it is a constant zero."""
        return _times(self.coefficients[k], math.factorial(k))

    def compose(self, outer: Sequence[Any]) -> "Jet":
        """g(f(x)) from the Taylor coefficients of g at f(x)."""
        inner = Jet((0, *self.coefficients[1:]), self.arithmetic)
        result = Jet((outer[-1], *[0] * (len(outer) - 1)), self.arithmetic)
        for coefficient in reversed(outer[:-1]):
            product = (inner * result).coefficients
            result = Jet((coefficient, *product[1:]), self.arithmetic)
        return result

    def reciprocal(self) -> "Jet":
        """1 / f."""
        first = self.arithmetic.constant(1) / self.coefficients[0]
        powers = [first]
        for _ in self.coefficients[1:]:
            powers.append(-(powers[-1] * first))
        return self.compose(powers)

    def _lifted(self, other: "Jet | Constant") -> "Jet":
        return other if isinstance(other, Jet) else self.constant(other)

    def __add__(self, other: "Jet | Constant") -> "Jet":
        pairs = zip(self.coefficients, self._lifted(other).coefficients, strict=True)
        return Jet([_plus(a, b) for a, b in pairs], self.arithmetic)

    def __neg__(self) -> "Jet":
        return Jet([-a for a in self.coefficients], self.arithmetic)

    def __sub__(self, other: "Jet | Constant") -> "Jet":
        return self + -other

    def __mul__(self, other: "Jet | Constant") -> "Jet":
        a, b = self.coefficients, self._lifted(other).coefficients
        sums = []
        for k in range(len(a)):
            total: Any = 0
            for i in range(k + 1):
                total = _plus(total, _times(a[i], b[k - i]))
            sums.append(total)
        return Jet(sums, self.arithmetic)

    def __truediv__(self, other: "Jet | Constant") -> "Jet":
        return self * self._lifted(other).reciprocal()

    def __rsub__(self, other: Constant) -> "Jet":
        return -self + other

    def __rtruediv__(self, other: Constant) -> "Jet":
        return self.reciprocal() * other

    __radd__ = __add__
    __rmul__ = __mul__


@dataclasses.dataclass(frozen=True)
class Piece:
    """A smooth formula on the closed interval [low, high]; at a shared end both neighbours hold as one-sided limits.

    `formula` is built of + - * / and the atoms below. Analytic inside.
    """

    low: float
    high: float
    formula: Callable[[Jet], Jet | Constant]

    def at(self, x: Jet) -> Jet:
        """The formula's jet there, also of one that is a constant."""
        found = self.formula(x)
        return x.constant(found) if isinstance(found, Constant) else found


@dataclasses.dataclass(frozen=True)
class Piecewise:
    """A function of the whole line as pieces from left to right; `unit` is the distance over which it bends."""

    pieces: tuple[Piece, ...]
    unit: float = 1.0

    def __post_init__(self) -> None:
        """Refuses pieces that leave a part of the line out, or overlap."""
        lows, highs = [piece.low for piece in self.pieces], [piece.high for piece in self.pieces]
        if [-math.inf, *highs] != [*lows, math.inf] or not all(map(operator.lt, lows, highs)):
            raise UserError(
                f"pieces from {lows} to {highs} do not cover the line: begin at -inf, end at inf, and begin each piece "
                "where the one before ends."
            )

    @property
    def breaks(self) -> tuple[float, ...]:
        """Where one piece ends and the next begins."""
        return tuple(piece.high for piece in self.pieces[:-1])


def whole(formula: Callable[[Jet], Jet | Constant], unit: float = 1.0) -> Piecewise:
    """One formula for the whole line."""
    return Piecewise((Piece(-math.inf, math.inf, formula),), unit)


def halves(
    left: Callable[[Jet], Jet | Constant], right: Callable[[Jet], Jet | Constant], unit: float = 1.0
) -> Piecewise:
    """One formula for x <= 0, one for x >= 0."""
    return Piecewise((Piece(-math.inf, 0.0, left), Piece(0.0, math.inf, right)), unit)


Polynomial = dict[int, Fraction]

HALF = Fraction(1, 2)
# To 60 digits; as an interval it is a unit in the last place of float64 wide.
ONE_OVER_SQRT_2_PI = Fraction("0.398942280401432677939946059934381868475858631164934657666")


def _combine(*terms: tuple[Polynomial, int | Fraction, int]) -> Polynomial:
    """The sum of polynomials, each times a number and a power of x."""
    total: Polynomial = {}
    for polynomial, factor, shift in terms:
        for power, value in polynomial.items():
            total[power + shift] = total.get(power + shift, Fraction(0)) + value * factor
    return {power: value for power, value in total.items() if value}


def _slope(polynomial: Polynomial) -> Polynomial:
    return {power - 1: power * value for power, value in polynomial.items() if power}


def _sum(*terms: tuple[list[tuple[int, Any]], dict[int, Any]]) -> Any:
    total: Any = 0
    for polynomial, powers in terms:
        for power, value in polynomial:
            total = (powers[power] if isinstance(value, int) else powers[power] * value) + total
    return total


def _numbers(arithmetic: Arithmetic, polynomials: Sequence[Polynomial]) -> list[list[tuple[int, Any]]]:
    """Coefficients as numbers of the arithmetic; 1 stays an integer."""
    number = lambda value: 1 if value == 1 else arithmetic.constant(value)
    return [[(power, number(value)) for power, value in polynomial.items()] for polynomial in polynomials]


@functools.lru_cache(maxsize=1024)
def _decay_series(
    arithmetic: Arithmetic, power: int, rates: tuple[Fraction, ...], length: int
) -> tuple[list[int], list[list[tuple[int, Any]]]]:
    """Taylor coefficients of x^power e^-v as polynomials times e^-v, and the powers in them.

    (p e^-v)' = (p' - p v') e^-v for a polynomial p.
    """
    steps = [((j + 1) * rate, j) for j, rate in enumerate(rates) if rate]
    series: list[Polynomial] = [{power: Fraction(1)}]
    for k in range(1, length):
        last = series[-1]
        series.append(_combine((_slope(last), Fraction(1, k), 0), *((last, -step / k, j) for step, j in steps)))
    return sorted(set().union(*series)), _numbers(arithmetic, series)


@functools.lru_cache(maxsize=1024)
def _tail_series(
    arithmetic: Arithmetic, power: int, length: int
) -> tuple[list[int], list[list[tuple[int, Any]]], list[int], list[list[tuple[int, Any]]]]:
    """Taylor coefficients of x^power Q, Q(x) = Phi(-x), as p Q + r phi, with the powers in all p and in all r.

    (p Q + r phi)' = p' Q + (r' - x r - p) phi for polynomials p and r.
    """
    tails: list[Polynomial] = [{power: Fraction(1)}]
    densities: list[Polynomial] = [{}]
    for k in range(1, length):
        p, r, share = tails[-1], densities[-1], Fraction(1, k)
        tails.append(_combine((_slope(p), share, 0)))
        densities.append(_combine((_slope(r), share, 0), (r, -share, 1), (p, -share, 0)))
    densities = [_combine((r, ONE_OVER_SQRT_2_PI, 0)) for r in densities]
    return (
        sorted(set().union(*tails)),
        _numbers(arithmetic, tails),
        sorted(set().union(*densities)),
        _numbers(arithmetic, densities),
    )


def decaying(x: Jet, power: int = 0, rates: tuple[Fraction, ...] = (Fraction(1),)) -> Jet:
    """x^power e^-v(x), v(x) = rates[0] x + rates[1] x^2 + ..., for x >= 0 and rates >= 0. By default e^-x."""
    if min(rates) < 0:  # it would grow, and no enclosure of it would hold
        raise UserError("an exact formula has decaying with a rate below 0: write 1 / decaying(x) for e^x.")
    powers, series = _decay_series(x.arithmetic, power, rates, len(x.coefficients))
    decays = x.arithmetic.decays(x.coefficients[0], rates, powers)
    return x.compose([_sum((polynomial, decays)) for polynomial in series])


def normal_tail(x: Jet, power: int = 0) -> Jet:
    """x^power Phi(-x) for x >= 0, Phi the distribution function of N(0, 1) with density phi."""
    powers, tails, gauss_powers, densities = _tail_series(x.arithmetic, power, len(x.coefficients))
    tail = x.arithmetic.normal_tails(x.coefficients[0], powers)
    gauss = x.arithmetic.decays(x.coefficients[0], (Fraction(0), HALF), gauss_powers) if gauss_powers else {}
    return x.compose([_sum((p, tail), (r, gauss)) for p, r in zip(tails, densities, strict=True)])


def log1p(x: Jet) -> Jet:
    """log(1 + x) for x > -1; its slope is 1 / (1 + x)."""
    first = x.coefficients[0]
    *slopes, _ = (Jet.variable(first, len(x.coefficients) - 1, x.arithmetic) + 1).reciprocal().coefficients
    rest = [slope * x.arithmetic.constant(Fraction(1, k)) for k, slope in enumerate(slopes, 1)]
    return x.compose([x.arithmetic.log1p(first), *rest])
