"""All of a cohort that is known before it trains: its runs, model, costs and data."""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int32

from actlab import config as config_lib
from actlab import data, models
from actlab.config import Config
from actlab.data import batches
from actlab.data.cache import TokenCache
from actlab.errors import UserError
from actlab.training.cohort import Lane, compute_dtype, lane_of
from actlab.training.loop import Feed


@dataclasses.dataclass(frozen=True)
class Setting:
    """R runs that compile to one program. `floor` is the exact Bayes loss of the validation set, where it is known."""

    names: tuple[str, ...]
    configs: tuple[Config, ...]
    model: models.Model
    costs: models.Costs
    feed: Feed
    floor: float | None

    @property
    def config(self) -> Config:
        """Of the first run; the others differ in traced fields only."""
        return self.configs[0]

    @property
    def lanes(self) -> list[Lane]:
        """The runs' traced fields."""
        return [lane_of(config) for config in self.configs]

    def part(self, names: Sequence[str]) -> "Setting":
        """Some of the runs, as a cohort of their own."""
        configs = tuple(self.configs[self.names.index(name)] for name in names)
        feed = dataclasses.replace(self.feed, seeds=tuple(config.seed for config in configs))
        return dataclasses.replace(self, names=tuple(names), configs=configs, feed=feed)


def open_data(configs: Sequence[Config]) -> TokenCache:
    """The text that all runs share, prepared where needed.

    Raises:
        UserError: for whatever is wrong with the data, the tokenizer or a context that the text cannot fill.
    """
    wanted = configs[0].data
    sizes = [config.model.vocab_size for config in configs if config.model.vocab_size is not None]
    return data.open_tokens(
        data.resolve_name(wanted.name, wanted.dir),
        wanted.dir,
        wanted.tokenizer,
        n_stories=wanted.n_stories,
        context=max(config.model.context for config in configs),
        vocab_size=min(sizes, default=None),
    )


def resolve(config: Config, name: str, n_tokens: int) -> Config:
    """The config of a run with what was left open filled in, for data of that name and `n_tokens` different tokens."""
    vocab_size = config.model.vocab_size or -(-n_tokens // 64) * 64
    d_ff = config.model.d_ff or 4 * config.model.d_model
    return config_lib.replace(config, **{"data.name": name, "model.vocab_size": vocab_size, "model.d_ff": d_ff})


def prepare(names: Sequence[str], configs: Sequence[Config], tokens: TokenCache) -> Setting:
    """The setting of resolved runs that share every static field.

    Raises:
        UserError: for text shorter than a window.
    """
    config = configs[0]
    if config.model.kind == "encoder":
        raise UserError("config.model.kind='encoder' has no objective yet: take 'decoder'.")
    model = models.build(config.model, compute_dtype(config))
    feed, floor = _feed(config, [config.seed for config in configs], tokens)
    return Setting(tuple(names), tuple(configs), model, models.costs(model), feed, floor)


def _feed(config: Config, seeds: Sequence[int], tokens: TokenCache) -> tuple[Feed, float | None]:
    context, batch_size = config.model.context, config.data.batch_size
    text, corruption = tokens.train.tokens, config.data.corruption
    drawn = functools.partial(batches.unordered, text, corruption, n_types=tokens.vocab_size)

    def batch(seed: int, step: int, rows: slice) -> Int32[np.ndarray, "B L1"]:
        if corruption != "none":
            return drawn(shape=(batch_size, context + 1), seed=seed, step=step)[rows]
        return batches.train_batch(text, context=context, batch_size=batch_size, seed=seed, step=step, rows=rows)

    batch(config.seed, 0, slice(1))  # raises, before a workdir is made, if the text is shorter than a window
    windows, weights, n_documents = batches.validation_set(
        tokens.validation, context=context, n_tokens=config.train.eval_tokens
    )
    floor = batches.bayes_loss(tokens, n_documents)
    if corruption != "none":
        windows = drawn(shape=windows.shape, seed=batches.VALIDATION_SEED, step=0)
        targets = windows[:, 1:][weights > 0]
        floor = batches.unordered_loss(text, corruption, targets, tokens.vocab_size)
    fill = -len(windows) % batch_size
    windows = np.concatenate([windows, np.repeat(windows[:1], fill, axis=0)])
    weights = np.concatenate([weights, np.zeros((fill, context), np.float32)])
    shape = (-1, batch_size)
    feed = Feed(batch, tuple(seeds), windows.reshape(*shape, context + 1), weights.reshape(*shape, context))
    return feed, floor
