"""Tests, corrections, trends and power; then paired differences, their intervals and verdicts.

Against closed forms, published tables, enumeration and simulation.
"""

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from scipy import stats

from actlab.analysis.best_rates import signs
from actlab.analysis.effects import (
    Effect,
    PermutationTest,
    Verdict,
    adjusted,
    bca_interval,
    equivalence,
    fewest_seeds,
    holm,
    jonckheere_terpstra,
    judge,
    nats,
    paired,
    paired_power,
    paired_resolution,
    rank_agreement,
    t_interval,
    t_test,
)
from actlab.errors import UserError


def array(*values):
    return np.asarray(values, np.float64)


def test_t_test_is_scipys():
    values = np.random.default_rng(0).normal(0.3, 1, 7)
    for alternative in ("two-sided", "less", "greater"):
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


def test_equivalence_is_the_90_percent_interval_within_the_margin():
    values = array(0.01, -0.004, 0.002, 0.006, -0.001)
    half = stats.t.isf(0.05, 4) * values.std(ddof=1) / 5**0.5
    edge = abs(values.mean()) + half
    assert equivalence(values, edge) == pytest.approx(0.05, abs=1e-9)
    assert equivalence(values, edge * 1.01) < 0.05 < equivalence(values, edge * 0.99)
    assert equivalence(array(0.004, 0.004), 0.005) == 0.0 and equivalence(array(0.006, 0.006), 0.005) == 1.0


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


def test_beyond_is_the_test_at_the_nearer_end_of_the_margin():
    values = (0.012, 0.009, 0.011, 0.008)
    effect, turned = Effect(values), Effect(tuple(-value for value in values))
    assert effect.p_beyond(0.005) == pytest.approx(2 * t_test(np.array(values), 0.005, "greater"))
    assert turned.p_beyond(0.005) == pytest.approx(effect.p_beyond(0.005))
    assert effect.p_beyond(0.01) == effect.p_beyond(0.02) == 1
    assert effect.p_beyond(1e-15) == pytest.approx(effect.p)


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
    square = lambda counts: sum(k * (k - 1) * (2 * k + 5) for k in counts)
    cube = lambda counts: sum(k * (k - 1) * (k - 2) for k in counts)
    pair = lambda counts: sum(k * (k - 1) for k in counts)
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


def test_turning_the_order_turns_the_trend_and_equal_values_have_none():
    rising, falling = jonckheere_terpstra(GROUPS), jonckheere_terpstra(GROUPS[::-1])
    assert falling.tau == pytest.approx(-rising.tau) and falling.p == pytest.approx(rising.p)
    assert rising.j + falling.j == 3 * 36
    assert jonckheere_terpstra([np.ones(3), np.ones(4)]) == (6.0, 0.0, 1.0)


def test_levels_that_do_not_rise_are_found_at_the_nominal_rate():
    rng = np.random.default_rng(0)
    found = sum(jonckheere_terpstra(list(rng.normal(size=(4, 5)))).p <= 0.05 for _ in range(1000))
    assert stats.binomtest(found, 1000, 0.05).pvalue > 1e-3


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
    level = dict.fromkeys(shazeer, 1.0)
    for first, second in ((shazeer, {"gelu": 1.0}), (level, shazeer), (shazeer, level)):
        assert rank_agreement(first, second) is None


@pytest.mark.parametrize(("n", "dz"), [(3, 3.26), (5, 1.68), (6, 1.43), (8, 1.16), (10, 1.00)])
def test_the_difference_that_n_seeds_resolve(n, dz):
    assert paired_resolution(n) == pytest.approx(dz, abs=0.0055)
    assert paired_power(n, paired_resolution(n)) == pytest.approx(0.8)
    assert paired_power(n, paired_resolution(n, alpha=0.05 / 37), 0.05 / 37) == pytest.approx(0.8)


def test_planted_differences_are_found_at_the_predicted_rate():
    rng = np.random.default_rng(0)
    for n, dz in ((3, 2.0), (6, 1.2)):
        found = sum(t_test(rng.normal(dz, 1, n)) <= 0.05 for _ in range(2000))
        assert stats.binomtest(found, 2000, paired_power(n, dz)).pvalue > 1e-3


def test_what_seeds_resolve_at_the_limits():
    # Of many seeds dz is (z_.975 + z_.8) / sqrt(n); of no difference the power is the level.
    assert paired_resolution(2000) == pytest.approx((1.959964 + 0.841621) / 2000**0.5, rel=1e-3)
    assert paired_resolution(2) > 3
    assert paired_power(5, 0.0) == pytest.approx(0.05) == pytest.approx(paired_power(5, 1e-6), abs=1e-6)
    with pytest.raises(UserError, match="n=1 seeds"):
        paired_resolution(1)


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
    assert zero.interval == (0.0, 0.0) and zero.p == 1.0


