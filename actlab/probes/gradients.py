"""Gradients: norms by layer and kind of parameter, update-to-weight ratios."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Groups = dict[str, list[Array]]


def groups(params: Mapping[str, Any]) -> Groups:
    """Arrays by layer and kind: layer_0/attention, layer_0/feed_forward, layer_0/norm, embedding, norm, head.

    An untied output projection counts as an embedding, an encoder's pooler and classifier as its head.
    """
    found: Groups = {}
    for name, value in params.items():
        parts = {name: value}
        prefix = ""
        if name.startswith("block_"):
            parts, prefix = value, f"layer_{name.removeprefix('block_')}/"
        for part, tree in parts.items():
            found.setdefault(prefix + _kind(part), []).extend(jax.tree.leaves(tree))
    return found


def _kind(name: str) -> str:
    if name.endswith("_norm"):
        return "norm"
    if name in ("head", "pooler", "classifier"):
        return "head"
    return name if name in ("attention", "feed_forward") else "embedding"


def by_group(params: Any, grads: Any, updates: Any) -> dict[str, Float[Array, ""]]:
    """GROUP/grad_norm and GROUP/update_ratio: L2 norms of the gradient, and of the update over that of the weights."""
    result = {}
    all_grads, all_updates = groups(grads), groups(updates)
    for group, weights in groups(params).items():
        result[f"{group}/grad_norm"] = norm(all_grads[group])
        result[f"{group}/update_ratio"] = norm(all_updates[group]) / norm(weights)
    return result


def norm(arrays: Any) -> Float[Array, ""]:
    """L2 norm over all arrays, in float32."""
    return jnp.sqrt(sum(jnp.square(array.astype(jnp.float32)).sum() for array in jax.tree.leaves(arrays)))
