import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import actlab.data
from actlab.data import batches
from actlab.data.cache import Split
from actlab.data.tokenizer import Specials
from actlab.errors import UserError

END = 99


def make_split(lengths: list[int]) -> Split:
    stream, starts, value = [END], [1], 0
    for length in lengths:
        stream += [*range(value, value + length), END]
        starts.append(len(stream))
        value += length
    return Split("toy/validation", np.array(stream, np.uint16), np.array(starts), n_bytes=value)


def rows_of(tokens: np.ndarray, context: int, batch_size: int, steps: range, **options) -> np.ndarray:
    arguments = dict(context=context, batch_size=batch_size, seed=5) | options
    return np.concatenate([batches.train_batch(tokens, step=step, **arguments) for step in steps])


def test_an_epoch_covers_every_window_once():
    tokens = np.arange(1003, dtype=np.uint16)
    n_windows = 1002 // 10
    rows = rows_of(tokens, 10, 4, range(75))  # three epochs: batches straddle the borders
    assert rows.dtype == np.int32 and rows.shape == (300, 11)
    assert (np.diff(rows, axis=1) == 1).all()
    orders = rows[:, 0].reshape(3, n_windows) // 10
    for order in orders:
        assert sorted(order) == list(range(n_windows))
    assert len({tuple(order) for order in orders}) == 3


def test_the_order_is_that_of_philox():
    tokens = np.arange(101, dtype=np.uint16)
    expected = np.random.Generator(np.random.Philox(key=(7, 2))).permutation(10)  # type: ignore[arg-type]
    assert (rows_of(tokens, 10, 10, range(2, 3), seed=7)[:, 0] // 10).tolist() == expected.tolist()


@given(n_processes=st.sampled_from([1, 2, 3, 6]), step=st.integers(0, 10**12))
def test_processes_together_hold_the_whole_batch(n_processes, step):
    tokens = np.arange(500, dtype=np.uint16)
    whole = batches.train_batch(tokens, context=7, batch_size=12, seed=1, step=step)
    n_rows = 12 // n_processes
    parts = [
        batches.train_batch(tokens, context=7, batch_size=12, seed=1, step=step, rows=slice(first, first + n_rows))
        for first in range(0, 12, n_rows)
    ]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_a_batch_larger_than_an_epoch_goes_on_in_the_next():
    tokens = np.arange(21, dtype=np.uint16)
    rows = rows_of(tokens, 10, 7, range(1))
    assert np.bincount(rows[:, 0] // 10).tolist() in ([4, 3], [3, 4])


def test_seeds_differ_up_to_64_bits():
    tokens = np.arange(1001, dtype=np.uint16)
    seeds = [0, 1, 2**53, 2**53 + 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1]
    assert len({rows_of(tokens, 10, 20, range(1), seed=seed).tobytes() for seed in seeds}) == len(seeds)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_other_seeds_are_refused(seed):
    with pytest.raises(UserError, match=f"seed={seed} is outside"):
        rows_of(np.arange(100, dtype=np.uint16), 10, 2, range(1), seed=seed)


def test_too_little_text_names_data_tokens_and_context(tmp_path, write_texts):
    assert rows_of(np.arange(11, dtype=np.uint16), 10, 1, range(1)).tolist() == [list(range(11))]
    with pytest.raises(UserError, match="10 tokens.*model.context=10"):
        rows_of(np.arange(10, dtype=np.uint16), 10, 1, range(1))
    actlab.data.prepare("mine", tmp_path, source=write_texts(["abc"], ["d"]), progress=False)
    cache = actlab.data.open_tokens("mine", tmp_path, "bytes", progress=False)
    with pytest.raises(UserError, match="mine/tokens/bytes/train.tokens has 5 tokens.*model.context=64"):
        rows_of(cache.train.tokens, 64, 1, range(1))


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=9), context=st.integers(1, 12), n_tokens=st.integers(1, 60)
)
def test_each_token_of_the_first_documents_is_scored_once(lengths, context, n_tokens):
    split = make_split(lengths)
    windows, weights, n_documents = batches.validation_set(split, context=context, n_tokens=n_tokens)
    assert windows.dtype == np.int32 and weights.dtype == np.float32
    assert windows.shape == (len(weights), context + 1) and weights.shape[1] == context
    scored = windows[:, 1:][weights == 1]
    expected = split.tokens[1 : split.starts[n_documents]]
    np.testing.assert_array_equal(scored, expected)
    np.testing.assert_array_equal(windows[:, :-1][weights == 1], split.tokens[: len(expected)])
    assert (windows[:, 1:][weights == 0] == END).all()
    assert weights[:-1].all() and weights[-1].any()
    sizes = np.cumsum(np.array(lengths) + 1)
    enough = np.flatnonzero(sizes >= n_tokens)
    assert n_documents == (enough[0] + 1 if len(enough) else len(lengths))


