"""What is known of a program before it trains."""

import numpy as np
import pytest

import actlab.data
from actlab.config import Config, replace
from actlab.data import tokenizer_kinds
from actlab.data.rows import NO_DOCUMENT
from actlab.errors import UserError
from actlab.training import program_spec


@pytest.fixture
def tokens(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for name, n in (("train", 40), ("valid", 9)):
        lines = [f"{name} story number {i}\n<|endoftext|>\n" for i in range(n)]
        (folder / f"{name}.txt").write_text("".join(lines))
    actlab.data.prepare("mine", tmp_path, source=folder, progress=False)
    return actlab.data.open_tokens("mine", tmp_path, "bytes", progress=False)


SMALL = {"model.context": 8, "model.d_model": 8, "model.n_heads": 1, "model.vocab_size": 300, "data.batch_size": 4}


def feed_of(tokens, **changes):
    config = replace(Config(), **{**SMALL, **changes})
    ready = program_spec.prepare(["run"], [config], tokens)
    return ready.feed, ready.floor


def test_every_validation_token_is_weighed_once_and_the_filler_not_at_all(tokens):
    feed, floor = feed_of(tokens, **{"data.batch_size": 5})
    n_targets = len(tokens.validation.tokens) - 1
    validation = feed.validation
    assert validation.weights.sum() == n_targets and floor is None
    assert validation.tokens.shape[1:] == (5, 8)
    assert validation.weights.size - n_targets > 8, "the test wants a whole window of filler"
    scored = validation.targets[validation.weights == 1]
    np.testing.assert_array_equal(scored, tokens.validation.tokens[1:])


@pytest.mark.parametrize("batch_size", [1, 5])
def test_the_test_set_has_the_shape_of_validation_and_its_own_documents(tokens, batch_size):
    feed, _ = feed_of(tokens, **{"data.batch_size": batch_size})
    assert {piece.tokens.shape for piece in feed.test} == {feed.validation.tokens.shape}
    weights, targets = (np.concatenate([getattr(one, name) for one in feed.test]) for name in ("weights", "targets"))
    np.testing.assert_array_equal(targets[weights == 1], tokens.test.tokens[1:])
    np.testing.assert_array_equal(weights == 1, feed.test_documents != NO_DOCUMENT)
    sizes = np.bincount(feed.test_documents[weights == 1])
    np.testing.assert_array_equal(sizes, np.diff(tokens.test.starts))


def test_training_windows_differ_by_step_and_by_seed_and_come_in_the_order_of_steps(tokens):
    feed, _ = feed_of(tokens)
    every = (slice(None), slice(None))
    first, later = feed.train(range(3), *every), feed.train(range(2, 5), *every)
    assert first.shape == (1, 3, 4, 9)
    np.testing.assert_array_equal(first[:, 2], later[:, 0])
    assert not np.array_equal(first[:, 0], first[:, 1])
    assert not np.array_equal(first, feed_of(tokens, seed=1)[0].train(range(3), *every))


def test_lanes_and_rows_of_training_windows_are_parts_of_the_whole(tokens):
    config = replace(Config(), **SMALL)
    configs = [replace(config, seed=seed) for seed in (4, 5, 4)]
    ready = program_spec.prepare(["a", "b", "c"], configs, tokens)
    whole = ready.feed.train(range(2), slice(None), slice(None))
    np.testing.assert_array_equal(whole[0], whole[2])
    assert not np.array_equal(whole[0], whole[1])
    np.testing.assert_array_equal(ready.feed.train(range(2), slice(1, 3), slice(1, 3)), whole[1:3, :, 1:3])
    part = ready.part(["c", "b"])
    assert part.names == ("c", "b") and [lane.seed for lane in part.lanes] == [4, 5]
    np.testing.assert_array_equal(part.feed.train(range(2), slice(None), slice(None)), whole[[2, 1]])


@pytest.mark.parametrize("corruption", ["shuffled", "random"])
def test_corrupted_text_has_no_order_in_training_and_validation_and_a_floor_that_is_known(tokens, corruption):
    feed, floor = feed_of(tokens, **{"data.corruption": corruption})
    plain, _ = feed_of(tokens)
    every = (slice(None), slice(None))
    windows = feed.train(range(3), *every)
    assert windows.shape == plain.train(range(3), *every).shape
    np.testing.assert_array_equal(feed.train(range(1, 2), slice(None), slice(1, 3))[0, 0], windows[0, 1, 1:3])
    np.testing.assert_array_equal(feed.validation.weights, plain.validation.weights)
    assert not np.array_equal(feed.validation.tokens, plain.validation.tokens)
    other, same_floor = feed_of(tokens, **{"data.corruption": corruption, "seed": 5})
    np.testing.assert_array_equal(other.validation.targets, feed.validation.targets)
    assert floor == same_floor and 2 < floor <= np.log(tokens.vocab_size)
    assert set(np.unique(windows)) <= set(range(tokens.vocab_size))
    seen = set(np.unique(tokens.train.tokens))
    assert (set(np.unique(windows)) <= seen) == (corruption == "shuffled")


ENCODER = {"model.kind": "encoder", "model.context": 32, "data.mask_fraction": 0.3}


def encoder(tokens, **changes):
    config = program_spec.resolve(replace(Config(), **{**SMALL, **ENCODER, **changes}), "mine", tokens.tokenizer)
    return program_spec.prepare(["run"], [config], tokens)


@pytest.mark.parametrize("packing", ["packed", "padded"])
def test_an_encoder_reads_every_token_once_without_a_target_at_its_end(tokens, packing):
    ready = encoder(tokens, **{"data.packing": packing, "data.batch_size": 5})
    feed, specials = ready.feed, tokens.tokenizer.specials
    rows = feed.train(range(2), slice(None), slice(None))
    assert rows.shape == (1, 2, 5, 32) and (specials.padding in rows) == (packing == "padded")
    validation = feed.validation
    assert validation.tokens.shape[1:] == (5, 32)
    n_real = len(tokens.validation.tokens) - 1
    if packing == "padded":
        lengths = np.minimum(np.diff(tokens.validation.starts) + 1, 32)  # between two marks
        n_real = lengths.sum()
        assert (validation.tokens.reshape(-1, 32)[:9, 0] == specials.first).all()
    assert validation.real.sum() == n_real
    # 0.3 of the ordinary tokens, in each row to the nearest whole number above or below.
    assert abs(validation.weights.sum() - 0.3 * n_real) < len(validation.tokens) * 5
    np.testing.assert_array_equal(
        encoder(tokens, seed=5, **{"data.packing": packing, "data.batch_size": 5}).feed.validation.tokens,
        validation.tokens,
        "of every seed",
    )
    weights = np.concatenate([piece.weights for piece in feed.test])
    hidden = np.concatenate([piece.targets for piece in feed.test])[weights > 0]
    owners = feed.test_documents[weights > 0]
    assert owners.min() >= 0 and owners.max() < tokens.test.n_documents and feed.test_documents.shape == weights.shape
    for number in range(tokens.test.n_documents):
        own = tokens.test.tokens[tokens.test.starts[number] : tokens.test.starts[number + 1]]
        assert np.isin(hidden[owners == number], own).all()
    assert ready.floor is None and 2 < ready.unigram < np.log(256)
    assert ready.objective.padded == (packing == "padded") and ready.objective.fraction == 0.3


def test_an_encoders_vocabulary_has_room_for_the_mask(tokens):
    left_open = program_spec.resolve(replace(Config(), **{"model.kind": "encoder"}), "mine", tokens.tokenizer)
    assert (
        left_open.model.vocab_size == 320 and encoder(tokens, **{"model.vocab_size": 259}).model.spec.vocab_size == 259
    )
    with pytest.raises(UserError, match="config.model.vocab_size=258 .* 259"):
        encoder(tokens, **{"model.vocab_size": 258})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data.mask_fraction": 1e-9}, "config.data.mask_fraction=1e-09"),
        ({"model.n_classes": 2}, "config.model.n_classes=2"),
        ({"data.packing": "padded", "data.corruption": "random"}, "config.data.corruption='random'"),
        ({"data.mask_fraction": 0.0}, "config.data.mask_fraction=0.0"),
        ({"sweep": {"data.mask_fraction": (0.1, 0.2)}}, "share data.mask_fraction"),
    ],
)
def test_an_objective_that_cannot_be_is_refused_in_a_sentence(tokens, changes, words):
    with pytest.raises(UserError, match=words):
        encoder(tokens, **changes)


@pytest.mark.parametrize("marks", [(256, 256, 256, 258), (256, 257, 3, 258, 3), (255, 257, 256, 258, None, 256)])
def test_an_encoder_needs_padding_that_is_no_mark_in_the_text(marks):
    class Decoders(tokenizer_kinds.ByteTokenizer):
        specials = property(lambda self: tokenizer_kinds.Specials(*marks))

    encoder = replace(Config(), **SMALL, **{"model.kind": "encoder"})
    with pytest.raises(UserError, match="a pad_token of its own"):
        program_spec.objective_of(encoder, Decoders())
    assert program_spec.objective_of(encoder, tokenizer_kinds.ByteTokenizer())
    assert program_spec.objective_of(replace(Config(), **SMALL), Decoders())
