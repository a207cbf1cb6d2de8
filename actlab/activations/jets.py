"""Truncated Taylor series: a formula written once gives its value and its derivatives, in any arithmetic.

The coefficients are arrays of float64 (moments) or intervals (certified bounds). Automatic differentiation by Taylor
arithmetic: Griewank and Walther 2008, chapter 13.
"""

import abc
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

Constant = int | float | Fraction


class Arithmetic(abc.ABC):
    """What a kind of number must offer beside + - * and 1 / x. `atoms.py` has the formulas that use it."""

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
        """A constant beside this jet."""
        zeros = [0] * (len(self.coefficients) - 1)
        return Jet((self.arithmetic.constant(value), *zeros), self.arithmetic)

    def derivative(self, k: int) -> Any:
        """f^(k); the integer 0 where it is a constant zero."""
        return _times(self.coefficients[k], math.factorial(k)) if k > 1 else self.coefficients[k]

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
