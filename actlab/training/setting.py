"""All of a cohort that is known before it trains: its runs, model, costs and data."""

import dataclasses
from collections.abc import Sequence

from actlab import config as config_lib
from actlab import data, models
from actlab.config import Config
from actlab.data.cache import TokenCache
from actlab.data.tokenizer import Tokenizer
from actlab.errors import UserError
from actlab.training import feeds
from actlab.training.classes import Majority
from actlab.training.cohort import Lane, compute_dtype, lane_of
from actlab.training.loop import Feed
from actlab.training.objectives import Classification, MaskedToken, NextToken, Objective


@dataclasses.dataclass(frozen=True)
class Setting:
    """R runs that compile to one program.

    `floor` is the exact Bayes loss of the validation set, `unigram` the least loss that is had without context there,
    `majority` what a classifier that knows no document scores, each where it is known.
    """

    names: tuple[str, ...]
    configs: tuple[Config, ...]
    model: models.Model
    objective: Objective
    costs: models.Costs
    feed: Feed
    floor: float | None
    unigram: float | None
    majority: Majority | None = None

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
        data.resolve_name(wanted.name, wanted.dir, configs[0].finetune.task),
        wanted.dir,
        wanted.tokenizer,
        n_stories=wanted.n_stories,
        context=max(config.model.context for config in configs),
        vocab_size=min(sizes, default=None),
        task=configs[0].finetune.task,
    )


def resolve(config: Config, name: str, tokenizer: Tokenizer) -> Config:
    """The config of a run with what was left open filled in, for data of that name and tokenizer."""
    n_ids = tokenizer.vocab_size
    if config.model.kind == "encoder":
        n_ids = max(n_ids, tokenizer.specials.ids()[-1] + 1)
    vocab_size = config.model.vocab_size or -(-n_ids // 64) * 64
    d_ff = config.model.d_ff or 4 * config.model.d_model
    return config_lib.replace(config, **{"data.name": name, "model.vocab_size": vocab_size, "model.d_ff": d_ff})


def prepare(names: Sequence[str], configs: Sequence[Config], tokens: TokenCache) -> Setting:
    """The setting of resolved runs that share every static field.

    Raises:
        UserError: for text shorter than a window.
    """
    config = configs[0]
    model, objective = model_of(config), objective_of(config, tokens.tokenizer)
    costs = models.costs(model, objective.share(config.model.context))
    found = feeds.validation(config, tokens, objective)
    training = feeds.training(config, tokens, objective)
    feed = Feed(training, tuple(config.seed for config in configs), found.examples)
    known = (found.floor, found.unigram, found.majority)
    return Setting(tuple(names), tuple(configs), model, objective, costs, feed, *known)


def model_of(config: Config) -> models.Model:
    """The model of a config, an open vocabulary standing for the smallest; raises UserError as models.build."""
    known = dataclasses.replace(config.model, vocab_size=config.model.vocab_size or 2)
    return models.build(known, compute_dtype(config), config.finetune.swap)


def objective_of(config: Config, tokenizer: Tokenizer) -> Objective:
    """What a resolved config trains for.

    Raises:
        UserError: for an encoder with classes and no task, or one whose vocabulary has no room for the mask.
    """
    if config.model.kind == "decoder":
        return NextToken()
    if config.model.n_classes and not config.finetune.task:
        raise UserError(
            f"config.model.n_classes={config.model.n_classes} needs labels, which text has not: name a "
            "config.finetune.task, or set n_classes=0."
        )
    most = tokenizer.specials.ids()[-1]
    if config.model.vocab_size is not None and most >= config.model.vocab_size:
        raise UserError(
            f"config.model.vocab_size={config.model.vocab_size} has no room for the mask and padding of "
            f"data.tokenizer={config.data.tokenizer!r}: take {most + 1} or more, or leave it None."
        )
    if config.finetune.task:
        return Classification(tokenizer.specials.padding)
    padded = config.data.packing == "padded"
    return MaskedToken(tokenizer.specials, tokenizer.vocab_size, config.data.mask_fraction, padded)
