"""Losses in nats, computed in float32."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def cross_entropy(logits_BLV: Float[Array, "B L V"], targets_BL: Int[Array, "B L"]) -> Float[Array, "B L"]:
    """-log softmax(logits)[target], in nats per token."""
    chosen_BL1 = jnp.take_along_axis(logits_BLV, targets_BL[..., None], axis=-1)
    return jax.nn.logsumexp(logits_BLV, axis=-1) - chosen_BL1[..., 0]
