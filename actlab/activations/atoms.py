"""The transcendental building blocks of the exact formulas, with their derivatives.

Each keeps a power of x and the decay that defeats it in one factor, so that x^k e^-x has a finite enclosure on
[32, infinity], where the product of enclosures of x and e^-x has none. That is what lets one formula serve the whole
line: the tails need no case of their own.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from actlab.activations.jets import Jet

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


def _sum(jet: Jet, terms: Sequence[tuple[Polynomial, dict[int, Any]]]) -> Any:
    total: Any = 0
    for polynomial, powers in terms:
        for power, value in polynomial.items():
            term = powers[power] if value == 1 else powers[power] * jet.arithmetic.constant(value)
            total = term if isinstance(total, int) else total + term
    return total


def decaying(x: Jet, power: int = 0, rates: Sequence[Fraction] = (Fraction(1),)) -> Jet:
    """x^power e^-v(x), v(x) = rates[0] x + rates[1] x^2 + ..., for x >= 0 and rates >= 0. By default e^-x.

    (p e^-v)' = (p' - p v') e^-v for a polynomial p.
    """
    steps: Polynomial = {k: (k + 1) * rate for k, rate in enumerate(rates) if rate}
    derivatives: list[Polynomial] = [{power: Fraction(1)}]
    for k in range(1, len(x.coefficients)):
        last = derivatives[-1]
        products = [(last, -value, shift) for shift, value in steps.items()]
        derivatives.append(_combine((_slope(last), Fraction(1, k), 0), *((p, f / k, s) for p, f, s in products)))
    powers = sorted(set().union(*derivatives))
    decays = x.arithmetic.decays(x.coefficients[0], rates, powers)
    return x.compose([_sum(x, [(polynomial, decays)]) for polynomial in derivatives])


def normal_tail(x: Jet, power: int = 0) -> Jet:
    """x^power Phi(-x) for x >= 0, Phi the distribution function of N(0, 1) with density phi.

    (p Q + r phi)' = p' Q + (r' - x r - p) phi for polynomials p, r and Q(x) = Phi(-x).
    """
    tails: list[Polynomial] = [{power: Fraction(1)}]
    densities: list[Polynomial] = [{}]
    for k in range(1, len(x.coefficients)):
        p, r, share = tails[-1], densities[-1], Fraction(1, k)
        tails.append(_combine((_slope(p), share, 0)))
        densities.append(_combine((_slope(r), share, 0), (r, -share, 1), (p, -share, 0)))
    densities = [_combine((r, ONE_OVER_SQRT_2_PI, 0)) for r in densities]
    whole = x.arithmetic.normal_tails(x.coefficients[0], sorted(set().union(*tails)))
    gauss = x.arithmetic.decays(x.coefficients[0], (Fraction(0), HALF), sorted(set().union(*densities)))
    return x.compose([_sum(x, [(p, whole), (r, gauss)]) for p, r in zip(tails, densities, strict=True)])


def log1p(x: Jet) -> Jet:
    """log(1 + x) for x > -1."""
    first = x.arithmetic.constant(1) / (x.coefficients[0] + x.arithmetic.constant(1))
    powers = [first]
    for _ in x.coefficients[2:]:
        powers.append(-(powers[-1] * first))
    shares = [x.arithmetic.constant(Fraction(1, k + 1)) for k in range(len(powers))]
    rest = [power if k == 0 else power * share for k, (power, share) in enumerate(zip(powers, shares, strict=True))]
    return x.compose([x.arithmetic.log1p(x.coefficients[0]), *rest][: len(x.coefficients)])
