"""Another activation in some blocks: exactly there, and the same as a model that was built with it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import weights

from actlab import activations, models
from actlab.config import SwapConfig, replace
from actlab.errors import UserError

ENCODER = {"model.kind": "encoder", "model.use_bias": True, "model.norm_position": "post"}


@pytest.fixture(params=["decoder", "encoder"])
def config(request, tiny):
    return replace(tiny, **(ENCODER if request.param == "encoder" else {})).model


def outcome(model, params):
    tokens = jax.random.randint(jax.random.key(1), (3, 8), 0, 24)
    logits, hidden = model.apply(params, tokens)
    return logits, hidden


@pytest.fixture
def params(config):
    return weights.drawn(models.build(config))


def test_no_block_swapped_changes_no_bit(config, params):
    ours, _ = outcome(models.build(config, swap=SwapConfig("gelu", "relu", 0)), params)
    np.testing.assert_array_equal(ours, outcome(models.build(config), params)[0])


def test_all_blocks_swapped_is_the_model_with_the_other_activation(config, params):
    swapped = models.build(config, swap=SwapConfig("gelu", "relu", 2))
    other = models.build(dataclasses.replace(config, activation="relu"))
    np.testing.assert_array_equal(outcome(swapped, params)[0], outcome(other, params)[0])
    assert not np.array_equal(outcome(swapped, params)[0], outcome(models.build(config), params)[0])


def test_the_first_blocks_have_the_new_one_and_the_others_the_old(config, params):
    _, hidden = outcome(models.build(config, swap=SwapConfig("gelu", "relu", 1)), params)
    for units, name in zip(hidden, ("relu", "gelu"), strict=True):
        np.testing.assert_array_equal(units.a_TF, activations.get(name).fn(units.z_TF))
    assert float(jnp.abs(hidden[0].a_TF - activations.get("gelu").fn(hidden[0].z_TF)).max()) > 1e-3


@pytest.mark.parametrize("name", ["swiglu", "prelu", "no_such_one"])
def test_what_the_weights_do_not_fit_is_refused(config, name):
    with pytest.raises(UserError, match=f"config.finetune.swap.to='{name}'"):
        models.build(config, swap=SwapConfig("gelu", name, 1))
