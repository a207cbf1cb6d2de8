"""Rows of token ids, one source per objective: training batches, validation and test set, and what is known of these.

A batch is a pure function of (seed, step): a resumed run, another lane and another process read the same rows. In each
epoch every window or document is read once, in an order drawn from (seed, epoch); a batch may straddle two epochs.
"""

import abc
import dataclasses
import math
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Int, Int32, Int64, Shaped, UInt

from actlab.data.cache import Split, TokenCache
from actlab.data.tokenizer_kinds import Specials
from actlab.errors import UserError

DRAWN_SEED = 2**64 - 1  # for drawn validation and test tokens; the seeds of runs are smaller
# Of permutations, one per lane's seed, or two where a batch straddles epochs: each takes 20 MB at 5 million windows.
KEPT_BYTES = 2 << 30
_COUNTED = 2**24  # tokens counted at once

NO_DOCUMENT = -1

Rows = Int32[np.ndarray, "b W"]
HeldOut = Literal["validation", "test"]
ALL = slice(None)


class Majority(NamedTuple):
    """Scores of the baseline that ignores the text.

    It always answers the most frequent class of the training set, and predicts the training shares of the classes.
    """

    label: int
    accuracy: float
    macro_f1: float
    loss: float  # nats per document


class Scored(NamedTuple):
    """The rows of a split that every run is evaluated on, and what is known about the loss there.

    The last rows may be filler, which has no weight, so that their number is a multiple of the batch size.
    """

    rows: Int32[np.ndarray, "n W"]
    weights: Float32[np.ndarray, "n K"] | None  # of the targets; None where the objective draws them
    documents: Int32[np.ndarray, "n K"]  # of each target, or of each token where targets are drawn; NO_DOCUMENT: filler
    floor: float | None = None  # the exact Bayes loss, in nats per prediction
    unigram: float | None = None  # the unigram entropy, in nats: the lowest loss of a prediction without context
    majority: Majority | None = None
    trivial: float | None = None  # of validation, what a run must be better than: see bigram_loss, unigram, majority


@dataclasses.dataclass(frozen=True)
class RowSource(abc.ABC):
    """Rows for one objective, from the tokens of a dataset."""

    cache: TokenCache
    context: int
    batch_size: int
    eval_tokens: int  # a split is scored on its first whole documents that have at least so many tokens

    @abc.abstractmethod
    def batch(self, seed: int, step: int, rows: slice = ALL) -> Rows:
        """The training batch of a step, or some rows of it: each of several processes reads its own only."""

    def validation(self) -> Scored:
        """The validation set, the same for every seed: learning rates are chosen on it."""
        return self._scored("validation", self.batch_size)

    def test(self, multiple: int) -> Scored:
        """The test set, which chooses nothing: differences are read on it. It is filled up to a multiple of rows.

        With as many rows as validation has, or a multiple, one compiled function evaluates both.
        """
        return self._scored("test", multiple)

    @abc.abstractmethod
    def _scored(self, split: HeldOut, multiple: int) -> Scored:
        """The rows of a split that is held out, filled up to a multiple."""

    def _shuffled(self, n: int, seed: int, step: int, rows: slice) -> Int64[np.ndarray, "b"]:
        """Which of n windows or documents are the rows of a step's batch."""
        first, last, _ = rows.indices(self.batch_size)
        epochs, places = np.divmod(np.arange(first, last) + step * self.batch_size, n)
        chosen = np.empty(last - first, np.int64)
        for epoch in range(int(epochs[0]), int(epochs[-1]) + 1):
            here = epochs == epoch
            chosen[here] = _permutation(seed, epoch, n)[places[here]]
        return chosen

    def _held_out(self, split: HeldOut) -> tuple[Split, int]:
        """The tokens of a split, and how many of its documents are scored."""
        tokens: Split = getattr(self.cache, split)
        return tokens, min(int(np.searchsorted(tokens.starts, self.eval_tokens + 1)), tokens.n_documents)


