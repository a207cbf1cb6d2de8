"""Contrasts on a grid of runs: what each arm is worth by seed, the effect, and its verdict.

One engine serves both kinds of question. "gelu<relu" is a contrast of two arms at their own best learning rates, which
`judge_pairs` also asks at every rate and of the learning-rate sensitivity. A claim of a study is any contrast of
protocol.py, which verdicts.py asks at every place of the further axes.
"""

import dataclasses
import functools
import math
import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Array, Float64

from actlab.analysis import best_rates
from actlab.analysis.best_rates import Curves
from actlab.analysis.effects import DECIMALS, Effect, Interval, Judgement, PermutationTest, judge
from actlab.analysis.protocol import LOSS, SENSITIVITY, Arm, Contrast
from actlab.analysis.results import Result
from actlab.errors import UserError


class Score(NamedTuple):
    """A run's entry in a grid. Losses in the table's unit; that of a run that diverged is the one it began with."""

    loss: float  # on validation, where rates are chosen
    failed: str = ""  # how: diverged, collapsed, or learned nothing
    run: str = ""
    column: float = math.nan  # what a contrast of a column of results.csv asks for
    test: float | None = None  # where a difference is read


def score(run: Result, column: str = LOSS) -> Score:
    """A run's entry, with the number that a contrast of `column` asks for."""
    test = run.test_loss if run.learned else run.loss
    try:
        value = float(run.cells.get(column, ""))
    except ValueError:
        value = math.nan
    return Score(run.loss, run.failed, run.run, value, test)


Cell = Mapping[int, Score]  # all seeds of one arm at one learning rate


@dataclasses.dataclass(frozen=True)
class Grid:
    """Cells by arm and learning rate. Places may be empty and cells may lack seeds.

    Keys are `Arm.place`: the activation alone where no further axes matter.
    """

    cells: Mapping[str, Mapping[float, Cell]]
    _curves: dict[Any, Curves] = dataclasses.field(default_factory=dict, compare=False, repr=False)

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

    @functools.cached_property
    def read_on(self) -> Literal["test", "validation"]:
        """The set that differences are read on: test, where every run has a test loss."""
        scores = (score for cells in self.cells.values() for cell in cells.values() for score in cell.values())
        return "validation" if any(score.test is None for score in scores) else "test"

    def on_validation(self) -> "Grid":
        """The same without the losses on test."""
        return Grid.of(
            (arm, rate, seed, score._replace(test=None))
            for arm, cells in self.cells.items()
            for rate, cell in cells.items()
            for seed, score in cell.items()
        )

    def rates(self, *names: str) -> tuple[float, ...]:
        """Learning rates that all of these arms were trained at, rising."""
        return tuple(sorted(set.intersection(*(set(self.cells.get(name, ())) for name in names)))) if names else ()

    def usable_rates(self, *names: str) -> tuple[float, ...]:
        """Those of their rates at which any run of these arms did not fail."""
        arms = [self.cells[name] for name in names if name in self.cells]
        return tuple(
            rate
            for rate in self.rates(*names)
            if not all(score.failed for cells in arms for score in cells[rate].values())
        )

    def seeds(self, *names: str) -> set[int]:
        """Seeds that any of these arms has at any rate."""
        return {seed for name in names for cell in self.cells.get(name, {}).values() for seed in cell}

    def complete_seeds(self, rates: Iterable[float], *names: str) -> list[int]:
        """Seeds that all of these arms have at all of these rates, rising."""
        cells = [set(self.cells[name][rate]) for name in names for rate in rates]
        return sorted(set.intersection(*cells)) if cells else []

    def fates(self, name: str, rates: Iterable[float], seeds: Sequence[int]) -> set[str]:
        """How these runs failed, "" for those that did not."""
        return {self.cells[name][rate][seed].failed for rate in rates for seed in seeds}

    def curves(self, name: str, rates: Sequence[float], seeds: Sequence[int]) -> Curves:
        """An arm's losses at one or more rates, rising, over these seeds."""
        # Kept, since an arm is in as many pairs as there are others, mostly over the same rates and seeds.
        key = (name, tuple(rates), tuple(seeds))
        if key not in self._curves:
            rows = [[self.cells[name][rate][seed] for seed in seeds] for rate in rates]
            chosen = np.array([[score.loss for score in row] for row in rows])
            read = np.array([[self._read(score) for score in row] for row in rows])
            failed = np.array([[bool(score.failed) for score in row] for row in rows])
            self._curves[key] = Curves(np.array(rates, np.float64), chosen, read, failed)
        return self._curves[key]

    def best_rate(self, name: str, rates: Sequence[float], seeds: Sequence[int]) -> float:
        """The rate of the lowest mean loss over these seeds; of equal ones the lowest rate."""
        return rates[best_rates.best(self.curves(name, rates, seeds))]

    def sensitivities(self, name: str, rates: Sequence[float], seeds: Iterable[int]) -> dict[int, float]:
        """Learning-rate sensitivity by seed over these rates, with equal weights."""
        by_rate = [self.losses(name, rate) for rate in rates]
        losses = {seed: [of[seed] for of in by_rate] for seed in seeds}
        # A run's loss is at most its initial one already, so that clipping at the highest changes nothing.
        return {seed: lr_sensitivity(row, max(row)) for seed, row in losses.items()}

    def losses(self, name: str, rate: float) -> dict[int, float]:
        """An arm's losses by seed at a rate, of the set that differences are read on."""
        return {seed: self._read(score) for seed, score in self.cells[name][rate].items()}

    def _read(self, score: Score) -> float:
        return score.loss if self.read_on == "validation" or score.test is None else score.test


