"""The encoder: who sees whom, what padding and segments change, what its heads are."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import weights

from actlab import models
from actlab.config import replace
from actlab.errors import UserError
from actlab.models import layers

BERT = {"model.kind": "encoder", "model.norm_position": "post", "model.use_bias": True, "model.norm_epsilon": 1e-12}
VARIANTS = [
    BERT,
    {"model.kind": "encoder", "model.position": "rotary", "model.norm": "rmsnorm", "model.activation": "swiglu"},
    {"model.kind": "encoder", "model.tie_embeddings": False, "model.use_bias": True, "model.head_activation": "prelu"},
    {**BERT, "model.n_classes": 3},
]
PREDICTING = VARIANTS[:3]
REAL = jnp.arange(8)[None] < jnp.array([8, 5, 3])[:, None]


def build(tiny, changes, **more):
    model = models.build(replace(tiny, **changes, **more).model)
    tokens = jax.random.randint(jax.random.key(1), (3, 8), 0, 24)
    return model, weights.drawn(model), tokens


@functools.cache
def jacobian(model):
    """d (summed tanh of) what logits are projected from / d embedded tokens; compiled once for all tests of a model."""

    def read(embedded_BLD, params, real_BL):
        # Every place has a token of its own, so that the table's gradient is that of the places.
        table = embedded_BLD.reshape(-1, embedded_BLD.shape[-1])
        places = jnp.arange(real_BL.size).reshape(real_BL.shape)
        x_BLD, _, _ = model.hidden({**params, "token_embedding": {"embedding": table}}, places, real_BL=real_BL)
        return jnp.tanh(x_BLD).sum(axis=-1)

    return jax.jit(jax.jacobian(read))


def influence(model, params, tokens, real=None):
    """abs(d logits at i / d embedded token j), by one-hot tokens that are made continuous; [row, i, j]."""
    real = jnp.ones(tokens.shape, bool) if real is None else real
    slopes = jacobian(model)(params["token_embedding"]["embedding"][tokens], params, real)
    return np.abs(np.asarray(slopes)).sum(axis=-1)


@pytest.mark.parametrize("changes", PREDICTING)
def test_every_token_sees_every_other_of_its_row_and_none_of_another(tiny, changes):
    found = influence(*build(tiny, changes))
    for row in range(3):
        assert (found[row, :, row] > 0).all()
        assert (np.delete(found[row], row, axis=1) == 0).all()


def test_a_classifier_reads_the_first_token(tiny):
    model, params, tokens = build(tiny, VARIANTS[3])
    deaf = {
        name: part | {"attention": jax.tree.map(jnp.zeros_like, part["attention"])} if "block" in name else part
        for name, part in params.items()
    }
    found = influence(model, deaf, tokens)
    for row in range(3):
        assert found[row, 0, row, 0] > 0
        assert (found[row, 0, row, 1:] == 0).all()


def test_a_pre_norm_encoder_ends_in_a_norm(tiny):
    model, params, tokens = build(tiny, VARIANTS[1])
    empty = {name: jax.tree.map(jnp.zeros_like, part) if "block" in name else part for name, part in params.items()}
    louder = {
        name: jax.tree.map(lambda a: 3 * a, part) if "embedding" in name else part for name, part in empty.items()
    }
    quiet, loud = (model.hidden(params, tokens)[0] for params in (empty, louder))
    np.testing.assert_allclose(loud, quiet, atol=1e-3)
    assert np.abs(quiet).max() > 0.1


@pytest.mark.parametrize("changes", VARIANTS)
def test_no_real_token_sees_padding(tiny, changes):
    found = influence(*build(tiny, changes), REAL)
    for row in range(3):
        n_real = int(REAL[row].sum())
        assert (found[row, :n_real, row, :n_real] > 0).all()
        assert (found[row, :n_real, row, n_real:] == 0).all()


@pytest.mark.parametrize("changes", VARIANTS)
def test_what_stands_at_padding_and_how_much_there_is_of_it_change_nothing(tiny, changes):
    model, params, tokens = build(tiny, changes)
    segments = jax.random.randint(jax.random.key(2), (3, 8), 0, 2)
    apply = lambda tokens, segments, real: model.apply(params, tokens, segments_BL=segments, real_BL=real)[0]
    logits = apply(tokens, segments, REAL)
    garbled = apply(jnp.where(REAL, tokens, 23 - tokens), jnp.where(REAL, segments, 1 - segments), REAL)
    shorter = apply(tokens[1:, :5], segments[1:, :5], REAL[1:, :5])
    if model.spec.n_classes:
        np.testing.assert_array_equal(garbled, logits)
        np.testing.assert_allclose(shorter, logits[1:], atol=1e-5, rtol=1e-5)
        return
    np.testing.assert_array_equal(garbled[REAL], logits[REAL])
    np.testing.assert_allclose(shorter[REAL[1:, :5]], logits[1:, :5][REAL[1:, :5]], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("changes", VARIANTS)
def test_a_mask_of_real_tokens_only_is_no_mask_and_padding_may_lie_anywhere(tiny, changes):
    model, params, tokens = build(tiny, changes)
    everything, _ = model.apply(params, tokens)
    masked, _ = model.apply(params, tokens, real_BL=jnp.ones((3, 8), bool))
    np.testing.assert_array_equal(masked, everything)
    hole = jnp.ones((3, 8), bool).at[:, 4].set(False)
    before, _ = model.apply(params, tokens, real_BL=hole)
    after, _ = model.apply(params, tokens.at[:, 4].add(1) % 24, real_BL=hole)
    outside = np.delete(np.arange(before.shape[1]), 4) if before.shape[1] > 1 else [0]
    np.testing.assert_array_equal(before[:, outside], after[:, outside])
    assert not np.allclose(before[:, outside], everything[:, outside], atol=1e-4)


@pytest.mark.parametrize("changes", VARIANTS)
def test_a_segment_is_seen_everywhere_and_segment_0_is_the_default(tiny, changes):
    model, params, tokens = build(tiny, changes)
    default, _ = model.apply(params, tokens)
    zeros, _ = model.apply(params, tokens, segments_BL=jnp.zeros((3, 8), int))
    np.testing.assert_array_equal(zeros, default)
    second, _ = model.apply(params, tokens, segments_BL=jnp.zeros((3, 8), int).at[0, 6].set(1))
    assert (np.abs(second - default)[0].max(axis=-1) > 0).all()
    np.testing.assert_array_equal(second[1:], default[1:])


@pytest.mark.parametrize("changes", PREDICTING)
def test_logits_at_places_are_those_of_all_places(tiny, changes):
    model, params, tokens = build(tiny, changes)
    places = jnp.array([[0, 3, 7], [5, 5, 1], [2, 0, 4]])
    whole, _ = model.apply(params, tokens)
    some, _ = model.apply(params, tokens, places_BP=places)
    np.testing.assert_allclose(some, np.take_along_axis(np.asarray(whole), places[:, :, None], 1), rtol=1e-4, atol=1e-4)


def test_bidirectional_attention_is_its_formula():
    q, k, v = (np.asarray(x, np.float64) for x in jax.random.normal(jax.random.key(0), (3, 3, 8, 2, 16)))
    scores = np.einsum("blhk,bmhk->bhlm", q, k) / 4
    scores = np.where(np.asarray(REAL)[:, None, None, :], scores, -np.inf)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    expected = np.einsum("bhlm,bmhk->blhk", weights, v)
    found = jax.jit(layers.self_attention, static_argnums=3)(*map(jnp.float32, (q, k, v)), False, REAL)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_the_pooler_reads_the_first_token_through_its_activation(tiny):
    classes = {**BERT, "model.n_classes": 3}
    model, params, tokens = build(tiny, classes)
    assert {"pooler", "classifier"} <= set(params) and not {"head", "head_norm", "output_bias"} & set(params)
    logits, hidden = model.apply(params, tokens)
    assert logits.shape == (3, 1, 3) and len(hidden) == 2
    x_B1D, readout, _ = model.hidden(params, tokens)
    assert (np.abs(x_B1D) <= 1).all(), "tanh"
    relu, _, _ = build(tiny, classes, **{"model.pooler_activation": "relu"})
    pooled, _, _ = relu.hidden(params, tokens)
    positive = np.asarray(pooled)[:, 0] > 0
    assert (np.asarray(pooled) >= 0).all() and positive.any()
    np.testing.assert_allclose(np.tanh(pooled[:, 0])[positive], x_B1D[:, 0][positive], rtol=1e-5)
    np.testing.assert_allclose(logits[:, 0], x_B1D[:, 0] @ params["classifier"]["kernel"], rtol=1e-4, atol=1e-4)


def test_the_three_activations_are_three_fields(tiny):
    outputs = [
        np.asarray(model.apply(params, tokens)[0])
        for model, params, tokens in (
            build(tiny, BERT, **change)
            for change in ({}, {"model.activation": "relu"}, {"model.head_activation": "relu"})
        )
    ]
    assert not np.allclose(outputs[0], outputs[1], atol=1e-3) and not np.allclose(outputs[0], outputs[2], atol=1e-3)
    assert not np.allclose(outputs[1], outputs[2], atol=1e-3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model.kind": "encoder", "model.head_activation": "swiglu"}, "head_activation='swiglu' is gated"),
        (
            {"model.kind": "encoder", "model.head_activation": "gleu"},
            "unknown activation config.model.head_activation='gleu'",
        ),
        (
            {"model.kind": "encoder", "model.n_classes": 2, "model.pooler_activation": "tahn"},
            "unknown activation config.model.pooler_activation='tahn'",
        ),
    ],
)
def test_an_unfit_activation_of_a_head_is_refused_by_field(tiny, changes, words):
    with pytest.raises(UserError, match=".") as caught:
        models.build(replace(tiny, **changes).model)
    assert words in str(caught.value)


def test_misuse_is_an_error(tiny):
    model, params, tokens = build(tiny, BERT)
    with pytest.raises(ValueError, match="context of 8"):
        model.apply(params, jnp.zeros((1, 9), int))
    with pytest.raises(ValueError, match="an encoder"):
        model.extend(params, tokens, model.empty_cache(3), 0)
    with pytest.raises(ValueError, match="takes no places"):
        classifier, its, _ = build(tiny, {**BERT, "model.n_classes": 2})
        classifier.apply(its, tokens, places_BP=jnp.zeros((3, 1), int))
    decoder = models.build(tiny.model)
    with pytest.raises(ValueError, match="a decoder"):
        decoder.apply(weights.drawn(decoder), tokens, real_BL=REAL)


def test_costs_count_the_head_by_the_share_of_tokens_it_reads(tiny):
    model, params, tokens = build(tiny, VARIANTS[2], **{"model.d_model": 128, "model.activation": "relu"})
    costs = models.costs(model, read=0.25)
    assert costs.parameters == sum(leaf.size for leaf in jax.tree.leaves(params))
    two = jnp.zeros((3, 2), int)
    compiled = jax.jit(lambda p: model.apply(p, tokens, places_BP=two)[0]).lower(params).compile()
    forward = compiled.cost_analysis()["flops"] / tokens.size
    assert costs.flops_per_token / 3 < forward < costs.flops_per_token / 3 * 1.06
    everywhere = models.costs(model).flops_per_token
    assert everywhere - costs.flops_per_token == 6 * 0.75 * (128 * 128 + 128 * 24)


def test_costs_count_the_bias_of_the_logits_as_embedding(tiny):
    tied, untied = (
        models.costs(models.build(replace(tiny, **{**BERT, "model.tie_embeddings": tie}).model))
        for tie in (True, False)
    )
    assert tied.non_embedding == untied.non_embedding and tied.parameters < untied.parameters


def test_costs_count_the_projection_of_narrow_embeddings(tiny):
    sizes = {"model.d_model": 128, "model.d_embedding": 64, "model.n_layers": 1, "model.d_ff": 32}
    model, params, tokens = build(tiny, VARIANTS[2], **sizes, **{"model.activation": "relu"})
    compiled = jax.jit(lambda p: model.apply(p, tokens)[0]).lower(params).compile()
    forward, counted = compiled.cost_analysis()["flops"] / tokens.size, models.costs(model).flops_per_token / 3
    # Without it, 2 x 64 x 128 operations are missing.
    assert counted < forward < counted * 1.07 and 2 * 64 * 128 > 0.08 * counted


@pytest.mark.parametrize(
    "changes", [{}, {"model.d_embedding": 4}, {"model.norm_position": "post", "model.d_embedding": 4}]
)
def test_bfloat16_compute_keeps_the_residual_stream_in_float32(tiny, monkeypatch, changes):
    seen, by_rows = [], layers.by_rows

    def seeing(spec, x):
        seen.extend([x.dtype] if x.ndim == 2 else [])  # heads have more
        return by_rows(spec, x)

    monkeypatch.setattr(layers, "by_rows", seeing)
    config = replace(tiny, **{**BERT, **changes})
    model = models.build(config.model, jnp.bfloat16)
    jax.eval_shape(model.apply, models.shapes(model), jnp.arange(8)[None])
    assert len(seen) > config.model.n_layers and set(seen) == {jnp.dtype("float32")}


def test_bfloat16_compute_keeps_float32_parameters_and_logits(tiny):
    config = replace(tiny, **BERT)
    model = models.build(config.model, jnp.bfloat16)
    params = weights.drawn(model, 0.02)
    assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {jnp.dtype("float32")}
    tokens = jnp.arange(8)[None]
    logits, _ = jax.jit(model.apply)(params, tokens, real_BL=tokens < 6)
    exact, _ = jax.jit(models.build(config.model).apply)(params, tokens, real_BL=tokens < 6)
    assert logits.dtype == jnp.float32
    assert 0 < np.abs(logits - exact).max() < 0.05
