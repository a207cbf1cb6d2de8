"""Pairs: whether one activation's loss is lower than another's, at each rate, at their own best, over the grid."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from actlab.errors import UserError, suggestion
from actlab.studies.comparison.grid import Grid
from actlab.studies.statistics import Effect, Judgement, judge, paired


class Question(NamedTuple):
    """Is the loss of `lower` lower than that of `higher`?"""

    lower: str
    higher: str

    def __str__(self) -> str:
        return f"{self.lower} < {self.higher}"


@dataclasses.dataclass(frozen=True)
class Pair:
    """The judgements on a question. Differences are `lower` minus `higher`: a negative one supports it."""

    question: Question
    own_best: Judgement
    at_rates: dict[float, Judgement]
    sensitivity: Judgement

    def as_dict(self) -> dict[str, Any]:
        """Everything about it, for JSON."""
        return {
            "question": str(self.question),
            "own_best": self.own_best.as_dict(),
            "at_rates": {repr(rate): judgement.as_dict() for rate, judgement in self.at_rates.items()},
            "lr_sensitivity": self.sensitivity.as_dict(),
        }


def parse_question(text: str, activations: Iterable[str]) -> Question:
    """Reads "gelu<relu"; raises UserError for another form or an activation that the table does not have."""
    names = [name.strip() for name in text.split("<")]
    if len(names) != 2 or not all(names):
        raise UserError(f"--question={text!r} is no question: write --question='gelu<relu', the lower loss first.")
    for name in names:
        if name not in activations:
            raise UserError(f"--question={text!r}: {name} is not in the table: {suggestion(name, activations)}")
    if names[0] == names[1]:
        raise UserError(f"--question={text!r} compares {names[0]} with itself: name two activations.")
    return Question(*names)


def every_question(order: Sequence[str]) -> list[Question]:
    """Each pair once, whoever comes first in the order as the lower one."""
    return [Question(*names) for names in itertools.combinations(order, 2)]


def judge_pairs(grid: Grid, questions: Sequence[Question], margin: float) -> list[Pair]:
    """The judgements on questions. Holm's families: questions at own best; questions times rates; sensitivities.

    Each pair must share a learning rate, as it does where all activations share one.
    """
    own_best = judge([own_best_effect(grid, question) for question in questions], margin)
    places = [(question, rate) for question in questions for rate in grid.rates(*question)]
    at_rates = dict(zip(places, judge([_at_rate(grid, *place) for place in places], margin), strict=True))
    sensitivity = judge([_sensitivity(grid, question) for question in questions], margin)
    return [
        Pair(question, best, {rate: at_rates[question, rate] for rate in grid.rates(*question)}, sensitive)
        for question, best, sensitive in zip(questions, own_best, sensitivity, strict=True)
    ]


def own_best_effect(grid: Grid, question: Question) -> Effect:
    """Each at its own best of the rates that both have, over the seeds that have them all.

    A rate chosen on all seeds flatters whoever has more level rates to choose from. Chosen for each seed on the others,
    it flatters nobody, but the scores hang together and a t test of them finds too much (twice its level for level
    rates). A difference must hold with both choices: `validity` shows the level kept, with no power lost where the best
    rate is clear.
    """
    rates = grid.rates(*question)
    seeds = grid.complete_seeds(rates, *question)
    reason = "" if any(grid.learned(name, rates, seeds) for name in question) else _nothing(seeds)
    one = paired(*_both(question, lambda name: grid.own_best(name, rates, seeds)), reason)
    other = paired(*_both(question, lambda name: grid.at_best_mean(name, rates, seeds)))
    also = other.differences if other.differences != one.differences else ()
    return _over(grid, question, dataclasses.replace(one, also=also))


def _at_rate(grid: Grid, question: Question, rate: float) -> Effect:
    seeds = grid.complete_seeds([rate], *question)
    learned = any(grid.learned(name, [rate], seeds) for name in question)
    return paired(*_both(question, lambda name: grid.losses(name, rate)), "" if learned else _nothing(seeds))


def _sensitivity(grid: Grid, question: Question) -> Effect:
    rates = grid.rates(*question)
    seeds = grid.complete_seeds(rates, *question)
    blank = [f"{name} with seed {seed}" for name in question for seed in seeds if not grid.learned(name, rates, [seed])]
    reason = f"{blank[0]} learned at no rate, where a sensitivity of 0 says nothing" if blank else ""
    if not seeds:
        reason = _nothing(seeds)
    if len(rates) == 1:
        return _over(grid, question, paired({}, {}, "one learning rate has no sensitivity"))
    return _over(grid, question, paired(*_both(question, lambda name: grid.sensitivities(name, rates, seeds)), reason))


def _both(question: Question, losses: Callable[[str], dict[int, float]]) -> tuple[dict[int, float], dict[int, float]]:
    return losses(question.lower), losses(question.higher)


def _over(grid: Grid, question: Question, effect: Effect) -> Effect:
    """With the seeds counted that lack a rate."""
    return dataclasses.replace(effect, left_out=len(grid.seeds(*question)) - effect.n)


def _nothing(seeds: Sequence[int]) -> str:
    return "every run of both diverged or learned nothing" if seeds else "no seed has a run of both at every rate"
