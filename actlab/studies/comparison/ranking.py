"""The ranking of activations at their own best learning rates, and which of them cannot be told apart."""

import dataclasses
import string
from collections.abc import Collection, Iterable, Sequence

from actlab.errors import UserError
from actlab.studies.comparison.grid import Grid
from actlab.studies.comparison.pairs import Question, every_question, own_best_effect
from actlab.studies.statistics import Effect, Interval, Judgement, Verdict, judge


@dataclasses.dataclass(frozen=True)
class Standing:
    """An activation's place. Loss and sensitivity are means over `seeds` complete seeds, nats, with t intervals.

    `best_rate` has the lowest mean loss; `loss` is taken at the rate that the other seeds choose (`Grid.own_best`), its
    interval spans both choices.
    Activations that share a group cannot be told apart. What one seed or one rate cannot tell is None.
    """

    activation: str
    best_rate: float | None
    loss: float | None
    interval: Interval | None
    sensitivity: float | None
    sensitivity_interval: Interval | None
    seeds: int
    runs: int
    failed: int  # runs that diverged, or ended no lower than they began
    groups: tuple[str, ...] = ()


def rank(grid: Grid, margin: float) -> tuple[list[Standing], dict[Question, Judgement]]:
    """Standings, lowest loss first, and the judgements on all pairs at own best, Holm over the pairs.

    The rates are those that all activations have, so that each chose among as many.

    Raises:
        UserError: for activations that share no learning rate.
    """
    rates = grid.rates(*grid.activations)
    if not rates:
        raise UserError(f"{', '.join(grid.activations)} share no learning rate: train them at the same ones.")
    standings = sorted((_standing(grid, name, rates) for name in grid.activations), key=_order)
    order = [standing.activation for standing in standings]
    questions = every_question(order)
    judged = dict(
        zip(questions, judge([own_best_effect(grid, question) for question in questions], margin), strict=True)
    )
    groups = letters(order, [question for question, one in judged.items() if _differ(one)])
    return [dataclasses.replace(one, groups=groups[one.activation]) for one in standings], judged


def letters(order: Sequence[str], different: Iterable[Collection[str]]) -> dict[str, tuple[str, ...]]:
    """Groups a, b, ... such that two names share one if and only if they are not in `different`.

    Insert and absorb; Piepho 2004, doi:10.1198/1061860043515.
    """
    groups = [frozenset(order)]
    for pair in different:
        one, other = pair
        split = [part for group in groups if {one, other} <= group for part in (group - {one}, group - {other})]
        kept = [group for group in groups if not {one, other} <= group]
        groups = _largest([*kept, *split])
    groups.sort(key=lambda group: [order.index(name) for name in sorted(group, key=order.index)])
    return {name: tuple(_label(index) for index, group in enumerate(groups) if name in group) for name in order}


def _largest(groups: Iterable[frozenset[str]]) -> list[frozenset[str]]:
    unique = list(dict.fromkeys(groups))
    return [group for group in unique if not any(group < other for other in unique)]


def _label(index: int) -> str:
    more, letter = divmod(index, 26)
    return (_label(more - 1) if more else "") + string.ascii_lowercase[letter]


def _differ(judgement: Judgement) -> bool:
    return judgement.verdict in (Verdict.SUPPORTED, Verdict.REFUTED)


def _order(standing: Standing) -> tuple[bool, float, str]:
    return standing.loss is None, standing.loss or 0.0, standing.activation


def _standing(grid: Grid, name: str, rates: Sequence[float]) -> Standing:
    seeds = grid.complete_seeds(rates, name)
    chosen = (grid.own_best(name, rates, seeds), grid.at_best_mean(name, rates, seeds))
    loss = Effect(tuple(chosen[0].values()), also=tuple(chosen[1].values()))
    sensitivity = Effect(tuple(grid.sensitivities(name, rates, seeds).values()) if len(rates) > 1 else ())
    scores = [score for at_rate in grid.scores[name].values() for score in at_rate.values()]
    best = grid.best_rate(name, rates, seeds) if seeds else None
    failed = sum(not score.learned for score in scores)
    means = (loss.mean, loss.interval, sensitivity.mean, sensitivity.interval)
    return Standing(name, best, *means, len(seeds), len(scores), failed)
