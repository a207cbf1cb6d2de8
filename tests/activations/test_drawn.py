"""Activations that are drawn in training: mean and variance of the draws, their gradient, which entries have them."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from actlab import activations

N_DRAWS = 40_000


def test_draws_of_stochastic_gelu_have_gelus_mean_and_the_variance_of_a_bernoulli_gate():
    z_S = np.linspace(-2.5, 2.5, 11).astype(np.float32)
    record = activations.get("stochastic_gelu")
    keys = jax.random.split(jax.random.key(0), N_DRAWS)
    draws_NS = np.asarray(jax.jit(jax.vmap(lambda key: record.draw(key, jnp.asarray(z_S))))(keys), np.float64)
    share_S = stats.norm.cdf(z_S)
    variance_S = z_S**2 * share_S * (1 - share_S)
    assert set(np.unique(draws_NS[:, 3])) == {0.0, float(z_S[3])}
    mean_S = z_S * share_S
    np.testing.assert_array_less(np.abs(draws_NS.mean(axis=0) - mean_S), 5 * np.sqrt(variance_S / N_DRAWS) + 1e-6)
    # The number of kept ones is binomial: 25% is five standard deviations of the rarest.
    np.testing.assert_allclose(draws_NS.var(axis=0), variance_S, rtol=0.25, atol=1e-9)


def test_out_of_training_it_is_gelu():
    assert activations.get("stochastic_gelu").fn is activations.get("gelu").fn


def test_the_gate_is_a_constant_to_the_gradient_and_the_dtype_is_kept():
    z_S = jnp.linspace(-3, 3, 64).astype(jnp.bfloat16)
    draw = activations.get("stochastic_gelu").draw
    value_S, pull = jax.vjp(jax.jit(lambda z: draw(jax.random.key(3), z)), z_S)
    assert value_S.dtype == jnp.bfloat16 and 20 < np.count_nonzero(value_S) < 44
    np.testing.assert_array_equal(pull(jnp.ones_like(z_S))[0], (value_S != 0).astype(jnp.bfloat16))


def test_nan_stays_nan():
    z_S = jnp.array([jnp.nan, -jnp.inf, jnp.inf, 9.0])
    drawn_S = activations.get("stochastic_gelu").draw(jax.random.key(0), z_S)
    np.testing.assert_array_equal(drawn_S, [jnp.nan, 0, jnp.inf, 9])
