"""Sampling text from a trained decoder, one position per step over a key-value cache."""

import functools
import numbers
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from actlab import activations
from actlab.activations import Activation
from actlab.data.tokenizer_kinds import Tokenizer
from actlab.errors import UserError, shown
from actlab.models.model import Cache, Model, Params

COLDEST = 1e-6  # below it every draw is the most likely token, which 0 takes without dividing
HOTTEST = 1_000_000  # from which on every token is equally likely


def write_text(
    model: Model,
    params: Any,
    tokenizer: Tokenizer,
    *,
    prompt: str = "",
    n_tokens: int = 256,
    temperature: float = 1.0,
    top_k: int = 0,
    seed: int = 0,
) -> str:
    """A document that begins with `prompt`, up to its end or `n_tokens` sampled tokens.

    When the context is full, the model continues from its second half.

    Raises:
        UserError: for an encoder, a prompt that is not valid text, or a number out of its range.
    """
    if not isinstance(prompt, str):
        raise UserError(f"prompt={shown(prompt)} must be a text.")
    if not isinstance(temperature, numbers.Real) or not 0 <= temperature < HOTTEST:  # also for nan
        raise UserError(f"temperature={shown(temperature)} must be a number from 0 to below {HOTTEST:,}.")
    for name, number, least in (("n_tokens", n_tokens, 1), ("top_k", top_k, 0), ("seed", seed, 0)):
        if not isinstance(number, (int, np.integer)) or not least <= number < 2**31:
            raise UserError(f"{name}={shown(number)} must be a whole number from {least} to {2**31 - 1:,}.")
    if 0 < temperature < COLDEST:
        raise UserError(
            f"temperature={temperature:g} is too low to divide by: set it to 0, which takes the most likely token."
        )
    if any("\ud800" <= sign <= "\udfff" for sign in prompt):
        raise UserError(f"the prompt {prompt!r} is not valid UTF-8: change it.")
    if model.spec.kind == "encoder":
        raise UserError(
            "config.model.kind='encoder' cannot continue text, since it reads both sides of a token: use a decoder."
        )
    context = model.spec.context
    # The model may have more ids than the tokenizer, whose vocabulary is padded to a multiple of 64.
    names = [name for name in (model.spec.activation, model.spec.swapped_to) if name]
    functions = tuple(map(activations.get, names))
    draw = _completion(model, functions, tokenizer.vocab_size, float(temperature), top_k)
    written = [tokenizer.end_of_text, *tokenizer.encode(prompt).tolist()]
    n_prompt = len(written)
    key = jax.random.key(seed)
    while len(written) < n_prompt + n_tokens and tokenizer.end_of_text not in written[n_prompt:]:
        given = written if len(written) < context else written[-(context // 2) :]
        window = np.full((1, context), tokenizer.end_of_text, np.int32)
        window[0, : len(given)] = given
        # By default a GPU would round the inputs of float32 products to fewer bits.
        with jax.default_matmul_precision("float32"):
            tokens = draw(params, window, np.int32(len(given)), jax.random.fold_in(key, len(written)))
        written += np.asarray(tokens)[0, len(given) :].tolist()
    drawn = written[n_prompt:][:n_tokens]
    end = drawn.index(tokenizer.end_of_text) if tokenizer.end_of_text in drawn else len(drawn)
    return tokenizer.decode(written[1:n_prompt] + drawn[:end])


@functools.lru_cache(maxsize=4)
def _completion(model: Model, functions: tuple[Activation, ...], n_choices: int, temperature: float, top_k: int) -> Any:
    """`complete` with these options, compiled once for all texts; a model has the names of its `functions` only."""
    return jax.jit(functools.partial(complete, model, n_choices=n_choices, temperature=temperature, top_k=top_k))


def complete(
    model: Model,
    params: Params,
    tokens_BL: Int[Array, "B L"],
    n_given: Int[Array, ""],
    key: PRNGKeyArray,
    *,
    n_choices: int,
    temperature: float,
    top_k: int,
) -> Int[Array, "B L"]:
    """Keeps the first `n_given` tokens (at least one), draws the rest; the draw at a position has its own key.

    Given tokens pass through the same steps as drawn ones, so that one compiled program serves every prompt.
    """

    def extend(carry: tuple[Array, Cache], position: Array) -> tuple[tuple[Array, Cache], None]:
        tokens_BL, cache = carry
        token_B1 = jax.lax.dynamic_slice_in_dim(tokens_BL, position, 1, axis=1)
        logits_B1V, cache = model.extend(params, token_B1, cache, position)
        drawn_B = draw(
            logits_B1V[:, 0, :n_choices], jax.random.fold_in(key, position), temperature=temperature, top_k=top_k
        )
        next_B = jnp.where(position + 1 < n_given, tokens_BL[:, position + 1], drawn_B)
        return (tokens_BL.at[:, position + 1].set(next_B), cache), None

    batch_size, length = tokens_BL.shape
    carry = (tokens_BL, model.empty_cache(batch_size))
    (tokens_BL, _), _ = jax.lax.scan(extend, carry, jnp.arange(length - 1))
    return tokens_BL


def draw(logits_BV: Float[Array, "B V"], key: PRNGKeyArray, *, temperature: float, top_k: int) -> Int[Array, "B"]:
    """A token per row from softmax(logits / temperature), of the `top_k` likeliest only; 0 switches either off.

    Temperature 0 takes the likeliest token.
    """
    if temperature == 0:
        return jnp.argmax(logits_BV, axis=-1)
    if top_k:
        least_B1 = jax.lax.top_k(logits_BV, min(top_k, logits_BV.shape[-1]))[0][:, -1:]
        logits_BV = jnp.where(logits_BV < least_B1, -jnp.inf, logits_BV)
    return jax.random.categorical(key, logits_BV / temperature, axis=-1)
