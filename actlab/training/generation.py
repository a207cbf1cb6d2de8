"""Sampling text from a trained decoder."""

import functools
from typing import Any

import jax
import numpy as np

from actlab import activations
from actlab.activations import Activation
from actlab.data.tokenizers import Tokenizer
from actlab.errors import UserError
from actlab.models import Model, complete

COLDEST = 1e-6  # the lowest temperature at which logits stay finite


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
        UserError: for an encoder, a prompt that is not valid text, or a temperature at which logits overflow.
    """
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
    draw = _completion(model, tuple(map(activations.get, names)), tokenizer.vocab_size, temperature, top_k)
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
