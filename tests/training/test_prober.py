"""When which probe runs, and what a row holds of it; a made-up cohort stands for the compiled programs."""

import numpy as np
import pytest

from actlab.config import replace
from actlab.training.cohort import Cohort
from actlab.training.objectives import NEXT_TOKEN
from actlab.training.prober import Prober, is_due, work

VALIDATION = NEXT_TOKEN.scored(np.zeros((2, 4, 9), np.int32), np.ones((2, 4, 8), np.float32))


class Made(Cohort):
    """Two lanes, two layers of three units."""

    def __init__(self):
        self.n_lanes = 2

    def probe(self, state, batch):
        assert batch.tokens.shape == (4, 8)
        return {"post_mean": np.float32([1, 2])}

    def curvature(self, state, batch):
        return {"hessian_top": np.float32([3, 4])}

    def census(self, state, validation):
        dead = np.zeros((2, 2, 3), bool)
        dead[1, 0, :2] = True
        return dead


def prober(tiny, **changes):
    config = replace(tiny, **{f"train.{name}": value for name, value in changes.items()})
    return Prober(config, Made(), VALIDATION)


@pytest.mark.parametrize(("every", "steps"), [(0, []), (5, [0, 5, 10, 12]), (6, [0, 6, 12]), (100, [0, 12])])
def test_due_are_multiples_and_the_end(tiny, every, steps):
    assert [step for step in range(13) if is_due(tiny.train, every, step)] == steps
    train = replace(tiny, **{"train.probe_every": every, "train.census_every": every}).train
    assert work(train, 9) == len(steps) * (1 + 9 / 3)


def test_curvature_costs_as_many_gradients_as_its_products(tiny):
    train = replace(tiny, **{"train.curvature_every": 12}).train
    assert work(train, 9) == 2 * 20 * 2 * 2


def test_what_is_due_together_is_one_row_per_lane(tiny):
    ours = prober(tiny, probe_every=2, census_every=4, curvature_every=8)
    keys = [set(ours.measure(None, step).values[1]) if step % 2 == 0 else None for step in range(9)]
    dead = {"dead_fraction", "dead_rate_bound", "layer_0/dead_fraction", "layer_1/dead_fraction"}
    assert keys[2] == keys[6] == {"post_mean"} and keys[4] == {"post_mean"} | dead
    assert keys[0] == keys[8] == {"post_mean", "hessian_top"} | dead
    assert ours.measure(None, 3) == ([], None)


def test_dead_units_are_counted_by_lane_and_layer(tiny):
    (first, second), dead_RUF = prober(tiny, census_every=1).measure(None, 1)
    assert first["dead_fraction"] == 0 and dead_RUF.sum() == 2
    assert (second["dead_fraction"], second["layer_0/dead_fraction"]) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert second["dead_rate_bound"] == pytest.approx(1 - 0.05 ** (1 / 64))


def test_no_census_is_taken_of_an_activation_of_whole_vectors(tiny):
    config = replace(tiny, **{"model.activation": "polynorm", "train.census_every": 1})
    ours = Prober(config, Made(), VALIDATION)
    assert ours.measure(None, 1) == ([], None)
