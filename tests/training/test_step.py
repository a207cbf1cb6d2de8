"""train_step: it learns, its metrics are what they say, its loss is in nats per token."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from actlab import models
from actlab.config import replace
from actlab.training import step as steps
from actlab.training.objectives import NEXT_TOKEN
from actlab.training.optimizer import Hyperparameters


def setting(tiny, **changes):
    config = replace(tiny, **changes)
    model = models.build(config.model)
    state = steps.init_state(model, config, jnp.int32(0))
    windows = jax.random.randint(jax.random.key(5), (4, 9), 0, 24)
    hyper = Hyperparameters(jnp.float32(config.optimizer.learning_rate), jnp.float32(config.optimizer.weight_decay))
    return jax.jit(functools.partial(steps.train_step, model, config, hyper)), state, windows, model, config


@pytest.mark.parametrize("activation", ["relu", "tanh", "swiglu"])
def test_one_batch_can_be_learned_by_heart(tiny, activation):
    changes = {"model.activation": activation, "optimizer.learning_rate": 2e-2, "optimizer.schedule": "constant"}
    step, state, windows, _, _ = setting(tiny, **changes)
    windows = windows.at[:, 0].set(jnp.arange(4))  # else no model could tell the rows' second tokens
    losses = []
    for _ in range(150):
        state, metrics = step(state, windows)
        losses.append(float(metrics.loss))
    assert losses[0] == pytest.approx(math.log(24), rel=0.02)
    assert losses[-1] < 0.05


def test_the_norms_are_those_of_gradient_update_and_parameters(tiny):
    step, state, windows, model, config = setting(tiny, **{"optimizer.clip_norm": 0.01})

    def loss_of(params):
        logits, _ = model.apply(params, windows[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, windows[:, 1:]).mean()

    new, metrics = step(state, windows)
    loss, grads = jax.value_and_grad(loss_of)(state.params)
    moved = jax.tree.map(lambda a, b: a - b, new.params, state.params)
    assert metrics.loss == pytest.approx(float(loss), rel=1e-6)
    assert metrics.grad_norm == pytest.approx(float(optax.tree.norm(grads)), rel=1e-5)
    assert metrics.grad_norm > 0.01, "the norm is told before clipping"
    assert metrics.update_norm == pytest.approx(float(optax.tree.norm(moved)), rel=1e-3)
    assert metrics.param_norm == pytest.approx(float(optax.tree.norm(new.params)), rel=1e-6)
    assert metrics.learning_rate == pytest.approx(1e-3 / 3)
    assert new.step == 1


def test_evaluation_weighs_every_target(tiny):
    _, state, windows, model, _ = setting(tiny)
    logits, _ = model.apply(state.params, windows[:, :-1])
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, windows[:, 1:])
    weights = jnp.zeros((4, 8)).at[2, 3:].set(1.0)
    found = steps.eval_step(model, state.params, NEXT_TOKEN.scored(windows, weights), counts_hits=True)
    assert found.loss == pytest.approx(float(losses[2, 3:].sum()), rel=1e-6)
    right = logits.argmax(axis=-1) == windows[:, 1:]
    assert found.hits == right[2, 3:].sum()
    assert steps.eval_step(model, state.params, NEXT_TOKEN.scored(windows, weights), counts_hits=False).hits is None


def test_the_learning_rate_follows_the_schedule_over_the_length_of_the_run(tiny):
    step, state, windows, _, _ = setting(tiny, **{"optimizer.final_lr_fraction": 0.0})
    rates = []
    for _ in range(12):
        state, metrics = step(state, windows)
        rates.append(float(metrics.learning_rate))
    passed = (np.arange(12) - 2) / 10
    cosine = 1e-3 * (1 + np.cos(np.pi * passed)) / 2
    np.testing.assert_allclose(rates, [1e-3 / 3, 2e-3 / 3, *cosine[2:]], rtol=1e-5)


def test_what_is_drawn_is_a_function_of_seed_and_step(tiny):
    _, state, windows, model, config = setting(tiny, **{"model.activation": "stochastic_gelu"})
    state = state._replace(params=jax.tree.map(lambda leaf: leaf * 20, state.params))

    @jax.jit
    def loss(seed, step):
        hyper = Hyperparameters(jnp.float32(0), jnp.float32(0), seed)
        return steps.train_step(model, config, hyper, state._replace(step=step), windows)[1].loss

    losses = {(seed, step): float(loss(jnp.int32(seed), jnp.int32(step))) for seed in (1, 2) for step in (0, 1)}
    assert len(set(losses.values())) == 4
    assert float(loss(jnp.int32(2), jnp.int32(1))) == losses[2, 1]
