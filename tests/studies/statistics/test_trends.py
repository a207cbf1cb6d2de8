"""Trends against their definition, a textbook's numbers and enumeration."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from actlab.errors import UserError
from actlab.studies.statistics import jonckheere_terpstra, rank_agreement

# Hollander and Wolfe 1999, table 6.6: pieces stacked by workers without, with rough and with exact information.
GROUPS = [
    np.asarray(row, float) for row in ([40, 35, 38, 43, 44, 41], [38, 40, 47, 44, 40, 42], [48, 40, 45, 43, 46, 44])
]


def by_hand(groups):
    """J and its normal approximation with ties, equation 6.19."""
    j = sum((x < y) + (x == y) / 2 for a, b in itertools.combinations(groups, 2) for x in a for y in b)
    pooled = np.concatenate(groups)
    n, sizes = len(pooled), [len(group) for group in groups]
    ties = np.unique(pooled, return_counts=True)[1]
    square = lambda counts: sum(k * (k - 1) * (2 * k + 5) for k in counts)  # noqa: E731
    cube = lambda counts: sum(k * (k - 1) * (k - 2) for k in counts)  # noqa: E731
    pair = lambda counts: sum(k * (k - 1) for k in counts)  # noqa: E731
    variance = (n * (n - 1) * (2 * n + 5) - square(sizes) - square(ties)) / 72
    variance += cube(sizes) * cube(ties) / (36 * n * (n - 1) * (n - 2))
    variance += pair(sizes) * pair(ties) / (8 * n * (n - 1))
    z = (j - (n**2 - sum(k**2 for k in sizes)) / 4) / variance**0.5
    return j, 2 * stats.norm.sf(abs(z))


def test_a_textbooks_example():
    trend = jonckheere_terpstra(GROUPS)
    j, p = by_hand(GROUPS)
    assert trend.j == j == 79 and trend.tau > 0
    assert trend.p == pytest.approx(p, rel=1e-9) and p / 2 == pytest.approx(0.0207, abs=5e-5)


def test_turning_the_order_turns_the_trend():
    rising, falling = jonckheere_terpstra(GROUPS), jonckheere_terpstra(GROUPS[::-1])
    assert falling.tau == pytest.approx(-rising.tau) and falling.p == pytest.approx(rising.p)
    assert rising.j + falling.j == 3 * 36


def test_levels_that_do_not_rise_are_found_at_the_nominal_rate():
    rng = np.random.default_rng(0)
    found = sum(jonckheere_terpstra(list(rng.normal(size=(4, 5)))).p <= 0.05 for _ in range(1000))
    assert stats.binomtest(found, 1000, 0.05).pvalue > 1e-3


def test_equal_values_have_no_trend():
    assert jonckheere_terpstra([np.ones(3), np.ones(4)]) == (6.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([[1.0, 2.0, 3.0]], "at least two groups"),
        ([[1.0, 2.0], []], "at least two"),
        ([[1.0], [math.nan, 2.0]], "finite"),
    ],
)
def test_groups_without_a_trend_are_refused(groups, words):
    with pytest.raises(UserError, match=words):
        jonckheere_terpstra([np.asarray(group, float) for group in groups])


def test_kendalls_tau_of_published_orders():
    # One discordant pair of ten: tau = (9 - 1) / 10, and 10 of 120 orders are at least as far from none.
    shazeer = {"geglu": 1.942, "swiglu": 1.944, "reglu": 1.953, "bilinear": 1.960, "gelu": 1.983}
    narang = {"geglu": 1.792, "swiglu": 1.789, "reglu": 1.803, "bilinear": 1.798 + 0.01, "gelu": 1.838, "elu": 1.932}
    agreement = rank_agreement(shazeer, narang)
    assert agreement.tau == pytest.approx(0.8) and agreement.p == pytest.approx(10 / 120)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [({"a": 1.0}, {"a": 1.0, "b": 2.0}, "share 1 names"), ({"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 2.0}, "level")],
)
def test_what_is_no_order_is_refused(first, second, words):
    with pytest.raises(UserError, match=words):
        rank_agreement(first, second)