def test_an_empty_validation_set_is_refused():
    with pytest.raises(UserError, match="validation set of 0 tokens"):
        batches.validation_set(make_split([3]), context=4, n_tokens=0)


def test_the_floor_is_the_nats_of_the_documents_per_token(tmp_path, toy_grammar):
    cache = actlab.data.open_tokens("story_grammar", tmp_path, "bytes", n_stories=10, progress=False)
    _, weights, n_documents = batches.validation_set(cache.validation, context=16, n_tokens=500)
    lengths = np.diff(cache.validation.starts)[:n_documents] - 1
    nats = n_documents * np.log(3) + lengths.sum() * np.log(4)
    assert weights.sum() == lengths.sum() + n_documents
    floor = batches.bayes_loss(cache, n_documents)
    assert floor == pytest.approx(nats / weights.sum(), rel=1e-12)
    # One to three of four letters and a mark: 1.2 nats per token, give or take the draw.
    assert floor == pytest.approx(toy_grammar.entropy_nats() / 3, rel=0.1)


def test_tokens_that_lose_some_of_the_text_have_no_floor(tmp_path, toy_grammar):
    cache = actlab.data.open_tokens("story_grammar", tmp_path, "wordpiece", n_stories=10, progress=False)
    assert cache.entropy_nats is not None and batches.bayes_loss(cache, 5) is None


def test_text_of_unknown_entropy_has_no_floor(tmp_path, write_texts):
    actlab.data.prepare("mine", tmp_path, source=write_texts(["abc"], ["d"]), progress=False)
    assert batches.bayes_loss(actlab.data.open_tokens("mine", tmp_path, "bytes", progress=False), 1) is None


def unordered(corruption, **options):
    tokens = np.repeat(np.arange(4, dtype=np.uint16), [100, 200, 300, 400])
    arguments = dict(shape=(200, 100), n_types=5, seed=3, step=7) | options
    return batches.unordered(tokens, corruption, **arguments)


@pytest.mark.parametrize(("corruption", "shares"), [("shuffled", (0.1, 0.2, 0.3, 0.4, 0)), ("random", (0.2,) * 5)])
def test_tokens_without_order_have_their_frequencies_and_no_memory(corruption, shares):
    drawn = unordered(corruption)
    assert drawn.dtype == np.int32
    np.testing.assert_allclose(np.bincount(drawn.ravel(), minlength=5) / drawn.size, shares, atol=0.012)
    pairs = np.bincount(5 * drawn[:, :-1].ravel() + drawn[:, 1:].ravel(), minlength=25).reshape(5, 5)
    np.testing.assert_allclose(pairs / pairs.sum(), np.outer(shares, shares), atol=0.012)
    np.testing.assert_array_equal(drawn, unordered(corruption))
    for other in ({"seed": 4}, {"step": 8}):
        assert not np.array_equal(drawn, unordered(corruption, **other))


def test_the_loss_of_tokens_without_order_is_that_of_who_knows_their_frequencies():
    tokens = np.repeat(np.arange(4, dtype=np.uint16), [100, 200, 300, 400])
    targets = np.array([0, 3, 3], np.int32)
    expected = -(np.log(0.1) + 2 * np.log(0.4)) / 3
    assert batches.unordered_loss(tokens, "shuffled", targets, 5) == pytest.approx(expected, rel=1e-12)
    assert batches.unordered_loss(tokens, "random", targets, 5) == pytest.approx(np.log(5), rel=1e-12)


