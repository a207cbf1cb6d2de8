"""Text beyond one context: at temperature 0 it is what a plain sliding loop over full passes writes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from actlab import models
from actlab.config import replace
from actlab.data.tokenizers import ByteTokenizer
from actlab.errors import UserError
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
        ("decoder", {"prompt": "a\udcff"}, "UTF-8"),
    ],
)
def test_what_cannot_be_drawn_from_is_one_sentence(tiny, kind, changes, words):
    model = models.build(replace(tiny, **{"model.kind": kind, "model.vocab_size": 320}).model)
    with pytest.raises(UserError, match=words):
        write_text(model, None, ByteTokenizer(), **changes)


def test_a_temperature_near_0_takes_the_likeliest(tiny):
    model = models.build(replace(tiny, **{"model.vocab_size": 320}).model)
    params = model.init(jax.random.key(1))
    cold, coldest = (
        write_text(model, params, ByteTokenizer(), prompt="ab", n_tokens=9, temperature=t) for t in (1e-6, 0.0)
    )
    assert cold == coldest