@dataclasses.dataclass(frozen=True)
class NextTokenRows(RowSource):
    """For predicting the next token: non-overlapping windows of the packed text, each with the token after it.

    With a `corruption` tokens have no order: "shuffled" draws each one by its frequency in the training text,
    "random" draws them uniformly.
    """

    corruption: str = "none"

    def __post_init__(self) -> None:
        text = self.cache.train.tokens
        if self.corruption == "none" and len(text) <= self.context:
            raise UserError(
                f"{self.cache.train.name} has {len(text)} tokens, too few for one window of model.context="
                f"{self.context} and the token after it: lower model.context or take more text."
            )

    def batch(self, seed: int, step: int, rows: slice = ALL) -> Rows:
        """See RowSource."""
        if self.corruption != "none":
            return self._drawn((self.batch_size, self.context + 1), seed, step)[rows]
        text = self.cache.train.tokens
        windows = self._shuffled((len(text) - 1) // self.context, seed, step, rows)
        return text[windows[:, None] * self.context + np.arange(self.context + 1)].astype(np.int32)

    def _scored(self, split: HeldOut, multiple: int) -> Scored:
        """See RowSource. Filler is the first window again, with weight 0."""
        windows, documents = self._scored_windows(split)
        floor = self._floor(split, windows, documents)
        documents = _filled(documents, NO_DOCUMENT, multiple)
        filler = np.repeat(windows[:1], len(documents) - len(windows), axis=0)
        weights = (documents != NO_DOCUMENT).astype(np.float32)
        rows = np.concatenate([windows, filler])
        ordered = split == "validation" and self.corruption == "none"
        trivial = bigram_loss(self.cache, rows, documents) if ordered else None
        return Scored(rows, weights, documents, floor=floor, trivial=trivial)

    def _scored_windows(
        self, split: HeldOut
    ) -> tuple[Int32[np.ndarray, "n {self.context}+1"], Int32[np.ndarray, "n L"]]:
        """The documents cut into windows, and the document of each target.

        Every token of the documents, end marks included, is a target once; the rest of the last window is end of text
        and of no document.
        """
        (tokens, n_documents), context = self._held_out(split), self.context
        stream = tokens.tokens[: tokens.starts[n_documents]].astype(np.int32)
        n_windows = -(-(len(stream) - 1) // context)
        padded = np.full(n_windows * context + 1, stream[0], np.int32)
        padded[: len(stream)] = stream
        windows = padded[np.arange(n_windows)[:, None] * context + np.arange(context + 1)]
        documents = np.full(n_windows * context, NO_DOCUMENT, np.int32)
        documents[: len(stream) - 1] = np.repeat(np.arange(n_documents), np.diff(tokens.starts[: n_documents + 1]))
        if self.corruption != "none":
            windows = self._drawn(windows.shape, DRAWN_SEED, ("validation", "test").index(split))
        return windows, documents.reshape(n_windows, context)

    def _floor(self, split: HeldOut, windows: Rows, documents: Int32[np.ndarray, "n L"]) -> float | None:
        """Loss of the true distribution, in nats per prediction; None where it is unknown."""
        cache = self.cache
        if self.corruption == "random":
            return math.log(cache.vocab_size)
        if self.corruption == "shuffled":
            # The frequencies that `_drawn` draws from, on the targets that it drew.
            counts_V = np.zeros(cache.vocab_size, np.int64)
            for part in np.array_split(cache.train.tokens, -(-len(cache.train.tokens) // _COUNTED)):
                counts_V += np.bincount(part, minlength=cache.vocab_size)
            return float(-np.log(counts_V[windows[:, 1:][documents != NO_DOCUMENT]] / len(cache.train.tokens)).mean())
        # The entropy of a text is that of its tokens only where the text follows from them.
        tokens, n_documents = self._held_out(split)
        if tokens.nats is None or not cache.tokenizer.lossless:
            return None
        n_targets = int(tokens.starts[n_documents]) - 1
        return float(tokens.nats[:n_documents].sum() / n_targets)

    def _drawn(self, shape: tuple[int, ...], seed: int, step: int) -> Int32[np.ndarray, "..."]:
        """Tokens without order, a function of (seed, step)."""
        rng = np.random.Generator(np.random.Philox(key=np.array([seed, step], np.uint64)))
        if self.corruption == "random":
            return rng.integers(self.cache.vocab_size, size=shape, dtype=np.int32)
        text = self.cache.train.tokens
        return text[rng.integers(len(text), size=shape)].astype(np.int32)


@dataclasses.dataclass(frozen=True)
class NextTokenDocuments(RowSource):
    """For predicting the next token: one document a row, between two end-of-text marks, and such marks as padding.

    Every target is seen with the whole of its document before it, so that a loss can reach the entropy of documents.
    Of a document longer than the context the start is kept.
    """

    def batch(self, seed: int, step: int, rows: slice = ALL) -> Rows:
        """See RowSource."""
        split = self.cache.train
        return self._rows(split, self._shuffled(split.n_documents, seed, step, rows))[0]

    def _rows(
        self, split: Split, documents: Int64[np.ndarray, "n"]
    ) -> tuple[Int32[np.ndarray, "n {self.context}+1"], Bool[np.ndarray, "n {self.context}"]]:
        """The rows, and which of their targets are of the document."""
        starts_W1, ends_W1 = split.starts[documents][:, None], split.starts[documents + 1][:, None]
        places_WL = starts_W1 - 1 + np.arange(self.context + 1)[None, :]
        tokens_WL = split.tokens[np.minimum(places_WL, len(split.tokens) - 1)].astype(np.int32)
        inside_WL = places_WL < ends_W1
        return np.where(inside_WL, tokens_WL, np.int32(self.cache.tokenizer.end_of_text)), inside_WL[:, 1:]

    def _scored(self, split: HeldOut, multiple: int) -> Scored:
        """See RowSource. Filler is padding."""
        tokens, n_documents = self._held_out(split)
        numbers = np.arange(n_documents)
        rows, inside = self._rows(tokens, numbers)
        documents = np.where(inside, numbers[:, None], NO_DOCUMENT).astype(np.int32)
        whole = bool(np.diff(tokens.starts[: n_documents + 1]).max() <= self.context)
        floor = None
        if tokens.nats is not None and self.cache.tokenizer.lossless and whole:
            floor = float(tokens.nats[:n_documents].sum() / inside.sum())
        rows = _filled(rows, self.cache.tokenizer.end_of_text, multiple)
        documents = _filled(documents, NO_DOCUMENT, multiple)
        trivial = bigram_loss(self.cache, rows, documents) if split == "validation" else None
        return Scored(rows, (documents != NO_DOCUMENT).astype(np.float32), documents, floor=floor, trivial=trivial)


@dataclasses.dataclass(frozen=True)
class PackedRows(NextTokenRows):
    """For masked tokens: windows of the packed text, the tokens that NextTokenRows has as targets."""

    def batch(self, seed: int, step: int, rows: slice = ALL) -> Rows:
        """See RowSource."""
        return super().batch(seed, step, rows)[:, 1:]

    def _scored(self, split: HeldOut, multiple: int) -> Scored:
        """See RowSource. Filler is padding."""
        windows, documents = self._scored_windows(split)
        specials = self.cache.tokenizer.specials
        rows = np.where(documents != NO_DOCUMENT, windows[:, 1:], specials.padding).astype(np.int32)
        rows, documents = _filled(rows, specials.padding, multiple), _filled(documents, NO_DOCUMENT, multiple)
        unigram = unigram_entropy(rows, specials)
        return Scored(rows, None, documents, unigram=unigram, trivial=unigram)


@dataclasses.dataclass(frozen=True)
class DocumentRows(RowSource):
    """For masked tokens: one document a row, cut or padded to the context."""

    def batch(self, seed: int, step: int, rows: slice = ALL) -> Rows:
        """See RowSource."""
        split = self.cache.train
        chosen = self._shuffled(split.n_documents, seed, step, rows)
        return document_rows(split, self.cache.tokenizer.specials, chosen, self.context)

    def _scored(self, split: HeldOut, multiple: int) -> Scored:
        """See RowSource. Filler is padding."""
        (tokens, n_documents), specials = self._held_out(split), self.cache.tokenizer.specials
        numbers = np.arange(n_documents)
        rows = _filled(document_rows(tokens, specials, numbers, self.context), specials.padding, multiple)
        documents = _filled(np.repeat(numbers[:, None].astype(np.int32), self.context, axis=1), NO_DOCUMENT, multiple)
        documents = np.where(rows == specials.padding, np.int32(NO_DOCUMENT), documents)
        unigram = unigram_entropy(rows, specials)
        return Scored(rows, None, documents, unigram=unigram, trivial=unigram)


@dataclasses.dataclass(frozen=True)
class LabelledRows(RowSource):
    """For classification: one document a row, the end of a document that is too long, and behind it its label."""

    def batch(self, seed: int, step: int, rows: slice = ALL) -> Rows:
        """See RowSource."""
        chosen = self._shuffled(self.cache.train.n_documents, seed, step, rows)
        return self._labelled("train", chosen)

    def _scored(self, split: HeldOut, multiple: int) -> Scored:
        """See RowSource. Filler is padding with the label 0, since every row must have a class."""
        _, n_documents = self._held_out(split)
        numbers = np.arange(n_documents)
        rows = self._labelled(split, numbers)
        assert self.cache.labels is not None
        known = majority(self.cache.labels.train, rows[:, -1], len(self.cache.labels.classes))
        documents = _filled(numbers[:, None].astype(np.int32), NO_DOCUMENT, multiple)
        rows = _filled(rows, self.cache.tokenizer.specials.padding, multiple)
        rows[n_documents:, -1] = 0
        weights = (documents != NO_DOCUMENT).astype(np.float32)
        return Scored(rows, weights, documents, majority=known, trivial=known.loss)

    def _labelled(self, split: str, documents: Int64[np.ndarray, "n"]) -> Rows:
        assert self.cache.labels is not None
        labels = getattr(self.cache.labels, split)[documents].astype(np.int32)
        specials = self.cache.tokenizer.specials
        rows = document_rows(getattr(self.cache, split), specials, documents, self.context, keep_end=True)
        return np.concatenate([rows, labels[:, None]], axis=1)


def document_rows(
    split: Split, specials: Specials, documents: Int64[np.ndarray, "n"], context: int, *, keep_end: bool = False
) -> Int32[np.ndarray, "n {context}"]:
    """Each row: the first mark, a document's tokens as far as they fit, the last mark, padding.

    Of a document that does not fit the start is kept, or the end.
    """
    starts_W1 = split.starts[documents][:, None]
    lengths_W1 = split.starts[documents + 1][:, None] - 1 - starts_W1
    if keep_end:
        cut_W1 = np.maximum(lengths_W1 - (context - 2), 0)
        starts_W1, lengths_W1 = starts_W1 + cut_W1, lengths_W1 - cut_W1
    places_L = np.arange(context)[None, :]
    # Places behind the document read some token, which padding replaces below; the last index keeps them in bounds.
    tokens_WL = split.tokens[np.minimum(starts_W1 + places_L - 1, len(split.tokens) - 1)].astype(np.int32)
    last_W1 = np.minimum(lengths_W1 + 1, context - 1)
    marked_WL = np.where(places_L == last_W1, specials.last, np.where(places_L > last_W1, specials.padding, tokens_WL))
    return np.where(places_L == 0, specials.first, marked_WL).astype(np.int32)


def _filled(rows: Shaped[np.ndarray, "n W"], value: int, multiple: int) -> Shaped[np.ndarray, "m W"]:
    """Rows of one value are added up to a multiple."""
    return np.pad(rows, ((0, -len(rows) % multiple), (0, 0)), constant_values=value)


def bigram_loss(cache: TokenCache, rows: Rows, documents: Int32[np.ndarray, "b K"]) -> float:
    """Loss in nats per token of predicting each target from the token before it alone, by counts of the training text.

    p(b | a) = (c(a b) + t(a) p(b)) / (c(a) + t(a)) with t(a) the number of tokens that follow a, and p(b) from the
    counts of all tokens, one added to each; Witten and Bell 1991, method C, as Chen and Goodman 1999 interpolate it.
    """
    (pairs, counts), n_ids = cache.bigrams, cache.vocab_size
    follows_V = np.bincount(pairs % n_ids, counts, n_ids) + 1
    seen_V, kinds_V = np.bincount(pairs // n_ids, counts, n_ids), np.bincount(pairs // n_ids, minlength=n_ids)
    scored = documents != NO_DOCUMENT
    before, target = rows[:, :-1][scored].astype(np.int64), rows[:, 1:][scored].astype(np.int64)
    wanted = before * n_ids + target
    places = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
    found = np.where(pairs[places] == wanted, counts[places], 0)
    alone, kinds = (follows_V / follows_V.sum())[target], np.maximum(kinds_V[before], 1)
    return float(-np.log((found + kinds * alone) / (seen_V[before] + kinds)).mean())


def unigram_entropy(rows: Rows, specials: Specials) -> float:
    """Entropy in nats of the ordinary tokens of rows."""
    counts = np.bincount(rows.reshape(-1))
    counts[[i for i in specials.ids() if i < len(counts)]] = 0
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def majority(train: Int[np.ndarray, "n"], scored: Int[np.ndarray, "m"], n_classes: int) -> Majority:
    """The baseline of training labels on the labels of another split.

    Its probabilities count one document more of each class, so that a class that training lacks has a finite loss.
    """
    counts = np.bincount(train, minlength=n_classes)
    found = np.bincount(scored, minlength=n_classes)
    label, n = int(counts.argmax()), found.sum()
    # F1 = 2 TP / (2 TP + FP + FN) is 0 for the other classes, and undefined for those that do not occur.
    f1 = 2 * found[label] / (n + found[label])
    shares = (counts + 1) / (counts.sum() + n_classes)
    loss = float(-(found * np.log(shares)).sum() / n)
    return Majority(label, float(found[label] / n), float(f1 / np.count_nonzero(found)), loss)


_kept: dict[tuple[int, int, int], UInt[np.ndarray, "n"]] = {}  # the one used last is at the end


def _permutation(seed: int, epoch: int, n: int) -> UInt[np.ndarray, "n"]:
    known = _kept.pop((seed, epoch, n), None)
    permutation = _drawn_permutation(seed, epoch, n) if known is None else known
    if known is None:
        size = permutation.nbytes + sum(one.nbytes for one in _kept.values())
        while _kept and size > KEPT_BYTES:
            size -= _kept.pop(next(iter(_kept))).nbytes
    _kept[seed, epoch, n] = permutation
    return permutation


def _drawn_permutation(seed: int, epoch: int, n: int) -> UInt[np.ndarray, "n"]:
    # A tuple of Python integers would pass through float64 and confuse seeds above 2**53.
    key = np.array([seed, epoch], np.uint64)
    permutation = np.random.Generator(np.random.Philox(key=key)).permutation(n).astype(np.min_scalar_type(n))
    permutation.setflags(write=False)
    return permutation
