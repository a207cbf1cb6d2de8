"""The sequential test: its level by enumeration, its symmetries, and that verdicts, intervals and decisions agree."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import integrate, stats

from actlab.adaptive import judgement
from actlab.adaptive.judgement import detectable, first_look, judge, seeds_needed
from actlab.analysis.effects import ALPHA, DIFFERENT, Verdict
from actlab.errors import UserError

OPPOSITE = {Verdict.SUPPORTED: Verdict.REFUTED, Verdict.REFUTED: Verdict.SUPPORTED}


def drawn(seed, n=14, effect=0.0, names="ab", spread=1.0):
    rng = np.random.default_rng(seed)
    losses = {name: 5 + spread * rng.normal(size=n) for name in names}
    losses[names[0]] = losses[names[0]] + effect
    return losses


def test_the_mixture_is_the_bayes_factor_of_the_t_statistic():
    n, c2 = 9, judgement._PRIOR

    def factor(t):
        def weighted(dz):
            return stats.nct.pdf(t, n - 1, dz * n**0.5) * stats.norm.pdf(dz, scale=c2**-0.5)

        return integrate.quad(weighted, -6, 6)[0] / stats.t.pdf(t, n - 1)

    share = n * 3.1**2 / (n - 1 + 3.1**2)
    assert (c2 / (n + c2)) ** 0.5 * (1 - share / (n + c2)) ** (-n / 2) == pytest.approx(factor(3.1), rel=1e-6)
    assert factor(judgement._critical(n, 1)[-1]) == pytest.approx(1 / ALPHA, rel=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 6), min_size=11, max_size=11), st.sampled_from([1, 3]))
def test_of_all_signs_of_any_magnitudes_at_most_5_percent_are_called(logarithms, n_pairs):
    # All that is not chance in noise of two activations alike, whatever its law, collapse included, is the magnitude.
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=10)))
    signs = np.concatenate([np.ones((len(signs), 1)), signs], axis=1)
    lows, highs = judgement._intervals(signs * np.exp(logarithms), n_pairs)
    assert ((lows > 0) | (highs < 0)).any(axis=1).mean() <= ALPHA / n_pairs


def test_a_trend_is_the_change_along_the_line_through_the_scales():
    scales = [drawn(number, 20, effect, spread=0.1) for number, effect in enumerate((1.0, 2.0, 3.0, 4.0))]
    (trend,) = judgement.trends(scales, 0.1)
    gaps = np.array([losses["a"] - losses["b"] for losses in scales])
    slopes = np.polyfit(np.arange(4), gaps, 1)[0]
    assert trend.mean == pytest.approx(3 * slopes.mean()) and trend.verdict == Verdict.REFUTED
    # The interval is that of the changes as one sample.
    (one,) = judge({"a": 3 * slopes, "b": np.zeros(20)}, 0.1)
    assert (trend.low, trend.high) == pytest.approx((one.low, one.high))
    (wider,) = judgement.trends(scales, 0.1, {"a": 0.5, "b": 0.25})
    assert (wider.low, wider.high) == pytest.approx((one.low - 0.9, one.high + 0.9))  # 1.2 (0.5 + 0.25)


def test_a_trend_is_open_once_a_run_failed_and_uses_the_seeds_that_all_scales_have():
    scales = [drawn(1, 20, 0.0), drawn(2, 12, 9.0)]
    (trend,) = judgement.trends(scales, 0.1)
    assert trend.seeds == 12 and trend.verdict == Verdict.REFUTED
    fates = [{name: np.zeros(len(row), bool) for name, row in losses.items()} for losses in scales]
    fates[1]["b"][3] = True
    assert judgement.trends(scales, 0.1, failed=fates)[0].verdict == Verdict.UNDECIDED
    with pytest.raises(UserError, match="two or more"):
        judgement.trends(scales[:1], 0.1)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.floats(-4, 4),
    st.floats(1e-3, 1e3),
    st.sampled_from(["ab", "abc"]),
    st.integers(0, 20),
)
def test_swapping_names_and_scaling_change_nothing_else(seed, effect, scale, names, n):
    losses = drawn(seed, n, effect, names)
    scaled = {name: scale * row for name, row in losses.items()}
    swapped = {name: losses[name] for name in reversed(names)}
    there = {(pair.first, pair.second): pair for pair in judge(swapped, 0.5)}
    for one, two in zip(judge(losses, 0.5), judge(scaled, 0.5 * scale), strict=True):
        other = there[one.second, one.first]
        assert one.verdict == two.verdict == OPPOSITE.get(other.verdict, other.verdict)
        assert one.decided_at == two.decided_at == other.decided_at and one.seeds == n
        assert (two.low, two.high) == pytest.approx((scale * one.low, scale * one.high), rel=1e-6, abs=1e-9)
        assert (other.low, other.high) == pytest.approx((-one.high, -one.low))
        if n:
            assert one.mean == pytest.approx((losses[one.first] - losses[one.second]).mean())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.floats(-3, 3), st.floats(0.05, 3), st.floats(0, 0.5))
def test_verdict_and_interval_agree_and_a_decision_stays(seed, effect, margin, allowance):
    losses = drawn(seed, 25, effect, spread=0.5)
    before = None
    for n in range(26):
        (pair,) = judge({name: row[:n] for name, row in losses.items()}, margin, {"a": 0.0, "b": allowance})
        excludes, within = pair.low > 0 or pair.high < 0, -margin < pair.low and pair.high < margin
        assert (pair.verdict == Verdict.UNDECIDED) == (not excludes and not within)
        assert excludes or pair.verdict not in DIFFERENT
        assert within or pair.verdict != Verdict.EQUIVALENT
        assert (pair.decided_at is None) == (pair.verdict == Verdict.UNDECIDED) and pair.low <= pair.high
        if before:
            assert before.low <= pair.low and pair.high <= before.high
            if before.verdict != Verdict.UNDECIDED:
                assert (pair.verdict, pair.decided_at) == (before.verdict, before.decided_at)
        before = pair


def test_an_allowance_widens_the_interval_towards_a_lower_loss_of_its_activation():
    losses = drawn(1, 12, effect=3.0)
    (plain,), (wider,) = judge(losses, 0.1), judge(losses, 0.1, {"a": 0.2, "b": 0.3})
    assert (wider.low, wider.high) == pytest.approx((plain.low - 0.2, plain.high + 0.3))


def test_an_activation_whose_runs_fail_is_not_called_higher_but_may_be_called_lower():
    losses = drawn(2, 14, effect=3.0)
    failed = np.zeros(14, bool)
    failed[3] = True
    whole = np.zeros(14, bool)
    assert judge(losses, 0.1)[0].verdict == Verdict.REFUTED
    assert judge(losses, 0.1, failed={"a": whole, "b": failed})[0].verdict == Verdict.REFUTED
    (pair,) = judge(losses, 0.1, failed={"a": failed, "b": whole})
    assert pair.verdict == Verdict.UNDECIDED and pair.low == -math.inf


@pytest.mark.parametrize("later", [1, 2, 5])
def test_a_failure_soon_after_the_first_look_withdraws_a_decision(later):
    n = first_look(1) + 6
    noise = np.random.default_rng(0).normal(size=(2, n)) / 1000
    losses, failed = {"a": 1.5 + noise[0], "b": 2.0 + noise[1]}, np.zeros(n, bool)
    failed[first_look(1) + later - 1] = True
    (pair,) = judge(losses, 0.0025, failed={"a": np.zeros(n, bool), "b": failed})
    assert (pair.verdict, pair.decided_at, pair.high) == (Verdict.UNDECIDED, None, math.inf)


def test_a_decision_from_before_a_run_failed_is_withdrawn():
    losses = drawn(2, 24, effect=-3.0)
    assert judge(losses, 0.1)[0].verdict == Verdict.SUPPORTED
    failed = np.zeros(24, bool)
    failed[19] = True
    whole = np.zeros(24, bool)
    losses["a"][19] += 100.0
    (pair,) = judge(losses, 0.1, failed={"a": failed, "b": whole})
    assert pair.verdict == Verdict.UNDECIDED and pair.low <= pair.mean <= pair.high and pair.decided_at is None
    before = {name: row[:19] for name, row in losses.items()}
    assert judge(before, 0.1, failed={"a": failed[:19], "b": whole[:19]})[0].verdict == Verdict.SUPPORTED


def test_runs_that_are_equal_are_equivalent_and_those_that_always_differ_alike_differ():
    row = drawn(3, 7)["a"]
    assert judge({"a": row, "b": row.copy()}, 1e-3)[0].verdict == Verdict.EQUIVALENT
    (pair,) = judge({"a": row, "b": row + 1.0}, 1e-3)
    assert pair.verdict == Verdict.SUPPORTED and (pair.low, pair.high) == pytest.approx((-1, -1))


@pytest.mark.parametrize("n_pairs", [1, 3, 6, 10])
def test_nothing_is_decided_before_the_first_look_and_the_clearest_difference_soon_after(n_pairs):
    first = first_look(n_pairs)
    assert math.isinf(detectable(first - 1, 1.0, n_pairs)) and math.isfinite(detectable(first, 1.0, n_pairs))
    lows, _ = judgement._intervals(100 + np.random.default_rng(0).normal(size=(50, first + 2)), n_pairs)
    assert lows.shape[1] == 3 and (lows[:, -1] > 0).all()


@pytest.mark.parametrize(("difference", "n_pairs"), [(3 / 2**0.5, 1), (1.0, 1), (2**0.5, 3)])
def test_the_seeds_needed_find_the_difference_four_times_in_five(difference, n_pairs):
    n = seeds_needed(difference, 1.0, n_pairs)
    assert n is not None and detectable(n, 1.0, n_pairs) <= difference < detectable(n - 1, 1.0, n_pairs)
    lows, _ = judgement._intervals(difference + np.random.default_rng(0).normal(size=(1500, n)), n_pairs)
    assert (lows > 0).any(axis=1).mean() == pytest.approx(0.8, abs=0.06)
    assert seeds_needed(2 * difference, 2.0, n_pairs) == n == seeds_needed(-difference, 1.0, n_pairs)
    assert seeds_needed(1e-4, 1.0, n_pairs) is None


def test_wrong_arguments_are_refused():
    for losses, margin in (
        (drawn(0), 0.0),
        ({"a": np.zeros(3), "b": np.zeros(4)}, 1.0),
        ({"a": np.full(3, np.nan), "b": np.zeros(3)}, 1.0),
    ):
        with pytest.raises(UserError):
            judge(losses, margin)


def test_a_pair_is_given_up_where_no_number_of_seeds_settles_it():
    rng = np.random.default_rng(0)
    near = {"a": rng.normal(0.001, 0.002, 400), "b": np.zeros(400)}
    for allowance, settled in ((0.0, True), (0.002, False), (math.inf, False)):
        (state,) = judge(near, 0.0025, {"a": allowance, "b": allowance})
        assert state.verdict == Verdict.UNDECIDED or settled
        assert (state.settles(0.0025), state.needed(0.0025) > 0) == (settled, settled)
    (far,) = judge({"a": near["a"] + 1, "b": near["b"]}, 0.0025, {"a": 0.002, "b": 0.002})
    assert far.verdict == Verdict.REFUTED and far.settles(0.0025)
    assert far.needed(0.0025) == pytest.approx(1.001 - 0.002, abs=1e-3)
    (early,) = judge({"a": near["a"][:2], "b": near["b"][:2]}, 0.0025, {"a": 0.002, "b": 0.0})
    assert early.settles(0.0025)


def test_with_one_rate_unresolved_a_pair_goes_on_only_while_the_other_end_may_decide():
    noise = np.random.default_rng(0).normal(0, 0.01, 40)
    for difference, settled in ((-0.02, True), (0.5, False)):
        (state,) = judge({"a": noise + difference, "b": 0 * noise}, 0.0025, {"a": math.inf, "b": 0.0})
        assert state.low == -math.inf and state.settles(0.0025) == settled
    assert state.verdict == Verdict.UNDECIDED