SPECIALS = Specials(first=101, last=102, padding=103, mask=104)


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=9), context=st.integers(2, 12), n_tokens=st.integers(1, 60)
)
def test_a_padded_row_is_one_document_between_its_marks_cut_to_the_context(lengths, context, n_tokens):
    split = make_split(lengths)
    rows = batches.validation_documents(split, SPECIALS, context=context, n_tokens=n_tokens)
    _, _, n_documents = batches.validation_set(split, context=context, n_tokens=n_tokens)
    assert rows.dtype == np.int32 and rows.shape == (n_documents, context)
    for index, row in enumerate(rows):
        document = split.tokens[split.starts[index] : split.starts[index + 1] - 1].tolist()
        kept = [101, *document[: context - 2], 102]
        assert row.tolist() == kept + [103] * (context - len(kept))


def test_each_document_is_a_row_once_an_epoch_in_an_order_of_seed_and_epoch():
    split = make_split([3, 1, 4, 1, 5, 9, 2])
    size = {"context": 12, "batch_size": 7}
    draw = lambda seed, step, **more: batches.train_documents(split, SPECIALS, **size, seed=seed, step=step, **more)  # noqa: E731
    every = sorted(map(tuple, batches.document_rows(split, SPECIALS, np.arange(7), 12)))
    assert sorted(map(tuple, draw(1, 0))) == sorted(map(tuple, draw(1, 1))) == every
    assert not np.array_equal(draw(1, 0), draw(1, 1)) and not np.array_equal(draw(1, 0), draw(2, 0))
    np.testing.assert_array_equal(draw(1, 3, rows=slice(2, 5)), draw(1, 3)[2:5])


def test_the_unigram_entropy_is_that_of_ordinary_tokens():
    rows = np.array([[101, 1, 1, 2, 102], [101, 3, 3, 102, 103]], np.int32)
    shares = np.array([2, 1, 2]) / 5
    assert batches.unigram_entropy(rows, SPECIALS) == pytest.approx(-(shares * np.log(shares)).sum())


def test_labelled_rows_keep_the_end_of_what_is_too_long_and_carry_the_label():
    tokens = np.array([9, 10, 11, 12, 13, 14, 9, 20, 9], np.uint16)
    split = Split("s", tokens, np.array([1, 7, 9]), 0)
    specials, labels = Specials(first=1, last=2, padding=0, mask=3), np.array([1, 0], np.int8)
    rows = batches.labelled_rows(split, labels, specials, np.array([1, 0]), 5)
    assert rows.tolist() == [[1, 20, 2, 0, 0, 0], [1, 12, 13, 14, 2, 1]]
    whole = batches.labelled_rows(split, labels, specials, np.array([0]), 8)
    assert whole.tolist() == [[1, 10, 11, 12, 13, 14, 2, 0, 1]]
    everything = batches.validation_labelled(split, labels, specials, context=5, n_tokens=99)
    assert everything[:, -1].tolist() == [1, 0]
    size = {"context": 5, "batch_size": 2, "seed": 4}
    epoch = np.concatenate([batches.train_labelled(split, labels, specials, **size, step=step) for step in range(2)])
    assert sorted(epoch[:2].tolist()) == sorted(rows.tolist()) == sorted(epoch[2:].tolist())


def test_a_permutation_is_drawn_once_for_each_of_many_seeds(monkeypatch):
    tokens, drawn = np.arange(5000, dtype=np.uint16), []
    generator = np.random.Generator
    monkeypatch.setattr(np.random, "Generator", lambda bits: drawn.append(1) or generator(bits))
    for step in range(3):
        for seed in range(40):
            batches.train_batch(tokens, context=7, batch_size=4, seed=seed, step=step)
    assert len(drawn) == 40
