"""What a model costs: parameters, FLOPs, and how far a gated feed-forward is from the plain one it stands for."""

import dataclasses

import jax

from actlab import activations
from actlab.models.model import Model


@dataclasses.dataclass(frozen=True)
class Costs:
    """Static costs of a model.

    `flops_per_token` counts forward and backward of training: 6 per weight of a matrix product, and
    12 N L D for attention scores and sums (Chowdhery et al. 2022, arXiv:2204.02311, appendix B). What reads the last
    layer counts by the share of tokens at which it does.
    `gated_mismatch` is the relative difference in feed-forward weights to a plain layer of width d_ff; 0 if plain.
    """

    parameters: int
    non_embedding: int
    flops_per_token: int
    gated_mismatch: float


def costs(model: Model, read: float = 1.0) -> Costs:
    """Counts from shapes alone; nothing is computed. `read` is the share of tokens at which logits are made."""
    spec = model.spec
    shapes = jax.eval_shape(model.init, jax.random.key(0))
    total = sum(leaf.size for leaf in jax.tree.leaves(shapes))
    embeddings = [leaf for name, leaf in shapes.items() if name.endswith("_embedding") or name == "output"]
    non_embedding = total - sum(leaf.size for leaf in jax.tree.leaves(embeddings))
    matrices = 3 if activations.get(spec.activation).gated else 2
    feed_forward = matrices * spec.d_model * spec.d_hidden
    weights = spec.n_layers * (4 * spec.d_model**2 + feed_forward)
    reading = (spec.n_classes or spec.vocab_size) * spec.d_model
    if spec.kind == "encoder":
        reading += spec.d_model**2
    return Costs(
        parameters=total,
        non_embedding=non_embedding,
        flops_per_token=round(6 * (weights + read * reading)) + 12 * spec.n_layers * spec.context * spec.d_model,
        gated_mismatch=feed_forward / (2 * spec.d_model * spec.d_ff) - 1,
    )
