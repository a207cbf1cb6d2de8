"""Tests of differences, each as its p, and corrections for making many. No p is NaN: every edge has its definition."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float64
from scipy import special, stats

from actlab.errors import UserError

Values = Float64[np.ndarray, "n"]
Alternative = Literal["two-sided", "less", "greater"]
# All 2^16 signs of 16 seeds are tried, and all C(20, 10) splits of ten against ten; beyond, so many are drawn.
_MOST_SIGNS, _MOST_SPLITS = 2**16, 200_000


def standard_deviation(values: Values) -> float:
    """Sample standard deviation, sqrt(sum (x - mean)^2 / (n - 1)); exactly 0 for equal values."""
    return float(values.std(ddof=1)) if np.ptp(values) else 0.0


def t_test(values: Values, mean: float = 0.0, alternative: Alternative = "two-sided") -> float:
    """p of the one-sample t test of n > 1 values against `mean`.

    Equal values are the limit of a vanishing spread: p is 1 at the mean itself, else 0 for the side they lie on.
    """
    sd, offset = standard_deviation(values), float(values.mean() if np.ptp(values) else values[0]) - mean
    if sd == 0:
        side = {"two-sided": offset != 0, "less": offset < 0, "greater": offset > 0}
        return 0.0 if side[alternative] else 1.0
    t = offset / sd * len(values) ** 0.5
    tails = {"two-sided": -abs(t), "less": t, "greater": -t}
    return float(special.stdtr(len(values) - 1, tails[alternative])) * (2 if alternative == "two-sided" else 1)


def permutation(values: Values) -> float:
    """Two-sided exact p of n paired differences: the share of all 2^n signs with a mean as far from 0.

    At least 2^(1-n); beyond 16 values, 65,536 signs are drawn by a fixed generator.
    """
    if len(values) == 1:
        return 1.0
    test = stats.permutation_test(
        (values,),
        lambda x, axis: np.abs(x.mean(axis)),
        permutation_type="samples",
        alternative="greater",
        vectorized=True,
        n_resamples=_MOST_SIGNS,
        rng=np.random.default_rng(0),
    )
    return float(test.pvalue)


def two_sample(first: Values, second: Float64[np.ndarray, "m"]) -> float:
    """Two-sided exact p of two independent samples: the share of all splits with means as far apart.

    At least 2 / C(2n, n) for n against n; beyond 200,000 splits, as many are drawn by a fixed generator.

    Raises:
        UserError: for a sample of fewer than two values.
    """
    if min(len(first), len(second)) < 2:
        raise UserError(f"samples of {len(first)} and {len(second)} values: give at least two of each.")
    test = stats.permutation_test(
        (first, second),
        lambda x, y, axis: np.abs(x.mean(axis) - y.mean(axis)),
        permutation_type="independent",
        alternative="greater",
        vectorized=True,
        batch=10_000,
        n_resamples=_MOST_SPLITS,
        rng=np.random.default_rng(0),
    )
    return float(test.pvalue)


def sign(values: Values) -> float:
    """Two-sided exact p of the sign test; differences of 0 are left out, and p is 1 if none is left."""
    positive, negative = int((values > 0).sum()), int((values < 0).sum())
    return float(stats.binomtest(positive, positive + negative).pvalue) if positive + negative else 1.0


def beyond(values: Values, margin: float) -> float:
    """Two-sided p of n > 1 values against a mean within `margin` of 0: twice the less of the tests at its two ends."""
    return min(1.0, 2 * min(t_test(values, margin, "greater"), t_test(values, -margin, "less")))


def equivalence(values: Values, margin: float) -> float:
    """p of TOST for |mean| < margin: the larger of two one-sided t tests; Schuirmann 1987.

    p <= 0.05 says that the 90% t interval lies within -+ margin.

    Raises:
        UserError: for a margin that is not positive.
    """
    if not 0 < margin < np.inf:
        raise UserError(f"margin={margin} is no positive number of nats: give the largest difference that is none.")
    return max(t_test(values, -margin, "greater"), t_test(values, margin, "less"))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p of a family, max over the smaller ones of (m - rank) p, at most 1; Holm 1979.

    A hypothesis is rejected at level alpha, over the whole family, where its adjusted p <= alpha.
    """
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def dunnett(arms: Mapping[str, Values], control: str) -> dict[str, float]:
    """Two-sided p of each arm against the control, adjusted for all; Dunnett 1955. Arms are independent samples.

    Raises:
        UserError: for a control that is no arm, no other arm, an arm of fewer than two values, or no spread in any.
    """
    if control not in arms or len(arms) < 2:
        raise UserError(f"control={control!r} must be one of at least two arms, of {', '.join(arms) or 'none'}.")
    for name, values in arms.items():
        if len(values) < 2:
            raise UserError(f"{name} has {len(values)} seeds: Dunnett's test needs two or more of each activation.")
    if not any(np.ptp(values) for values in arms.values()):
        raise UserError("no activation's losses differ between seeds: Dunnett's test has no spread to measure with.")
    others = [name for name in arms if name != control]
    test = stats.dunnett(*(arms[name] for name in others), control=arms[control], rng=np.random.default_rng(0))
    return dict(zip(others, map(float, test.pvalue), strict=True))
