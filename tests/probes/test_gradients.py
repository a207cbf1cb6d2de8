"""Gradients by group against numpy; spikes and tails against what was planted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actlab import models
from actlab.config import replace
from actlab.probes import gradients


@pytest.mark.parametrize("changes", [{}, {"model.tie_embeddings": False, "model.use_bias": True}])
def test_every_array_is_in_one_group(tiny, changes):
    shapes = jax.eval_shape(models.build(replace(tiny, **changes).model).init, jax.random.key(0))
    params = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), shapes)
    groups = gradients.groups(params)
    kinds = ("attention", "feed_forward", "norm")
    assert set(groups) == {f"layer_{i}/{kind}" for i in range(2) for kind in kinds} | {"embedding", "norm"}
    ours = sorted(array.shape for arrays in groups.values() for array in arrays)
    assert ours == sorted(leaf.shape for leaf in jax.tree.leaves(params))
    assert len(groups["layer_0/norm"]) == len(jax.tree.leaves(params["block_0"]["attention_norm"])) * 2


def test_norms_and_ratios_are_those_of_the_groups_arrays():
    tree = lambda scale: {"block_0": {"attention": {"a": scale * jnp.array([3.0, 0.0]), "b": scale * jnp.array([4.0])}}}  # noqa: E731
    ours = gradients.by_group(tree(2.0), tree(1.0), tree(0.5))
    assert ours == {"layer_0/attention/grad_norm": 5.0, "layer_0/attention/update_ratio": 0.25}


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
    assert gradients.spikes(series).tolist() == reference_spikes(series)


@given(st.integers(0, 2**32 - 1), st.sets(st.integers(128, 999), max_size=6))
@settings(max_examples=20)
def test_planted_spikes_in_a_falling_loss_are_all_found_and_no_others(seed, places):
    steps = np.arange(1000)
    loss = 2 + 3 * np.exp(-steps / 200) + np.random.default_rng(seed).uniform(-0.05, 0.05, 1000)
    loss[sorted(places)] += 10 + 10 * np.arange(1, len(places) + 1)
    # Each is higher than those before it, whose own height widens the bound: 6 sd of one spike h in 128 is 0.53 h.
    assert set(np.flatnonzero(gradients.spikes(loss))) == places


@pytest.mark.parametrize(("deviations", "is_spike"), [(5.9, False), (6.1, True)])
def test_a_spike_lies_six_standard_deviations_above_the_128_steps_before_it(deviations, is_spike):
    series = np.r_[np.tile([1.0, 3.0], 100), 2.0 + deviations]  # mean 2, deviation 1
    assert gradients.spikes(series).any() == gradients.spikes(series)[200] == is_spike


def test_a_step_spikes_once_and_what_is_not_finite_is_a_spike():
    loss, norms = np.ones(300), np.ones(300)
    loss[200], norms[200], norms[250], loss[299] = 5, 5, 5, np.nan
    assert gradients.summary(loss, norms)["spikes"] == 3


def test_quantiles_are_of_the_last_fifth_of_the_steps():
    norms = np.arange(100.0)
    ours = gradients.summary(np.ones(100), norms)
    assert ours["grad_norm_p50"] == np.quantile(norms[80:], 0.5) and ours["grad_norm_p99"] == np.quantile(
        norms[80:], 0.99
    )
    norms[-1] = np.inf
    assert gradients.summary(np.ones(100), norms)["grad_norm_p99"] < 99
    assert np.isnan(gradients.summary(np.ones(0), np.ones(0))["grad_norm_p50"])
