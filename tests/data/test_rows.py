import collections
import dataclasses
import types
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from actlab.data import rows
from actlab.data.cache import Labels, Meta, Split, TokenCache
from actlab.data.rows import NO_DOCUMENT, DocumentRows, LabelledRows, NextTokenDocuments, NextTokenRows, PackedRows
from actlab.data.tokenizer_kinds import Specials
from actlab.errors import UserError

END = 99
SPECIALS = Specials(first=101, last=102, padding=103, mask=104)


def split_of(lengths: list[int]) -> Split:
    """Documents of these lengths whose tokens count up, with END before, between and after them."""
    stream, starts, value = [END], [1], 0
    for length in lengths:
        stream += [*range(value, value + length), END]
        starts.append(len(stream))
        value += length
    return Split("toy", np.array(stream, np.uint16), np.array(starts), n_bytes=value)


def text_of(tokens) -> Split:
    return Split("toy/train", np.asarray(tokens, np.uint16), np.array([1, len(tokens)]), n_bytes=0)


def cache_of(
    train: Split, held_out: Split | None = None, *, test=None, vocab_size=100, nats=None, lossless=True, labels=None
) -> TokenCache:
    """With `held_out` as validation and, unless `test` is given, as test."""
    held_out = dataclasses.replace(held_out or split_of([3]), nats=nats)
    meta = Meta(1, "toy", "", "", "", None, "toy", "", vocab_size, "uint16", {}, {}, {}, {}, {}, "")
    cache = TokenCache(Path(), meta, train, held_out, test or held_out, labels)
    cache.__dict__["tokenizer"] = types.SimpleNamespace(specials=SPECIALS, lossless=lossless, end_of_text=END)
    return cache


def windows_of(tokens, context, batch_size, steps, seed=5) -> np.ndarray:
    source = NextTokenRows(cache_of(text_of(tokens)), context, batch_size, eval_tokens=1)
    return np.concatenate([source.batch(seed, step) for step in steps])


def test_an_epoch_covers_every_window_once():
    n_windows = 1002 // 10
    found = windows_of(range(1003), 10, 4, range(75))  # three epochs: batches straddle the borders
    assert found.dtype == np.int32 and found.shape == (300, 11)
    assert (np.diff(found, axis=1) == 1).all()
    orders = found[:, 0].reshape(3, n_windows) // 10
    for order in orders:
        assert sorted(order) == list(range(n_windows))
    assert len({tuple(order) for order in orders}) == 3


