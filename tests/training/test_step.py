"""train_step: it learns and tells true metrics. AdamW against its definition in float64; schedules at their corners."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings, strategies as st

from actlab import config as config_lib, models
from actlab.config import OptimizerConfig, replace
from actlab.training import step as steps
from actlab.training.objectives import NEXT_TOKEN
from actlab.training.step import Lane, adamw, decay_mask, schedule_fraction


def setting(tiny, **changes):
    config = replace(tiny, **changes)
    model = models.build(config.model)
    state = jax.jit(functools.partial(steps.init_state, model, config))(jnp.int32(0))
    windows = jnp.array(np.random.default_rng(5).integers(0, 24, (4, 9)))
    hyper = Lane(0, jnp.float32(config.optimizer.learning_rate), jnp.float32(config.optimizer.weight_decay))
    return jax.jit(functools.partial(steps.train_step, model, config, hyper)), state, windows, model, config


def test_a_run_begins_with_the_models_parameters_of_its_seed(tiny):
    model = models.build(tiny.model)
    begun = jax.jit(functools.partial(steps.init_state, model, tiny))(jnp.int32(7))
    expected = jax.jit(model.init)(jax.random.key(7))
    jax.tree.map(np.testing.assert_array_equal, begun.params, expected)
    assert begun.step == 0 and not begun.diverged


def test_a_lane_has_the_traced_fields_in_the_order_of_the_schema():
    assert list(Lane._fields) == [path.split(".")[-1] for path in config_lib.paths("traced")]


@pytest.mark.parametrize(
    "activation", ["relu", *(pytest.param(name, marks=pytest.mark.slow) for name in ("tanh", "swiglu"))]
)
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


TO_ZERO = {"optimizer.clip_norm": 0.01, "optimizer.final_lr_fraction": 0.0}  # one program for two tests


def test_the_norms_are_those_of_gradient_update_and_parameters(tiny):
    step, state, windows, model, _ = setting(tiny, **TO_ZERO)

    def loss_of(params):
        logits, _ = model.apply(params, windows[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, windows[:, 1:]).mean()

    @jax.jit
    def expected(old, new):
        loss, grads = jax.value_and_grad(loss_of)(old)
        moved = jax.tree.map(lambda a, b: a - b, new, old)
        return loss, *map(optax.tree.norm, (grads, moved, new))

    new, metrics = step(state, windows)
    loss, of_gradient, of_update, of_params = map(float, expected(state.params, new.params))
    assert metrics.loss == pytest.approx(loss, rel=1e-6)
    assert metrics.grad_norm == pytest.approx(of_gradient, rel=1e-5)
    assert metrics.grad_norm > 0.01, "the norm is told before clipping"
    assert metrics.update_norm == pytest.approx(of_update, rel=1e-3)
    assert metrics.param_norm == pytest.approx(of_params, rel=1e-6)
    assert metrics.learning_rate == pytest.approx(1e-3 / 3)
    assert new.step == 1


def test_evaluation_weighs_every_target(tiny):
    _, state, windows, model, _ = setting(tiny)
    weights = np.zeros((4, 8), np.float32)
    weights[2, 3:] = 1

    @jax.jit
    def expected(params):
        logits, _ = model.apply(params, windows[:, :-1])
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, windows[:, 1:])
        return losses, logits.argmax(axis=-1) == windows[:, 1:]

    losses, right = expected(state.params)
    evaluate, arguments = functools.partial(steps.eval_step, model), (state.params, NEXT_TOKEN.scored(windows, weights))
    found = jax.jit(functools.partial(evaluate, counts_hits=True))(*arguments)
    np.testing.assert_allclose(found.losses, losses * weights, rtol=1e-5)
    assert found.hits == right[2, 3:].sum()
    assert jax.eval_shape(functools.partial(evaluate, counts_hits=False), *arguments).hits is None


def test_the_learning_rate_follows_the_schedule_over_the_length_of_the_run(tiny):
    step, state, windows, _, _ = setting(tiny, **TO_ZERO)
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
        hyper = Lane(seed, jnp.float32(0), jnp.float32(0))
        return steps.train_step(model, config, hyper, state._replace(step=step), windows)[1].loss

    losses = {(seed, step): float(loss(jnp.int32(seed), jnp.int32(step))) for seed in (1, 2) for step in (0, 1)}
    assert len(set(losses.values())) == 4
    assert float(loss(jnp.int32(2), jnp.int32(1))) == losses[2, 1]


@pytest.mark.parametrize(("clip_norm", "multipliers"), [(0.0, None), (0.5, {"kernel": 0.25, "scale": 1.0})])
def test_updates_are_those_of_the_definition_with_decay_on_matrices_only(clip_norm, multipliers):
    config = OptimizerConfig(b1=0.8, b2=0.9, eps=1e-6, clip_norm=clip_norm)
    rate, decay = 0.03, 0.4
    rng = np.random.default_rng(0)
    params = {"kernel": rng.normal(size=(3, 2)), "scale": rng.normal(size=3)}
    ours = jax.tree.map(lambda a: jnp.array(a, jnp.float32), params)
    state = adamw(config, jnp.float32(0), jnp.float32(0)).init(ours)
    m = v = {name: np.zeros_like(array) for name, array in params.items()}
    for step in range(1, 6):
        grads = {name: rng.normal(size=array.shape) for name, array in params.items()}
        # The definition: Loshchilov and Hutter 2017, algorithm 2, decay scaled by the learning rate as in torch.
        norm = np.sqrt(sum((g**2).sum() for g in grads.values()))
        clipped = {n: g * (min(1, clip_norm / norm) if clip_norm else 1) for n, g in grads.items()}
        m = {n: 0.8 * m[n] + 0.2 * g for n, g in clipped.items()}
        v = {n: 0.9 * v[n] + 0.1 * g**2 for n, g in clipped.items()}
        for n in params:
            adam = (m[n] / (1 - 0.8**step)) / (np.sqrt(v[n] / (1 - 0.9**step)) + 1e-6)
            adam *= (multipliers or {}).get(n, 1.0)
            params[n] = params[n] - rate * (adam + (decay * params[n] if n == "kernel" else 0))
        updates, state = adamw(config, jnp.float32(decay), jnp.float32(rate), multipliers).update(
            jax.tree.map(jnp.float32, grads), state, ours
        )
        ours = optax.apply_updates(ours, updates)
    for n in params:
        np.testing.assert_allclose(ours[n], params[n], rtol=2e-5, atol=1e-6)


def test_only_arrays_of_two_or_more_axes_are_decayed():
    tree = {"kernel": jnp.ones((2, 3)), "bias": jnp.ones(3), "slope": jnp.ones(())}
    assert decay_mask(tree) == {"kernel": True, "bias": False, "slope": False}


@pytest.mark.parametrize(
    ("schedule", "middle", "last"), [("cosine", 0.55, 0.1), ("linear", 0.55, 0.1), ("constant", 1.0, 1.0)]
)
def test_schedules_at_their_corners(schedule, middle, last):
    config = OptimizerConfig(warmup_steps=9, schedule=schedule, final_lr_fraction=0.1)
    at = lambda step: float(schedule_fraction(config, 109, jnp.int32(step)))
    assert at(0) == pytest.approx(0.1)
    assert at(8) == pytest.approx(0.9)
    assert at(9) == pytest.approx(1.0)
    assert at(59) == pytest.approx(middle)
    assert at(109) == pytest.approx(last)


@given(
    warmup=st.integers(0, 50),
    length=st.integers(1, 200),
    schedule=st.sampled_from(["cosine", "linear", "constant"]),
    last=st.floats(0, 1),
)
@settings(max_examples=30)
def test_the_fraction_rises_to_one_then_never_rises_and_no_update_is_wasted(warmup, length, schedule, last):
    config = OptimizerConfig(warmup_steps=warmup, schedule=schedule, final_lr_fraction=last)
    # A fixed number of steps keeps the shape, and so the compiled operations, of all examples.
    fraction = jax.vmap(lambda step: schedule_fraction(config, warmup + length, step))
    values = np.asarray(fraction(jnp.arange(256)))[: warmup + length]
    assert (np.diff(values[: warmup + 1]) > 0).all() and (np.diff(values[warmup:]) <= 1e-6).all()
    assert values[0] > 0 and values.max() == pytest.approx(1.0)
    assert values.min() >= min(last, 1 / (warmup + 1)) - 1e-6
