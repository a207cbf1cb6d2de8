"""Replication: whether runs that are trained again, elsewhere or with other seeds, end where a study's runs did."""

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np
from scipy import stats

from actlab.analysis.effects import Interval, Values, average, holm, interval_around, standard_deviation
from actlab.analysis.results import Result
from actlab.errors import UserError

_LEVEL = 0.01  # of the test that every run is one of the study's cell
_DATA = ("data", "data_fingerprint")
_LIKE = ("objective", *_DATA, "tokenizer", "parameters")
_LENGTH = ("steps", "tokens")  # of a run that did not diverge


def prediction_interval(values: Values) -> Interval:
    """mean -+ t_{n-1} sd sqrt(1 + 1/n), where one more of n > 1 normal values falls with 95% probability.

    Source: Hahn and Meeker 1991, Statistical Intervals.
    """
    return interval_around(values, 1 + 1 / len(values))


def prediction_p(values: Values, value: float) -> float:
    """Two-sided p that one more of n > 1 normal values lies as far from their mean; matches `prediction_interval`."""
    away = abs(value - average(values))
    spread = standard_deviation(values) * (1 + 1 / len(values)) ** 0.5
    if not spread:
        return 0.0 if away else 1.0
    return float(2 * stats.t.sf(away / spread, len(values) - 1))


@dataclasses.dataclass(frozen=True)
class Repeat:
    """A run trained again, beside the losses of the study's cell: its runs that differ from it in the seed only.

    95% of further seeds fall within `expected`; `p` is two-sided, that a further seed ends as far away.
    """

    run: Result
    losses: tuple[float, ...]
    expected: Interval
    p: float

    @property
    def inside(self) -> bool:
        """Whether the run ended within the expected interval."""
        return self.expected.low <= self.run.loss <= self.expected.high


@dataclasses.dataclass(frozen=True)
class Replication:
    """Runs trained again. Holm's correction allows them to be dependent, as runs compared with the same cell are."""

    repeats: tuple[Repeat, ...]

    @property
    def p(self) -> float:
        """p of the run that is farthest away, after Holm over the runs."""
        return min(holm([one.p for one in self.repeats]))

    @property
    def holds(self) -> bool:
        """Whether no run is farther away than chance explains."""
        return self.p > _LEVEL


def compare(study: Sequence[Result], again: Iterable[Result]) -> Replication:
    """Each run of `again` beside the study's cell: its runs of that activation, learning rate and further axes.

    Raises:
        UserError: for a run that was stopped, whose cell has fewer than two runs, or that was trained differently, and
            for no run.
    """
    repeats = tuple(_repeat(study, run) for run in again)
    if not repeats:
        raise UserError("no run was trained again: run the command of the second table, or name another table.")
    return Replication(repeats)


def _repeat(study: Sequence[Result], run: Result) -> Repeat:
    if not run.done:
        raise UserError(f"{run.run} is not trained to its end: run the same command again, which resumes.")
    cell = [one for one in study if one.cell == run.cell and one.done]
    if len(cell) < 2:
        place = ", ".join([run.activation, f"learning rate {run.learning_rate:g}", *map("=".join, run.axes)])
        raise UserError(
            f"the study has fewer than two runs of {place}, which an interval needs: compare a run that repeats one of "
            "the study's."
        )
    for one in cell:
        _require_alike(run, one)
    losses = np.array([one.loss for one in cell], np.float64)
    return Repeat(run, tuple(losses.tolist()), prediction_interval(losses), prediction_p(losses, run.loss))


def _require_alike(run: Result, other: Result) -> None:
    whole = run.status == other.status == "finished"
    for what in (*_LIKE, *(_LENGTH if whole else ())):
        one, two = getattr(run, what), getattr(other, what)
        if one != two and "" not in (one, two):  # an older table has no fingerprint
            by = "on the study's data, which its README names" if what in _DATA else "by its config"
            raise UserError(f"{run.run} has {what} {one}, and the study's {other.run} {two}: train it {by}.")
