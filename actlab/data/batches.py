"""Batches as pure functions: training rows of (seed, step), one fixed validation set, its floor.

Rows are windows of a stream of documents or, padded, one document each.
"""

import functools
import math

import numpy as np
from jaxtyping import Float32, Int8, Int32, Int64, UInt

from actlab.data.cache import Split, TokenCache
from actlab.data.tokenizer import Specials
from actlab.errors import UserError

VALIDATION_SEED = 2**64 - 1  # of drawn validation tokens: no run has it
# One permutation for each lane's seed, two where a batch straddles epochs; at 5 million windows one takes 20 MB.
KEPT_PERMUTATIONS = 64
_COUNTED = 2**24  # tokens counted at once


def train_batch(
    tokens: UInt[np.ndarray, "n_tokens"],
    *,
    context: int,
    batch_size: int,
    seed: int,
    step: int,
    rows: slice = slice(None),
) -> Int32[np.ndarray, "b {context}+1"]:
    """The batch of a step, or some `rows` of it: a process of many reads its own only.

    Non-overlapping windows are shuffled anew in each epoch, and each is seen once in it; a batch may straddle two.

    Raises:
      UserError: less text than one window, or a seed outside 64 bits.
    """
    windows = _chosen(_count_windows(tokens, context), batch_size=batch_size, seed=seed, step=step, rows=rows)
    return tokens[windows[:, None] * context + np.arange(context + 1)].astype(np.int32)


def train_documents(
    split: Split,
    specials: Specials,
    *,
    context: int,
    batch_size: int,
    seed: int,
    step: int,
    rows: slice = slice(None),
) -> Int32[np.ndarray, "b {context}"]:
    """As `train_batch`, of one document a row; see `document_rows`."""
    chosen = _chosen(split.n_documents, batch_size=batch_size, seed=seed, step=step, rows=rows)
    return document_rows(split, specials, chosen, context)


def validation_documents(
    split: Split, specials: Specials, *, context: int, n_tokens: int
) -> Int32[np.ndarray, "W {context}"]:
    """The documents of `validation_set` (as long as they are), one a row; raises UserError as it does."""
    _check_validation(context, n_tokens)
    return document_rows(split, specials, np.arange(_count_documents(split, n_tokens)), context)


def labelled_rows(
    split: Split, labels: Int8[np.ndarray, "n"], specials: Specials, documents: Int64[np.ndarray, "W"], context: int
) -> Int32[np.ndarray, "W {context}+1"]:
    """Each row: a document as `document_rows` has it, of one too long its end, and behind it its label."""
    rows_WL = document_rows(split, specials, documents, context, keep_end=True)
    return np.concatenate([rows_WL, labels[documents].astype(np.int32)[:, None]], axis=1)


def train_labelled(
    split: Split,
    labels: Int8[np.ndarray, "n"],
    specials: Specials,
    *,
    context: int,
    batch_size: int,
    seed: int,
    step: int,
    rows: slice = slice(None),
) -> Int32[np.ndarray, "b {context}+1"]:
    """As `train_documents`, with labels; see `labelled_rows`."""
    chosen = _chosen(split.n_documents, batch_size=batch_size, seed=seed, step=step, rows=rows)
    return labelled_rows(split, labels, specials, chosen, context)


def validation_labelled(
    split: Split, labels: Int8[np.ndarray, "n"], specials: Specials, *, context: int, n_tokens: int
) -> Int32[np.ndarray, "W {context}+1"]:
    """As `validation_documents`, with labels; raises UserError as it does."""
    _check_validation(context, n_tokens)
    return labelled_rows(split, labels, specials, np.arange(_count_documents(split, n_tokens)), context)


def document_rows(
    split: Split, specials: Specials, documents: Int64[np.ndarray, "W"], context: int, *, keep_end: bool = False
) -> Int32[np.ndarray, "W {context}"]:
    """Each row: the mark before a document, its tokens as far as they fit, the mark after it, padding.

    Of a document that does not fit the start is kept, or the end.
    """
    starts_W1 = split.starts[documents][:, None]
    lengths_W1 = split.starts[documents + 1][:, None] - 1 - starts_W1
    if keep_end:
        cut_W1 = np.maximum(lengths_W1 - (context - 2), 0)
        starts_W1, lengths_W1 = starts_W1 + cut_W1, lengths_W1 - cut_W1
    places_L = np.arange(context)[None, :]
    # Where the padding is, any token may be read.
    tokens_WL = split.tokens[np.minimum(starts_W1 + places_L - 1, len(split.tokens) - 1)].astype(np.int32)
    last_W1 = np.minimum(lengths_W1 + 1, context - 1)
    marked_WL = np.where(places_L == last_W1, specials.last, np.where(places_L > last_W1, specials.padding, tokens_WL))
    return np.where(places_L == 0, specials.first, marked_WL).astype(np.int32)


