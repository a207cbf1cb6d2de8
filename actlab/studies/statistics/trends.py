"""Trends over ordered groups, and the agreement of two orders."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64
from scipy import stats

from actlab.errors import UserError


class Trend(NamedTuple):
    """J, the number of pairs in order; tau in [-1, 1], positive if rising; two-sided p."""

    j: float
    tau: float
    p: float


class Agreement(NamedTuple):
    """Kendall's tau-b of two orders and its two-sided p."""

    tau: float
    p: float


def jonckheere_terpstra(groups: Sequence[Float64[np.ndarray, "_"]]) -> Trend:
    """Whether values rise or fall from group to group; Jonckheere 1954, Terpstra 1952.

    J = sum over groups i < k of #(x in i, y in k with x < y) + #(x = y) / 2. It is Kendall's S between group and value,
    so p comes from its normal approximation with ties corrected (Hollander and Wolfe 1999, eq. 6.19), without a
    continuity correction. Values that are all equal have no trend: tau 0, p 1.

    Raises:
        UserError: for fewer than two groups, an empty one, fewer than three values or one that is not finite.
    """
    sizes = [len(group) for group in groups]
    if len(groups) < 2 or min(sizes) == 0 or sum(sizes) < 3:
        raise UserError(f"groups of {sizes} values have no trend: give at least two groups, and three values in all.")
    values, index = np.concatenate(groups), np.repeat(np.arange(len(groups)), sizes)
    if not np.isfinite(values).all():
        raise UserError("groups hold a value that is not finite: count a diverged run as its first loss.")
    above = index[:, None] < index[None, :]
    signs = np.sign(values[None, :] - values[:, None])[above]
    j = float((signs.sum() + above.sum()) / 2)
    if not np.ptp(values):
        return Trend(j, 0.0, 1.0)
    test: Any = stats.kendalltau(index, values, method="asymptotic")
    return Trend(j, float(test.statistic), float(test.pvalue))


def rank_agreement(first: Mapping[str, float], second: Mapping[str, float]) -> Agreement:
    """Kendall's tau-b between two tables over the names that both have; p is exact where there are no ties.

    Raises:
        UserError: for fewer than two common names, or a table that puts all of them level.
    """
    names = sorted(first.keys() & second.keys())
    if len(names) < 2:
        raise UserError(f"the two orders share {len(names)} names: an agreement needs two.")
    ours, theirs = ([float(table[name]) for name in names] for table in (first, second))
    if len(set(ours)) == 1 or len(set(theirs)) == 1:
        raise UserError(f"one of the orders puts {', '.join(names)} level: it is no order.")
    test: Any = stats.kendalltau(ours, theirs)
    return Agreement(float(test.statistic), float(test.pvalue))
