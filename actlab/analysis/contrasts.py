"""Contrasts on a grid of runs: what each arm is worth by seed, the effect, and its verdict.

One engine serves both kinds of question. "gelu<relu" is a contrast of two arms at their own best learning rates, which
`judge_pairs` also asks at every rate and of the learning-rate sensitivity. A claim of a study is any contrast of
protocol.py, which verdicts.py asks at every place of the further axes.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array

from actlab.analysis.effects import DECIMALS, Effect, Judgement, judge
from actlab.analysis.protocol import LOSS, SENSITIVITY, Arm, Contrast


class Score(NamedTuple):
    """A run's entry in a grid. Loss in nats; not `learned` where that is the loss it began with."""

    loss: float
    learned: bool
    run: str = ""
    column: float = math.nan  # what a contrast of a column of results.csv asks for


Cell = Mapping[int, Score]  # all seeds of one arm at one learning rate


@dataclasses.dataclass(frozen=True)
class Grid:
    """Cells by arm and learning rate. Places may be empty and cells may lack seeds.

    Keys are `Arm.place`: the activation alone where no further axes matter.
    """

    cells: Mapping[str, Mapping[float, Cell]]
    _chosen: dict[Any, tuple[dict[int, float], dict[int, float]]] = dataclasses.field(
        default_factory=dict, compare=False, repr=False
    )

    @classmethod
    def of(cls, entries: Iterable[tuple[str, float, int, Score]]) -> "Grid":
        """A grid of (arm, learning rate, seed, score)."""
        cells: dict[str, dict[float, dict[int, Score]]] = {}
        for arm, rate, seed, score in entries:
            cells.setdefault(arm, {}).setdefault(rate, {})[seed] = score
        return cls(cells)

    @property
    def names(self) -> tuple[str, ...]:
        """The arms in the order of the table."""
        return tuple(self.cells)

    def rates(self, *names: str) -> tuple[float, ...]:
        """Learning rates that all of these arms were trained at, rising."""
        return tuple(sorted(set.intersection(*(set(self.cells.get(name, ())) for name in names)))) if names else ()

    def seeds(self, *names: str) -> set[int]:
        """Seeds that any of these arms has at any rate."""
        return {seed for name in names for cell in self.cells.get(name, {}).values() for seed in cell}

    def complete_seeds(self, rates: Iterable[float], *names: str) -> list[int]:
        """Seeds that all of these arms have at all of these rates, rising."""
        cells = [set(self.cells[name][rate]) for name in names for rate in rates]
        return sorted(set.intersection(*cells)) if cells else []

    def learned(self, name: str, rates: Iterable[float], seeds: Sequence[int]) -> bool:
        """Whether any of these runs ended below the loss it began with."""
        return any(self.cells[name][rate][seed].learned for rate in rates for seed in seeds)

    def own_best(self, name: str, rates: Sequence[float], seeds: Sequence[int]) -> dict[int, float]:
        """Loss by seed at the arm's own best rate, which is chosen on the mean of the other seeds.

        A single seed has no others: its rate is chosen on itself, and nothing can be decided with it.
        """
        return self._choices(name, rates, seeds)[0]

    def at_best_mean(self, name: str, rates: Sequence[float], seeds: Sequence[int]) -> dict[int, float]:
        """Loss by seed at the rate of the lowest mean loss over all these seeds."""
        return self._choices(name, rates, seeds)[1]

    def _choices(
        self, name: str, rates: Sequence[float], seeds: Sequence[int]
    ) -> tuple[dict[int, float], dict[int, float]]:
        if len(rates) == 1:
            only = {seed: self._loss(name, rates[0], seed) for seed in seeds}
            return only, only
        # Kept, since an arm is in as many pairs as there are others, mostly over the same rates and seeds.
        key = (name, tuple(rates), tuple(seeds))
        if key not in self._chosen:
            own = {}
            for seed in seeds:
                others = [other for other in seeds if other != seed] or [seed]
                own[seed] = self._loss(name, self.best_rate(name, rates, others), seed)
            best = self.best_rate(name, rates, seeds)
            self._chosen[key] = own, {seed: self._loss(name, best, seed) for seed in seeds}
        return self._chosen[key]

    def best_rate(self, name: str, rates: Iterable[float], seeds: Sequence[int]) -> float:
        """The rate of the lowest mean loss over these seeds; of equal ones the lowest rate."""
        # fsum does not depend on the order of the seeds, which could otherwise decide between rates that tie.
        return min(rates, key=lambda rate: (math.fsum(self._loss(name, rate, seed) for seed in seeds), rate))

    def sensitivities(self, name: str, rates: Sequence[float], seeds: Iterable[int]) -> dict[int, float]:
        """Learning-rate sensitivity by seed over these rates, with equal weights; nats."""
        losses = {seed: [self._loss(name, rate, seed) for rate in rates] for seed in seeds}
        # A run's loss is at most its initial one already, so that clipping at the highest changes nothing.
        return {seed: lr_sensitivity(row, max(row)) for seed, row in losses.items()}

    def _loss(self, name: str, rate: float, seed: int) -> float:
        return self.cells[name][rate][seed].loss