def losses_at_best(runs: Sequence[Result]) -> dict[str, Float64[np.ndarray, "n"]]:
    """Test losses by seed of each activation, at the rate of its lowest mean validation loss.

    Raises:
        UserError: for a run that is not trained to its end, or without a test loss.
    """
    for run in runs:
        if not run.done or (run.learned and run.test_loss is None):
            raise UserError(f"{run.run} has no test loss: train it to its end.")
    grid = Grid.of((run.activation, run.learning_rate, run.seed, score(run)) for run in runs)
    rates = grid.rates(*grid.names)
    seeds = grid.complete_seeds(rates, *grid.names)
    return {name: best_rates.at_best(grid.curves(name, rates, seeds)) for name in grid.names}


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
    """What an arm is worth by seed, `also` under the other ways to choose its rate, and the `runs` behind it.

    `unresolved` says why its best rate is not resolved, `reason` why it decides nothing; both are "" otherwise. It is
    `absent` if it has no run.
    """

    chosen: Mapping[int, float] = dataclasses.field(default_factory=dict)
    also: tuple[Mapping[int, float], ...] = ()
    runs: tuple[str, ...] = ()
    unresolved: str = ""
    reason: str = ""
    absent: bool = False


@dataclasses.dataclass(frozen=True)
class Measured:
    """A contrast on a grid: the worth of each arm, and the effect, where a negative one is what the contrast states.

    `rates` are those that arms without one of their own choose among, or that a sensitivity is over. Losses are
    `read_on` the test set or the validation set.
    """

    worths: tuple[Worth, ...]
    effect: Effect
    rates: tuple[float, ...] = ()
    read_on: str = "validation"


def measure(contrast: Contrast, grid: Grid) -> Measured:
    """The effect of a contrast, paired by seed.

    Arms without a rate of their own choose among the rates that all of them share, on the seeds that have all of those.
    Of a loss the effect is then tested four ways, see best_rates.py; a column is read at the rate of the lowest mean
    loss, as if that were given. A sensitivity is over those of the rates at which not every run of its arms failed.
    """
    free = [arm.place for arm in contrast.arms if arm.at is None]
    rates = grid.usable_rates(*free) if contrast.of == SENSITIVITY else grid.rates(*free)
    seeds = grid.complete_seeds(rates, *free)
    worths = tuple(_worth(contrast, arm, grid, rates, seeds) for arm in contrast.arms)
    shared = sorted(set.intersection(*(set(worth.chosen) for worth in worths)))
    if shared:  # what is said of an arm is said of the seeds that are compared
        worths = tuple(
            dataclasses.replace(worth, chosen={seed: worth.chosen[seed] for seed in shared}) for worth in worths
        )
    values = _oriented(contrast, [worth.chosen for worth in worths], shared)
    without = sorted((worth for worth in worths if worth.reason), key=lambda worth: not worth.absent)
    reason = without[0].reason if without else ""
    effect = Effect(values, reason=reason)
    if contrast.of == LOSS and shared:
        # Beside an arm that learned, a loss at initialisation is a result; by itself it is none. Collapsed runs have
        # losses of their own, which say something of that rate, but nothing of own best rates.
        over = {arm: rates if arm.at is None else (arm.at,) for arm in contrast.arms}
        fates = set[str]().union(*(grid.fates(arm.place, at, shared) for arm, at in over.items()))
        if not reason and not fates & ({""} if free else {"", "collapsed"}):
            told = "every run diverged, collapsed or learned nothing; train longer, or at other learning rates"
            effect = Effect(values, reason=told)
        if free:
            effect = dataclasses.replace(
                effect,
                also=tuple(_oriented(contrast, way, shared) for way in zip(*(one.also for one in worths), strict=True)),
                swaps=_swaps(contrast, grid, rates, shared, values),
                unresolved="; ".join(dict.fromkeys(worth.unresolved for worth in worths if worth.unresolved)),
            )
    every: set[int] = set()
    for arm in contrast.arms:
        every |= grid.seeds(arm.place) if arm.at is None else set(grid.cells.get(arm.place, {}).get(arm.at, ()))
    effect = dataclasses.replace(effect, left_out=len(every) - len(shared))
    return Measured(worths, effect, rates, grid.read_on)


