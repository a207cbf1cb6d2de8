"""Power: how large a difference n seeds find in four of five experiments."""

from collections.abc import Callable
from typing import Any

from scipy import optimize, stats

from actlab.errors import UserError

POWER, ALPHA = 0.8, 0.05


def paired_power(n: int, dz: float, alpha: float = ALPHA) -> float:
    """Probability that a two-sided paired t test of n seeds finds a mean difference of dz of its standard deviations.

    t^2 is noncentral F with (1, n - 1) degrees of freedom and noncentrality n dz^2; Cohen 1988, section 2.
    """
    return _power(n - 1, n * dz**2, alpha)


def paired_resolution(n: int, power: float = POWER, alpha: float = ALPHA) -> float:
    """The dz that n pairs find with this power; raises UserError for n < 2."""
    return _resolution(lambda dz: paired_power(n, dz, alpha), n, power)


def two_sample_resolution(n: int, power: float = POWER) -> float:
    """The difference in standard deviations of a run, d, that n against n independent seeds find with this power.

    Raises:
        UserError: for n < 2.
    """
    return _resolution(lambda d: _power(2 * n - 2, n * d**2 / 2, ALPHA), n, power)


def _power(freedom: int, noncentrality: float, alpha: float) -> float:
    critical = stats.t.isf(alpha / 2, freedom) ** 2
    if noncentrality == 0:
        return alpha
    return float(stats.ncf.sf(critical, 1, freedom, noncentrality))


def _resolution(power_of: Callable[[float], float], n: int, power: float) -> float:
    if n < 2:
        raise UserError(f"n={n} seeds resolve no difference, however large: take two or more.")
    high = n**-0.5
    while power_of(high) < power:
        high *= 2
    root: Any = optimize.brentq(lambda size: power_of(size) - power, 0, high)
    return float(root)
