"""Replication: whether runs that were trained again, elsewhere or with other seeds, end where a study's runs did."""

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np
from scipy import stats

from actlab.errors import UserError
from actlab.studies.statistics import CONFIDENCE, Interval, prediction_interval
from actlab.studies.table import Result

_CHANCE = 0.01  # below it too few runs are inside for chance
_LIKE = ("objective", "data", "tokenizer", "parameters")
_LENGTH = ("steps", "tokens")  # of a run that did not diverge


@dataclasses.dataclass(frozen=True)
class Repeat:
    """A run trained again, and where the study's `n` runs of its kind lead one to expect its loss."""

    run: Result
    n: int
    expected: Interval

    @property
    def inside(self) -> bool:
        """Whether it ended there."""
        return self.expected.low <= self.run.loss <= self.expected.high


def repeats(study: Sequence[Result], again: Iterable[Result]) -> list[Repeat]:
    """Each run of `again` beside the study's runs of its activation, learning rate and further axes, whatever the seed.

    Raises:
        UserError: for a run that was stopped, of which the study has fewer than two, or that was trained otherwise.
    """
    return [_repeat(study, run) for run in again]


def chance(found: Sequence[Repeat]) -> float:
    """P(no more than these are inside), if each is with 95% probability, whatever the others are."""
    return float(stats.binom.cdf(sum(one.inside for one in found), len(found), CONFIDENCE))


def holds(found: Sequence[Repeat]) -> bool:
    """Whether as many are inside as chance leads one to expect."""
    return chance(found) >= _CHANCE


def _repeat(study: Sequence[Result], run: Result) -> Repeat:
    if run.status == "stopped":
        raise UserError(f"{run.run} was stopped before its end: let the same command go on.")
    kind = _kind(run)
    mine = [one for one in study if _kind(one) == kind and one.status != "stopped"]
    if len(mine) < 2:
        place = ", ".join([run.activation, f"learning rate {run.learning_rate:g}", *map("=".join, run.axes)])
        raise UserError(f"the study has {len(mine)} runs of {place}, and an interval takes two: repeat another.")
    for one in mine:
        _require_alike(run, one)
    return Repeat(run, len(mine), prediction_interval(np.array([one.loss for one in mine], np.float64)))


def _require_alike(run: Result, other: Result) -> None:
    whole = run.status == other.status == "finished"
    for what in (*_LIKE, *(_LENGTH if whole else ())):
        one, two = getattr(run, what), getattr(other, what)
        if one != two:
            raise UserError(f"{run.run} has {what} {one}, and the study's {other.run} {two}: train it by its config.")


def _kind(run: Result) -> tuple[object, ...]:
    return run.activation, run.learning_rate, run.axes