def test_the_order_is_that_of_philox():
    expected = np.random.Generator(np.random.Philox(key=(7, 2))).permutation(10)  # type: ignore[arg-type]
    assert (windows_of(range(101), 10, 10, [2], seed=7)[:, 0] // 10).tolist() == expected.tolist()


@given(n_processes=st.sampled_from([1, 2, 3, 6]), step=st.integers(0, 10**12))
def test_processes_together_hold_the_whole_batch(n_processes, step):
    source = NextTokenRows(cache_of(text_of(range(500))), 7, 12, eval_tokens=1)
    n_rows = 12 // n_processes
    parts = [source.batch(1, step, slice(first, first + n_rows)) for first in range(0, 12, n_rows)]
    np.testing.assert_array_equal(np.concatenate(parts), source.batch(1, step))


def test_a_batch_larger_than_an_epoch_goes_on_in_the_next():
    found = windows_of(range(21), 10, 7, [0])
    assert np.bincount(found[:, 0] // 10).tolist() in ([4, 3], [3, 4])


def test_seeds_differ_up_to_64_bits():
    seeds = [0, 1, 2**53, 2**53 + 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1]
    assert len({windows_of(range(1001), 10, 20, [0], seed=seed).tobytes() for seed in seeds}) == len(seeds)


def test_a_permutation_is_drawn_once_for_each_of_many_seeds(monkeypatch):
    drawn, generator = [], np.random.Generator
    monkeypatch.setattr(np.random, "Generator", lambda bits: drawn.append(1) or generator(bits))
    for step in range(3):
        for seed in range(40):
            windows_of(range(5000), 7, 4, [step], seed=seed)
    assert len(drawn) == 40


def test_the_kept_permutations_are_bounded_in_bytes(monkeypatch):
    monkeypatch.setattr(rows, "_kept", {})
    monkeypatch.setattr(rows, "KEPT_BYTES", 5000 * 2 * 3)  # of three permutations of 5,000
    orders = [rows._permutation(seed, 0, 5000) for seed in (1, 2, 3, 1, 4)]
    assert [seed for seed, _, _ in rows._kept] == [3, 1, 4] and orders[3] is orders[0]
    np.testing.assert_array_equal(rows._permutation(2, 0, 5000), orders[1])


def test_too_little_text_names_its_tokens_and_the_context():
    assert windows_of(range(11), 10, 1, [0]).tolist() == [list(range(11))]
    with pytest.raises(UserError, match="toy/train has 10 tokens.*model.context=10"):
        windows_of(range(10), 10, 1, [0])


@settings(max_examples=40)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=9),
    context=st.integers(2, 12),
    n_tokens=st.integers(1, 60),
    batch_size=st.integers(1, 4),
)
def test_each_token_of_the_first_documents_is_scored_once(lengths, context, n_tokens, batch_size):
    split = split_of(lengths)
    sizes = np.cumsum(np.array(lengths) + 1)
    enough = np.flatnonzero(sizes >= n_tokens)
    n_documents = enough[0] + 1 if len(enough) else len(lengths)
    cache = cache_of(text_of(range(50)), split)
    source = NextTokenRows(cache, context, batch_size, n_tokens)
    found, other = source.validation(), source.test(batch_size)
    np.testing.assert_array_equal(found.rows, other.rows)
    assert found.weights is not None and len(found.rows) == len(found.weights) and len(found.rows) % batch_size == 0
    assert found.rows.dtype == np.int32 and found.weights.dtype == np.float32
    expected = split.tokens[1 : split.starts[n_documents]]
    np.testing.assert_array_equal(found.rows[:, 1:][found.weights == 1], expected)
    np.testing.assert_array_equal(found.rows[:, :-1][found.weights == 1], split.tokens[: len(expected)])
    assert found.weights.sum() == len(expected) and set(np.unique(found.weights)) <= {0, 1}
    n_rows = -(-len(expected) // context)
    assert (found.rows[:n_rows, 1:][found.weights[:n_rows] == 0] == END).all()
    owners = np.repeat(np.arange(n_documents), np.array(lengths[:n_documents]) + 1)
    np.testing.assert_array_equal(found.documents[found.weights == 1], owners)
    assert (found.documents[found.weights == 0] == rows.NO_DOCUMENT).all() and found.documents.dtype == np.int32
    packed = PackedRows(cache, context, batch_size, n_tokens).validation()
    np.testing.assert_array_equal(packed.documents, found.documents)
    assert packed.weights is None and packed.rows.shape == (len(found.rows), context)
    np.testing.assert_array_equal(packed.rows[packed.rows != SPECIALS.padding], expected)
    whole = DocumentRows(cache, context, batch_size, n_tokens).validation()
    documents, index = whole.rows, np.arange(len(whole.rows))[:, None]
    np.testing.assert_array_equal(whole.documents, np.where(documents == SPECIALS.padding, rows.NO_DOCUMENT, index))
    assert documents.dtype == np.int32 and documents.shape == (n_documents + -n_documents % batch_size, context)
    for index, row in enumerate(documents[:n_documents]):
        document = split.tokens[split.starts[index] : split.starts[index + 1] - 1].tolist()
        kept = [101, *document[: context - 2], 102]
        assert row.tolist() == kept + [103] * (context - len(kept))
    assert (documents[n_documents:] == SPECIALS.padding).all()


def test_packed_rows_are_the_targets_of_windows():
    cache = cache_of(text_of(range(500)))
    sizes = (cache, 7, 12, 1)
    np.testing.assert_array_equal(PackedRows(*sizes).batch(1, 2), NextTokenRows(*sizes).batch(1, 2)[:, 1:])


def test_the_floor_is_the_nats_of_the_documents_per_token():
    nats, split = np.array([2.0, 3.0, 90.0]), split_of([3, 4, 5])
    floor = lambda **known: NextTokenRows(cache_of(text_of(range(50)), split, **known), 8, 4, 9).validation().floor
    assert floor(nats=nats) == pytest.approx(5 / 9, rel=1e-12), "two documents of 3 and 4 tokens and their marks"
    assert floor() is None, "text of unknown entropy"
    assert floor(nats=nats, lossless=False) is None, "tokens that lose some of the text"
    test = dataclasses.replace(split_of([1, 1]), nats=np.array([4.0, 8.0]))
    cache = cache_of(text_of(range(50)), split, nats=nats, test=test)
    assert NextTokenRows(cache, 8, 4, 9).test(4).floor == pytest.approx(3.0), "of the stories of the test split"


@pytest.mark.parametrize(("corruption", "shares"), [("shuffled", (0.1, 0.2, 0.3, 0.4, 0)), ("random", (0.2,) * 5)])
def test_tokens_without_order_have_their_frequencies_and_no_memory(corruption, shares):
    cache = cache_of(text_of(np.repeat(np.arange(4), [100, 200, 300, 400])), split_of([2500]), vocab_size=5)
    source = NextTokenRows(cache, 99, 200, 2500, corruption)
    drawn = source.batch(3, 7)
    assert drawn.dtype == np.int32 and drawn.shape == (200, 100)
    np.testing.assert_allclose(np.bincount(drawn.ravel(), minlength=5) / drawn.size, shares, atol=0.012)
    pairs = np.bincount(5 * drawn[:, :-1].ravel() + drawn[:, 1:].ravel(), minlength=25).reshape(5, 5)
    np.testing.assert_allclose(pairs / pairs.sum(), np.outer(shares, shares), atol=0.012)
    np.testing.assert_array_equal(drawn[5:9], source.batch(3, 7, slice(5, 9)))
    for other in (source.batch(4, 7), source.batch(3, 8)):
        assert not np.array_equal(drawn, other)
    found = source.validation()
    targets = found.rows[:, 1:][found.weights == 1]
    assert len(targets) == 2501
    assert found.floor == pytest.approx(-np.log(np.array(shares)[targets]).mean(), rel=1e-12)
    test = source.test(7)
    assert len(test.rows) % 7 == 0
    assert not np.array_equal(test.rows[:20], found.rows[:20]), "the test set is another draw"
    assert test.floor is not None and test.floor == pytest.approx(found.floor, rel=0.05)


def test_each_document_is_a_row_once_an_epoch_in_an_order_of_seed_and_epoch():
    split = split_of([3, 1, 4, 1, 5, 9, 2])
    source = DocumentRows(cache_of(split, split), context=12, batch_size=7, eval_tokens=99)
    every = sorted(map(tuple, source.validation().rows))
    assert sorted(map(tuple, source.batch(1, 0))) == sorted(map(tuple, source.batch(1, 1))) == every
    assert not np.array_equal(source.batch(1, 0), source.batch(1, 1))
    assert not np.array_equal(source.batch(1, 0), source.batch(2, 0))
    np.testing.assert_array_equal(source.batch(1, 3, slice(2, 5)), source.batch(1, 3)[2:5])


def test_a_row_of_a_decoder_is_a_document_between_two_marks():
    source = NextTokenDocuments(cache_of(split_of([3, 5, 1]), split_of([4, 2, 6])), 5, batch_size=3, eval_tokens=8)
    rows = source.batch(seed=1, step=0)
    assert sorted(map(tuple, rows.tolist())) == [
        (END, 0, 1, 2, END, END),
        (END, 3, 4, 5, 6, 7),  # of a document longer than the context the start
        (END, 8, END, END, END, END),
    ]
    scored = source.validation()
    assert scored.rows.tolist() == [[END, 0, 1, 2, 3, END], [END, 4, 5, END, END, END], [END] * 6]
    none = NO_DOCUMENT
    assert scored.documents.tolist() == [[0] * 5, [1, 1, 1, none, none], [none] * 5]
    np.testing.assert_array_equal(scored.weights, scored.documents != none)


@pytest.mark.parametrize(("context", "floor"), [(5, 30 / 8), (4, None)])
def test_the_floor_of_documents_is_known_where_each_fits(context, floor):
    cache = cache_of(split_of([1]), split_of([4, 2, 6]), nats=np.array([10.0, 20.0, 40.0]))
    assert NextTokenDocuments(cache, context, batch_size=2, eval_tokens=8).validation().floor == floor


def test_the_unigram_entropy_is_that_of_ordinary_tokens():
    split = Split("toy", np.array([END, 1, 1, 2, END, 3, 3, END], np.uint16), np.array([1, 5, 8]), 0)
    shares = np.array([2, 1, 2]) / 5
    expected = pytest.approx(-(shares * np.log(shares)).sum())
    assert DocumentRows(cache_of(split, split), 5, 4, 99).validation().unigram == expected
    # The end of text is an ordinary token here, since no special id is.
    shares = np.array([2, 1, 2, 2]) / 7
    packed = PackedRows(cache_of(split, split), 5, 4, 99).validation()
    assert packed.unigram == pytest.approx(-(shares * np.log(shares)).sum())


def test_labelled_rows_keep_the_end_of_what_is_too_long_and_carry_the_label():
    split = Split("s", np.array([9, 10, 11, 12, 13, 14, 9, 20, 9], np.uint16), np.array([1, 7, 9]), 0)
    known = Labels("task", ("no", "yes"), *[np.array([1, 0], np.int8)] * 2, np.array([0, 0], np.int8), "")
    cache = cache_of(split, split, labels=known)
    expected = [[101, 12, 13, 14, 102, 1], [101, 20, 102, 103, 103, 0]]
    source = LabelledRows(cache, context=5, batch_size=2, eval_tokens=99)
    assert source.validation().rows.tolist() == expected
    assert sorted(source.batch(4, 0).tolist()) == sorted(source.batch(4, 1).tolist()) == sorted(expected)
    assert LabelledRows(cache, 8, 2, 1).validation().rows[0].tolist() == [101, 10, 11, 12, 13, 14, 102, 103, 1]
    filled = LabelledRows(cache, 5, 3, 99).validation()
    assert filled.rows.tolist() == [*expected, [103] * 5 + [0]]
    assert filled.weights is not None and filled.weights.tolist() == [[1], [1], [0]]
    assert filled.majority == source.validation().majority
    assert filled.documents.tolist() == [[0], [1], [rows.NO_DOCUMENT]]
    assert source.test(2).rows[:, -1].tolist() == [0, 0], "the labels of the test split"


def test_the_majority_is_that_of_training_and_is_scored_on_validation():
    found = rows.majority(np.array([1] * 7 + [0] * 2), np.array([1, 0, 0, 0]), 2)
    assert (found.label, found.accuracy) == (1, 0.25)
    assert found.macro_f1 == pytest.approx((0 + 2 / 5) / 2)
    assert found.loss == pytest.approx(-(3 * np.log(3 / 11) + np.log(8 / 11)) / 4)
    only = rows.majority(np.array([0, 0]), np.array([0, 1]), 3)
    assert only.accuracy == 0.5 and np.isfinite(only.loss), "a class that training lacks is possible"
    assert only.macro_f1 == pytest.approx((2 / 3 + 0) / 2), "the third class neither occurs nor is answered"
    assert rows.majority(np.array([0]), np.array([1, 1]), 2).macro_f1 == 0


def test_the_trivial_loss_is_that_of_the_token_before_alone():
    rng = np.random.default_rng(0)
    # Each token is followed by one of two, so that the token before it tells a lot and not all.
    stream = [0]
    for step in rng.integers(2, size=20_000):
        stream.append((3 * stream[-1] + 1 + int(step)) % 30)
    train, held_out = text_of(stream[:15_000]), text_of(stream[15_000:])
    cache = cache_of(train, held_out, vocab_size=40)
    found = NextTokenRows(cache, 16, 4, eval_tokens=4000).validation().trivial
    assert found == pytest.approx(np.log(2), abs=0.01)
    # By the formula, one pair after the other.
    pairs = collections.Counter(zip(stream[:14_999], stream[1:15_000], strict=True))
    follows = collections.Counter(stream[1:15_000])

    def p(a, b):
        kinds = sum(pair[0] == a for pair in pairs)
        alone = (follows[b] + 1) / (14_999 + 40)
        return (pairs[a, b] + kinds * alone) / (sum(n for pair, n in pairs.items() if pair[0] == a) + kinds)

    table = {pair: -np.log(p(*pair)) for pair in set(zip(stream[15_000:-1], stream[15_001:], strict=True))}
    expected = np.mean([table[pair] for pair in zip(stream[15_000:-1], stream[15_001:], strict=True)])
    assert found == pytest.approx(expected, rel=1e-6)
    # A pair, or a token, that training lacks has a finite loss.
    strange = cache_of(train, text_of([35, 36, 35, 0, 0]), vocab_size=40)
    assert 3 < NextTokenRows(strange, 2, 1, eval_tokens=1).validation().trivial < 12
    # Where tokens have no order, none tells of another; test sets choose nothing and judge nothing.
    assert NextTokenRows(cache, 16, 4, 4000, corruption="shuffled").validation().trivial is None
    assert NextTokenRows(cache, 16, 4, 4000).test(4).trivial is None


def test_of_masked_tokens_and_of_documents_it_is_the_loss_without_context():
    held_out = split_of([5, 3, 9])
    for kind in (PackedRows, DocumentRows):
        found = kind(cache_of(split_of([20]), held_out), 8, 2, eval_tokens=10).validation()
        assert found.trivial == found.unigram
    labels = Labels("toy", ("no", "yes"), *(np.array(one, np.int8) for one in ([0, 1, 1], [1, 0, 1], [0])), hash="")
    found = LabelledRows(cache_of(split_of([4, 4, 4]), held_out, labels=labels), 8, 2, eval_tokens=10).validation()
    assert found.trivial == found.majority.loss
