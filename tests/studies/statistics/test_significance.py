"""Tests and corrections against closed forms, enumeration by hand and scipy's own."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from actlab.errors import UserError
from actlab.studies.statistics import dunnett, equivalence, holm, permutation, sign, significance, t_test, two_sample


def array(*values):
    return np.asarray(values, np.float64)


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_t_test_is_scipys(alternative):
    values = np.random.default_rng(0).normal(0.3, 1, 7)
    expected = stats.ttest_1samp(values, 0.1, alternative=alternative).pvalue
    assert t_test(values, 0.1, alternative) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("mean", "alternative", "expected"),
    [(0.1, "two-sided", 1), (0.2, "two-sided", 0), (0.2, "less", 0), (0.2, "greater", 1), (0.1, "less", 1)],
)
def test_t_test_of_equal_values_is_the_limit_of_no_spread(mean, alternative, expected):
    assert t_test(array(0.1, 0.1, 0.1), mean, alternative) == expected
    if mean != 0.1:
        assert t_test(array(0.1, 0.1 + 1e-9, 0.1 - 1e-9), mean, alternative) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("n", [3, 5, 6, 8])
def test_the_smallest_p_that_n_seeds_reach(n):
    falling = -np.arange(1.0, n + 1)
    assert permutation(falling) == pytest.approx(2 ** (1 - n)) == sign(falling)
    assert two_sample(falling, falling + 100) == pytest.approx(2 / math.comb(2 * n, n))


def test_permutation_counts_signs():
    values = array(1.0, 2.0, -0.5, 4.0)
    means = [abs(np.mean(values * signs)) for signs in itertools.product((-1, 1), repeat=4)]
    assert permutation(values) == np.mean(np.asarray(means) >= abs(values.mean()) - 1e-12)


def test_two_sample_counts_splits():
    first, second = array(1.0, 2.0, 4.0), array(2.5, 3.0, 6.0, 7.0)
    pooled, observed = np.concatenate([first, second]), second.mean() - first.mean()
    gaps = []
    for chosen in itertools.combinations(range(7), 3):
        inside = np.isin(np.arange(7), chosen)
        gaps.append(abs(pooled[inside].mean() - pooled[~inside].mean()))
    assert two_sample(first, second) == pytest.approx(np.mean(np.asarray(gaps) >= observed - 1e-12))


def test_a_sample_of_one_cannot_be_split():
    with pytest.raises(UserError, match="samples of 1 and 2"):
        two_sample(array(1.0), array(1.0, 2.0))


def test_sign_test_leaves_ties_out():
    assert sign(array(0.0, 0.0, 1.0, 1.0, 1.0, -1.0)) == sign(array(1.0, 1.0, 1.0, -1.0)) == 10 / 16
    assert sign(array(0.0, 0.0)) == 1.0


def test_more_seeds_than_can_be_enumerated_draw_signs():
    values = np.random.default_rng(1).normal(0.4, 1, 40)
    assert permutation(values) == permutation(values) == pytest.approx(t_test(values), abs=0.01)


def test_equivalence_is_the_90_percent_interval_within_the_margin():
    values = array(0.01, -0.004, 0.002, 0.006, -0.001)
    half = stats.t.isf(0.05, 4) * values.std(ddof=1) / 5**0.5
    edge = abs(values.mean()) + half
    assert equivalence(values, edge) == pytest.approx(0.05, abs=1e-9)
    assert equivalence(values, edge * 1.01) < 0.05 < equivalence(values, edge * 0.99)


def test_equal_values_are_equivalent_exactly_within_the_margin():
    assert equivalence(array(0.004, 0.004), 0.005) == 0.0 and equivalence(array(0.006, 0.006), 0.005) == 1.0


@pytest.mark.parametrize("margin", [0.0, -1.0, math.nan, math.inf])
def test_a_margin_must_be_positive(margin):
    with pytest.raises(UserError, match="margin="):
        equivalence(array(0.0, 1.0), margin)


def test_holm_by_hand():
    # Sorted .005 .01 .03 .04 times 4 3 2 1, never falling: Holm 1979's procedure.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == [] and holm([0.2]) == [0.2] and holm([0.9, 0.9]) == [1.0, 1.0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.randoms())
def test_holm_lies_between_no_correction_and_bonferroni_whatever_the_order(p_values, random):
    adjusted = holm(p_values)
    order = random.sample(range(len(p_values)), len(p_values))
    assert holm([p_values[index] for index in order]) == pytest.approx([adjusted[index] for index in order])
    for p, one in zip(p_values, adjusted, strict=True):
        assert p <= one <= min(1.0, len(p_values) * p) + 1e-12
    assert min(adjusted) == pytest.approx(min(1.0, len(p_values) * min(p_values)))


def test_dunnett_on_his_blood_counts():
    # Dunnett 1955, as in Miller 1981: blood cells of animals under two drugs and a control; p .62 and .0058.
    arms = {
        "control": array(7.40, 8.50, 7.20, 8.24, 9.84, 8.32),
        "a": array(9.76, 8.80, 7.68, 9.36),
        "b": array(12.80, 9.68, 12.16, 9.20, 10.55),
    }
    p = dunnett(arms, "control")
    assert list(p) == ["a", "b"]
    assert p == {"a": pytest.approx(0.62, abs=0.01), "b": pytest.approx(0.0058, abs=0.001)}


@pytest.mark.parametrize(
    ("arms", "words"),
    [
        ({"relu": array(1.0, 2.0)}, "at least two arms"),
        ({"gelu": array(1.0, 2.0), "tanh": array(1.0, 2.0)}, "control='relu' must be"),
        ({"relu": array(1.0, 2.0), "gelu": array(1.0)}, "gelu has 1 seeds"),
        ({"relu": array(1.0, 1.0), "gelu": array(2.0, 2.0)}, "no spread"),
    ],
)
def test_what_dunnett_cannot_compare(arms, words):
    with pytest.raises(UserError, match=words):
        dunnett(arms, "relu")


def test_beyond_is_the_test_at_the_nearer_end_of_the_margin():
    values = np.array([0.012, 0.009, 0.011, 0.008])
    assert significance.beyond(values, 0.005) == pytest.approx(2 * significance.t_test(values, 0.005, "greater"))
    assert significance.beyond(-values, 0.005) == pytest.approx(significance.beyond(values, 0.005))
    assert significance.beyond(values, 0.01) == significance.beyond(values, 0.02) == 1
    assert significance.beyond(values, 1e-15) == pytest.approx(significance.t_test(values))
