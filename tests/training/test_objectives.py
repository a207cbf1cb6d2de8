"""The loss against a plain float64 computation."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from actlab.training.objectives import cross_entropy


@given(seed=st.integers(0, 10_000), scale=st.sampled_from([0.1, 1.0, 30.0]))
@settings(max_examples=20, deadline=None)
def test_cross_entropy_is_minus_log_softmax(seed, scale):
    rng = np.random.default_rng(seed)
    logits, targets = rng.normal(size=(2, 3, 5)) * scale, rng.integers(0, 5, (2, 3))
    shifted = logits - logits.max(-1, keepdims=True)
    log_softmax = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    expected = -np.take_along_axis(log_softmax, targets[..., None], -1)[..., 0]
    np.testing.assert_allclose(
        cross_entropy(jnp.array(logits, jnp.float32), jnp.array(targets)), expected, rtol=1e-4, atol=1e-5
    )


def test_huge_logits_give_finite_losses_and_gradients():
    logits = jnp.array([[[1e4, -1e4, 0.0]]])
    loss, slope = jax.value_and_grad(lambda x: cross_entropy(x, jnp.array([[1]])).sum())(logits)
    assert loss == 2e4
    np.testing.assert_allclose(slope, [[[1.0, -1.0, 0.0]]])