@pytest.mark.parametrize(("differences", "words"), [((), "no seed is shared"), ((0.3,), "one seed has no spread")])
def test_what_too_few_seeds_cannot_tell_is_none(differences, words):
    effect = Effect(differences)
    assert words in effect.undecidable
    assert effect.interval is effect.bootstrap is effect.p is effect.sd is effect.p_equivalence(0.1) is None


def test_two_seeds_have_an_interval_and_from_three_on_there_is_a_bootstrap_too():
    two, three = Effect((0.1, 0.2)), Effect((0.1, 0.2, 0.3))
    assert two.sd == pytest.approx(0.1 / 2**0.5) and two.interval is not None and two.bootstrap is None
    assert three.bootstrap is not None
    few_to_swap = Effect(three.differences, swaps=PermutationTest(np.arange(7.0)))
    assert few_to_swap.interval is few_to_swap.bootstrap is None


def test_a_second_choice_widens_intervals_and_p_and_may_point_apart():
    one, other = Effect((-1.0, -1.1, -0.9)), Effect((-0.2, -0.1, 0.1))
    both = Effect(one.differences, also=(other.differences,))
    assert both.mean == one.mean and both.p == other.p > one.p
    assert both.interval == (one.interval.low, other.interval.high)
    assert both.p_equivalence(2.0) == one.p_equivalence(2.0) > other.p_equivalence(2.0)
    apart = Effect((-1.0, -1.1, -0.9), also=((1.0, 1.1, 0.9),))
    assert apart.p == 1.0 and apart.interval.low < 0 < apart.interval.high


@given(st.lists(st.floats(-1, 1), min_size=6, max_size=12), st.floats(0.01, 2.0))
def test_equivalence_says_that_the_interval_lies_within_the_margin(values, margin):
    swapped = Effect(tuple(values), swaps=signs(np.array(values)))
    low, high = swapped.interval
    assume(min(abs(low + margin), abs(high - margin)) > 1e-9 and any(values))
    assert (swapped.p_equivalence(margin) <= 0.05) == (-margin < low and high < margin)


def test_every_p_is_the_largest_of_the_tests_and_the_interval_spans_theirs():
    values = (-1.0, -1.1, -0.9, -1.05, -0.95, -1.0)
    plain, swapped = Effect(values), Effect(values, swaps=signs(np.array(values)))
    assert plain.p < swapped.p == 2 / 2**6 and swapped.p_t == plain.p
    assert swapped.interval == (min(plain.interval.low, -1.1), max(plain.interval.high, -0.9))
    assert plain.p_equivalence(2.0) < swapped.p_equivalence(2.0) == 2 / 2**6
    assert plain.p_beyond(0.1) < swapped.p_beyond(0.1) == 2 / 2**6
    # The same runs under two names are equal, however few and however many they are compared with.
    same = [Effect((0.0,) * 3, also=((0.0,) * 3,), swaps=signs(np.zeros(3)))] * 40
    assert judge(same, 0.005)[0].verdict == Verdict.EQUIVALENT
    few = Effect(values[:5], swaps=signs(np.array(values[:5])))
    assert few.interval is None and few.p == 2 / 2**5 and few.sd is not None