def validation_set(
    split: Split, *, context: int, n_tokens: int
) -> tuple[Int32[np.ndarray, "W {context}+1"], Float32[np.ndarray, "W {context}"], int]:
    """The first whole documents with at least `n_tokens` tokens in all (or every document), cut into windows.

    Returns the windows, the weight (1 or 0) of each target, and the number of documents: every token of these
    documents, end marks included, has weight 1 once; the rest of the last window is end-of-text of weight 0.

    Raises:
      UserError: `n_tokens` or `context` below one.
    """
    _check_validation(context, n_tokens)
    n_documents = _count_documents(split, n_tokens)
    stream = split.tokens[: split.starts[n_documents]].astype(np.int32)
    n_windows = -(-(len(stream) - 1) // context)
    padded = np.full(n_windows * context + 1, stream[0], np.int32)
    padded[: len(stream)] = stream
    windows = padded[np.arange(n_windows)[:, None] * context + np.arange(context + 1)]
    weights = (np.arange(n_windows * context) < len(stream) - 1).astype(np.float32)
    return windows, weights.reshape(n_windows, context), n_documents


def bayes_loss(cache: TokenCache, n_documents: int) -> float | None:
    """Loss in nats per token of the true distribution on the first validation documents; None where it is unknown.

    What is known is the entropy of the text; that of tokens from which the text does not follow is less.
    """
    if cache.validation_nats is None or not cache.tokenizer.lossless:
        return None
    n_targets = int(cache.validation.starts[n_documents]) - 1
    return float(cache.validation_nats[:n_documents].sum() / n_targets)


def unordered(
    tokens: UInt[np.ndarray, "n_tokens"], corruption: str, *, shape: tuple[int, ...], n_types: int, seed: int, step: int
) -> Int32[np.ndarray, "..."]:
    """Tokens without order, a function of (seed, step).

    "shuffled" draws each from a place of the text, so by its frequency there; "random" uniformly among `n_types`.
    """
    rng = np.random.Generator(np.random.Philox(key=np.array([seed, step], np.uint64)))
    if corruption == "random":
        return rng.integers(n_types, size=shape, dtype=np.int32)
    return tokens[rng.integers(len(tokens), size=shape)].astype(np.int32)


def unordered_loss(
    tokens: UInt[np.ndarray, "n_tokens"], corruption: str, targets: Int32[np.ndarray, "n"], n_types: int
) -> float:
    """Loss in nats per token of the distribution that `unordered` draws from, on targets that it drew."""
    if corruption == "random":
        return math.log(n_types)
    counts_V = np.zeros(n_types, np.int64)
    for part in np.array_split(tokens, -(-len(tokens) // _COUNTED)):
        counts_V += np.bincount(part, minlength=n_types)
    return float(-np.log(counts_V[targets] / len(tokens)).mean())


def unigram_entropy(rows: Int32[np.ndarray, "W L"], specials: Specials) -> float:
    """Entropy in nats of the ordinary tokens of rows: no loss is lower on them for who predicts without context."""
    counts = np.bincount(rows.reshape(-1))
    counts[[i for i in specials.ids() if i < len(counts)]] = 0
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def _check_validation(context: int, n_tokens: int) -> None:
    if n_tokens < 1 or context < 1:
        raise UserError(f"a validation set of {n_tokens} tokens with model.context={context} is empty: raise both.")


def _count_documents(split: Split, n_tokens: int) -> int:
    return min(int(np.searchsorted(split.starts, n_tokens + 1)), split.n_documents)


def _count_windows(tokens: np.ndarray, context: int) -> int:
    n_windows = (len(tokens) - 1) // context
    if n_windows < 1:
        place = getattr(tokens, "filename", None) or "the given text"
        raise UserError(
            f"{place} has {len(tokens)} tokens, too few for one window of model.context={context} and one more: "
            "lower model.context or take more text."
        )
    return n_windows


def _chosen(n: int, *, batch_size: int, seed: int, step: int, rows: slice) -> Int64[np.ndarray, "b"]:
    """Which of n things are the rows of a step's batch."""
    if not 0 <= seed < 1 << 64:
        raise UserError(f"seed={seed} is outside 0 to 2**64 - 1: take one inside.")
    first, last, _ = rows.indices(batch_size)
    return _windows(step * batch_size + first, last - first, n, seed)


def _windows(first: int, count: int, n_windows: int, seed: int) -> Int64[np.ndarray, "count"]:
    epochs, places = np.divmod(np.arange(first, first + count), n_windows)
    chosen = np.empty(count, np.int64)
    for epoch in range(int(epochs[0]), int(epochs[-1]) + 1):
        here = epochs == epoch
        chosen[here] = _permutation(seed, epoch, n_windows)[places[here]]
    return chosen


@functools.lru_cache(KEPT_PERMUTATIONS)
def _permutation(seed: int, epoch: int, n: int) -> UInt[np.ndarray, "n"]:
    # A tuple of Python integers would pass through float64 and confuse seeds above 2**53.
    key = np.array([seed, epoch], np.uint64)
    permutation = np.random.Generator(np.random.Philox(key=key)).permutation(n).astype(np.min_scalar_type(n))
    permutation.setflags(write=False)
    return permutation
