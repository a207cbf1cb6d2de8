"""Effects: the difference between two arms that share their seeds, with its intervals.

An arm is a mapping from seed to a number in nats. A difference is first minus second, so a negative one says that the
first is lower. Only seeds that both arms have are paired; the others are left out and counted.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from scipy import stats

from actlab.errors import UserError
from actlab.studies.statistics import significance

CONFIDENCE = 0.95
_RESAMPLES = 9_999
# float64 leaves 1e-16 where two equal losses are subtracted; losses themselves are known to 1e-7.
_DECIMALS = 12
Values = Float64[np.ndarray, "n"]


class Interval(NamedTuple):
    """The ends of an interval, in nats."""

    low: float
    high: float


def nats(value: float, sign: str = "") -> str:
    """A number of nats in words: four decimals, or two digits where these would all be zero."""
    text = f"{value:{sign}.4f}"
    return text if value == 0 or float(text) else f"{value:{sign}.2g}"


@dataclasses.dataclass(frozen=True)
class Effect:
    """Paired differences in nats, one per seed, and how many seeds only one arm has.

    `also` are the same seeds' differences by a second lawful choice, where one choice alone would mislead: every
    interval then spans both and every p is the larger, so that nothing is found unless both find it. `reason` says why
    the differences can decide nothing, where that is known from elsewhere. Statistics that the number of seeds does not
    allow are None, never NaN.
    """

    differences: tuple[float, ...]
    left_out: int = 0
    reason: str = ""
    also: tuple[float, ...] = ()

    def __post_init__(self):
        if not all(map(math.isfinite, (*self.differences, *self.also))):
            raise UserError(
                f"differences={self.differences} are not all finite: count a diverged run with its initial loss."
            )

    @property
    def n(self) -> int:
        """Pairs."""
        return len(self.differences)

    @property
    def values(self) -> Values:
        """The differences, [n]."""
        return np.asarray(self.differences, np.float64)

    @property
    def undecidable(self) -> str:
        """Why no test can be made; empty if one can."""
        return self.reason or ("" if self.n > 1 else "no seed is shared" if self.n == 0 else "one seed has no spread")

    @functools.cached_property
    def mean(self) -> float | None:
        """Mean difference."""
        return _mean(self.values) if self.n else None

    @functools.cached_property
    def sd(self) -> float | None:
        """Standard deviation of the differences, with n - 1."""
        return significance.standard_deviation(self.values) if self.n > 1 else None

    @functools.cached_property
    def interval(self) -> Interval | None:
        """t interval of the mean."""
        return self._span(t_interval) if self.n > 1 else None

    @functools.cached_property
    def bootstrap(self) -> Interval | None:
        """BCa bootstrap interval of the mean over seeds; None below three seeds."""
        return self._span(bca_interval) if self.n > 2 else None

    @functools.cached_property
    def p(self) -> float | None:
        """Two-sided p of the paired t test."""
        return None if self.undecidable else self._largest(significance.t_test)

    @functools.cached_property
    def p_permutation(self) -> float | None:
        """Two-sided p of the exact test over all signs of the differences."""
        return self._largest(significance.permutation) if self.n else None

    @functools.cached_property
    def p_sign(self) -> float | None:
        """Two-sided p of the sign test."""
        return self._largest(significance.sign) if self.n else None

    def p_equivalence(self, margin: float) -> float | None:
        """p of the two one-sided t tests that the mean lies within `margin`, nats."""
        if self.undecidable:
            return None
        return max(significance.equivalence(values, margin) for values in self._choices())

    def p_beyond(self, margin: float) -> float | None:
        """Two-sided p of the t test that the mean lies no farther from 0 than `margin`, nats."""
        return None if self.undecidable else self._largest(lambda values: significance.beyond(values, margin))

    def _choices(self) -> list[Values]:
        return [self.values, np.asarray(self.also, np.float64)] if self.also else [self.values]

    def _span(self, interval: Callable[[Values], Interval]) -> Interval:
        lows, highs = zip(*map(interval, self._choices()), strict=True)
        return Interval(min(lows), max(highs))

    def _largest(self, p: Callable[[Values], float]) -> float:
        signs = {math.copysign(1, values.mean()) for values in self._choices() if values.mean()}
        return max(map(p, self._choices())) if len(signs) < 2 else 1.0


def paired(first: Mapping[int, float], second: Mapping[int, float], reason: str = "") -> Effect:
    """The effect first - second over the seeds that both arms have.

    Raises:
        UserError: for a number that is not finite.
    """
    seeds = sorted(first.keys() & second.keys())
    differences = tuple(round(float(first[seed]) - float(second[seed]), _DECIMALS) for seed in seeds)
    return Effect(differences, len(first.keys() | second.keys()) - len(seeds), reason)


def t_interval(values: Values, confidence: float = CONFIDENCE) -> Interval:
    """mean -+ t_{n-1} sd / sqrt(n), the interval of the mean of n > 1 values; without width where they are equal."""
    return _around_mean(values, confidence, 1 / len(values))


def prediction_interval(values: Values, confidence: float = CONFIDENCE) -> Interval:
    """mean -+ t_{n-1} sd sqrt(1 + 1/n), where one more of n > 1 normal values falls with that probability.

    Source: Hahn and Meeker 1991, Statistical Intervals.
    """
    return _around_mean(values, confidence, 1 + 1 / len(values))


def prediction_p(values: Values, value: float) -> float:
    """Two-sided p of one more of n > 1 normal values as far from their mean; its interval is `prediction_interval`."""
    away = abs(value - _mean(values))
    spread = significance.standard_deviation(values) * (1 + 1 / len(values)) ** 0.5
    if not spread:
        return 0.0 if away else 1.0
    return float(2 * stats.t.sf(away / spread, len(values) - 1))


def bca_interval(values: Values) -> Interval:
    """Bias-corrected and accelerated bootstrap of the mean over n > 1 values; Efron 1987, JASA 82:171.

    9,999 resamples of a fixed generator; without width where values are equal. Below ten values it is too narrow: it is
    shown beside the t interval and decides nothing.
    """
    if not np.ptp(values):
        return Interval(float(values[0]), float(values[0]))
    low, high = stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=_RESAMPLES,
        confidence_level=CONFIDENCE,
        method="BCa",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return Interval(float(low), float(high))


def _around_mean(values: Values, confidence: float, variance: float) -> Interval:
    """`variance` is that of the difference to the mean, in those of a value."""
    half = float(stats.t.isf((1 - confidence) / 2, len(values) - 1)) * significance.standard_deviation(values)
    half *= variance**0.5
    return Interval(_mean(values) - half, _mean(values) + half)


def _mean(values: Values) -> float:
    return float(values.mean() if np.ptp(values) else values[0])
