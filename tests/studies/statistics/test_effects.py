"""Paired differences and their intervals, against closed forms, published examples and coverage."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from actlab.errors import UserError
from actlab.studies.statistics import Effect, bca_interval, nats, paired, t_interval

losses = st.lists(st.floats(0.5, 8), min_size=2, max_size=8)


@pytest.mark.parametrize(
    ("value", "sign", "words"),
    [(1.23456, "", "1.2346"), (-0.25, "+", "-0.2500"), (0.0, "+", "+0.0000"), (-3.14e-5, "+", "-3.1e-05")],
)
def test_a_small_number_of_nats_is_not_written_as_none(value, sign, words):
    assert nats(value, sign) == words


def test_only_shared_seeds_are_paired_and_the_others_counted():
    effect = paired({1: 2.0, 2: 3.0, 4: 9.0}, {2: 1.0, 1: 1.5, 3: 7.0})
    assert effect.differences == (0.5, 2.0) and effect.left_out == 2


def test_student_1908_sleep():
    # Gain in hours of sleep by two drugs on ten patients; Student 1908: t = 4.06, p = 0.0028.
    one = dict(enumerate([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]))
    two = dict(enumerate([1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]))
    effect = paired(one, two)
    assert effect.mean == pytest.approx(-1.58) and effect.sd == pytest.approx(1.2299955)
    assert effect.p == pytest.approx(0.00283289, abs=1e-7)
    assert effect.interval == pytest.approx((-2.4598858, -0.7001142), abs=1e-6)
    # Nine of nine differences that are not 0 are negative, so only the two extremes of 2^9 signs are as far out.
    assert effect.p_sign == effect.p_permutation == pytest.approx(2 / 2**9)


def test_the_interval_of_two_values_by_hand():
    # t_1 at 97.5% is tan(0.475 pi); the half width is t |a - b| / 2.
    half = math.tan(0.475 * math.pi) * 0.5
    assert t_interval(np.asarray([1.0, 2.0])) == pytest.approx((1.5 - half, 1.5 + half))


def test_t_intervals_cover_the_mean_in_95_of_100():
    rng = np.random.default_rng(0)
    hits = sum(low < 3.0 < high for low, high in (t_interval(rng.normal(3, 2, 4)) for _ in range(2000)))
    assert stats.binomtest(hits, 2000, 0.95).pvalue > 1e-3


def test_bca_intervals_of_thirty_values_nearly_cover_a_skewed_mean():
    rng = np.random.default_rng(0)
    hits = sum(low < 1.0 < high for low, high in (bca_interval(rng.exponential(1, 30)) for _ in range(80)))
    assert 0.88 < hits / 80 < 0.99


def test_bca_leans_to_the_long_tail():
    values = np.asarray([0.0, 0.1, 0.2, 0.3, 0.4, 3.0])
    low, high = bca_interval(values)
    assert 0.1 < low < values.mean() < high < 2.5 and high - values.mean() > 1.5 * (values.mean() - low)


def test_equal_differences_have_intervals_without_width():
    effect = Effect((0.1,) * 5)
    assert effect.interval == effect.bootstrap == (0.1, 0.1) and effect.sd == 0.0 and effect.p == 0.0
    zero = Effect((0.0,) * 5)
    assert zero.interval == (0.0, 0.0) and zero.p == zero.p_sign == zero.p_permutation == 1.0


@pytest.mark.parametrize(("differences", "words"), [((), "no seed is shared"), ((0.3,), "one seed has no spread")])
def test_what_too_few_seeds_cannot_tell_is_none(differences, words):
    effect = Effect(differences)
    assert words in effect.undecidable
    assert effect.interval is effect.bootstrap is effect.p is effect.sd is effect.p_equivalence(0.1) is None


def test_a_second_choice_widens_intervals_and_p():
    one, other = Effect((-1.0, -1.1, -0.9)), Effect((-0.2, -0.1, 0.1))
    both = Effect(one.differences, also=other.differences)
    assert both.mean == one.mean and both.p == other.p > one.p
    assert both.interval == (one.interval.low, other.interval.high)
    assert both.p_equivalence(2.0) == one.p_equivalence(2.0) > other.p_equivalence(2.0)


def test_two_choices_that_point_apart_find_nothing():
    effect = Effect((-1.0, -1.1, -0.9), also=(1.0, 1.1, 0.9))
    assert effect.p == effect.p_permutation == 1.0 and effect.interval.low < 0 < effect.interval.high


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_losses_that_are_not_finite_are_refused(bad):
    with pytest.raises(UserError, match="count a diverged run with its initial loss"):
        paired({1: bad, 2: 1.0}, {1: 1.0, 2: 1.0})


@settings(max_examples=40)
@given(losses, losses, st.randoms(), st.floats(-5, 5))
def test_neither_names_of_seeds_nor_a_common_shift_matter_and_swapping_changes_the_sign(one, other, random, shift):
    first, second = dict(enumerate(one)), dict(enumerate(other))
    effect, swapped = paired(first, second), paired(second, first)
    names = random.sample(range(100), 10)
    renamed = paired({names[k]: v for k, v in first.items()}, {names[k]: v for k, v in second.items()})
    moved = paired({k: v + shift for k, v in first.items()}, {k: v + shift for k, v in second.items()})
    for same in (renamed, moved):
        assert same.mean == pytest.approx(effect.mean, abs=1e-9) and same.left_out == effect.left_out
        assert same.interval == pytest.approx(effect.interval, abs=1e-6)
    assert swapped.differences == tuple(-x for x in effect.differences)
    assert swapped.p == pytest.approx(effect.p) and swapped.p_permutation == pytest.approx(effect.p_permutation)
    assert swapped.interval == pytest.approx((-effect.interval.high, -effect.interval.low))
