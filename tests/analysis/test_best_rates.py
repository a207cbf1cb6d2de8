"""Own best rates by hand, parabolas and cubics on such curves, and swaps against their definition."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from actlab.analysis.best_rates import Curves, at_best, left_out, signs, swap, unresolved

RATES = (1e-3, 1.7e-3, 3e-3)


def curves(rows, read=None, failed=(), rates=RATES):
    """An arm of rows of losses by rate; `failed` are places (rate, seed)."""
    chosen = np.asarray(rows, np.float64)
    lost = np.zeros(chosen.shape, bool)
    for place in failed:
        lost[place] = True
    return Curves(np.asarray(rates), chosen, chosen if read is None else np.asarray(read, np.float64), lost)


VALLEY = [[2.1, 2.2, 2.3], [2.0, 2.1, 2.2], [2.3, 2.3, 2.5]]


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        (curves(VALLEY), ""),
        (curves(VALLEY[::-1]), ""),
        (curves(VALLEY, rates=(1e-3, 1.9e-3, 3e-3)), "the rates beside 0.0019 are a factor 1.9 away"),
        (curves(VALLEY, rates=(1e-3, 1.8e-3, 3.24e-3)), ""),
        (curves(VALLEY, rates=(0.0, 1e-3, 1.7e-3)), "the rates beside 0.001 are 0 and another"),
        (curves(VALLEY[1:], rates=RATES[:2]), "0.001 is at the edge of the grid"),
        (curves(VALLEY[:2], rates=RATES[:2]), "0.0017 is at the edge of the grid"),
        (curves(VALLEY, failed=[(2, 0), (2, 1)]), "of 0.0017, 2 of 3 runs failed at 0.003 beside it"),
        (curves(VALLEY, failed=[(0, 2)]), "of 0.0017, 1 of 3 runs failed at 0.001 beside it"),
        (curves(VALLEY, failed=[(1, 1)]), "of 0.0017, 1 of 3 runs failed there"),
    ],
)
def test_a_best_rate_is_resolved_by_near_neighbours_at_which_no_run_failed(arm, words):
    assert unresolved(arm) == words


def test_each_seed_is_read_at_the_rate_that_the_others_choose():
    arm = curves([[2.0, 2.0, 2.0], [1.0, 2.1, 2.1]], rates=(1e-3, 1e-2))
    assert at_best(arm).tolist() == [1.0, 2.1, 2.1] and left_out(arm, 2).tolist() == [2.0, 2.1, 2.1]
    tested = curves([[2.0, 2.0, 2.0], [1.0, 2.1, 2.1]], [[5.0, 6.0, 7.0], [8.0, 9.0, 10.0]], rates=(1e-3, 1e-2))
    assert at_best(tested).tolist() == [8.0, 9.0, 10.0] and left_out(tested, 2).tolist() == [5.0, 9.0, 10.0]
    alone = curves([[2.0], [1.0]], rates=(1e-3, 1e-2))
    assert at_best(alone).tolist() == left_out(alone, 2).tolist() == [1.0]


@given(st.floats(-0.2, 0.2), st.floats(0.5, 9), st.sampled_from([RATES, (1e-3, 3e-3, 1e-2), (2.0, 2.5, 4.0)]))
def test_the_best_rate_of_a_parabola_lies_between_those_of_the_grid(offset, bend, rates):
    x = np.log(rates)
    bottom = x[1] + offset * min(np.diff(x))
    seeds = np.array([1.0, 1.3, 0.8, 1.1])
    arm = curves(seeds + bend * (x[:, None] - bottom) ** 2, rates=rates)
    assert left_out(arm, 2) == pytest.approx(seeds, abs=1e-9)
    assert (at_best(arm) >= seeds).all()


@given(
    st.floats(-0.45, 0.45),
    st.floats(0.5, 9),
    st.floats(-0.2, 0.2),
    st.sampled_from([(-2, 2), (-1, 2), (-2, 1)]),
    st.data(),
)
def test_the_best_rate_of_a_lopsided_valley_is_that_of_a_cubic_through_four_rates(offset, bend, tilt, ends, data):
    steps = np.arange(ends[0], ends[1] + 1) - offset
    seeds = np.array([1.0, 1.3, 0.8, 1.1])
    rows = seeds + bend * (steps**2 + tilt * steps**3)[:, None]
    rates = np.exp(0.6 * np.arange(len(rows)))
    assert left_out(curves(rows, rates=rates), 3) == pytest.approx(seeds, abs=1e-9)
    # The other way round it is the same valley.
    assert left_out(curves(rows[::-1], rates=1 / rates[::-1]), 3) == pytest.approx(seeds, abs=1e-9)
    # A seed's own loss at the fourth rate is not read.
    if len(rows) == 4:
        fourth = 3 if ends[1] == 2 else 0
        seed = data.draw(st.integers(0, 3))
        rows[fourth, seed] += 100
        assert left_out(curves(rows, rates=rates), 3)[seed] == pytest.approx(seeds[seed], abs=1e-9)


@pytest.mark.parametrize("turn", [1, -1])
def test_the_fourth_rate_is_on_the_side_of_the_lower_neighbour(turn):
    steps = np.arange(-2.0, 3) - 0.3
    rows = (np.exp(0.8 * steps) - 0.8 * steps)[::turn, None] + np.array([0.0, 0.1, 0.3])
    x = np.arange(5.0)
    places = [1, 2, 3, 4] if turn == 1 else [0, 1, 2, 3]  # of the five, around the lowest at 2
    curve = np.polynomial.Polynomial.fit(x[places], rows[places, 0], 3)
    lowest = min(curve(np.linspace(1, 3, 20_001)))
    assert left_out(curves(rows, rates=np.exp(x)), 3)[0] == pytest.approx(lowest, abs=1e-6)


@pytest.mark.parametrize("turn", [1, -1])
def test_a_cliff_or_a_failure_in_the_fourth_rate_does_not_move_the_best_rate_without_bound(turn):
    rates = np.exp(np.arange(4.0))
    seeds = np.array([0.0, 0.1, 0.3])

    def found(fourth, failed=()):
        rows = np.array([4.2, 4.0, 4.1, fourth])[::turn, None] + seeds
        return left_out(curves(rows, failed=failed, rates=rates), 3)

    parabola = 4 - 0.05**2 / (2 * 0.3) + seeds  # slope and second difference at 4.0 are 0.05 and 0.3
    # The third difference of 4.2, 4.0, 4.1, 4.5 is 0, and that of a cliff is limited to twice the second, 0.3.
    assert found(4.5) == pytest.approx(parabola, abs=1e-9)
    assert found(14.0) == pytest.approx(found(1e6), abs=1e-9) and (found(14.0) < parabola).all()
    assert found(14.0) == pytest.approx(parabola, abs=0.3 / 6)
    last = (3, 0)[turn < 0]
    assert found(1e6, failed=[(last, seed) for seed in range(3)]) == pytest.approx(parabola, abs=1e-12)


@pytest.mark.parametrize("degree", [2, 3])
@given(st.lists(st.floats(-9, 9), min_size=4, max_size=6, unique=True))
def test_between_rates_no_curve_falls_below_every_convex_one(degree, slopes):
    rates = 1.8 ** np.arange(len(slopes) + 1)
    levels = np.cumsum([0.0, *sorted(slopes)])  # at equal steps
    arm = curves(np.tile(levels[:, None], 2), rates=rates)
    # A convex curve lies above the lines through two neighbouring places, beyond them on either side.
    x = np.linspace(0, len(slopes), 2000)
    lines = [(levels[k], levels[k + 1] - levels[k], k) for k in range(len(slopes))]
    allowed = [np.where((x < k) | (x > k + 1), level + slope * (x - k), -np.inf) for level, slope, k in lines]
    assert left_out(arm, degree)[0] >= np.max(allowed, axis=0).min() - 0.01
    assert left_out(arm, degree)[0] <= levels.min() + 1e-12


@pytest.mark.parametrize("degree", [2, 3])
def test_a_level_stretch_beside_a_cliff_is_no_lower_between_its_rates(degree):
    for levels in ([16, 0, 0, 0, 16], [9, 9, 0, 0, 0, 40], [40, 0, 0, 0, 0, 40]):
        rates = 1.8 ** np.arange(len(levels))
        for turned in (levels, levels[::-1]):
            arm = curves(np.tile(np.array(turned, float)[:, None], 3), rates=rates)
            assert left_out(arm, degree) == pytest.approx([0.0] * 3, abs=1e-12)


def test_the_limit_on_a_seeds_fall_is_that_of_the_others():
    # The parabola through the others' means falls by 0.125 and may by less than 0.05: by the same share at every scale.
    shape, scales = np.array([9.0, 1.0, 0.0, 0.001, 0.05]), np.array([1.0, 2.0, 5.0])
    falls = left_out(curves(shape[:, None] * scales, rates=1.8 ** np.arange(5)), 2) / scales
    assert falls == pytest.approx([falls[0]] * 3) and -0.05 < falls[0] < 0


@pytest.mark.parametrize("degree", [2, 3])
def test_beside_a_failure_at_an_edge_and_where_rates_are_level_it_is_a_rate_of_the_grid(degree):
    rows = [[2.3, 2.4, 2.3], [2.0, 2.1, 2.2], [2.1, 2.2, 2.3]]
    assert left_out(curves(rows), degree).tolist() != rows[1]
    for places in ([(0, 0), (0, 1), (0, 2)], [(1, 1)], [(2, 0), (2, 1), (2, 2)]):
        assert left_out(curves(rows, failed=places), degree).tolist() == rows[1]
    assert left_out(curves(rows[1:], rates=RATES[:2]), degree).tolist() == rows[1]
    level = np.ones((3, 3))
    assert left_out(curves(level), degree).tolist() == [1.0, 1.0, 1.0]
    assert left_out(curves(rows, rates=(0.0, 1e-3, 2e-3)), degree).tolist() == rows[1]


@pytest.mark.parametrize("degree", [2, 3])
@pytest.mark.parametrize("places", [[(0, 0)], [(2, 2)], [(3, 1)], [(2, 0), (2, 1), (3, 0)]])
def test_where_some_runs_fail_beside_the_best_rate_the_others_tell_how_the_loss_goes_on(degree, places):
    whole = np.array([[4.2], [4.0], [4.1], [4.4]]) + np.array([0.0, 0.1, 0.3])
    rows, rates = whole.copy(), np.exp(np.arange(4.0))
    for place in places:
        rows[place] = 9.0
    expected = left_out(curves(whole, rates=rates), degree)
    assert left_out(curves(rows, failed=places, rates=rates), degree) == pytest.approx(expected, abs=1e-12)
    assert not np.allclose(expected, whole[1])


def test_a_rate_at_which_those_that_did_not_fail_are_lower_counts_as_level_with_the_best():
    seeds = np.array([0.0, 0.1, 0.3, 0.2, 0.1])
    rows = np.array([[4.2], [4.0], [3.0]]) + seeds
    rows[2, :2] = 9.0  # with these its mean is higher
    # The parabola through 4.2, 4.0, 4.0 at equal steps has slope -0.1 and second difference 0.2 at 4.0. A seed's own is
    # that through 4.2, 4.0 and 3.0.
    at = 0.5
    dip, own = -0.1 * at + 0.1 * at**2, -0.6 * at - 0.4 * at**2
    found = left_out(curves(rows, failed=[(2, 0), (2, 1)], rates=np.exp(np.arange(3.0))), 2)
    assert dip < 0 and (found < rows[1]).all()
    assert found == pytest.approx(4.0 + seeds + own, abs=1e-9)


def arms(seed, n_rates=3, n_seeds=5):
    """Two arms of level rates, whose choice is all noise, read on other noise."""
    rng = np.random.default_rng(seed)
    chosen = rng.normal(1, 0.1, (2, n_rates, n_seeds))
    read = chosen + rng.normal(0, 0.02, chosen.shape)
    rates = 1.7 ** np.arange(n_rates)
    return [curves(one, other, rates=rates) for one, other in zip(chosen, read, strict=True)]


def swapped(one, two):
    return swap([(1.0, one, two)])


def differences(one, two, shift=0.0):
    """Of every swap by definition: both arms at the rates of their lowest means; `shift` is taken off the first."""
    n_seeds = one.chosen.shape[1]
    for swapped in itertools.product((False, True), repeat=n_seeds):
        losses = []
        for first, second in ((one, two), (two, one)):
            mine, other = (-shift if arm is one else 0.0 for arm in (first, second))
            chosen = np.where(swapped, second.chosen + other, first.chosen + mine)
            read = np.where(swapped, second.read + other, first.read + mine)
            losses.append(read[chosen.mean(axis=1).argmin()].mean())
        yield losses[0] - losses[1]


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.floats(-0.3, 0.3))
def test_p_is_the_share_of_swaps_that_are_as_far_out_whatever_is_asked_of_the_difference(seed, shift):
    one, two = arms(seed)
    found = np.array(list(differences(one, two, shift)))
    swaps = swapped(one, two)
    assert swaps.p(shift) == pytest.approx(min(1, np.mean(np.abs(found) >= abs(found[0]) - 1e-9)))
    assert swaps.p(shift, "less") == pytest.approx(np.mean(found <= found[0] + 1e-9))
    assert swaps.p(shift, "greater") == pytest.approx(np.mean(found >= found[0] - 1e-9))


def test_the_interval_holds_what_the_test_keeps():
    for n_seeds in (6, 8):
        one, two = arms(3, n_seeds=n_seeds)
        swaps = swapped(one, two)
        low, high = swaps.interval
        for end, outward in ((low, -1e-6), (high, 1e-6)):
            assert swaps.p(end + outward) <= 0.05 < swaps.p(end - outward)
    # Of five seeds every p is at least 2 / 32, so that no difference is excluded.
    assert swapped(*arms(3, n_seeds=5)).interval is None and swapped(*arms(3, n_seeds=5)).p(100.0) == 2 / 32


def test_with_one_rate_it_is_the_test_of_signs():
    values = np.array([0.1, -0.05, 0.2, 0.15, 0.3, -0.01])
    exact = stats.permutation_test(
        (values,),
        lambda x, axis: np.abs(x.mean(axis)),
        permutation_type="samples",
        vectorized=True,
        alternative="greater",
    )
    swaps = signs(values)
    assert swaps.p() == pytest.approx(exact.pvalue)
    subsets = [np.mean(some) for k in range(1, 7) for some in itertools.combinations(values, k)]
    assert swaps.typical == pytest.approx(np.sort(subsets))
    assert signs(np.array([0.3])).p() == 1.0 and signs(np.zeros(4)).p() == 1.0


def test_of_many_seeds_swaps_are_drawn_always_the_same_ones():
    rng = np.random.default_rng(1)
    values = rng.normal(0.4, 1, 40)
    assert signs(values).p() == signs(values).p() == pytest.approx(stats.ttest_1samp(values, 0).pvalue, abs=0.01)
    low, high = signs(values).interval
    half = stats.t.isf(0.025, 39) * values.std(ddof=1) / 40**0.5
    assert (low, high) == (pytest.approx(values.mean() - half, abs=0.02), pytest.approx(values.mean() + half, abs=0.02))


def test_arms_of_one_law_are_called_different_once_in_twenty_even_where_seeds_collapse():
    rng = np.random.default_rng(0)
    called = 0
    for _ in range(1000):
        losses = rng.normal(size=(2, 3, 7)) + np.array([8.0, 3.0, 0.0])[:, None]
        losses[:, 2] += 300 * (rng.uniform(size=(2, 7)) < 0.2)
        one, two = (curves(rows) for rows in losses)
        called += swapped(one, two).p() <= 0.05
    assert stats.binomtest(called, 1000, 0.05, "greater").pvalue > 1e-3
    assert called > 20, "an exact test is not idle"


def test_turning_the_arms_turns_the_swaps():
    one, two = arms(7)
    there, back = swapped(one, two), swapped(two, one)
    assert back.typical == pytest.approx(-there.typical[::-1])
    assert there.scaled(-2.0, 0.5).typical == pytest.approx(np.sort(0.5 - 2 * there.typical))


def test_pairs_swap_together():
    (a, b), (c, d) = arms(1), arms(2)
    found = [x - 0.5 * y for x, y in zip(differences(a, b), differences(c, d), strict=True)]
    swaps = swap([(1.0, a, b), (-0.5, c, d)])
    assert swaps.p() == pytest.approx(np.mean(np.abs(found) >= abs(found[0]) - 1e-9))
    assert swaps.p() != swapped(a, b).p()
