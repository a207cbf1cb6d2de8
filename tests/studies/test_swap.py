"""Folding the change of a mean into a bias: exact for the tokens it was taken on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from actlab import models
from actlab.config import SwapConfig, replace
from actlab.studies import swap
from actlab.training.losses import Examples

ENCODER = {"model.kind": "encoder", "model.use_bias": True, "model.norm_position": "post", "model.d_ff": 40}


def rows(n):
    return jnp.asarray(np.random.default_rng(7).integers(0, 24, (n, 4, 8)), jnp.int32)


def every(rows_BL, number):
    return Examples(rows_BL, rows_BL, jnp.ones((4, 8)))


def some(rows_BL, number):
    """Padding that differs between batches."""
    real = (rows_BL + number) % 3 > 0
    return every(rows_BL, number)._replace(real=real.at[:, 0].set(True))


def mean_output(model, params, index, rows_NBL, examples_of):
    """Of one block's feed-forward, over the tokens that count."""
    total, n = 0.0, 0.0
    units = jax.jit(lambda one: model.hidden(params, one.tokens, real_BL=one.real)[2][index].a_TF)
    down = params[f"block_{index}"]["feed_forward"]["down"]
    for one in map(examples_of, rows_NBL, range(len(rows_NBL))):
        real_T = np.ones(one.tokens.size) if one.real is None else np.asarray(one.real).reshape(-1)
        outputs_TD = np.asarray(units(one), np.float64) @ np.asarray(down["kernel"]) + np.asarray(down["bias"])
        total, n = total + (outputs_TD * real_T[:, None]).sum(axis=0), n + real_T.sum()
    return total / n


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_the_mean_output_of_the_first_swapped_block_stays(tiny, kind):
    config = replace(tiny, **{**ENCODER, "model.kind": kind}).model
    before = models.build(config)
    after = models.build(config, swap=SwapConfig("gelu", "relu", 2))
    params = jax.tree.map(lambda array: 6 * array, before.init(jax.random.key(0)))
    examples = rows(3), some if kind == "encoder" else every
    whole = mean_output(before, params, 0, *examples)
    folded = swap.folded(before, after, params, *examples)
    np.testing.assert_allclose(mean_output(after, folded, 0, *examples), whole, atol=2e-5)
    assert np.abs(mean_output(after, params, 0, *examples) - whole).max() > 1e-3, "without folding it moves"
    # The second block sees other inputs than its mean was taken on; it is folded for those it had.
    second = folded["block_1"]["feed_forward"]["down"]["bias"] - params["block_1"]["feed_forward"]["down"]["bias"]
    assert np.abs(second).max() > 1e-3


def test_nothing_but_biases_of_swapped_blocks_changes(tiny):
    config = replace(tiny, **ENCODER).model
    before = models.build(config)
    params = before.init(jax.random.key(0))
    after = models.build(config, swap=SwapConfig("gelu", "relu", 1))
    folded = swap.folded(before, after, params, rows(1), every)
    changed = jax.tree.map(lambda a, b: not np.array_equal(a, b), params, folded)
    named = {jax.tree_util.keystr(path) for path, is_new in jax.tree_util.tree_leaves_with_path(changed) if is_new}
    assert named == {"['block_0']['feed_forward']['down']['bias']"}
    same = swap.folded(before, before, params, rows(1), every)
    jax.tree.map(np.testing.assert_array_equal, same, params)
