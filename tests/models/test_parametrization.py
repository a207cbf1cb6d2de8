"""mup: neither sizes of activations nor their changes depend on the width, and the best learning rate moves little."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from weights import drawn

from actlab import models
from actlab.config import replace
from actlab.training import step as steps
from actlab.training.step import Lane


def of_width(tiny, width, **changes):
    shape = {"n_layers": 1, "d_model": width, "n_heads": max(1, width // 32), "init": "fan_in", **changes}
    return replace(
        tiny,
        **{f"model.{name}": value for name, value in shape.items()},
        **{"optimizer.warmup_steps": 0, "optimizer.schedule": "constant"},
    )


def trained(config, rates, rows_SBW):
    """(states before and after one step per batch, losses [R, S]) at each of the rates, with one seed."""
    model = models.build(config.model)

    def of_rate(rate):
        lane = Lane(jnp.int32(1), rate, jnp.float32(0))
        start = steps.init_state(model, config, lane.seed)
        end, metrics = jax.lax.scan(
            lambda state, rows: steps.train_step(model, config, lane, state, rows), start, rows_SBW
        )
        return start, end, metrics.loss

    return model, jax.jit(lambda rates: jax.lax.map(of_rate, rates))(jnp.asarray(rates, jnp.float32))


def growth(tiny, widths, **changes):
    """The power of the width in the size of hidden units' inputs and outputs, final states and logits (first row) and
    in that of their changes over a few steps (second row).
    """
    rows = jnp.asarray(np.random.default_rng(0).integers(0, 24, (4, 8, tiny.model.context + 1)), jnp.int32)
    found = []
    for width in widths:
        model, (start, end, _) = trained(of_width(tiny, width, **changes), [1e-2], rows)

        @jax.jit
        def measured(params, model=model, width=width):
            x_BLD, readout, hidden = model.hidden(jax.tree.map(lambda leaf: leaf[0], params), rows[0, :, :-1])
            return hidden[-1].z_TF, hidden[-1].a_TF, x_BLD, readout.logits(x_BLD.reshape(-1, width))

        before, after = (jax.device_get(measured(state.params)) for state in (start, end))
        rms = lambda array: np.sqrt(np.square(array).mean())
        found.append([[rms(one) for one in after], [rms(a - b) for a, b in zip(after, before, strict=True)]])
    return np.log(np.divide(found[-1], found[0])) / np.log(widths[-1] / widths[0])


def is_flat(growth):
    # A part of the logits at the start, which is no function of what was learned, falls like 1/sqrt(width).
    return growth.max() < 0.15 and growth.min() > -0.3


@pytest.mark.parametrize("init", ["fan_in", pytest.param("gpt2", marks=pytest.mark.slow)])
def test_under_mup_neither_sizes_nor_changes_grow_with_the_width(tiny, init):
    assert is_flat(growth(tiny, (64, 512), parametrization="mup", init=init))


@pytest.mark.parametrize("init", ["fan_in", pytest.param("gpt2", marks=pytest.mark.slow)])
def test_under_mup_drawn_matrices_shrink_with_the_root_of_the_width(tiny, init):
    """Yang et al. 2022, table 8: variance 1 / fan_in for hidden matrices, constant for embeddings."""

    def deviations(width):
        config = of_width(tiny, width, parametrization="mup", init=init)
        params = jax.tree_util.tree_leaves_with_path(jax.jit(models.build(config.model).init)(jax.random.key(0)))
        return {jax.tree_util.keystr(path): np.std(array) for path, array in params if array.ndim > 1}

    narrow, wide = deviations(64), deviations(256)
    for name, deviation in narrow.items():
        hidden = "embedding" not in name and "logits" not in name
        assert wide[name] / deviation == pytest.approx(0.5 if hidden else 1, rel=0.1), name


def test_in_the_standard_parametrization_changes_grow(tiny):
    of_changes = growth(tiny, (64, 512), parametrization="standard")[1]
    assert of_changes[0] > 0.3 and of_changes[3] > 0.3, "inputs of the hidden units, logits"


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"d_ff": 256}, {"d_ff": 256, "activation": "swiglu"}, {"d_hidden": 96}])
def test_hidden_units_need_not_widen_with_the_model(tiny, changes):
    """The second projection has as many inputs at every width: its change does about as much, by d_model a quarter."""
    rows = jnp.asarray(np.random.default_rng(0).integers(0, 24, (1, 8, tiny.model.context + 1)), jnp.int32)

    def of_down(width):
        model, (start, end, _) = trained(of_width(tiny, width, parametrization="mup", **changes), [1e-2], rows)
        before, after = (jax.tree.map(lambda leaf: leaf[0], state.params) for state in (start, end))
        a_TF = model.hidden(before, rows[0, :, :-1])[2][-1].a_TF
        kernels = (params["block_0"]["feed_forward"]["down"]["kernel"] for params in (after, before))
        return float(jnp.sqrt(jnp.square(a_TF @ jnp.subtract(*kernels)).mean()))

    assert of_down(256) == pytest.approx(of_down(64), rel=0.4)


def test_where_all_widths_follow_one_ratio_moves_all_rates(tiny):
    for name in ("gelu", "swiglu"):
        config = of_width(tiny, 96, parametrization="mup", activation=name, n_heads=3).model
        model = models.build(config)
        rates = model.rate_multipliers(drawn(model))
        assert {rate for rate in jax.tree.leaves(rates) if rate != 1} == {64 / 96}
        of_block = rates["block_0"]
        kernels = [of_block["attention"][name] for name in ("qkv", "out")]
        kernels += [of_block["feed_forward"][name] for name in ("up", "down")]
        assert [one["kernel"] for one in kernels] == [64 / 96] * 4
    # Nor does it matter who set the number of hidden units, nor that they are rounded.
    for name, n_units, ratio in (("gelu", 384, 1.5), ("swiglu", 256, 1.5), ("reglu", 264, 1.5), ("geglu", 512, 3)):
        chosen = models.build(of_width(tiny, 96, parametrization="mup", activation=name, d_hidden=n_units).model)
        assert chosen.spec.ratio_of("down") == pytest.approx(ratio, rel=0.04)
    narrow = models.build(of_width(tiny, 128, parametrization="mup", d_ff=256, d_head=16, n_heads=4).model)
    block = narrow.rate_multipliers(drawn(narrow))["block_0"]
    assert block["feed_forward"]["down"]["kernel"] == block["attention"]["out"]["kernel"] == 1
    assert block["feed_forward"]["up"]["kernel"] == block["attention"]["qkv"]["kernel"] == 0.5


def test_a_classifier_and_tables_learn_at_the_rate_of_the_run(tiny):
    encoder = {"kind": "encoder", "n_classes": 2, "vocab_size": 24}
    model = models.build(of_width(tiny, 128, parametrization="mup", **encoder).model)
    rates = model.rate_multipliers(drawn(model))
    assert rates["classifier"]["kernel"] == rates["token_embedding"]["embedding"] == 1
    assert rates["pooler"]["dense"]["kernel"] == 0.5


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"activation": "swiglu"}, {"kind": "encoder", "norm_position": "post"}])
def test_wide_models_too(tiny, changes):
    assert is_flat(growth(tiny, (64, 1024), parametrization="mup", **changes))


@pytest.mark.slow
def test_the_best_rate_stays_within_a_step_of_the_grid(tiny):
    """Over a factor of eight in width: of the mean loss over the first steps on a chain of tokens, most of which follow
    from the one before. The last losses of so easy a text say little: they are level over many rates.
    """
    rates, rng = 1.8 ** np.arange(10) * 1e-3, np.random.default_rng(0)
    after = rng.permutation(24)
    rows = rng.integers(0, 24, (40, 16, tiny.model.context + 1))
    for place in range(1, rows.shape[2]):
        rows[..., place] = np.where(rng.random(rows.shape[:2]) < 0.2, rows[..., place], after[rows[..., place - 1]])

    def best(parametrization, width):
        config = of_width(tiny, width, parametrization=parametrization, base_width=16)
        _, (_, _, losses) = trained(config, rates, jnp.asarray(rows, jnp.int32))
        return int(np.asarray(losses).mean(axis=1).argmin())

    narrow = best("standard", 16)  # the base width, where but for the scale of scores both are the same
    assert abs(best("mup", 128) - narrow) < 1
    assert best("standard", 128) < narrow - 2


def test_at_the_base_width_with_heads_of_32_it_is_the_standard_parametrization(tiny):
    rows = jnp.asarray(np.random.default_rng(0).integers(0, 24, (2, 4, tiny.model.context + 1)), jnp.int32)
    ends = [trained(of_width(tiny, 64, parametrization=name), [1e-2], rows)[1][1] for name in ("standard", "mup")]
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-7), *(end.params for end in ends))
