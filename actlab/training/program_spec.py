"""What is known of a program before it trains: its runs, model, objective, costs and data."""

import dataclasses
from collections.abc import Callable, Sequence

import jax
import numpy as np
from jaxtyping import Int32

from actlab import config as config_lib, data, models
from actlab.config import Config, loss_unit
from actlab.data.cache import TokenCache
from actlab.data.rows import Majority
from actlab.data.tokenizer_kinds import Tokenizer
from actlab.errors import UserError
from actlab.training.devices import compute_dtype
from actlab.training.losses import Examples
from actlab.training.objectives import Classification, MaskedToken, NextToken, Objective
from actlab.training.programs import Lane, lane_of


@dataclasses.dataclass(frozen=True)
class Feed:
    """The data of a program: the rows of a seed's batch at a step, the seeds of its lanes, validation and test set."""

    batch: Callable[[int, int, slice], Int32[np.ndarray, "b W"]]  # (seed, step, rows of the batch)
    seeds: tuple[int, ...]
    validation: Examples  # batches [N, B, ...]
    test: tuple[Examples, ...]  # pieces of that shape
    test_documents: Int32[np.ndarray, "M B K"]  # of each target of the pieces; NO_DOCUMENT where there is none

    def train(self, steps: range, lanes: slice, rows: slice) -> Int32[np.ndarray, "r K b W"]:
        """Training rows of some lanes and some rows of the batch."""
        # Lanes of one seed read the same rows.
        of_seed = {seed: np.stack([self.batch(seed, step, rows) for step in steps]) for seed in set(self.seeds[lanes])}
        return np.stack([of_seed[seed] for seed in self.seeds[lanes]])


@dataclasses.dataclass(frozen=True)
class ProgramSpec:
    """R runs that compile to one program.

    `floor`, `unigram`, `majority` and `trivial` are what is known about the validation set, see data.rows.Scored;
    `test_floor` and `test_majority` are those of the test set, and `bytes_per_token` and `test_bytes_per_token` are the
    mean lengths of their tokens.
    """

    names: tuple[str, ...]
    configs: tuple[Config, ...]
    model: models.Model
    objective: Objective
    costs: models.Costs
    feed: Feed
    floor: float | None
    unigram: float | None
    majority: Majority | None
    test_floor: float | None
    test_majority: Majority | None
    trivial: float | None
    bytes_per_token: float
    test_bytes_per_token: float

    @property
    def config(self) -> Config:
        """The first run's config; the others differ in traced fields only."""
        return self.configs[0]

    @property
    def unit(self) -> str:
        """The unit of its losses."""
        return loss_unit(self.config.objective, self.config.data.tokenizer)

    @property
    def lanes(self) -> list[Lane]:
        """The runs' traced fields."""
        return [lane_of(config) for config in self.configs]

    @property
    def flops(self) -> float:
        """FLOPs of all runs from step 0 to the end, by which progress over programs of different models is measured."""
        n_tokens = self.config.train.n_steps * self.config.data.batch_size * self.config.model.context
        return float(n_tokens * len(self.names) * self.costs.flops_per_token)

    def part(self, names: Sequence[str]) -> "ProgramSpec":
        """The spec of some of the runs, as a program of their own."""
        configs = tuple(self.configs[self.names.index(name)] for name in names)
        feed = dataclasses.replace(self.feed, seeds=tuple(config.seed for config in configs))
        return dataclasses.replace(self, names=tuple(names), configs=configs, feed=feed)


