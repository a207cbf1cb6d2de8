"""Drawing tokens: given ones are kept, draws follow the model, greedy is the likeliest."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import weights

from actlab import models
from actlab.models.generation import draw


@pytest.fixture
def model_and_params(tiny):
    model = models.build(tiny.model)
    return model, weights.drawn(model, 0.2)


def complete(model_and_params, tokens, n_given, seed=0, **drawing):
    drawing = {"n_choices": 24, "temperature": 1.0, "top_k": 0, **drawing}
    return np.asarray(models.complete(*model_and_params, tokens, jnp.int32(n_given), jax.random.key(seed), **drawing))


def test_given_tokens_are_kept_and_the_rest_is_drawn_from_the_seed(model_and_params):
    tokens = jnp.full((2, 8), 3)
    first, again, other = (complete(model_and_params, tokens, 4, seed) for seed in (0, 0, 1))
    assert (first[:, :4] == 3).all() and (other[:, :4] == 3).all()
    np.testing.assert_array_equal(first, again)
    assert (first[:, 4:] != other[:, 4:]).any()


def test_greedy_is_the_argmax_of_a_full_pass_at_every_position(model_and_params):
    model, params = model_and_params
    tokens = complete(model_and_params, jnp.full((1, 8), 5), 2, temperature=0.0)
    logits, _ = model.apply(params, jnp.array(tokens))
    np.testing.assert_array_equal(tokens[0, 2:], np.argmax(logits[0, 1:-1], axis=-1))


def test_tokens_beyond_the_tokenizer_are_never_drawn(model_and_params):
    drawn = complete(model_and_params, jnp.zeros((64, 8), int), 1, n_choices=3, temperature=50.0)
    assert set(np.unique(drawn)) == {0, 1, 2}


def test_draws_have_the_frequencies_of_the_softmax_and_top_k_cuts_them_off():
    logits = jnp.log(jnp.array([[0.5, 0.3, 0.15, 0.05]]))
    keys = jax.random.split(jax.random.key(0), 20_000)

    def frequencies(**drawing):
        drawn = jax.vmap(lambda key: draw(logits, key, **drawing)[0])(keys)
        return np.bincount(drawn, minlength=4) / len(keys)

    # 4 standard errors of a frequency at n = 20,000 are at most 0.0142.
    np.testing.assert_allclose(frequencies(temperature=1.0, top_k=0), [0.5, 0.3, 0.15, 0.05], atol=0.0142)
    np.testing.assert_allclose(frequencies(temperature=1.0, top_k=2), [0.625, 0.375, 0, 0], atol=0.0142)
    squared = np.array([0.25, 0.09, 0.0225, 0.0025])
    np.testing.assert_allclose(frequencies(temperature=0.5, top_k=9), squared / squared.sum(), atol=0.0142)
