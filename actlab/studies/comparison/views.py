"""Views of a condition: at equal parameters (and steps), equal FLOPs, equal wall-clock time.

A view gives every activation a budget, the least that any of them used, and reads each run's validation loss at the
step that the budget pays for, linearly between evaluations. A run cut short had not finished its schedule, so its loss
there is above what a schedule of that length would reach: a view errs against the dearer activation.
"""

import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from actlab.studies.comparison.conditions import Condition
from actlab.studies.comparison.grid import Grid, Score
from actlab.studies.table import Result


@dataclasses.dataclass(frozen=True)
class View:
    """A budget and the grid of losses within it; `grid` is None where `reason` says why it cannot be had."""

    name: str
    unit: str
    budget: float | None
    steps: Mapping[str, float]
    grid: Grid | None
    reason: str = ""

    @property
    def words(self) -> str:
        """The budget with its unit."""
        if self.budget is None:
            return "-"
        form = ",.0f" if 1000 <= self.budget < 1e9 else ".3g"
        return f"{self.budget:{form}} {self.unit}"


class _Missing(Exception):
    """Why a view cannot be had."""


def views(condition: Condition) -> Iterator[View]:
    """The three views, equal parameters first."""
    results = condition.results
    steps = {result.activation: float(result.steps) for result in results if result.status == "finished"}
    parameters = float(statistics.median(result.parameters for result in results))
    yield View("parameters", "parameters", parameters, steps, _grid(results, steps))
    for name, unit, cost in (("flops", "FLOP", _flops), ("seconds", "s", _seconds)):
        try:
            budget, paid = _budget({name: cost(runs) for name, runs in _finished(results).items()}, steps)
            yield View(name, unit, budget, paid, _grid(results, paid))
        except _Missing as missing:
            yield View(name, unit, None, {}, None, str(missing))


def _finished(results: Sequence[Result]) -> dict[str, list[Result]]:
    groups: dict[str, list[Result]] = {}
    for result in results:
        if result.status == "finished":
            groups.setdefault(result.activation, []).append(result)
    return groups


def _flops(runs: Sequence[Result]) -> float:
    """FLOP of a step."""
    return runs[0].flops_per_token * runs[0].tokens / max(runs[0].steps, 1)


def _seconds(runs: Sequence[Result]) -> float:
    """Seconds of a step of one lane, the median over runs: a lane's share of its program."""
    timed = [seconds for run in runs if (seconds := _step_seconds(run))]
    if len(timed) < len(runs):
        raise _Missing(f"{len(runs) - len(timed)} runs of {runs[0].activation} have no seconds")
    return statistics.median(timed)


def _step_seconds(run: Result) -> float | None:
    if not run.steps:
        return None
    if run.tokens_per_second:
        return run.tokens / run.steps / run.tokens_per_second
    # Tables from before there was a speed: all of the session's time, compiling in it.
    return run.seconds / run.lanes / run.steps if run.seconds else None


def _budget(costs: Mapping[str, float], steps: Mapping[str, float]) -> tuple[float | None, dict[str, float]]:
    """The budget and the steps it pays each activation."""
    if not costs:
        return None, {}
    budget = min(cost * steps[name] for name, cost in costs.items())
    # Whoever set the budget gets all of its steps, whatever the rounding.
    paid = {name: budget / cost if budget < cost * steps[name] else steps[name] for name, cost in costs.items()}
    return budget, paid


def _grid(results: Sequence[Result], steps: Mapping[str, float]) -> Grid:
    scores: dict[str, dict[float, dict[int, Score]]] = {}
    for result in results:
        at_rate = scores.setdefault(result.activation, {}).setdefault(result.learning_rate, {})
        at_rate[result.seed] = _score(result, steps)
    return Grid(scores)


def _score(result: Result, steps: Mapping[str, float]) -> Score:
    if not result.learned or steps[result.activation] == result.steps:
        return Score(result.loss, result.learned)
    points = sorted({0: result.initial_loss, **dict(result.curve), result.steps: result.final_loss}.items())
    if len(points) < 3:
        raise _Missing(f"{result.run} has no validation losses between its first and last: give its metrics.jsonl")
    at, losses = np.asarray(points, np.float64).T
    loss = float(np.interp(steps[result.activation], at, losses))
    return Score(min(loss, result.initial_loss), loss < result.initial_loss)
