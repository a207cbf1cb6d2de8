"""What a cohort reads: the rows of every training step, and the validation set as examples, with its bounds."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Int32

from actlab.config import Config
from actlab.data import batches
from actlab.data.cache import TokenCache
from actlab.errors import UserError
from actlab.training import classes
from actlab.training.classes import Majority
from actlab.training.losses import Examples
from actlab.training.objectives import Classification, MaskedToken, NextToken, Objective

Rows = Int32[np.ndarray, "b W"]


class Validation(NamedTuple):
    """Batches [N, B], with what is known of them.

    Their exact Bayes loss, the least loss of who sees no other token, the scores of who knows the labels' shares alone.
    """

    examples: Examples
    floor: float | None = None
    unigram: float | None = None
    majority: Majority | None = None


def training(config: Config, tokens: TokenCache, objective: Objective) -> Callable[[int, int, slice], Rows]:
    """The rows of a seed, a step and a slice of the batch.

    Raises:
        UserError: for text shorter than a window.
    """
    context, batch_size, text = config.model.context, config.data.batch_size, tokens.train.tokens
    size = {"context": context, "batch_size": batch_size}

    def windows(seed: int, step: int, rows: slice) -> Rows:
        if config.data.corruption != "none":
            shape = (batch_size, context + 1)
            return _drawn(config, tokens, shape, seed, step)[rows]
        return batches.train_batch(text, **size, seed=seed, step=step, rows=rows)

    def packed(seed: int, step: int, rows: slice) -> Rows:
        found = windows(seed, step, rows)
        return found if isinstance(objective, NextToken) else found[:, 1:]

    def padded(seed: int, step: int, rows: slice) -> Rows:
        specials = tokens.tokenizer.specials
        return batches.train_documents(tokens.train, specials, **size, seed=seed, step=step, rows=rows)

    def labelled(seed: int, step: int, rows: slice) -> Rows:
        assert tokens.labels is not None
        text = (tokens.train, tokens.labels.train, tokens.tokenizer.specials)
        return batches.train_labelled(*text, **size, seed=seed, step=step, rows=rows)

    if isinstance(objective, Classification):
        batch = labelled
    else:
        batch = padded if config.data.packing == "padded" else packed
    batch(config.seed, 0, slice(1))  # raises, before a workdir is made
    return batch


def validation(config: Config, tokens: TokenCache, objective: Objective) -> Validation:
    """The validation set of an objective.

    Raises:
        UserError: for one without anything to predict.
    """
    if isinstance(objective, NextToken):
        return _windows(config, tokens, objective)
    if isinstance(objective, MaskedToken):
        return _masked(config, tokens, objective)
    assert isinstance(objective, Classification)
    return _labelled(config, tokens, objective)


def _windows(config: Config, tokens: TokenCache, objective: NextToken) -> Validation:
    windows, weights, floor = _packed(config, tokens)
    fill = -len(windows) % config.data.batch_size
    windows = np.concatenate([windows, np.repeat(windows[:1], fill, axis=0)])
    weights = np.concatenate([weights, np.zeros((fill, config.model.context), np.float32)])
    return Validation(_batched(config, objective.scored(windows, weights)), floor=floor)


def _masked(config: Config, tokens: TokenCache, objective: MaskedToken) -> Validation:
    padding = objective.specials.padding
    if config.data.packing == "padded":
        size = {"context": config.model.context, "n_tokens": config.train.eval_tokens}
        rows = batches.validation_documents(tokens.validation, objective.specials, **size)
    else:
        windows, weights, _ = _packed(config, tokens)
        rows = np.where(weights == 1, windows[:, 1:], padding).astype(np.int32)
    fill = ((0, -len(rows) % config.data.batch_size), (0, 0))
    examples = objective.scored(np.pad(rows, fill, constant_values=padding))
    if not examples.weights.any():
        raise UserError(
            f"config.data.mask_fraction={config.data.mask_fraction} chooses no token of the validation set: raise it, "
            "model.context or train.eval_tokens."
        )
    return Validation(_batched(config, examples), unigram=batches.unigram_entropy(rows, objective.specials))


def _labelled(config: Config, tokens: TokenCache, objective: Classification) -> Validation:
    assert tokens.labels is not None
    size = {"context": config.model.context, "n_tokens": config.train.eval_tokens}
    text = (tokens.validation, tokens.labels.validation, tokens.tokenizer.specials)
    rows = batches.validation_labelled(*text, **size)
    majority = classes.majority(tokens.labels.train, rows[:, -1], len(tokens.labels.classes))
    fill = -len(rows) % config.data.batch_size
    weights = np.pad(np.ones((len(rows), 1), np.float32), ((0, fill), (0, 0)))
    # Rows that fill the last batch have a class, since each must, and no token that is real.
    filler = np.full((fill, rows.shape[1]), tokens.tokenizer.specials.padding, rows.dtype)
    filler[:, -1] = 0
    rows = np.concatenate([rows, filler])
    return Validation(_batched(config, objective.scored(rows, weights)), majority=majority)


def _packed(config: Config, tokens: TokenCache) -> tuple[np.ndarray, np.ndarray, float | None]:
    """(windows, weights of their targets, the exact Bayes loss)."""
    size = {"context": config.model.context, "n_tokens": config.train.eval_tokens}
    windows, weights, n_documents = batches.validation_set(tokens.validation, **size)
    corruption = config.data.corruption
    if corruption == "none":
        return windows, weights, batches.bayes_loss(tokens, n_documents)
    windows = _drawn(config, tokens, windows.shape, batches.VALIDATION_SEED, 0)
    targets = windows[:, 1:][weights > 0]
    return windows, weights, batches.unordered_loss(tokens.train.tokens, corruption, targets, tokens.vocab_size)


def _drawn(config: Config, tokens: TokenCache, shape: tuple[int, ...], seed: int, step: int) -> np.ndarray:
    text, n_types = tokens.train.tokens, tokens.vocab_size
    return batches.unordered(text, config.data.corruption, shape=shape, n_types=n_types, seed=seed, step=step)


def _batched(config: Config, examples: Examples) -> Examples:
    cut = lambda array: array.reshape(-1, config.data.batch_size, *array.shape[1:])  # noqa: E731
    return jax.tree.map(cut, examples)
