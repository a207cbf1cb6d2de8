"""Where lanes stand while they train is what their whole series say in the end."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actlab.probes.gradients import SpikeCount, summary
from actlab.training.tally import Tally
from actlab.training.traces import Steps
from actlab.training.watcher import Past


def series(seed, n, spikes):
    values = np.random.default_rng(seed).normal(3.0, 0.1, (2, n)).astype(np.float32)
    for index in spikes:
        values[index % 2, index] += 5
    return values


@given(cuts=st.lists(st.integers(0, 400), max_size=12))
def test_spikes_counted_call_by_call_are_those_of_the_whole_series(cuts):
    whole = series(1, 400, (127, 128, 129, 200, 330, 399))
    whole[0, -1] = np.nan
    count = SpikeCount()
    for part in np.split(whole, sorted(cuts), axis=1):
        count.add(*part)
    assert count.n == summary(*whole)["spikes"] >= 4


def begun(steps, rows=()):
    tally = Tally(["a", "b"])
    tally.on_begin(Past(rows, (), steps))
    return tally


def test_a_session_that_goes_on_stands_where_one_that_never_stopped_would():
    lanes = [Steps(*series(seed, 300, (150, 250))) for seed in (1, 2)]
    at = lambda steps, part: Steps(steps.loss_S[part], steps.grad_norm_S[part])  # noqa: E731
    rows = [{"run": run, "split": "validation", "step": 10, "loss": loss} for run, loss in (("a", 2.0), ("b", 1.5))]
    resumed = begun([at(steps, slice(200)) for steps in lanes], rows)
    resumed.on_steps(300, {lane: at(steps, slice(200, 300)) for lane, steps in enumerate(lanes)}, 1.0)
    whole = begun(lanes, rows)
    assert resumed.spikes == whole.spikes == 4 and resumed.best == whole.best == 1.5
    np.testing.assert_array_equal(resumed.loss_R, whole.loss_R)


def test_a_lane_may_diverge_in_training_or_at_an_evaluation_and_stays_out():
    tally = begun([Steps(*series(1, 0, ()))] * 2)
    tally.on_steps(1, {0: Steps(*np.float32([[np.inf], [1]])), 1: Steps(*np.float32([[2], [1]]))}, 1.0)
    assert tally.diverged_R.tolist() == [True, False] and tally.loss_R.tolist() == [
        pytest.approx(np.nan, nan_ok=True),
        2,
    ]
    tally.on_evaluation(1, np.array([1.0, 3.0]))
    assert tally.best == 3.0, "a frozen lane's loss is none"
    tally.on_evaluation(2, np.array([1.0, np.inf]))
    assert tally.diverged_R.all() and tally.best == 3.0 and np.isnan(tally.validation_R).all()