def _oriented(contrast: Contrast, values: Sequence[Mapping[int, float]], seeds: Sequence[int]) -> tuple[float, ...]:
    sign = -1 if contrast.says == "above" else 1
    weights = [weight for weight, _ in contrast.terms]
    sums = (sum(weight * arm[seed] for weight, arm in zip(weights, values, strict=True)) for seed in seeds)
    return tuple(round(sign * (total - contrast.bound), DECIMALS) for total in sums)


def _swaps(
    contrast: Contrast, grid: Grid, rates: Sequence[float], seeds: Sequence[int], values: Sequence[float]
) -> PermutationTest:
    """Each arm of positive weight is swapped with the arm of the opposite weight.

    Where an arm has no opposite, or a rate of its own, only the signs of the seeds' values turn.
    """
    sign = -1.0 if contrast.says == "above" else 1.0
    more = sorted(((weight, arm) for weight, arm in contrast.terms if weight > 0), key=operator.itemgetter(0))
    less = sorted(((-weight, arm) for weight, arm in contrast.terms if weight < 0), key=operator.itemgetter(0))
    matched = [weight for weight, _ in more] == [weight for weight, _ in less]
    if not matched or any(arm.at is not None for arm in contrast.arms):
        return best_rates.signs(np.asarray(values, np.float64))
    pairs = [
        (weight, grid.curves(one.place, rates, seeds), grid.curves(two.place, rates, seeds))
        for (weight, one), (_, two) in zip(more, less, strict=True)
    ]
    return best_rates.swap(pairs).scaled(sign, -sign * contrast.bound)


def _worth(contrast: Contrast, arm: Arm, grid: Grid, shared: Sequence[float], complete: Sequence[int]) -> Worth:
    """`shared` rates and `complete` seeds are those of the arms without a rate of their own."""
    name, cells = arm.place, grid.cells.get(arm.place, {})
    rates = shared if arm.at is None else [rate for rate in cells if rate == arm.at]
    runs = tuple(score.run for rate, cell in cells.items() if rate in rates for score in cell.values())
    if not cells or (arm.at is not None and not runs):
        return Worth(reason=f"no run of {arm}", absent=True)
    if not rates and grid.rates(name):
        failed = contrast.of == SENSITIVITY and not grid.usable_rates(name)
        return Worth(reason="at every rate every run failed" if failed else "its arms share no learning rate")
    seeds = complete if arm.at is None else sorted(cells[arm.at])
    if not seeds:
        return Worth(runs=runs, reason="no seed has a run of every arm at every rate")
    if contrast.of == SENSITIVITY:
        if len(rates) == 1:
            return Worth(runs=runs, reason="one learning rate has no sensitivity")
        blank = [seed for seed in seeds if all(cells[rate][seed].failed for rate in rates)]
        reason = f"{arm} with seed {blank[0]} failed at every rate, where a sensitivity says nothing" if blank else ""
        return Worth(_scaled(contrast, grid.sensitivities(name, rates, seeds)), runs=runs, reason=reason)
    curves = grid.curves(name, rates, seeds)
    if contrast.of == LOSS:
        unresolved = best_rates.unresolved(curves) if arm.at is None else ""
        chosen, *also = (
            _scaled(contrast, dict(zip(seeds, losses.tolist(), strict=True))) for losses in best_rates.readings(curves)
        )
        return Worth(chosen, tuple(also), runs, f"{arm}: {unresolved}" if unresolved else "")
    # A column of a run, at the rate of the lowest mean loss if the arm has none of its own.
    cell = {seed: cells[rates[best_rates.best(curves)]][seed] for seed in seeds}
    usable = [
        seed for seed, score in cell.items() if math.isfinite(score.column) and (score.column > 0 or not contrast.log)
    ]
    # A run that diverged may lack the column: leaving it out would select the runs.
    lacking = [score.run for seed, score in cell.items() if seed not in usable]
    values = _scaled(contrast, {seed: cell[seed].column for seed in usable})
    reason = f"{lacking[0]} has no {contrast.of}" if lacking else ""
    return Worth(values, runs=tuple(score.run for score in cell.values()), reason=reason)