def open_data(configs: Sequence[Config]) -> TokenCache:
    """The text that all runs share, which is prepared if it has not been.

    Raises:
        UserError: for missing or unusable data, an unknown tokenizer, or a context longer than the text.
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
    """A run's config with its open fields filled in, for data of this name and tokenizer."""
    n_ids = tokenizer.vocab_size
    if config.model.kind == "encoder":
        n_ids = max(n_ids, tokenizer.specials.ids()[-1] + 1)
    # A multiple of 64, which matrix units prefer; the further ids never occur.
    vocab_size = config.model.vocab_size or -(-n_ids // 64) * 64
    d_ff = config.model.d_ff or 4 * config.model.d_model
    return config_lib.replace(config, **{"data.name": name, "model.vocab_size": vocab_size, "model.d_ff": d_ff})


def prepare(names: Sequence[str], configs: Sequence[Config], tokens: TokenCache) -> ProgramSpec:
    """The spec of resolved runs that share every static field.

    Raises:
        UserError: for text shorter than a window, or labels of one class.
    """
    config = configs[0]
    model, objective = model_of(config), objective_of(config, tokens.tokenizer)
    costs = models.costs(model, objective.share(config.model.context))
    source = objective.source(config, tokens)
    if (labels := tokens.labels) is not None and len(present := np.unique(labels.train)) == 1:
        raise UserError(
            f"config.finetune.task={labels.task!r}: all {len(labels.train):,} documents of the training split are "
            f"{labels.classes[present[0]]!r}, so that there is nothing to learn: take text that has every class."
        )
    found = source.validation()
    test = source.test(len(found.rows))
    cut = lambda array: array.reshape(-1, config.data.batch_size, *array.shape[1:])
    validation, tested = (jax.tree.map(cut, objective.scored(one.rows, one.weights)) for one in (found, test))
    n_batches = len(validation.tokens)
    pieces = range(0, len(tested.tokens), n_batches)
    feed = Feed(
        source.batch,
        tuple(config.seed for config in configs),
        validation,
        tuple(jax.tree.map(lambda array, first=first: array[first : first + n_batches], tested) for first in pieces),
        tested.of_targets(cut(test.documents)),
    )
    known = (found.floor, found.unigram, found.majority, test.floor, test.majority, found.trivial)
    # The first token of a split ends no document.
    lengths = (one.n_bytes / (len(one.tokens) - 1) for one in (tokens.validation, tokens.test))
    return ProgramSpec(tuple(names), tuple(configs), model, objective, costs, feed, *known, *lengths)


def model_of(config: Config) -> models.Model:
    """The model of a config, with the smallest vocabulary if it is open; raises UserError like models.build."""
    known = dataclasses.replace(config.model, vocab_size=config.model.vocab_size or 2)
    return models.build(known, compute_dtype(config), config.finetune.swap)


def objective_of(config: Config, tokenizer: Tokenizer) -> Objective:
    """The objective of a resolved config.

    Raises:
        UserError: for an encoder with classes and no task, one whose vocabulary has no room for the mask, or one whose
            tokenizer pads with a mark that stands in the text.
    """
    if config.model.kind == "decoder":
        return NextToken(tokenizer.end_of_text if config.data.packing == "padded" else None)
    if config.model.n_classes and not config.finetune.task:
        raise UserError(
            f"config.model.n_classes={config.model.n_classes} needs labels, but the data is plain text: set "
            "config.finetune.task, or n_classes=0."
        )
    specials = tokenizer.specials
    if specials.padding in (specials.first, specials.last, specials.unknown, specials.end):
        what = "of unknown words" if specials.padding == specials.unknown else "at the ends of documents"
        raise UserError(
            f"data.tokenizer={config.data.tokenizer!r} pads with the mark {what}, which an encoder must see: give it a "
            "pad_token of its own."
        )
    most = specials.ids()[-1]
    if config.model.vocab_size is not None and most >= config.model.vocab_size:
        raise UserError(
            f"config.model.vocab_size={config.model.vocab_size} has no room for the mask and padding of "
            f"data.tokenizer={config.data.tokenizer!r}: set it to {most + 1} or more, or leave it None."
        )
    if config.finetune.task:
        return Classification(tokenizer.specials.padding)
    padded = config.data.packing == "padded"
    return MaskedToken(tokenizer.specials, tokenizer.vocab_size, config.data.mask_fraction, padded)
