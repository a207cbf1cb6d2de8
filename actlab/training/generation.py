"""Text from a trained decoder: prompts, contexts that fill up, ends of documents."""

import functools
from collections.abc import Callable
from typing import Any, Protocol

import jax
import numpy as np

from actlab.models import Model, complete


class TextCodec(Protocol):
    """What generation needs of a tokenizer."""

    @property
    def vocab_size(self) -> int:
        """Number of tokens it knows, at most the model's."""
        ...

    @property
    def end_of_text(self) -> int:
        """The token between documents."""
        ...

    def encode(self, text: str) -> np.ndarray:
        """Tokens of a text."""
        ...

    def decode(self, ids: Any) -> str:
        """Text of tokens."""
        ...


def sampler(model: Model, n_choices: int, temperature: float, top_k: int) -> Callable[..., Any]:
    """`complete` compiled for one way of drawing."""
    draw = functools.partial(complete, model, n_choices=n_choices, temperature=temperature, top_k=top_k)
    return jax.jit(draw)


def write_text(
    model: Model,
    params: Any,
    codec: TextCodec,
    *,
    prompt: str = "",
    n_tokens: int = 256,
    temperature: float = 1.0,
    top_k: int = 0,
    seed: int = 0,
) -> str:
    """A document that begins with `prompt`, up to its end or `n_tokens` drawn tokens.

    Where the context is full, the model goes on from its last half.
    """
    context = model.spec.context
    draw = sampler(model, codec.vocab_size, temperature, top_k)
    written = [codec.end_of_text, *codec.encode(prompt).tolist()]
    n_prompt = len(written)
    key = jax.random.key(seed)
    while len(written) < n_prompt + n_tokens and codec.end_of_text not in written[n_prompt:]:
        given = written if len(written) < context else written[-(context // 2) :]
        window = np.full((1, context), codec.end_of_text, np.int32)
        window[0, : len(given)] = given
        tokens = draw(params, window, np.int32(len(given)), jax.random.fold_in(key, len(written)))
        written += np.asarray(tokens)[0, len(given) :].tolist()
    drawn = written[n_prompt:][:n_tokens]
    end = drawn.index(codec.end_of_text) if codec.end_of_text in drawn else len(drawn)
    return codec.decode(written[1:n_prompt] + drawn[:end])
