"""Gradients by group against numpy."""

import jax
import jax.numpy as jnp
import pytest

from actlab import models
from actlab.config import replace
from actlab.probes import gradients


@pytest.mark.parametrize("changes", [{}, {"model.tie_embeddings": False, "model.use_bias": True}])
def test_every_array_is_in_one_group(tiny, changes):
    shapes = models.shapes(models.build(replace(tiny, **changes).model))
    params = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), shapes)
    groups = gradients.groups(params)
    kinds = ("attention", "feed_forward", "norm")
    assert set(groups) == {f"layer_{i}/{kind}" for i in range(2) for kind in kinds} | {"embedding", "norm"}
    ours = sorted(array.shape for arrays in groups.values() for array in arrays)
    assert ours == sorted(leaf.shape for leaf in jax.tree.leaves(params))
    assert len(groups["layer_0/norm"]) == len(jax.tree.leaves(params["block_0"]["attention_norm"])) * 2


def test_norms_and_ratios_are_those_of_the_groups_arrays():
    tree = lambda scale: {"block_0": {"attention": {"a": scale * jnp.array([3.0, 0.0]), "b": scale * jnp.array([4.0])}}}
    ours = gradients.by_group(tree(2.0), tree(1.0), tree(0.5))
    assert ours == {"layer_0/attention/grad_norm": 5.0, "layer_0/attention/update_ratio": 0.25}
