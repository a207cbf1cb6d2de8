"""When the probes run, and what they cost."""

import pytest

from actlab.config import replace
from actlab.probes.schedule import is_due, work


@pytest.mark.parametrize(("every", "steps"), [(0, []), (5, [0, 5, 10, 12]), (6, [0, 6, 12]), (100, [0, 12])])
def test_due_are_multiples_and_the_end(tiny, every, steps):
    assert [step for step in range(13) if is_due(tiny.train, every, step)] == steps
    train = replace(tiny, **{"train.probe_every": every, "train.census_every": every}).train
    assert work(train, 9) == len(steps) * (1 + 9 / 3)


def test_curvature_costs_as_many_gradients_as_its_products(tiny):
    train = replace(tiny, **{"train.curvature_every": 12}).train
    assert work(train, 9) == 2 * 20 * 2 * 2
