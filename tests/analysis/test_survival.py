"""Death, revival and survival of units whose fate was planted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
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


def test_without_early_ends_the_curve_is_the_share_that_is_left():
    curve = survival.kaplan_meier([Censuses(STEPS, FATES[:, None, :])])
    assert curve.steps_E.tolist() == [50, 200] and curve.share_E.tolist() == [0.75, 0.5]
    assert (curve.low_E[0] < 0.75 < curve.high_E[0]) and curve.low_E[0] > 0


def test_a_run_that_ended_early_is_censored_there():
    # Units 1 and 2 of the long run die at 100; the short run's four units are last seen alive at 50.
    long = np.zeros((4, 1, 4), bool)
    long[2:, 0, :2] = True
    short = Censuses(STEPS[:2], np.zeros((2, 1, 4), bool))
    curve = survival.kaplan_meier([Censuses(STEPS, long), short])
    at = dict(zip(curve.steps_E.tolist(), curve.share_E.tolist(), strict=True))
    assert at[50] == 1.0 and at[100] == pytest.approx(1 - 2 / 4), "four were at risk at 100, not eight"
