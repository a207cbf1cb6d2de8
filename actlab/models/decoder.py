"""GPT-style causal decoder: tokens in, hidden states and the projection that makes logits of them out."""

import math

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from actlab.models import layers
from actlab.models.spec import Spec


class Decoder(nn.Module):
    """Radford et al. 2019 (GPT-2), with norm, positions, biases and output tying as the Spec says."""

    spec: Spec

    @nn.compact
    def __call__(
        self,
        tokens_BL: Int[Array, "B L"],
        cache: tuple[layers.KeyValue, ...] | None = None,
        offset: Int[Array, ""] | int = 0,
        shifts: tuple[Float[Array, "T F"], ...] | None = None,
    ) -> tuple[Float[Array, "B L D"], layers.Readout, tuple[layers.Hidden, ...], tuple[layers.KeyValue, ...]]:
        """Hidden states in the compute dtype, what makes logits of them, hidden units, keys and values per layer.

        With a cache, tokens_BL continue at position `offset` what the cache holds. `shifts` are added to the hidden
        units' inputs.

        Raises:
            ValueError: for more tokens than the context; an offset that is traced cannot be checked.
        """
        spec, length = self.spec, tokens_BL.shape[1]
        if length + (offset if isinstance(offset, int) else 0) > spec.context:
            raise ValueError(f"{length} tokens from position {offset} on do not fit into a context of {spec.context}")
        token_embedding = layers.embedding(spec, spec.vocab_size, "token_embedding")
        x_BLD = token_embedding(tokens_BL)
        if spec.scale_embeddings:
            x_BLD = x_BLD * math.sqrt(spec.d_model)
        if spec.position == "learned":
            position_embedding = layers.embedding(spec, spec.context, "position_embedding")
            x_BLD = x_BLD + position_embedding(offset + jnp.arange(length))[None]
        x_TD = x_BLD.reshape(-1, spec.d_model)
        x_BLD, hidden, key_values = layers.blocks(spec, x_TD, length, shifts, cache, offset)
        if spec.tie_embeddings:
            readout = layers.readout(spec, token_embedding.embedding.T)
        else:
            readout = layers.Output(spec, spec.d_model, spec.vocab_size, name="output")()
        return x_BLD, readout, hidden, key_values
