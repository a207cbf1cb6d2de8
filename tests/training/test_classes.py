"""Scores of classes against values worked out by hand."""

import numpy as np
import pytest

from actlab.training import classes


@pytest.mark.parametrize(
    ("confusion", "expected"),
    [
        ([[3, 1], [2, 4]], (6 / 9 + 8 / 11) / 2),
        ([[5, 0], [0, 5]], 1.0),
        ([[0, 5], [5, 0]], 0.0),
        ([[6, 0], [4, 0]], (12 / 16 + 0) / 2),  # nothing is taken for a positive: F1 of the positives is 0
        ([[7, 0], [0, 0]], 1.0),  # one class only, and no other answer: the other has no F1
        ([[5, 2], [0, 0]], (10 / 12 + 0) / 2),  # no positives, but two answers that say so
        ([[2, 0, 0], [0, 0, 0], [1, 0, 1]], (4 / 5 + 2 / 3) / 2),
        ([[0, 0], [0, 0]], 0.0),
    ],
)
def test_macro_f1(confusion, expected):
    assert classes.macro_f1(np.array(confusion, float)) == pytest.approx(expected)


def test_macro_f1_of_many_lanes_is_that_of_each():
    lanes = np.array([[[3.0, 1], [2, 4]], [[7, 0], [0, 0]]])
    assert classes.macro_f1(lanes).tolist() == [classes.macro_f1(lane) for lane in lanes]


def test_the_majority_is_that_of_training_and_is_scored_on_validation():
    found = classes.majority(np.array([1] * 7 + [0] * 2), np.array([1, 0, 0, 0]), 2)
    assert (found.label, found.accuracy) == (1, 0.25)
    assert found.macro_f1 == pytest.approx((0 + 2 / 5) / 2)
    assert found.loss == pytest.approx(-(3 * np.log(3 / 11) + np.log(8 / 11)) / 4)
    only = classes.majority(np.array([0, 0]), np.array([0, 1]), 2)
    assert only.accuracy == 0.5 and np.isfinite(only.loss), "a class that training has not is possible"
