"""Rankings: activations within equal budgets, each at its own best learning rate.

A view gives every activation the same budget: equal parameters and steps, equal FLOPs, or equal wall-clock time. The
budget is the least that any of them used, and each run's validation loss is read at the step that the budget pays for,
linearly between evaluations. A run that is cut there had not finished its schedule, so its loss is above what a
schedule of that length would reach: a view errs against the more expensive activation.
"""

import collections
import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from actlab.analysis import best_rates
from actlab.analysis.conditions import Condition
from actlab.analysis.contrasts import Grid, Pair, Score, score
from actlab.analysis.effects import Effect, Interval, from_zero
from actlab.analysis.results import Result


@dataclasses.dataclass(frozen=True)
class Standing:
    """An activation's place. Loss and sensitivity are means over `seeds` complete seeds, with t intervals.

    `loss` is that at `best_rate`, the rate of the lowest mean; `unresolved` says why that rate is not resolved. The
    interval of the loss spans those of the other ways to choose (`best_rates.readings`). No interval goes below 0. None
    where there are too few seeds or rates.
    """

    activation: str
    best_rate: float | None
    unresolved: str
    loss: float | None
    interval: Interval | None
    sensitivity: float | None
    sensitivity_interval: Interval | None
    seeds: int
    runs: int
    failed: Mapping[str, int]  # how many runs diverged, collapsed, or learned nothing


@dataclasses.dataclass(frozen=True)
class View:
    """A budget and the grid of losses within it; `grid` is None where it cannot be computed, and `reason` says why.

    comparison.py adds the standings, lowest loss first, and the pairs asked for.
    """

    name: str
    unit: str
    budget: float | None
    steps: Mapping[str, float]
    grid: Grid | None
    reason: str = ""
    standings: tuple[Standing, ...] = ()
    pairs: tuple[Pair, ...] = ()

    @property
    def sensitivity_rates(self) -> tuple[float, ...]:
        """The rates that the standings' sensitivities are over: those at which any run did not fail."""
        return self.grid.usable_rates(*self.grid.names) if self.grid else ()

    @property
    def words(self) -> str:
        """The budget with its unit."""
        if self.budget is None:
            return "-"
        form = ",.0f" if 999.5 <= self.budget < 1e9 else ".3g"
        return f"{self.budget:{form}} {self.unit}"

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "unit": self.unit,
            "budget": self.budget,
            "steps": dict(self.steps),
            "reason": self.reason,
            "read_on": self.grid.read_on if self.grid else None,
            "lr_sensitivity_rates": self.sensitivity_rates,
            "ranking": [dataclasses.asdict(standing) for standing in self.standings],
            "pairs": [pair.as_dict() for pair in self.pairs],
        }


class _Missing(Exception):
    """Why a view cannot be computed."""


def views(condition: Condition) -> Iterator[View]:
    """The three views, equal parameters first."""
    results = condition.results
    steps = {result.activation: float(result.steps) for result in results if result.status == "finished"}
    parameters = float(statistics.median(result.parameters for result in results))
    yield View("parameters", "parameters", parameters, steps, _grid(results, steps))
    finished: dict[str, list[Result]] = {}
    for result in results:
        if result.status == "finished":
            finished.setdefault(result.activation, []).append(result)
    for name, unit, cost in (("flops", "FLOP", _flops), ("seconds", "s", _seconds)):
        try:
            budget, paid = _budget({name: cost(runs) for name, runs in finished.items()}, steps)
            yield View(name, unit, budget, paid, _grid(results, paid))
        except _Missing as missing:
            yield View(name, unit, None, {}, None, str(missing))


def _flops(runs: Sequence[Result]) -> float:
    """FLOP of a step."""
    return runs[0].flops_per_token * runs[0].tokens / max(runs[0].steps, 1)


def _seconds(runs: Sequence[Result]) -> float:
    """Seconds of a step of one lane, the median over runs: a lane's share of its program."""
    timed = [seconds for run in runs if (seconds := step_seconds(run))]
    if len(timed) < len(runs):
        raise _Missing(f"{len(runs) - len(timed)} runs of {runs[0].activation} have no seconds")
    return statistics.median(timed)  # a run that another program slowed down does not count


def step_seconds(run: Result) -> float | None:
    """Seconds of a step of one lane, without evaluations; None if the run was not timed."""
    if not run.steps:
        return None
    if run.tokens_per_second:
        return run.tokens / run.steps / run.tokens_per_second
    # Older tables have no speed: this is all of the session's time, compilation included.
    return run.seconds / run.lanes / run.steps if run.seconds else None


def _budget(costs: Mapping[str, float], steps: Mapping[str, float]) -> tuple[float | None, dict[str, float]]:
    """The budget and the steps it pays each activation."""
    if not costs:
        return None, {}
    budget = min(cost * steps[name] for name, cost in costs.items())
    # The activation that sets the budget gets all of its steps, whatever the rounding.
    paid = {name: budget / cost if budget < cost * steps[name] else steps[name] for name, cost in costs.items()}
    return budget, paid


def _grid(results: Sequence[Result], steps: Mapping[str, float]) -> Grid:
    return Grid.of((one.activation, one.learning_rate, one.seed, _score(one, steps)) for one in results)


def _score(result: Result, steps: Mapping[str, float]) -> Score:
    if not result.learned or steps[result.activation] == result.steps:
        return score(result)
    points = sorted({0: result.initial_loss, **dict(result.curve), result.steps: result.final_loss}.items())
    if len(points) < 3:
        why = "was evaluated at its first and last step only (train.eval_every)"
        raise _Missing(f"{result.run} {why if result.curve else 'has no curve: give its workdir, with metrics.jsonl'}")
    at, losses = np.asarray(points, np.float64).T
    loss = float(np.interp(steps[result.activation], at, losses))
    return score(dataclasses.replace(result, final_loss=loss, test_loss=None))


def rank(grid: Grid) -> tuple[Standing, ...]:
    """Standings, lowest loss first. The rates are those that all activations share, so that each has as many to choose.

    There must be one: `conditions` leaves out what has none.
    """
    rates = grid.rates(*grid.names)
    standings = (_standing(grid, name, rates) for name in grid.names)
    return tuple(sorted(standings, key=lambda one: (one.loss is None, one.loss or 0.0, one.activation)))


def _standing(grid: Grid, name: str, rates: Sequence[float]) -> Standing:
    seeds = grid.complete_seeds(rates, name)
    usable = grid.usable_rates(*grid.names)
    sensitivity = Effect(tuple(grid.sensitivities(name, usable, seeds).values()) if len(usable) > 1 else ())
    scores = [score for cell in grid.cells[name].values() for score in cell.values()]
    failed = collections.Counter(score.failed for score in scores if score.failed)
    spread = (
        sensitivity.mean,
        sensitivity.interval and from_zero(sensitivity.interval),
        len(seeds),
        len(scores),
        dict(failed),
    )
    if not seeds:
        return Standing(name, None, "", None, None, *spread)
    curves = grid.curves(name, rates, seeds)
    chosen, *also = (tuple(losses.tolist()) for losses in best_rates.readings(curves))
    loss = Effect(chosen, also=tuple(also))
    best = rates[best_rates.best(curves)]
    return Standing(
        name, best, best_rates.unresolved(curves), loss.mean, loss.interval and from_zero(loss.interval), *spread
    )
