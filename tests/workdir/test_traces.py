"""Spikes and tails of a run's steps against what was planted."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from actlab.workdir import traces


def reference_spikes(series):
    found = []
    for step in range(len(series)):
        window = series[max(0, step - 128) : step]
        full = len(window) == 128
        found.append(bool(full and series[step] > np.mean(window) + 6 * np.std(window)))
    return found


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(0, 300), st.lists(st.integers(0, 299), max_size=5))
def test_spikes_are_those_of_the_definition(seed, n, places):
    series = np.random.default_rng(seed).standard_t(3, n)
    series[[place for place in places if place < n]] += 20
    assert traces.spikes(series).tolist() == reference_spikes(series)


@given(st.integers(0, 2**32 - 1), st.sets(st.integers(128, 999), max_size=6))
@settings(max_examples=20)
def test_planted_spikes_in_a_falling_loss_are_all_found_and_no_others(seed, places):
    steps = np.arange(1000)
    loss = 2 + 3 * np.exp(-steps / 200) + np.random.default_rng(seed).uniform(-0.05, 0.05, 1000)
    loss[sorted(places)] += 10 + 10 * np.arange(1, len(places) + 1)
    # Each is higher than those before it, whose own height widens the bound: 6 sd of one spike h in 128 is 0.53 h.
    assert set(np.flatnonzero(traces.spikes(loss))) == places


@pytest.mark.parametrize(("deviations", "is_spike"), [(5.99, False), (6.01, True)])
def test_a_spike_lies_six_standard_deviations_above_the_128_steps_before_it(deviations, is_spike):
    series = np.r_[np.tile([1.0, 3.0], 100), 2.0 + deviations]  # mean 2, deviation 1
    assert traces.spikes(series).any() == traces.spikes(series)[200] == is_spike


def test_a_step_spikes_once_and_what_is_not_finite_is_a_spike():
    loss, norms = np.ones(300), np.ones(300)
    loss[200], norms[200], norms[250], loss[299] = 5, 5, 5, np.nan
    assert traces.summary(loss, norms)["spikes"] == 3


def test_quantiles_are_of_the_last_fifth_of_the_steps():
    norms = np.arange(100.0)
    ours = traces.summary(np.ones(100), norms)
    assert ours["grad_norm_p50"] == np.quantile(norms[80:], 0.5) and ours["grad_norm_p99"] == np.quantile(
        norms[80:], 0.99
    )
    assert traces.summary(np.ones(7), norms[:7])["grad_norm_p50"] == 5.5, "two of seven steps"
    norms[-1] = np.inf
    assert traces.summary(np.ones(100), norms)["grad_norm_p99"] < 99
    assert np.isnan(traces.summary(np.ones(0), np.ones(0))["grad_norm_p50"])
