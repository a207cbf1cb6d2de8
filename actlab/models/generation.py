"""Drawing tokens from a decoder, one position per step over a key-value cache."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from actlab.models.model import Cache, Model, Params


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
