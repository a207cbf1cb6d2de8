"""Masked language modelling: what is hidden, how much of it, of what the draw depends; that it is learned."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from outcomes import metrics

from actlab import models
from actlab.config import replace
from actlab.data.rows import NO_DOCUMENT
from actlab.data.tokenizer_kinds import Specials
from actlab.training import losses, programs, step as steps
from actlab.training.objectives import NEXT_TOKEN, Classification, MaskedToken, NextToken
from actlab.training.program_spec import Feed
from actlab.training.programs import Lane, lane_of

# Scattered, as BERT's are; 20 ids, of which 15 are ordinary.
SPECIALS = Specials(first=7, last=3, padding=0, mask=12, unknown=19)
MASKED = MaskedToken(SPECIALS, n_ids=20, fraction=0.15, padded=True)
training = jax.jit(MASKED.training)
ENCODER = {"model.kind": "encoder", "model.norm_position": "post", "model.use_bias": True}


def key_of(seed, step):
    return jax.random.fold_in(jax.random.key(seed), step)


def rows_of(n_rows, length, seed=0):
    """Rows as documents come: marks at the ends, ordinary tokens and an unknown one, padding."""
    rng = np.random.default_rng(seed)
    ordinary = np.setdiff1d(np.arange(20), SPECIALS.ids())
    rows = rng.choice(ordinary, (n_rows, length)).astype(np.int32)
    rows[:, 0] = SPECIALS.first
    rows[:, length // 2] = SPECIALS.unknown
    ends = rng.integers(length // 2 + 1, length, n_rows)
    for row, end in zip(rows, ends, strict=True):
        row[end], row[end + 1 :] = SPECIALS.last, SPECIALS.padding
    return rows


def within(successes, n, share, confidence=1 - 1e-6):
    """Whether the exact binomial interval of the share holds what was found."""
    low, high = scipy.stats.binom.interval(confidence, n, share)
    return low <= successes <= high


@pytest.fixture(scope="module")
def masked():
    rows = rows_of(4000, 64)
    return rows, jax.tree.map(np.asarray, training(rows, key_of(3, 5)))


def chosen_mask(rows, examples):
    chosen = np.zeros(rows.shape, bool)
    np.put_along_axis(chosen, examples.places, examples.weights > 0, axis=1)
    return chosen


def test_fifteen_percent_of_ordinary_tokens_are_chosen_and_no_special_one(masked):
    rows, examples = masked
    chosen, special = chosen_mask(rows, examples), np.isin(rows, SPECIALS.ids())
    assert not (chosen & special).any()
    ordinary = (~special).sum(axis=1)
    expected = 0.15 * ordinary
    counts = chosen.sum(axis=1)
    assert (np.abs(counts - expected) < 1).all() and len(set(counts[ordinary == 43])) > 1
    assert within(counts.sum(), ordinary.sum(), 0.15)
    # Every place is as likely as another.
    per_place, there = chosen.sum(axis=0), (~special).sum(axis=0)
    assert all(within(*pair, 0.15) for pair in zip(per_place[there > 0], there[there > 0], strict=True))


def test_of_ten_chosen_tokens_eight_are_hidden_one_is_another_and_one_stays(masked):
    rows, examples = masked
    chosen = chosen_mask(rows, examples)
    shown, was = examples.tokens[chosen], rows[chosen]
    n = len(was)
    assert within((shown == SPECIALS.mask).sum(), n, 0.8)
    # A token drawn at random is the same one time in fifteen.
    assert within((shown == was).sum(), n, 0.1 + 0.1 / 15)
    other = shown[(shown != was) & (shown != SPECIALS.mask)]
    assert not np.isin(other, SPECIALS.ids()).any()
    assert all(within((other == i).sum(), len(other), 1 / 15) for i in np.setdiff1d(np.arange(20), SPECIALS.ids()))


def test_what_is_not_chosen_is_shown_and_targets_are_what_stood_there(masked):
    rows, examples = masked
    chosen = chosen_mask(rows, examples)
    np.testing.assert_array_equal(examples.tokens[~chosen], rows[~chosen])
    np.testing.assert_array_equal(examples.targets, np.take_along_axis(rows, examples.places, axis=1))
    np.testing.assert_array_equal(examples.real, rows != SPECIALS.padding)
    assert examples.weights.sum() == pytest.approx(1, rel=1e-4)
    assert len(np.unique(examples.weights)) == 2


def test_a_mask_is_a_function_of_seed_and_step_alone():
    rows = rows_of(8, 32)
    draw = jax.jit(lambda seed, step, rows: MASKED.training(rows, key_of(seed, step)))
    examples = draw(1, 2, rows)
    for other in (draw(1, 3, rows), draw(2, 2, rows)):
        assert not np.array_equal(other.places, examples.places)
    assert not np.array_equal(examples.places[0], draw(1, 2, np.tile(rows[0], (8, 1))).places[1]), "rows differ"
    by_lane = jax.vmap(draw, (0, None, None))(jnp.array([1, 9]), 2, rows)
    np.testing.assert_array_equal(by_lane.tokens[0], examples.tokens)


def test_the_validation_mask_is_one_and_does_not_depend_on_what_else_is_validated():
    rows = rows_of(12, 32)
    whole, part = MASKED.scored(rows), MASKED.scored(rows[:5])
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[:5], b), whole, part)
    assert set(np.unique(whole.weights)) == {0.0, 1.0}
    np.testing.assert_array_equal(whole.counted, rows != SPECIALS.padding)


@pytest.mark.parametrize("length", [2, 3, 8])
def test_rows_without_an_ordinary_token_have_no_target(length):
    rows = np.full((3, length), SPECIALS.padding, np.int32)
    rows[0, 0] = SPECIALS.first
    examples = training(rows, key_of(0, 0))
    assert examples.weights.sum() == 0 and np.isfinite(examples.weights).all()
    np.testing.assert_array_equal(examples.tokens, rows)


@pytest.mark.parametrize("fraction", [0.15, 0.5, 1.0])
def test_the_fraction_is_what_the_config_says(fraction):
    objective = MaskedToken(SPECIALS, 20, fraction, padded=True)
    rows = rows_of(200, 40)
    examples = objective.scored(rows)
    ordinary = (~np.isin(rows, SPECIALS.ids())).sum()
    assert within(examples.weights.sum(), ordinary, fraction) or examples.weights.sum() == ordinary
    assert objective.share(40) == math.ceil(fraction * 40) / 40 == examples.places.shape[1] / 40


def encoder(tiny, **changes):
    config = replace(tiny, **{**ENCODER, "data.mask_fraction": 0.5, **changes})
    model = models.build(config.model)
    return config, model, MaskedToken(SPECIALS, 20, 0.5, padded=True)


# One program for two tests each.
CONSTANT = {"optimizer.schedule": "constant"}
MAPPED = {"devices.lanes_by": "map", "train.n_steps": 8, "model.n_layers": 1}


def start(model, config):
    return jax.jit(functools.partial(steps.init_state, model, config))(jnp.int32(0))


def step_of(model, config, objective):
    return jax.jit(functools.partial(steps.train_step, model, config, objective=objective))


def test_the_loss_is_the_mean_over_masked_places_only(tiny):
    config, model, objective = encoder(tiny, **CONSTANT)
    state = start(model, config)
    params = jax.tree.map(lambda a: a * 20 if a.ndim > 1 else a, jax.device_get(state.params))
    rows = rows_of(4, 8)

    @jax.jit
    def expected(examples, params, rows):
        logits, _ = model.apply(params, examples.tokens, real_BL=examples.real)
        return losses.cross_entropy(logits, rows), logits.argmax(axis=-1)

    examples = jax.jit(objective.training)(rows, key_of(0, 0))
    of_each, _ = expected(examples, params, rows)
    mean = np.asarray(of_each)[chosen_mask(rows, examples)].mean()
    lane = Lane(np.int32(0), np.float32(1e-3), np.float32(0))
    _, metrics = step_of(model, config, objective)(lane, state._replace(params=params), rows)
    assert metrics.loss == pytest.approx(mean, rel=1e-5)
    scored = objective.scored(rows)
    found = jax.jit(functools.partial(steps.eval_step, model, counts_hits=True))(params, scored)
    _, answers = expected(scored, params, rows)
    right = (np.asarray(answers) == rows) & chosen_mask(rows, scored)
    assert found.hits == right.sum()


@pytest.mark.parametrize(
    "changes", [{}, pytest.param({"model.norm_position": "pre", "model.activation": "swiglu"}, marks=pytest.mark.slow)]
)
def test_one_batch_can_be_learned_by_heart(tiny, changes):
    config, model, objective = encoder(tiny, **CONSTANT, **changes)
    lane, step = Lane(np.int32(1), np.float32(1e-2), np.float32(0)), step_of(model, config, objective)
    state, rows, found = start(model, config), rows_of(4, 8), []
    for _ in range(300):
        state, metrics = step(lane, state, rows)
        found.append(float(metrics.loss))
    assert found[0] == pytest.approx(math.log(24), rel=0.05)
    # The rest of a row tells which of four it is, whatever is hidden of it, unless all is.
    assert np.mean(found[-20:]) < 0.3


LANES = (Lane(1, 1e-3, 0.1), Lane(2, 1e-2, 0.0))


@pytest.mark.slow
@pytest.mark.optimized
def test_each_lane_is_the_solo_run_with_masks_of_its_own_seed(build, tiny):
    config, _, objective = encoder(tiny, **MAPPED)
    rows = np.stack([rows_of(4, 8, seed) for seed in range(3)])
    validation = jax.tree.map(lambda a: a.reshape(2, 4, *a.shape[1:]), objective.scored(rows_of(8, 8, 9)))

    def trained(lanes):
        program = build(config, lanes, objective)
        state, metrics = program.train(program.init(), program.rows(lambda lane, row: np.stack([rows] * len(lanes))), 3)
        return np.asarray(metrics.loss), program.evaluate(state, [validation])[0]

    loss, scores = trained(LANES)
    assert not np.array_equal(loss[0], loss[1]) and scores.accuracy.shape == (2,)
    for index, lane in enumerate(LANES):
        solo_loss, solo = trained([lane])
        np.testing.assert_array_equal(loss[index], solo_loss[0])
        np.testing.assert_array_equal(scores.loss[index], solo.loss[0])
        assert scores.accuracy[index] == solo.accuracy[0]


def test_resumed_is_never_stopped_to_the_bit_masks_included(session, tmp_path, tiny):
    config, _, objective = encoder(tiny, **MAPPED, **{"train.census_every": 12})
    validation = jax.tree.map(lambda a: a.reshape(2, 4, *a.shape[1:]), objective.scored(rows_of(8, 8, 9)))
    test = (validation,), np.where(validation.weights > 0, validation.places // 4, NO_DOCUMENT)
    feed = Feed(lambda seed, step, rows: rows_of(4, 8, seed + step)[rows], (config.seed,), validation, *test)
    run = functools.partial(session, config=config, objective=objective, feed=feed)
    whole, _, _ = run(tmp_path / "whole")
    assert run(tmp_path / "pieces", stop_after=1)[1] == 3
    pieces, step, _ = run(tmp_path / "pieces")
    assert step == 8
    jax.tree.map(np.testing.assert_array_equal, pieces, whole)
    rows = metrics(tmp_path / "whole")
    assert metrics(tmp_path / "pieces") == rows
    validation = [row for row in rows if row["split"] == "validation"]
    assert all(0 <= row["accuracy"] <= 1 for row in validation) and len(validation) == 3
    last = [row for row in rows if row["split"] == "probe"][-1]
    real = int((rows_of(8, 8, 9) != SPECIALS.padding).sum())
    assert last["dead_rate_bound"] == pytest.approx(1 - 0.05 ** (1 / real)), "padding is not counted"


@pytest.mark.slow
def test_probes_do_not_see_padding(tiny):
    _, model, objective = encoder(tiny)
    program = programs.build(model, replace(tiny, **ENCODER), LANES[:1], objective)
    state, rows = program.init(), rows_of(4, 8)
    examples = objective.scored(rows)
    garbled = examples._replace(tokens=np.where(examples.real, examples.tokens, 5).astype(np.int32))
    found, again = program.probe(state, examples), program.probe(state, garbled)
    assert found.keys() == again.keys()
    assert found["head/grad_norm"] > 0 and {"layer_0/pre_mean", "layer_0/attention/grad_norm"} <= found.keys()
    assert np.isfinite(program.curvature(state, examples)["hessian_top"])
    for name, value in found.items():
        # The tokens at padding still have gradients of zero, but their embeddings are looked up from another row.
        np.testing.assert_allclose(again[name], value, rtol=1e-5, atol=1e-7, err_msg=name)


def test_an_encoder_is_not_trained_on_what_it_sees(tiny):
    config, model, _ = encoder(tiny)
    with pytest.raises(ValueError, match="sees the next token"):
        programs.build(model, config, LANES[:1], NEXT_TOKEN)


PLANTED = {
    **ENCODER,
    "model.n_classes": 2,
    "optimizer.learning_rate": 1e-2,
    "data.batch_size": 32,
    "optimizer.schedule": "constant",
}


def planted(n_rows, seed):
    """Rows whose label is whether token 5 is there, as in a third of them; no two rows are as long."""
    rng = np.random.default_rng(seed)
    rows = rows_of(n_rows, 8, seed)
    rows[rows == 5] = 6
    labels = rng.random(n_rows) < 1 / 3
    rows[labels, rng.integers(1, 4, n_rows)[labels]] = 5
    return np.concatenate([rows, labels[:, None]], axis=1).astype(np.int32)


def test_a_classifier_beats_the_majority_in_a_few_steps_and_its_scores_are_those_of_its_answers(tiny):
    config = replace(tiny, **PLANTED)
    model, objective = models.build(config.model), Classification(SPECIALS.padding)
    program = programs.build(model, config, [lane_of(config)], objective)
    rows = planted(60 * 32, 0).reshape(1, 20, 3, 32, 9)
    state = program.init()
    for call in range(20):
        state, _ = program.train(state, program.rows(lambda lanes, part: rows[lanes, call, :, part]), 3)  # noqa: B023
    held_out = planted(128, 1)
    weights = np.ones((128, 1), np.float32)
    weights[100:] = 0
    examples = jax.tree.map(lambda array: array.reshape(4, 32, -1), objective.scored(held_out, weights))
    scores, of_targets = program.evaluate(state, [examples])
    params = jax.tree.map(lambda array: array[0], jax.device_get(state.params))
    tokens, labels = held_out[:, :-1], held_out[:100, -1]

    @jax.jit
    def answers(params, tokens, labels):
        logits = model.apply(params, tokens, real_BL=tokens != SPECIALS.padding)[0][:100, 0]
        return logits.argmax(axis=-1), losses.cross_entropy(logits, labels).mean()

    found, loss = map(np.asarray, answers(params, tokens, labels))
    assert of_targets.shape == (1, 4, 32, 1) and of_targets.sum() == pytest.approx(100 * float(loss), rel=1e-5)
    assert scores.accuracy[0] == pytest.approx((found == labels).mean())
    f1 = [2 * ((found == c) & (labels == c)).sum() / ((found == c).sum() + (labels == c).sum()) for c in (0, 1)]
    assert scores.macro_f1[0] == pytest.approx(np.mean(f1))
    assert scores.loss[0] == pytest.approx(float(loss), rel=1e-4)
    assert scores.accuracy[0] > 0.9 > 0.75 > 1 - labels.mean()


def test_a_confusion_has_what_is_there_by_row_and_what_is_answered_by_column(tiny):
    model = models.build(replace(tiny, **PLANTED).model)
    rng, shapes = np.random.default_rng(0), models.shapes(model)
    params = jax.tree.map(lambda leaf: np.float32(rng.normal(0, 0.02, leaf.shape)), shapes)
    params["classifier"]["bias"] += np.float32([0, 9])  # all are taken for class 1
    rows = planted(12, 0)
    examples = Classification(SPECIALS.padding).scored(rows, np.full((12, 1), 0.5, np.float32))
    n_ones = rows[:, -1].sum()
    assert 0 < n_ones < 12
    found = jax.jit(functools.partial(losses.confusion, model))(params, examples)
    np.testing.assert_allclose(found, [[0, (12 - n_ones) / 2], [0, n_ones / 2]])


def test_a_decoders_documents_are_targets_once_and_their_padding_is_none(tiny):
    """The training loss of padded rows is the mean over the documents' own tokens, whatever stands behind them."""
    end, model = 23, models.build(tiny.model)
    params = jax.tree.map(lambda a: a * 20 if a.ndim > 1 else a, jax.device_get(start(model, tiny).params))
    rows = np.full((3, 9), end, np.int32)
    documents = [[1, 2, 3], [], [4, 5, 6, 7, 8, 9, 10, 11]]
    for row, document in zip(rows, documents, strict=True):
        row[1 : 1 + len(document)] = document

    def of_tokens(params, tokens):
        logits, _ = model.apply(params, tokens[None, :-1])
        return losses.cross_entropy(logits[0], tokens[1:]).sum()

    @jax.jit
    def both(params):
        # Each document by itself, without padding; the last does not fit with its mark.
        sums = [of_tokens(params, jnp.array([end, *document, end][:9])) for document in documents]
        examples = NextToken(padding=end).training(jnp.array(rows), key_of(0, 0))
        return losses.loss(model, params, examples), sum(sums) / (4 + 1 + 8)

    found, expected = both(params)
    assert found == pytest.approx(float(expected), rel=1e-5)
