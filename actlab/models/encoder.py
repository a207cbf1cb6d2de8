"""BERT-style encoder: tokens that see each other in; hidden states, and what makes logits of them, out."""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from actlab import activations
from actlab.models import layers
from actlab.models.spec import Spec


class Transform(nn.Module):
    """activation(dense(x)): BERT's pooler, and its masked-token head before the norm."""

    spec: Spec
    activation: str
    features: int

    @nn.compact
    def __call__(self, x_TD: Float[Array, "T D"]) -> Float[Array, "T E"]:
        """In the compute dtype."""
        dense = layers.dense(self.spec, self.features, "dense", layers.matrix_std(self.spec))
        return layers.activate(self, activations.get(self.activation), dense(x_TD))[0]


class Encoder(nn.Module):
    """Devlin et al. 2018, arXiv:1810.04805, with norm, positions, biases and output tying as the Spec says.

    Without classes it predicts tokens; with them it has BERT's pooler on the first token, and no masked-token head.
    """

    spec: Spec

    @nn.compact
    def __call__(
        self,
        tokens_BL: Int[Array, "B L"],
        segments_BL: Int[Array, "B L"] | None = None,
        real_BL: Bool[Array, "B L"] | None = None,
        places_BP: Int[Array, "B P"] | None = None,
        shifts: tuple[Float[Array, "T F"], ...] | None = None,
    ) -> tuple[Float[Array, "B K D"], layers.Readout, tuple[layers.Hidden, ...]]:
        """What logits are projected from, the projection, hidden units per layer; see Model.hidden.

        Raises:
            ValueError: for more tokens than the context, or places where there are classes.
        """
        spec, length = self.spec, tokens_BL.shape[1]
        if length > spec.context:
            raise ValueError(f"{length} tokens do not fit into a context of {spec.context}")
        if spec.n_classes and places_BP is not None:
            raise ValueError("a classifier reads the first token of each row: it takes no places")
        token_embedding = layers.embedding(spec, spec.vocab_size, "token_embedding")
        x_TD = self._embed(token_embedding, tokens_BL, segments_BL).reshape(-1, spec.d_embedding)
        if spec.norm_position == "post":
            x_TD = layers.stream_norm(spec, "embedding_norm")(x_TD)
        if spec.d_embedding != spec.d_model:
            std = layers.matrix_std(spec, spec.d_embedding)
            x_TD = layers.dense(spec, spec.d_model, "embedding_projection", std)(x_TD).astype(jnp.float32)
        x_BLD, hidden, _ = layers.blocks(spec, x_TD, length, shifts, real_BL=real_BL)
        return *self._read(x_BLD, places_BP, token_embedding), hidden

    def _embed(self, token_embedding: nn.Embed, tokens_BL: Array, segments_BL: Array | None) -> Array:
        spec = self.spec
        segment_embedding = layers.embedding(spec, spec.n_segments, "segment_embedding")
        segments_BL = jnp.zeros_like(tokens_BL) if segments_BL is None else segments_BL
        x_BLD = token_embedding(tokens_BL) + segment_embedding(segments_BL)
        if spec.position == "rotary":
            return x_BLD
        position_embedding = layers.embedding(spec, spec.context, "position_embedding")
        return x_BLD + position_embedding(jnp.arange(tokens_BL.shape[1]))[None]

    def _read(self, x_BLD: Array, places_BP: Array | None, token_embedding: nn.Embed) -> tuple[Array, layers.Readout]:
        spec = self.spec
        if spec.n_classes:
            pooled_BD = Transform(spec, spec.pooler_activation, spec.d_model, name="pooler")(x_BLD[:, 0])
            return pooled_BD[:, None], layers.Output(spec, spec.d_model, spec.n_classes, name="classifier")()
        if places_BP is not None:
            x_BLD = jnp.take_along_axis(x_BLD, places_BP[:, :, None], axis=1)
        x_TE = Transform(spec, spec.head_activation, spec.d_embedding, name="head")(x_BLD.reshape(-1, spec.d_model))
        x_BKE = layers.stream_norm(spec, "head_norm")(x_TE).astype(spec.dtype).reshape(*x_BLD.shape[:2], -1)
        if not spec.tie_embeddings:
            return x_BKE, layers.Output(spec, spec.d_embedding, spec.vocab_size, name="output")()
        zeros = nn.initializers.zeros
        bias_V = self.param("output_bias", zeros, (spec.vocab_size,), jnp.float32) if spec.use_bias else None
        return x_BKE, layers.readout(spec, token_embedding.embedding.T, bias_V)
