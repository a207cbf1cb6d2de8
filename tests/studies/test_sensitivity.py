"""Learning-rate sensitivity against the published definition."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actlab.studies import lr_sensitivity

losses = st.lists(st.floats(0.1, 20), min_size=1, max_size=9)


@pytest.mark.parametrize(("row", "expected"), [((1.12, 0.87, 1.68), 0.3533), ((1.13, 0.85, 1.09), 0.1733)])
def test_three_published_points(row, expected):
    assert lr_sensitivity(row, math.log(50_304)) == pytest.approx(expected, abs=5e-5)


def test_losses_above_the_initial_one_count_as_it():
    assert lr_sensitivity([2.0, 3.0, 50.0], 4.0) == pytest.approx(1.0)


@pytest.mark.parametrize("diverged", [math.nan, math.inf])
def test_a_diverged_run_counts_as_the_initial_loss(diverged):
    assert lr_sensitivity([2.0, diverged], 4.0) == lr_sensitivity([2.0, 4.0], 4.0) == 1.0


def test_no_run_below_the_initial_loss_is_no_sensitivity():
    assert lr_sensitivity([math.nan, 9.0], 4.0) == 0.0


@given(losses, st.floats(0.1, 20), st.randoms())
def test_it_is_at_least_zero_whatever_the_order_and_shifts_with_nothing(row, initial, random):
    value = lr_sensitivity(row, initial)
    shuffled = random.sample(row, len(row))
    assert value >= -1e-12
    assert lr_sensitivity(shuffled, initial) == pytest.approx(value, abs=1e-9)
    assert lr_sensitivity([loss + 3 for loss in row], initial + 3) == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize(
    ("row", "initial", "words"),
    [
        ([], 4.0, "shape"),
        ([[1.0, 2.0]], 4.0, "shape"),
        (3.0, 4.0, "shape"),
        ([-math.inf, 1.0], 4.0, "-inf"),
        ([1.0], math.nan, "initial_loss"),
        ([1.0], math.inf, "initial_loss"),
    ],
)
def test_bad_input(row, initial, words):
    with pytest.raises(ValueError, match=words):
        lr_sensitivity(np.asarray(row), initial)