def lr_sensitivity(losses: Sequence[float | int] | np.ndarray | Array, initial_loss: float | int) -> float:
    """Learning-rate sensitivity, mean_i min(l_i, l_0) - min_i min(l_i, l_0); Wortsman et al. 2023, section 2.2.

    Args:
        losses: final validation losses l_i over a log-spaced grid of learning rates, [n], in nats; NaN and inf are
            runs that diverged and count as l_0.
        initial_loss: loss at initialisation l_0, in nats.

    Returns:
        The sensitivity in nats; 0 where the loss does not depend on the learning rate, and where every run diverged.

    Raises:
        ValueError: for losses of another shape than [n] with n > 0, -inf, or an initial loss that is not finite.

    Source: arXiv:2309.14322.
    """
    grid = np.asarray(losses, np.float64)
    if grid.ndim != 1 or grid.size == 0:
        raise ValueError(f"losses has shape {grid.shape}: give a list of one loss per learning rate.")
    if np.any(grid == -np.inf):
        raise ValueError("losses holds -inf: a diverged run is NaN or inf.")
    if not np.isfinite(initial_loss):
        raise ValueError(f"initial_loss={initial_loss} is not a finite number: give the loss at initialisation.")
    clipped = np.where(np.isnan(grid), initial_loss, np.minimum(grid, initial_loss))
    return float(clipped.mean() - clipped.min())


@dataclasses.dataclass(frozen=True)
class Worth:
    """What an arm is worth by seed, `also` under the other legitimate choice of its rate, and the `runs` behind it.

    `reason` says why it decides nothing, and is "" otherwise.
    """

    chosen: Mapping[int, float] = dataclasses.field(default_factory=dict)
    also: Mapping[int, float] = dataclasses.field(default_factory=dict)
    runs: tuple[str, ...] = ()
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class Measured:
    """A contrast on a grid: the worth of each arm, and the effect, where a negative one is what the contrast states."""

    worths: tuple[Worth, ...]
    effect: Effect


def measure(contrast: Contrast, grid: Grid) -> Measured:
    """The effect of a contrast, paired by seed.

    Arms without a rate of their own choose among the rates that all of them share, on the seeds that have all of those.
    A rate chosen on all seeds favours the arm with more equally good rates to choose from. A rate chosen for each seed
    on the other seeds favours none, but then the values of different seeds depend on each other, and a t test of them
    finds too much (at twice its level for level rates). So a difference must hold under both choices; validity.py shows
    that this keeps the level, and loses no power where the best rate is clear.
    """
    free = [arm.place for arm in contrast.arms if arm.at is None]
    rates = grid.rates(*free)
    seeds = grid.complete_seeds(rates, *free)
    worths = tuple(_worth(contrast, arm, grid, rates, seeds) for arm in contrast.arms)
    shared = sorted(set.intersection(*(set(worth.chosen) for worth in worths)))
    one = _oriented(contrast, [worth.chosen for worth in worths], shared)
    other = _oriented(contrast, [worth.also for worth in worths], shared)
    reason = next((worth.reason for worth in worths if worth.reason), "")
    if not reason and shared and contrast.of == LOSS:
        # Beside an arm that learned, a loss at initialisation is a result; by itself it is none.
        over = {arm: rates if arm.at is None else (arm.at,) for arm in contrast.arms}
        if not any(grid.learned(arm.place, at, shared) for arm, at in over.items()):
            reason = "every run diverged or learned nothing"
    every: set[int] = set()
    for arm in contrast.arms:
        every |= grid.seeds(arm.place) if arm.at is None else set(grid.cells.get(arm.place, {}).get(arm.at, ()))
    return Measured(worths, Effect(one, len(every) - len(shared), reason, other if other != one else ()))


