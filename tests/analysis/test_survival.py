"""Death, revival and survival of units whose fate was planted."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays

from actlab.analysis import survival
from actlab.workdir.traces import Censuses

# Four censuses; units: never dead, dead from the second on, dead once, dead twice and then for good.
FATES = np.array([[0, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 0], [0, 1, 0, 1]], bool)
STEPS = np.array([0, 50, 100, 200])


def test_permanent_is_dead_now_and_at_every_later_census():
    assert survival.permanently_dead(FATES).sum(axis=0).tolist() == [0, 3, 0, 1]


def test_revival_is_the_share_of_the_dead_that_come_back():
    ours = survival.revival_rate(FATES[1:])
    assert ours.tolist() == [0.5, 0, 0]
    ours = survival.revival_rate(FATES)
    assert ours[0] == 1
    assert np.isnan(survival.revival_rate(np.zeros((3, 2, 5), bool))).all()


@given(arrays.arrays(bool, st.tuples(st.integers(1, 6), st.integers(1, 3), st.integers(1, 5))))
def test_permanent_death_is_the_definition_and_never_falls(dead):
    ours = survival.permanently_dead(dead)
    for census in range(len(dead)):
        np.testing.assert_array_equal(ours[census], dead[census:].all(axis=0))
    assert (np.diff(ours.sum(axis=(1, 2))) >= 0).all()


def curve_of(*units, steps=STEPS):
    """The curve of one run's units by step, each given as its censuses: "0110" is dead at the middle two of four."""
    dead_PU = np.array([[mark == "1" for mark in unit] for unit in units]).T
    curve = survival.kaplan_meier([Censuses(np.array(steps), dead_PU[:, None, :])])
    return dict(zip(curve.steps_E.tolist(), curve.share_E.tolist(), strict=True))


def test_without_early_ends_the_curve_is_the_share_that_is_left():
    curve = survival.kaplan_meier([Censuses(STEPS, FATES[:, None, :])])
    assert curve.steps_E.tolist() == [50, 200] and curve.share_E.tolist() == [0.75, 0.75]
    assert (curve.low_E[0] < 0.75 < curve.high_E[0]) and curve.low_E[0] > 0


def test_units_that_flicker_have_not_died_wherever_the_flicker_stops():
    assert curve_of("0101", "1010", "0001", "1001", "0110") == {200: 1.0}


def test_a_death_is_dated_to_the_first_census_of_the_last_spell():
    # Of five units one flickers and dies at 100, one dies at 0, one at 50.
    assert curve_of("1011", "1111", "0111", "0000", "0101") == {0: 0.8, 50: pytest.approx(0.6), 100: 0.4, 200: 0.4}


@pytest.mark.parametrize("units", [("0", "1"), ("1",)])
def test_one_census_shows_no_death(units):
    assert curve_of(*units, steps=STEPS[:1]) == {0: 1.0}


@given(arrays.arrays(bool, st.tuples(st.integers(2, 6), st.just(1), st.integers(1, 9))))
def test_the_curve_ends_at_the_share_of_units_whose_death_another_census_confirms(dead):
    curve = survival.kaplan_meier([Censuses(np.arange(len(dead)) * 10, dead)])
    assert curve.share_E[-1] == pytest.approx(1 - dead[-2:].all(axis=0).mean(), abs=1e-12)


def test_a_run_that_ended_early_is_censored_there():
    # Units 1 and 2 of the long run die at 100; the short run's four units are last seen alive at 50.
    long = np.zeros((4, 1, 4), bool)
    long[2:, 0, :2] = True
    short = Censuses(STEPS[:2], np.zeros((2, 1, 4), bool))
    curve = survival.kaplan_meier([Censuses(STEPS, long), short])
    at = dict(zip(curve.steps_E.tolist(), curve.share_E.tolist(), strict=True))
    assert at[50] == 1.0 and at[100] == pytest.approx(1 - 2 / 4), "four were at risk at 100, not eight"
