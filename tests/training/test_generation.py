"""Drawing tokens and text: given tokens stay, draws follow the model, greedy text is that of full passes."""

import inspect
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import weights

from actlab import models
from actlab.config import replace
from actlab.data.tokenizer_kinds import ByteTokenizer
from actlab.errors import UserError
from actlab.training import generation
from actlab.training.generation import write_text


@pytest.mark.parametrize("prompt", ["", "ab", "a prompt longer than the context"])
def test_greedy_text_is_that_of_full_passes_over_the_last_half_of_the_context(tiny, prompt):
    model = models.build(replace(tiny, **{"model.vocab_size": 320}).model)
    params = jax.tree.map(lambda a: a * 20 if a.ndim > 1 else a, model.init(jax.random.key(1)))
    tokenizer = ByteTokenizer()
    written = [256, *tokenizer.encode(prompt).tolist()]
    given, n_drawn = written[-4:] if len(written) >= 8 else list(written), 0
    # What stands behind a position changes nothing there, so that one program serves every length.
    passed = jax.jit(lambda tokens: model.apply(params, tokens)[0])
    while n_drawn < 20:
        if len(given) == 8:
            given = written[-4:]
        logits = passed(jnp.array([given + [0] * (8 - len(given))]))
        token = int(np.argmax(logits[0, len(given) - 1, :257]))
        if token == 256:
            break
        given, written, n_drawn = [*given, token], [*written, token], n_drawn + 1
    expected = tokenizer.decode(written[1:])
    assert write_text(model, params, tokenizer, prompt=prompt, n_tokens=20, temperature=0.0) == expected


def test_text_ends_at_the_end_of_the_document(tiny):
    model = models.build(replace(tiny, **{"model.vocab_size": 320, "model.tie_embeddings": False}).model)
    params = model.init(jax.random.key(1))
    # A norm whose output is constant, and a projection that makes the end mark the likeliest after anything.
    params["final_norm"] = jax.tree.map(jnp.zeros_like, params["final_norm"])
    always_zero = write_text(model, params, ByteTokenizer(), prompt="ab", n_tokens=5, temperature=0.0)
    assert always_zero == "ab" + "\0" * 5, "argmax of equal logits is token 0"
    params["final_norm"]["bias"] = jnp.ones_like(params["final_norm"]["bias"])
    params["output"]["kernel"] = jnp.zeros_like(params["output"]["kernel"]).at[:, 256].set(100.0)
    assert write_text(model, params, ByteTokenizer(), prompt="ab", n_tokens=5, temperature=0.0) == "ab"


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("encoder", {}, "config.model.kind='encoder'"),
        ("decoder", {"temperature": 1e-38}, "temperature=1e-38"),
        ("decoder", {"temperature": 9e-7}, "temperature=9e-07"),
        ("decoder", {"temperature": -1.0}, "temperature=-1.0 must be .* from 0"),
        ("decoder", {"temperature": "hot"}, "temperature='hot' must be a number"),
        ("decoder", {"temperature": None}, "temperature=None must be a number"),
        ("decoder", {"temperature": math.nan}, "temperature=nan"),
        ("decoder", {"top_k": -3}, "top_k=-3 must be .* from 0"),
        ("decoder", {"n_tokens": 0}, "n_tokens=0 must be .* from 1"),
        ("decoder", {"seed": 2**31}, "seed=2147483648"),
        ("decoder", {"seed": 1.5}, "seed=1.5 must be a whole number"),
        ("decoder", {"n_tokens": "5"}, "n_tokens='5' must be a whole number"),
        ("decoder", {"prompt": "a\udcff"}, "UTF-8"),
        ("decoder", {"prompt": None}, "prompt=None must be a text"),
    ],
)
def test_what_cannot_be_drawn_from_is_one_sentence(tiny, kind, changes, words):
    model = models.build(replace(tiny, **{"model.kind": kind, "model.vocab_size": 320}).model)
    with pytest.raises(UserError, match=words):
        # As outside of tests, where types are not checked.
        inspect.unwrap(write_text)(model, None, ByteTokenizer(), **changes)


def test_a_temperature_near_0_takes_the_likeliest(tiny):
    model = models.build(replace(tiny, **{"model.vocab_size": 320}).model)
    params = model.init(jax.random.key(1))
    cold, coldest = (
        write_text(model, params, ByteTokenizer(), prompt="ab", n_tokens=9, temperature=t) for t in (1e-6, 0.0)
    )
    assert cold == coldest


@pytest.fixture
def model_and_params(tiny):
    model = models.build(tiny.model)
    return model, weights.drawn(model, 0.2)


def complete(model_and_params, tokens, n_given, seed=0, **drawing):
    drawing = {"n_choices": 24, "temperature": 1.0, "top_k": 0, **drawing}
    return np.asarray(
        generation.complete(*model_and_params, tokens, jnp.int32(n_given), jax.random.key(seed), **drawing)
    )


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
        drawn = jax.vmap(lambda key: generation.draw(logits, key, **drawing)[0])(keys)
        return np.bincount(drawn, minlength=4) / len(keys)

    # 4 standard errors of a frequency at n = 20,000 are at most 0.0142.
    np.testing.assert_allclose(frequencies(temperature=1.0, top_k=0), [0.5, 0.3, 0.15, 0.05], atol=0.0142)
    np.testing.assert_allclose(frequencies(temperature=1.0, top_k=2), [0.625, 0.375, 0, 0], atol=0.0142)
    squared = np.array([0.25, 0.09, 0.0225, 0.0025])
    np.testing.assert_allclose(frequencies(temperature=0.5, top_k=9), squared / squared.sum(), atol=0.0142)
