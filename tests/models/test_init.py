"""Initialisation: `gain` and `fan_in` keep the second moment through a feed-forward layer whatever its activation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from actlab import models
from actlab.activations import moments
from actlab.config import replace
from actlab.errors import UserError
from actlab.models.layers import FeedForward


def second_moment_after(tiny, activation, init):
    """Of a wide feed-forward layer on inputs of rms 1, times the 2 N of GPT-2's residual factor."""
    config = replace(tiny, **{"model.activation": activation, "model.init": init, "model.d_model": 128})
    spec = models.build(replace(config, **{"model.d_ff": 3072}).model).spec
    x_TD = jax.random.normal(jax.random.key(0), (2048, 128))
    layer = FeedForward(spec)
    out_TD, _ = layer.apply(layer.init(jax.random.key(1), x_TD), x_TD)
    return float(jnp.square(out_TD).mean()) * 2 * spec.n_layers


@pytest.mark.parametrize("activation", ["relu", "gelu", "tanh", "sigmoid", "xielu", "swiglu", "drelu", "polynorm"])
def test_gain_keeps_the_second_moment(tiny, activation):
    # The output of relu2, say, has a heavy tail; these do not. Width 3072 leaves a few per cent of chance.
    assert second_moment_after(tiny, activation, "gain") == pytest.approx(1, rel=0.1)


def test_an_activation_that_is_0_has_no_gain(tiny, register):
    register("nothing", lambda x: 0 * x)
    for init in ("gain", "fan_in"):
        with pytest.raises(UserError, match="the size of 'nothing' for inputs .* which is 0: set"):
            models.build(replace(tiny, **{"model.activation": "nothing", "model.init": init}).model)


@pytest.mark.parametrize("parametrization", ["standard", "mup"])
def test_fan_in_draws_every_matrix_by_its_inputs(tiny, parametrization):
    changes = {"model.init": "fan_in", "model.parametrization": parametrization, "model.base_width": 16}
    shape = {"model.d_model": 128, "model.tie_embeddings": False, "model.n_layers": 2}
    init, names = models.build(replace(tiny, **changes, **shape).model).init, ("block_0", "token_embedding", "output")
    block, table, output = jax.jit(lambda key: [init(key)[name] for name in names])(jax.random.key(0))
    residual = 2.0  # sqrt(2 N)
    stds = {
        "qkv": (block["attention"]["qkv"]["kernel"], 128**-0.5),
        "out": (block["attention"]["out"]["kernel"], 128**-0.5 / residual),
        "up": (block["feed_forward"]["up"]["kernel"], 128**-0.5),
        "down": (block["feed_forward"]["down"]["kernel"], moments("gelu").forward_gain * 512**-0.5 / residual),
        "table": (table["embedding"], (16 if parametrization == "mup" else 128) ** -0.5),
        "output": (output["kernel"], (16 if parametrization == "mup" else 128) ** -0.5),
    }
    for name, (drawn, std) in stds.items():
        assert np.std(drawn) == pytest.approx(std, rel=0.06), name


def test_gpt2_does_not_and_gives_gelu_less_than_relu(tiny):
    relu, gelu = (second_moment_after(tiny, activation, "gpt2") for activation in ("relu", "gelu"))
    assert gelu < 0.75 * relu < 0.1


def test_all_else_is_drawn_alike(tiny):
    ours, theirs = (
        models.build(replace(tiny, **{"model.init": init}).model).init(jax.random.key(0)) for init in ("gain", "gpt2")
    )
    for name in ("attention", "attention_norm"):
        assert jax.tree.all(jax.tree.map(jnp.array_equal, ours["block_0"][name], theirs["block_0"][name]))
    scale = ours["block_0"]["feed_forward"]["up"]["kernel"] / theirs["block_0"]["feed_forward"]["up"]["kernel"]
    assert jnp.allclose(scale, 1 / (0.02 * 4), rtol=1e-5)
    down = ours["block_0"]["feed_forward"]["down"]["kernel"] / theirs["block_0"]["feed_forward"]["down"]["kernel"]
    assert jnp.allclose(down, moments("gelu").forward_gain / 8 / 0.02, rtol=1e-5)


def test_a_users_own_activation_has_a_gain(tiny):
    from actlab import activations

    own = activations.elementwise(lambda x: jnp.where(x > 0, x, -0.5 * x))
    activations.register(activations.Activation("test_init_bent", own, "", "here"))
    # A plan asks for costs first, from shapes alone: the gain is a number even there.
    config = replace(tiny, **{"model.activation": "test_init_bent", "model.init": "gain"})
    assert models.costs(models.build(config.model)).parameters > 0
    assert second_moment_after(tiny, "test_init_bent", "gain") == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize("tied", [True, False])
def test_with_fan_in_the_output_is_drawn_by_its_own_inputs(tiny, tied):
    changes = {"model.kind": "encoder", "model.init": "fan_in", "model.tie_embeddings": tied, "model.vocab_size": 2000}
    model = models.build(replace(tiny, **changes, **{"model.d_model": 64, "model.d_embedding": 8}).model)
    name = ("token_embedding", "embedding") if tied else ("output", "kernel")
    kernel = jax.jit(lambda key: model.init(key)[name[0]][name[1]])(jax.random.key(0))
    assert sorted(kernel.shape) == [8, 2000] and float(kernel.std()) == pytest.approx(8**-0.5, rel=0.02)
