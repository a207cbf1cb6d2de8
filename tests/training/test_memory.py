"""How many lanes fit, and into which programs they are dealt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actlab.training import memory
from actlab.training.memory import Need


@given(groups=st.integers(1, 40), multiple=st.integers(1, 8), most=st.integers(1, 300))
def test_lanes_are_dealt_into_as_few_programs_as_possible_and_evenly(groups, multiple, most):
    parts = memory.divided(groups * multiple, most, multiple)
    assert sum(parts) == groups * multiple and all(part % multiple == 0 for part in parts)
    assert max(parts) - min(parts) in (0, multiple) and parts == sorted(parts, reverse=True)
    most = max(most, multiple)  # fewer lanes than devices to deal them among there cannot be
    assert max(parts) <= most and len(parts) == -(-groups // (most // multiple))


@pytest.mark.parametrize(("n_lanes", "multiple", "first"), [(6, 2, 4), (8, 2, 4), (5, 1, 3), (2, 1, 1), (4, 2, 2)])
def test_at_most_one_less_makes_two_halves(n_lanes, multiple, first):
    assert memory.divided(n_lanes, n_lanes - 1, multiple) == [first, n_lanes - first]


def test_side_by_side_each_lane_needs_room_to_work_and_in_turn_they_share_it():
    one, free = Need(state=10, work=30), 1000
    assert memory.most_lanes(one, False, free) == 900 // 40
    assert memory.most_lanes(one, True, free) == (900 - 30) // 10
    assert memory.most_lanes(Need(state=10, work=3000), True, free) == 1, "one is always tried"
