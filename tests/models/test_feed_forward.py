"""The feed-forward's options: an activation that is drawn in training, a norm of the hidden units."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import weights

from actlab import models
from actlab.config import replace
from actlab.models.layers import FeedForward

TOKENS = jnp.arange(16).reshape(2, 8) % 5


def built(tiny, **changes):
    model = models.build(replace(tiny, **changes).model)
    # Large, so that the activation is no straight line, and with scales other than 1.
    return model, jax.tree.map(lambda leaf: 20 * leaf, weights.drawn(model, 0.02))


def test_with_a_key_the_activation_is_drawn_for_each_layer_anew_and_without_it_is_the_mean(tiny):
    model, params = built(tiny, **{"model.activation": "stochastic_gelu"})
    drawn = model.hidden(params, TOKENS, key=jax.random.key(0))[2]
    kept = [np.asarray(units.a_TF != 0) for units in drawn]
    for units, gates in zip(drawn, kept, strict=True):
        np.testing.assert_array_equal(units.a_TF, np.where(gates, units.z_TF, 0))
        assert 0.2 < gates.mean() < 0.8
    assert not np.array_equal(*kept)
    gelu, _ = built(tiny, **{"model.activation": "gelu"})
    for ours, theirs in zip(model.hidden(params, TOKENS)[2], gelu.hidden(params, TOKENS)[2], strict=True):
        np.testing.assert_array_equal(ours.a_TF, theirs.a_TF)


def test_the_head_of_an_encoder_is_drawn_too(tiny):
    changes = {"model.kind": "encoder", "model.activation": "gelu", "model.head_activation": "stochastic_gelu"}
    model, params = built(tiny, **changes)
    with_key, without = (model.hidden(params, TOKENS, key=key)[0] for key in (jax.random.key(0), None))
    assert not np.allclose(with_key, without)


def test_a_key_changes_nothing_where_nothing_is_drawn(tiny):
    model, params = built(tiny, **{"model.activation": "gelu"})
    with_key, without = (model.hidden(params, TOKENS, key=key)[0] for key in (jax.random.key(0), None))
    np.testing.assert_array_equal(with_key, without)


@pytest.mark.parametrize(("activation", "norm"), [("relu", "layernorm"), ("relu", "rmsnorm"), ("swiglu", "rmsnorm")])
def test_the_norm_brings_hidden_units_to_mean_square_1_times_a_scale_that_learns(tiny, activation, norm):
    model, params = built(tiny, **{"model.activation": activation, "model.activation_norm": norm})
    scale_F = params["block_1"]["feed_forward"]["activation_norm"]["scale"]
    assert scale_F.shape == (model.spec.d_hidden,) and scale_F.dtype == jnp.float32
    logits, hidden = model.apply(params, TOKENS)
    units_TF = np.asarray(hidden[1].a_TF / scale_F[None])
    np.testing.assert_allclose(np.square(units_TF).mean(axis=1), 1, rtol=0.01)
    assert (np.abs(units_TF.mean(axis=1)).max() < 1e-6) == (norm == "layernorm"), "only LayerNorm centres"
    slopes = jax.jit(jax.grad(lambda p: jnp.square(model.apply(p, TOKENS)[0]).mean()))(params)
    assert np.any(slopes["block_1"]["feed_forward"]["activation_norm"]["scale"])
    plain, _ = built(tiny, **{"model.activation": activation})
    assert not np.allclose(logits, plain.apply(params, TOKENS)[0])
    assert models.costs(model).parameters - models.costs(plain).parameters == 2 * model.spec.d_hidden


def test_after_the_norm_the_gain_is_1(tiny):
    changes = {"model.init": "gain", "model.activation_norm": "rmsnorm", "model.activation": "gelu"}
    spec = models.build(replace(tiny, **{**changes, "model.d_model": 128, "model.d_ff": 3072}).model).spec
    x_TD = jax.random.normal(jax.random.key(0), (512, 128))
    layer = FeedForward(spec)
    out_TD, _ = layer.apply(layer.init(jax.random.key(1), x_TD), x_TD)
    assert float(jnp.square(out_TD).mean()) * 2 * spec.n_layers == pytest.approx(1, rel=0.1)