def _oriented(contrast: Contrast, values: Sequence[Mapping[int, float]], seeds: Sequence[int]) -> tuple[float, ...]:
    sign = -1 if contrast.says == "above" else 1
    weights = [weight for weight, _ in contrast.terms]
    sums = (sum(weight * arm[seed] for weight, arm in zip(weights, values, strict=True)) for seed in seeds)
    return tuple(round(sign * (total - contrast.bound), DECIMALS) for total in sums)


def _worth(contrast: Contrast, arm: Arm, grid: Grid, shared: Sequence[float], complete: Sequence[int]) -> Worth:
    """`shared` rates and `complete` seeds are those of the arms without a rate of their own."""
    name, cells = arm.place, grid.cells.get(arm.place, {})
    rates = shared if arm.at is None else [rate for rate in cells if rate == arm.at]
    runs = tuple(score.run for rate, cell in cells.items() if rate in rates for score in cell.values())
    if not cells or (arm.at is not None and not runs):
        return Worth(reason=f"no run of {arm}")
    seeds = complete if arm.at is None else list(cells[arm.at])
    if not seeds:
        return Worth(runs=runs, reason="no seed has a run of every arm at every rate")
    if contrast.of == SENSITIVITY:
        if len(rates) == 1:
            return Worth(runs=runs, reason="one learning rate has no sensitivity")
        blank = [seed for seed in seeds if not grid.learned(name, rates, [seed])]
        reason = f"{arm} with seed {blank[0]} learned at no rate, where a sensitivity says nothing" if blank else ""
        values = _scaled(contrast, grid.sensitivities(name, rates, seeds))
        return Worth(values, values, runs, reason)
    if contrast.of == LOSS:
        chosen, also = grid.own_best(name, rates, seeds), grid.at_best_mean(name, rates, seeds)
        return Worth(_scaled(contrast, chosen), _scaled(contrast, also), runs)
    # A column of a run, at the rate of the lowest mean loss if the arm has none of its own.
    cell = {seed: cells[grid.best_rate(name, rates, seeds)][seed] for seed in seeds}
    usable = [
        seed for seed, score in cell.items() if math.isfinite(score.column) and (score.column > 0 or not contrast.log)
    ]
    # A run that diverged may lack the column: leaving it out would select the runs.
    lacking = [score.run for seed, score in cell.items() if seed not in usable]
    values = _scaled(contrast, {seed: cell[seed].column for seed in usable})
    reason = f"{lacking[0]} has no {contrast.of}" if lacking else ""
    return Worth(values, values, tuple(score.run for score in cell.values()), reason)


def _scaled(contrast: Contrast, values: Mapping[int, float]) -> dict[int, float]:
    return {seed: math.log10(value) if contrast.log else value for seed, value in values.items()}


@dataclasses.dataclass(frozen=True)
class Pair:
    """The judgements on a question, "is the first lower than the second?": a negative difference supports it."""

    contrast: Contrast
    own_best: Judgement
    at_rates: dict[float, Judgement]
    sensitivity: Judgement

    @property
    def question(self) -> str:
        """As a study.py and --question have it."""
        return " < ".join(self.contrast.activations)

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "question": self.question,
            "own_best": self.own_best.as_dict(),
            "at_rates": {repr(rate): judgement.as_dict() for rate, judgement in self.at_rates.items()},
            "lr_sensitivity": self.sensitivity.as_dict(),
        }


def judge_pairs(grid: Grid, questions: Sequence[Contrast], margin: float) -> list[Pair]:
    """The judgements on contrasts of two activations that share a learning rate.

    Holm's families: the questions at own best rates; questions times rates; their sensitivities.
    """
    own_best = judge([measure(question, grid).effect for question in questions], margin)
    rates = [grid.rates(*question.activations) for question in questions]
    fixed = [question.at(rate) for question, each in zip(questions, rates, strict=True) for rate in each]
    at_rates = iter(judge([measure(one, grid).effect for one in fixed], margin))
    sensitive = [dataclasses.replace(question, of=SENSITIVITY) for question in questions]
    sensitivity = judge([measure(one, grid).effect for one in sensitive], margin)
    return [
        Pair(question, best, {rate: next(at_rates) for rate in each}, over)
        for question, best, each, over in zip(questions, own_best, rates, sensitivity, strict=True)
    ]