@pytest.mark.parametrize(("family", "needed"), [(1, 6), (2, 7), (3, 7), (37, 11), (703, 15)])
def test_the_fewest_seeds_that_can_find_a_difference(family, needed):
    assert fewest_seeds(family) == needed
    for n_seeds in (needed - 1, needed):
        swaps = signs(-np.arange(1.0, n_seeds + 1))
        effects = [Effect((-1.0, -1.1) * (n_seeds // 2) + (-1.0,) * (n_seeds % 2), swaps=swaps)] * family
        judged = judge(effects, 0.005)[0]
        assert (judged.verdict == Verdict.SUPPORTED) == (n_seeds == needed)
        assert (str(needed) in judged.reason) == (n_seeds < needed)


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
    assert swapped.p == pytest.approx(effect.p)
    assert swapped.interval == pytest.approx((-effect.interval.high, -effect.interval.low))


LOWER, NEAR, WIDE = (-0.10, -0.11, -0.09, -0.10), (0.001, -0.001, 0.0005, 0.0), (0.1, -0.1, 0.05, -0.02)


def verdicts(*differences, margin=0.005):
    return [judgement.verdict for judgement in judge([Effect(row) for row in differences], margin)]


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        (LOWER, Verdict.SUPPORTED),
        (tuple(-x for x in LOWER), Verdict.REFUTED),
        (NEAR, Verdict.EQUIVALENT),
        (WIDE, Verdict.UNDECIDED),
        ((0.0,) * 5, Verdict.EQUIVALENT),
        ((-0.1,) * 5, Verdict.SUPPORTED),
        ((-0.1,), Verdict.UNDECIDED),
        ((), Verdict.UNDECIDED),
    ],
)
def test_words(differences, verdict):
    assert verdicts(differences) == [verdict]


def test_equivalence_depends_on_the_margin_and_goes_before_a_difference():
    assert verdicts((-0.001, -0.0011, -0.0009)) == [Verdict.EQUIVALENT]
    assert verdicts((-0.001, -0.0011, -0.0009), margin=5e-4) == [Verdict.SUPPORTED]
    assert verdicts(NEAR, margin=1e-5) == [Verdict.UNDECIDED]
    assert verdicts(WIDE, margin=1.0) == [Verdict.EQUIVALENT]


@pytest.mark.parametrize("margin", [0.0, -1.0, math.nan, math.inf])
def test_a_bad_margin_is_refused_whatever_is_judged(margin):
    with pytest.raises(UserError, match="margin="):
        judge([], margin)


def test_holm_over_the_family_takes_a_lone_finding_away():
    barely = (-0.05, -0.09, -0.02, -0.06)
    assert verdicts(barely) == [Verdict.SUPPORTED]
    family = judge([Effect(barely), Effect(WIDE), Effect(WIDE)], 0.005)
    assert family[0].verdict == Verdict.UNDECIDED and family[0].family == 3
    assert [one.p for one in family] == holm([one.effect.p for one in family])
    # What allows no test is no part of the family.
    judged = judge([Effect(barely), Effect((0.1,)), Effect(WIDE, reason="the cat sat on it")], 0.005)
    assert [one.verdict for one in judged] == [Verdict.SUPPORTED, Verdict.UNDECIDED, Verdict.UNDECIDED]
    assert judged[0].family == 1 and judged[1].p is None
    assert "one seed" in judged[1].reason and judged[2].reason == "the cat sat on it"


@settings(max_examples=40)
@given(st.lists(st.lists(st.floats(-1, 1), min_size=0, max_size=5), min_size=1, max_size=4))
def test_swapping_all_signs_swaps_the_words_and_nothing_is_nan(family):
    turned = {Verdict.SUPPORTED: Verdict.REFUTED, Verdict.REFUTED: Verdict.SUPPORTED}
    rows = [tuple(round(x, 12) for x in row) for row in family]
    ours = judge([Effect(row) for row in rows], 0.005)
    theirs = judge([Effect(tuple(-x for x in row)) for row in rows], 0.005)
    assert [one.verdict for one in theirs] == [turned.get(one.verdict, one.verdict) for one in ours]
    for one in ours:
        text = json.loads(json.dumps(one.as_dict(), allow_nan=False))
        assert text["seeds"] == one.effect.n and text["verdict"] == one.verdict
        assert bool(one.reason) == (one.verdict == Verdict.UNDECIDED)


def test_verdicts_err_no_more_often_than_one_in_twenty():
    rng = np.random.default_rng(0)
    families = [judge([Effect(tuple(row)) for row in rng.normal(size=(3, 5))], 0.005) for _ in range(400)]
    wrong = sum(any(one.verdict in (Verdict.SUPPORTED, Verdict.REFUTED) for one in family) for family in families)
    assert wrong < 35  # 99.9% of binomial(400, 0.05)


def test_tests_to_come_are_part_of_the_family():
    effects = [
        paired({seed: 1.0 + gap + seed / 1e3 for seed in range(8)}, {seed: 1.0 for seed in range(8)})
        for gap in (0.1, 0.2)
    ]
    now, then = judge(effects), judge(effects, to_come=3)
    assert [one.family for one in now] == [2, 2] and [one.family for one in then] == [5, 5]
    for before, after in zip(now, then, strict=True):
        assert before.p is not None and after.p is not None and after.p > before.p
    # Whatever those turn out to be, no difference is lost that was found without them.
    for p_others in (1e-9, 0.5):
        whole = adjusted([*(effect.p for effect in effects), *[p_others] * 3])
        assert all(p <= one.p for p, one in zip(whole, then, strict=False))


def test_differences_of_0_are_equal_only_where_the_other_choice_of_rates_says_so_too():
    assert Effect((0.0,) * 5).p_equivalence(0.05) == Effect((0.0,) * 5, also=((0.0,) * 5,)).p_equivalence(0.05) == 0
    assert Effect((0.0,) * 5, also=((0.1, 0.12, 0.09, 0.11, 0.1),)).p_equivalence(0.05) > 0.5
