"""Replication: whether runs that were trained again, elsewhere or with other seeds, end where a study's runs did."""

import dataclasses
import functools
from collections.abc import Iterable, Sequence

import numpy as np

from actlab.errors import UserError
from actlab.studies.statistics import Interval, holm, prediction_interval, prediction_p
from actlab.studies.table import Result

_CHANCE = 0.01  # a run this far away, after Holm, is none of the study's kind
_LIKE = ("objective", "data", "data_fingerprint", "tokenizer", "parameters")
_LENGTH = ("steps", "tokens")  # of a run that did not diverge


@dataclasses.dataclass(frozen=True)
class Repeat:
    """A run trained again beside the losses of the study's runs of its kind."""

    run: Result
    losses: tuple[float, ...]

    @functools.cached_property
    def expected(self) -> Interval:
        """Where 95% of further seeds fall."""
        return prediction_interval(np.array(self.losses, np.float64))

    @property
    def inside(self) -> bool:
        """Whether it ended there."""
        return self.expected.low <= self.run.loss <= self.expected.high

    @property
    def p(self) -> float:
        """Two-sided p of a further seed as far away."""
        return prediction_p(np.array(self.losses, np.float64), self.run.loss)


@dataclasses.dataclass(frozen=True)
class Replication:
    """Runs trained again. Holm's correction holds however the runs hang together, as those of one kind do."""

    repeats: tuple[Repeat, ...]

    @property
    def p(self) -> float:
        """Of the run that is farthest away, after Holm over the runs."""
        return min(holm([one.p for one in self.repeats]))

    @property
    def holds(self) -> bool:
        """Whether none is farther away than chance explains."""
        return self.p > _CHANCE


def compare(study: Sequence[Result], again: Iterable[Result]) -> Replication:
    """Each run of `again` beside the study's runs of its activation, learning rate and further axes, whatever the seed.

    Raises:
        UserError: for a run that was stopped, of which the study has fewer than two, or that was trained otherwise.
    """
    return Replication(tuple(_repeat(study, run) for run in again))


def _repeat(study: Sequence[Result], run: Result) -> Repeat:
    if not run.done:
        raise UserError(f"{run.run} is not trained to its end: let the same command go on.")
    kind = _kind(run)
    mine = [one for one in study if _kind(one) == kind and one.done]
    if len(mine) < 2:
        place = ", ".join([run.activation, f"learning rate {run.learning_rate:g}", *map("=".join, run.axes)])
        raise UserError(f"the study has {len(mine)} runs of {place}, and an interval takes two: repeat another.")
    for one in mine:
        _require_alike(run, one)
    return Repeat(run, tuple(one.loss for one in mine))


def _require_alike(run: Result, other: Result) -> None:
    whole = run.status == other.status == "finished"
    for what in (*_LIKE, *(_LENGTH if whole else ())):
        one, two = getattr(run, what), getattr(other, what)
        if one != two and "" not in (one, two):
            by = "on the study's data, which its README names" if "data" in what else "by its config"
            raise UserError(f"{run.run} has {what} {one}, and the study's {other.run} {two}: train it {by}.")


def _kind(run: Result) -> tuple[object, ...]:
    return run.activation, run.learning_rate, run.axes
