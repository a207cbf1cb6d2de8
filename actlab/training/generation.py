"""Text from a trained decoder: prompts, contexts that fill up, ends of documents."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from actlab.data.tokenizer import Tokenizer
from actlab.errors import UserError
from actlab.models import Model, complete

COLDEST = 1e-6  # the lowest temperature: logits stay finite


def sampler(model: Model, n_choices: int, temperature: float, top_k: int) -> Callable[..., Any]:
    """`complete` compiled for one way of drawing, with exact products where the model computes in float32."""

    def drawn(params: Any, tokens: Any, n_given: Any, key: Any) -> Any:
        with jax.default_matmul_precision("float32"):
            return complete(
                model, params, tokens, n_given, key, n_choices=n_choices, temperature=temperature, top_k=top_k
            )

    return jax.jit(drawn)


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
    """A document that begins with `prompt`, up to its end or `n_tokens` drawn tokens.

    Where the context is full, the model goes on from its last half.

    Raises:
        UserError: for an encoder, for a prompt that is no text, and for a temperature that logits overflow at.
    """
    if 0 < temperature < COLDEST:
        raise UserError(
            f"temperature={temperature:g} is too low to divide by: give 0, which takes the likeliest token."
        )
    if any("\ud800" <= sign <= "\udfff" for sign in prompt):
        raise UserError(f"the prompt {prompt!r} is not UTF-8: give text.")
    if model.spec.kind == "encoder":
        raise UserError("config.model.kind='encoder' continues no text, since it sees both sides: take a decoder.")
    context = model.spec.context
    draw = sampler(model, tokenizer.vocab_size, temperature, top_k)
    written = [tokenizer.end_of_text, *tokenizer.encode(prompt).tolist()]
    n_prompt = len(written)
    key = jax.random.key(seed)
    while len(written) < n_prompt + n_tokens and tokenizer.end_of_text not in written[n_prompt:]:
        given = written if len(written) < context else written[-(context // 2) :]
        window = np.full((1, context), tokenizer.end_of_text, np.int32)
        window[0, : len(given)] = given
        tokens = draw(params, window, np.int32(len(given)), jax.random.fold_in(key, len(written)))
        written += np.asarray(tokens)[0, len(given) :].tolist()
    drawn = written[n_prompt:][:n_tokens]
    end = drawn.index(tokenizer.end_of_text) if tokenizer.end_of_text in drawn else len(drawn)
    return tokenizer.decode(written[1:n_prompt] + drawn[:end])
