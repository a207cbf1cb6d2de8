"""AdamW against its definition in float64 numpy; schedules at their corners."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actlab.config import OptimizerConfig
from actlab.training.optimizer import adamw, decay_mask, schedule_fraction


@pytest.mark.parametrize("clip_norm", [0.0, 0.5])
def test_updates_are_those_of_the_definition_with_decay_on_matrices_only(clip_norm):
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
            params[n] = params[n] - rate * (adam + (decay * params[n] if n == "kernel" else 0))
        updates, state = adamw(config, jnp.float32(decay), jnp.float32(rate)).update(
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
    at = lambda step: float(schedule_fraction(config, 109, jnp.int32(step)))  # noqa: E731
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