def _scaled(contrast: Contrast, values: Mapping[int, float]) -> dict[int, float]:
    return {seed: math.log10(value) if contrast.log else value for seed, value in values.items()}


@dataclasses.dataclass(frozen=True)
class Pair:
    """The judgements on a question, "is the first lower than the second?": a negative difference supports it.

    `seeds_and_documents` is the interval at own best rates that covers other documents too, see crossed.py.
    """

    contrast: Contrast
    own_best: Judgement
    at_rates: dict[float, Judgement]
    sensitivity: Judgement
    sensitivity_rates: tuple[float, ...]  # that the sensitivity is over
    seeds_and_documents: Interval | None = None

    @property
    def question(self) -> str:
        """As a study.py and --question have it."""
        return " < ".join(self.contrast.activations)

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON; without an interval that is not known."""
        wider = {} if self.seeds_and_documents is None else {"seeds_and_documents": self.seeds_and_documents}
        return {
            "question": self.question,
            "own_best": self.own_best.as_dict() | wider,
            "at_rates": {repr(rate): judgement.as_dict() for rate, judgement in self.at_rates.items()},
            "lr_sensitivity": {"rates": self.sensitivity_rates, **self.sensitivity.as_dict()},
        }


def judge_own_best(
    grid: Grid,
    questions: Sequence[Contrast],
    margin: float,
    to_come: int = 0,
    waiting: Collection[tuple[str, float]] = (),
) -> list[Judgement]:
    """The judgements at own best rates; the arguments are those of `judge_pairs`."""
    return _judged([_measured(question, grid, waiting) for question in questions], margin, to_come)


def judge_pairs(
    grid: Grid,
    questions: Sequence[Contrast],
    margin: float,
    to_come: int = 0,
    waiting: Collection[tuple[str, float]] = (),
) -> list[Pair]:
    """The judgements on contrasts of two activations that share a learning rate.

    Holm's families: the questions at own best rates; questions times rates; their sensitivities. Each has `to_come`
    further questions, whose activations are not trained yet, as if they had the same rates. `waiting` has activation
    and rate of each run that is not trained yet: what rests on it is undecided, and part of its family. At a rate that
    is given nothing is chosen, so that a t test over the seeds is enough.
    """
    own_best = judge_own_best(grid, questions, margin, to_come, waiting)
    rates = [grid.rates(*question.activations) for question in questions]
    planned = [
        {*each, *(rate for name, rate in waiting if name in question.activations)}
        for question, each in zip(questions, rates, strict=True)
    ]
    absent = sum(len(all_rates.difference(each)) for all_rates, each in zip(planned, rates, strict=True))
    fixed = [(question.at(rate), rate) for question, each in zip(questions, rates, strict=True) for rate in each]
    n_rates = max(map(len, planned), default=0)
    of_rates = [_measured(one, grid, [(name, at) for name, at in waiting if at == rate]) for one, rate in fixed]
    at_rates = iter(_judged(of_rates, margin, to_come * n_rates + absent))
    sensitive = [_measured(dataclasses.replace(question, of=SENSITIVITY), grid, waiting) for question in questions]
    sensitivity = _judged(sensitive, margin, to_come)
    return [
        Pair(question, best, {rate: next(at_rates) for rate in each}, over, measured.rates)
        for question, best, each, over, measured in zip(questions, own_best, rates, sensitivity, sensitive, strict=True)
    ]


def _measured(question: Contrast, grid: Grid, waiting: Collection[tuple[str, float]]) -> Measured:
    """A contrast, which is open while it waits for runs."""
    found = measure(question, grid)
    n_open = sum(name in question.activations for name, _ in waiting)
    return dataclasses.replace(found, effect=found.effect.waiting_for(n_open))


def _judged(all_measured: Sequence[Measured], margin: float, to_come: int) -> list[Judgement]:
    return judge([one.effect for one in all_measured], margin, to_come)
