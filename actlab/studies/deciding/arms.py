"""Arms of a contrast: their runs in a table at a place of the other axes, and what they are worth by seed."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from actlab.errors import UserError
from actlab.protocol import LOSS, SENSITIVITY, Arm, Contrast
from actlab.studies.comparison.grid import Grid, Score
from actlab.studies.table import Result, as_cell

Place = tuple[tuple[str, str], ...]
_OTHER_SCALE = 0.05  # as comparison.conditions has it


@dataclasses.dataclass(frozen=True)
class Worth:
    """What an arm is worth, by seed; `also` by the other lawful choice of its rate. `runs` are those it rests on."""

    chosen: dict[int, float]
    also: dict[int, float]
    runs: tuple[Result, ...]
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class Arms:
    """The runs of each arm of a contrast at one place that are done; an arm may lack runs. `n_open` are to come."""

    contrast: Contrast
    place: Place
    results: tuple[tuple[Result, ...], ...]
    n_open: int = 0

    @property
    def scale(self) -> str:
        """The scale that a verdict holds at, in words."""
        runs = list(itertools.chain(*self.results))
        if not runs:
            return "no run"
        first = max(runs, key=lambda run: run.steps)
        place = "".join(f", {path}={value}" for path, value in self.place)
        return f"{first.parameters:,} parameters, {first.steps:,} steps, {first.data} ({first.tokenizer}){place}"

    def worths(self) -> list[Worth]:
        """One per arm, in the order of the terms."""
        return [self._worth(index, arm) for index, (_, arm) in enumerate(self.contrast.terms)]

    def seeds(self) -> set[int]:
        """Seeds that any arm has."""
        return {run.seed for runs in self.results for run in runs}

    def _worth(self, index: int, arm: Arm) -> Worth:
        runs = self.results[index]
        if not runs:
            return Worth({}, {}, (), f"no run of {arm}")
        if arm.at is None:
            return self._over_rates(index)
        if self.contrast.of == LOSS:
            values = {run.seed: self._scaled(run.loss) for run in runs}
            return Worth(values, values, runs, "" if any(run.learned for run in runs) else _nothing(arm))
        return self._columns(runs)

    def _over_rates(self, index: int) -> Worth:
        arm, grid = self.contrast.terms[index][1], self._grid()
        free = [str(place) for place, (_, one) in enumerate(self.contrast.terms) if one.at is None]
        rates = grid.rates(*free)
        seeds = grid.complete_seeds(rates, *free) if rates else []
        name, runs = str(index), tuple(run for run in self.results[index] if run.learning_rate in rates)
        if not seeds:
            return Worth({}, {}, runs, "no seed has a run of every arm at every rate")
        if self.contrast.of == SENSITIVITY:
            return self._sensitivity(arm, grid, name, rates, seeds, runs)
        if self.contrast.of == LOSS:
            reason = "" if grid.learned(name, rates, seeds) else _nothing(arm)
            choices = (grid.own_best(name, rates, seeds), grid.at_best_mean(name, rates, seeds))
            one, other = ({seed: self._scaled(x) for seed, x in choice.items()} for choice in choices)
            return Worth(one, other, runs, reason)
        best = grid.best_rate(name, rates, seeds)
        return self._columns([run for run in runs if run.learning_rate == best and run.seed in seeds])

    def _sensitivity(
        self, arm: Arm, grid: Grid, name: str, rates: Sequence[float], seeds: Sequence[int], runs: tuple[Result, ...]
    ) -> Worth:
        blank = [seed for seed in seeds if not grid.learned(name, rates, [seed])]
        reason = f"{arm} with seed {blank[0]} learned at no rate, where a sensitivity says nothing" if blank else ""
        if len(rates) == 1:
            return Worth({}, {}, runs, "one learning rate has no sensitivity")
        values = {seed: self._scaled(x) for seed, x in grid.sensitivities(name, rates, seeds).items()}
        return Worth(values, values, runs, reason)

    def _grid(self) -> Grid:
        """The arms without a rate of their own as if they were activations."""
        scores: dict[str, dict[float, dict[int, Score]]] = {}
        for index, (_, arm) in enumerate(self.contrast.terms):
            if arm.at is None:
                at_rates = scores.setdefault(str(index), {})
                for run in self.results[index]:
                    at_rates.setdefault(run.learning_rate, {})[run.seed] = Score(run.loss, run.learned)
        return Grid(scores)

    def _columns(self, runs: Sequence[Result]) -> Worth:
        values, lacking = {}, []
        for run in runs:
            number = _number(run.cells.get(self.contrast.of, ""))
            if math.isfinite(number) and not (self.contrast.log and number <= 0):
                values[run.seed] = self._scaled(number)
            else:
                lacking.append(run.run)
        # A run that diverged may lack what is asked: leaving it out would be to pick the runs.
        reason = f"{lacking[0]} has no {self.contrast.of}" if lacking else ""
        return Worth(values, values, tuple(runs), reason)

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self.contrast.log else value


def places(contrast: Contrast, results: Sequence[Result]) -> list[Arms]:
    """The arms at every place of the axes that they leave open, in the order of the table.

    Raises:
        UserError: for arms that mix data, tokenizers, sizes of model or numbers of tokens, or hold a run twice.
    """
    matching = [[run for run in results if _matches(arm, run)] for _, arm in contrast.terms]
    held = {path for _, arm in contrast.terms for path in arm.where}
    # Among all activations: an arm whose runs share a place by chance is still one of that place alone.
    around = [[run for run in results if _lies_at(arm, run)] for _, arm in contrast.terms]
    varying = list(dict.fromkeys(path for runs in around for path in _varying(runs) if path not in held))
    found = dict.fromkeys(_place(run, varying) for runs in matching for run in runs) or {(): None}
    arms = [
        _arms(contrast, place, [[run for run in runs if _place(run, varying) == place] for runs in matching])
        for place in found
    ]
    for one in arms:
        _require_comparable(one)
    return arms


def _arms(contrast: Contrast, place: Place, matching: Sequence[Sequence[Result]]) -> Arms:
    done = tuple(tuple(run for run in runs if run.done) for runs in matching)
    names = {run.run for runs in matching for run in runs if not run.done}
    return Arms(contrast, place, done, len(names))


def _matches(arm: Arm, run: Result) -> bool:
    right = run.activation == arm.activation and arm.at in (None, run.learning_rate)
    return right and _lies_at(arm, run)


def _lies_at(arm: Arm, run: Result) -> bool:
    axes = dict(run.axes)
    return all(path in axes and _same(axes[path], value) for path, value in arm.where.items())


def _same(text: str, value: Any) -> bool:
    return text == as_cell(value) or (_number(text) == _number(str(value)))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _varying(runs: Sequence[Result]) -> Iterator[str]:
    for path in dict.fromkeys(path for run in runs for path, _ in run.axes):
        if len({dict(run.axes)[path] for run in runs}) > 1:
            yield path


def _place(run: Result, paths: Sequence[str]) -> Place:
    return tuple((path, value) for path, value in run.axes if path in paths)


def _require_comparable(arms: Arms) -> None:
    for runs in arms.results:
        seen = set()
        for run in runs:
            if (run.learning_rate, run.seed) in seen:
                raise UserError(
                    f"{run.activation} at learning rate {run.learning_rate:g} with seed {run.seed} comes twice: remove "
                    "one of the rows, or give the axis that tells them apart its column."
                )
            seen.add((run.learning_rate, run.seed))
    every = list(itertools.chain(*arms.results))
    for what, values in (
        ("data", {run.data: run for run in every}),
        ("tokenizer", {run.tokenizer: run for run in every}),
        ("tokens", {run.tokens: run for run in every if run.status == "finished"}),
    ):
        if len(values) > 1:
            (one, first), (other, second), *_ = values.items()
            raise UserError(
                f"{arms.contrast} mixes {what} {one} ({first.run}) and {other} ({second.run}): compare runs of one "
                "data set, tokenizer and scale."
            )
    sizes = [run.parameters for run in every]
    if sizes and max(sizes) > (1 + _OTHER_SCALE) * min(sizes):
        raise UserError(f"{arms.contrast} mixes scales: from {min(sizes):,} to {max(sizes):,} parameters.")


def _nothing(arm: Arm) -> str:
    return f"every run of {arm} diverged or learned nothing"
