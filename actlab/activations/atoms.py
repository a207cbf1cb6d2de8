"""The transcendental building blocks of the exact formulas, with their derivatives.

Each keeps a power of x and the decay that defeats it in one factor, so that x^k e^-x has a finite enclosure on
[32, infinity], where the product of enclosures of x and e^-x has none. That is what lets one formula serve the whole
line: the tails need no case of their own.
"""

import functools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from actlab.activations.jets import Arithmetic, Jet

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
    number = lambda value: 1 if value == 1 else arithmetic.constant(value)  # noqa: E731
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
    powers, series = _decay_series(x.arithmetic, power, rates, len(x.coefficients))
    decays = x.arithmetic.decays(x.coefficients[0], rates, powers)
    return x.compose([_sum((polynomial, decays)) for polynomial in series])


def normal_tail(x: Jet, power: int = 0) -> Jet:
    """x^power Phi(-x) for x >= 0, Phi the distribution function of N(0, 1) with density phi."""
    powers, tails, gauss_powers, densities = _tail_series(x.arithmetic, power, len(x.coefficients))
    whole = x.arithmetic.normal_tails(x.coefficients[0], powers)
    gauss = x.arithmetic.decays(x.coefficients[0], (Fraction(0), HALF), gauss_powers) if gauss_powers else {}
    return x.compose([_sum((p, whole), (r, gauss)) for p, r in zip(tails, densities, strict=True)])


def log1p(x: Jet) -> Jet:
    """log(1 + x) for x > -1."""
    first = x.arithmetic.constant(1) / (x.coefficients[0] + x.arithmetic.constant(1))
    powers = [first]
    for _ in x.coefficients[2:]:
        powers.append(-(powers[-1] * first))
    rest = [power * x.arithmetic.constant(Fraction(1, k + 1)) for k, power in enumerate(powers)]
    return x.compose([x.arithmetic.log1p(x.coefficients[0]), *rest][: len(x.coefficients)])
