"""The search on known curves: where it ends, what it says of rates that fail, and that it goes on where it stopped."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from actlab.adaptive import search
from actlab.adaptive.search import RUNGS, STEP, BestRate, Progress, next_tasks


def progress(loss, rung, rate, fails_from=math.inf, noise=0.0):
    """Early runs lie higher and have their optimum at a lower rate."""
    part, rng = rung / RUNGS, np.random.default_rng(round(1e9 * rate))
    losses = loss(rate * STEP ** (1 - part)) + 1 - part + noise * rng.normal(size=2)
    failed = rate >= fails_from
    return Progress(rung, tuple(np.where(failed, 9.0, losses).tolist()), (failed, False))


def searched(loss, start, **changes):
    """The result and all that was trained; one task at a time, so that it must go on from any state."""
    known = {}
    while isinstance(tasks := next_tasks(known, start), tuple):
        task = tasks[-1]
        assert 1 <= task.rung <= RUNGS and (task.rate not in known or known[task.rate].rung < task.rung)
        known[task.rate] = progress(loss, task.rung, task.rate, **changes)
    return tasks, known


def valley(best, bend=0.1):
    return lambda rate: 2.0 + bend * math.log(rate / best) ** 2


@settings(max_examples=80, deadline=None)
@given(st.floats(-4, 4), st.floats(1e-5, 1.0), st.floats(0.01, 10))
def test_a_valley_is_found_to_three_digits_wherever_it_lies(away, start, bend):
    best = start * math.exp(away)
    found, known = searched(valley(best, bend), start)
    assert isinstance(found, BestRate) and found.rate == pytest.approx(best, rel=6e-3)
    assert found.unresolved == "" and found.allowance < 1e-6
    done = [rate for rate, one in known.items() if one.rung == RUNGS]
    near = sorted(done, key=lambda rate: abs(math.log(rate / best)))[0]
    for beside in (near / STEP, near * STEP):
        assert min(abs(rate / beside - 1) for rate in done) < 1.1e-3  # both have four digits
    assert len(known) <= 2 * search.REACH + 1


@settings(max_examples=40, deadline=None)
@given(st.floats(-3, 3), st.integers(-8, 8), st.integers(0, 1000))
def test_a_rate_beside_one_that_fails_is_not_resolved_and_no_rate_that_failed_is_taken(away, place, number):
    start = 1e-3 * (1 + number / 1000)
    fails_from = start * STEP ** (place - 0.5)
    found, known = searched(valley(start * math.exp(away)), start, fails_from=fails_from)
    assert found.rate < fails_from * STEP**0.5
    best = min((rate for rate in known if rate < fails_from), key=lambda rate: (-known[rate].rung, known[rate].losses))
    if best * STEP * 1.001 > fails_from:
        assert "failed" in found.unresolved and found.rate == best
        # The loss may go on falling, by no more than in the step before.
        optimum = min(max(start * math.exp(away), best), best * STEP)
        assert found.allowance >= valley(start * math.exp(away))(best) - valley(start * math.exp(away))(optimum) - 1e-9


def test_a_search_without_a_valley_ends_at_its_edge_and_one_where_all_fails_where_it_began():
    found, known = searched(lambda rate: -math.log(rate), 1e-3)
    assert found.unresolved and found.at_edge and found.rate == max(known) and math.isinf(found.allowance)
    assert max(known) == pytest.approx(1e-3 * STEP**search.REACH, rel=1e-3)
    found, known = searched(valley(1e-3), 1e-3, fails_from=0.0)
    assert found.rate == 1e-3 and found.unresolved and math.isinf(found.allowance) and not found.at_edge


def test_diverged_runs_count_as_failed():
    known = {}
    while isinstance(tasks := next_tasks(known, 1e-3), tuple):
        for rate, rung in tasks:
            one = progress(valley(1e-3), rung, rate)
            known[rate] = Progress(rung, (math.nan, 2.0), (True, False)) if rate > 2e-3 else one
    assert tasks.rate == pytest.approx(1e-3, rel=0.01) and tasks.unresolved == ""


@pytest.mark.parametrize("diverges_from", [-5, 2])
def test_where_the_first_rates_diverge_lower_ones_are_tried(diverges_from):
    """A diverged run has ended, and there is no more of it to train."""
    best, known, start = 1e-3 * STEP**-9, {}, 1e-3
    while isinstance(tasks := next_tasks(known, start), tuple):
        for rate, rung in tasks:
            diverges = rate > start * STEP ** (diverges_from - 0.5)
            known[rate] = (
                Progress(RUNGS, (math.nan, math.nan), (True, True)) if diverges else progress(valley(best), rung, rate)
            )
    assert tasks.unresolved == "" and tasks.rate == pytest.approx(best, rel=6e-3)
    assert sum(one.rung for one in known.values() if not any(one.failed)) / RUNGS < 8


def test_runs_that_cannot_win_stop_early():
    _, known = searched(valley(1e-3), 2e-3)
    runs = sum(one.rung for one in known.values()) / RUNGS
    assert sum(one.rung == RUNGS for one in known.values()) == 5
    assert runs * search.SEEDS == pytest.approx(search.EXPECTED_RUNS, rel=0.3)


def test_noise_raises_the_allowance_and_a_flat_valley_asks_for_wider_rates():
    sharp, few = searched(valley(1e-3, 1.0), 1e-3, noise=0.03)
    flat, many = searched(valley(1e-3, 0.005), 1e-3, noise=0.03)
    assert 0 < sharp.allowance < flat.allowance < 0.1
    done = [sum(one.rung == RUNGS for one in known.values()) for known in (few, many)]
    assert done[0] == 5 < done[1]


def test_the_allowance_covers_most_of_what_noise_misplaces():
    short, excess = 0, []
    for number in range(100):
        start = 1e-3 * 1.01**number
        loss = valley(1.3e-3, 0.6)
        found, _ = searched(loss, start, noise=0.1)
        excess.append(loss(found.rate) - 2.0)
        short += excess[-1] > found.allowance
    assert short <= 40 and np.mean(excess) < 0.02


def searched_where_whole_trainings_fail_from(first):
    known = {}
    while isinstance(tasks := next_tasks(known, 3e-3), tuple):
        for rate, rung in tasks:
            losses = (valley(3e-3)(rate) + 1 - rung / RUNGS,) * 2
            known[rate] = Progress(rung, losses, (rung == RUNGS and rate >= first,) * 2)
    return tasks, sum(one.rung == RUNGS for one in known.values())


def test_a_search_ends_where_whole_trainings_learn_nothing_at_lower_rates_too():
    found, n_whole = searched_where_whole_trainings_fail_from(0.0)
    assert math.isinf(found.allowance) and n_whole == 6


def test_rates_at_which_only_the_end_fails_do_not_hide_a_lower_one_that_learns():
    found, _ = searched_where_whole_trainings_fail_from(1.2e-3)
    assert found.rate < 1.2e-3 and math.isfinite(found.allowance)


def trained(losses_by_place, failed=None, start=1e-3):
    """Rates trained to the end, by their number of steps from the start; a loss for each seed, and which failed."""
    rates = {place: float(f"{start * STEP**place:.4g}") if place else start for place in losses_by_place}
    return {
        rates[place]: Progress(RUNGS, tuple(losses), (failed or {}).get(place, (False, False)))
        for place, losses in losses_by_place.items()
    }


def by_least_squares(places, losses):
    """Vertex, standard error of the slope there, bend and its standard error; errors for a noise of 1 in each mean."""
    design = np.vander(np.array(places, float), 3)
    (bend, slope, _), *_ = np.linalg.lstsq(design, np.array(losses), rcond=None)
    spread, vertex = np.linalg.inv(design.T @ design), -slope / (2 * bend)
    at = np.array([2 * vertex, 1, 0])
    return vertex, math.sqrt(at @ spread @ at), bend, math.sqrt(spread[0, 0])


def test_the_allowance_of_a_sharp_valley_follows_from_its_noise():
    """Analysis of variance of rates and seeds, and least squares, by other code."""
    rng, places = np.random.default_rng(3), range(-2, 3)
    table = 0.5 * np.square(places)[:, None] + np.array([0.0, 0.3]) + 0.01 * rng.normal(size=(5, 2))
    found = next_tasks(trained(dict(zip(places, table, strict=True))), 1e-3)
    # Of two seeds the interaction's sum of squares is half of that of the differences about their mean.
    noise = math.sqrt(np.square(np.diff(table) - np.diff(table).mean()).sum() / 2 / 4)
    means = table.mean(axis=1)
    vertex, slope_error, *_ = by_least_squares([-1, 0, 1], means[1:4])
    *_, bend, bend_error = by_least_squares(places, means)
    error = noise / 2**0.5 * slope_error * stats.t.ppf(0.95, 4)
    assert found.unresolved == "" and found.rate == float(f"{1e-3 * STEP**vertex:.3g}")
    assert found.allowance == pytest.approx(error**2 / (4 * (bend - noise / 2**0.5 * bend_error)), rel=1e-9)


@pytest.mark.parametrize("dip", [0.0, 0.0064])
def test_a_flat_valley_is_fitted_by_five_rates_unless_they_are_no_parabola(dip):
    places, noise = np.arange(-2, 3), np.sqrt(2e-4) * np.array([[1, -1], [-1, 1], [0, 0], [-1, 1], [1, -1]])
    # The cubic and the quartic are orthogonal to parabolas on five places. F of the latter: 7.4, and 0.2 without.
    means = 0.01 * places**2 + 0.003 * np.array([-1, 2, 0, -2, 1]) - dip * np.array([1, -4, 6, -4, 1])
    found = next_tasks(trained(dict(zip(places.tolist(), means[:, None] + noise, strict=True))), 1e-3)
    vertex = by_least_squares([-1, 0, 1], means[1:4])[0] if dip else 0.0
    assert abs(vertex) > 0.04 or not dip
    assert found.unresolved == "" and found.rate == float(f"{1e-3 * STEP**vertex:.3g}")


def test_beside_a_rate_at_which_all_fail_the_loss_falls_no_further_than_in_the_step_before():
    losses = {-2: (0.9, 1.1), -1: (0.5, 0.52), 0: (0.2, 0.24), 1: (0.3, 0.3)}
    found = next_tasks(trained(losses, {1: (True, True)}), 1e-3)
    of_usable = np.array([losses[place] for place in (-2, -1, 0)])
    noise = math.sqrt(np.square(np.diff(of_usable) - np.diff(of_usable).mean()).sum() / 2 / 2)
    assert found.rate == 1e-3 and "failed" in found.unresolved
    # A difference of two means, each of two seeds.
    assert found.allowance == pytest.approx(0.51 - 0.22 + noise * stats.t.ppf(0.95, 2), rel=1e-9)
    some = next_tasks(trained(losses, {1: (True, False)}), 1e-3)
    assert "failed" in some.unresolved and some.allowance == math.inf
