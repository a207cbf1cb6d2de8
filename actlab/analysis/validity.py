"""Validity of the engine itself: how often it finds a difference where there is none, or one that was planted.

Runs are simulated as loss(activation, rate, seed) = level(rate) + effect(activation) + seed effect + residual, with a
normal seed effect that activations and rates share, and normal residuals. They are judged as real runs are.
"""

import collections
import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from scipy import stats

from actlab.analysis.contrasts import Grid, Pair, Score, judge_pairs
from actlab.analysis.effects import ALPHA, DIFFERENT, MARGIN, Verdict, paired_power
from actlab.analysis.protocol import lower
from actlab.analysis.results import Result

_CONFIDENCE = 0.99  # of the binomial intervals, so that chance rarely fails one of the seven checks
_QUESTION = lower("one", "other")
# Mean losses in residual sd at three rates. The choice between level ones is all noise.
_RATES = (1e-3, 3e-3, 1e-2)
_FLAT, _SHARP, _ONE_RATE = (0.0, 0.0, 4.0), (4.0, 0.0, 4.0), ((0.0,), (0.0,))
_PLANTED = 2.0  # residual sd


@dataclasses.dataclass(frozen=True)
class Noise:
    """Standard deviations of losses, nats: of the effect a seed has on all activations, and of the residual."""

    seed: float
    residual: float
    source: str


STATED = Noise(0.005, 0.005, "stated, since no table has two activations with two seeds")


@dataclasses.dataclass(frozen=True)
class Check:
    """A property that must hold, what was found, and whether it holds."""

    name: str
    found: str
    holds: bool


def measure(*tables: Iterable[Result]) -> Noise | None:
    """The noise of runs, by analysis of variance of activations times seeds, pooled over rates, conditions and tables.

    Places where a run diverged or a seed is missing are left out; None where no place is left.
    """
    places: dict[object, dict[str, dict[int, float]]] = collections.defaultdict(dict)
    for number, result in ((number, result) for number, table in enumerate(tables) for result in table):
        if result.done:
            place = (number, result.data, result.tokenizer, result.axes, result.learning_rate)
            loss = result.loss if result.learned else math.nan
            places[place].setdefault(result.activation, {})[result.seed] = loss
    blocks = [block for arms in places.values() if (block := _block(arms)) is not None]
    if not blocks:
        return None
    seed, residual = np.mean([_components(block) for block in blocks], axis=0)
    what = f"measured on {sum(block.size for block in blocks)} runs"
    return Noise(float(max(seed, 0.0) ** 0.5), float(residual**0.5), what)


def _block(arms: dict[str, dict[int, float]]) -> np.ndarray | None:
    seeds = sorted(set.intersection(*(set(arm) for arm in arms.values())))
    block = np.asarray([[arm[seed] for seed in seeds] for arm in arms.values()])
    usable = len(arms) > 1 and len(seeds) > 1 and bool(np.isfinite(block).all())
    return block if usable and np.ptp(block) else None


def _components(block: np.ndarray) -> tuple[float, float]:
    """Variances of the seed effect (which may come out negative) and of the residual."""
    n_arms, n_seeds = block.shape
    rest = block - block.mean(axis=1, keepdims=True)
    of_seed = rest.mean(axis=0, keepdims=True)
    residual = float(((rest - of_seed) ** 2).sum() / ((n_arms - 1) * (n_seeds - 1)))
    between = float(n_arms * (of_seed**2).sum() / (n_seeds - 1))
    return (between - residual) / n_arms, residual


def noise_of(*tables: Iterable[Result]) -> Noise:
    """The measured noise, or a stated one where none can be measured."""
    measured = measure(*tables)
    return measured if measured and measured.residual else STATED


def check(results: Sequence[Result], noise: Noise, n_seeds: int, repeats: int, seed: int) -> Iterator[Check]:
    """The checks, one by one: error rates, power, floors."""
    yield from _false_calls(noise, n_seeds, repeats, seed)
    yield _equivalence(noise, n_seeds, repeats, seed)
    yield _power(noise, n_seeds, repeats, seed)
    yield floors(results)


def _false_calls(noise: Noise, n_seeds: int, repeats: int, seed: int) -> Iterator[Check]:
    """A/A: the same activation under two names; then two activations that are equal only at their own best rates."""
    pairs = list(_simulated(noise, n_seeds, repeats, seed, 0.0, (_FLAT, _FLAT)))
    called: dict[str, Callable[[Pair], bool]] = {
        "at own best rate": _at_best,
        "at any of three rates": lambda pair: any(one.verdict in DIFFERENT for one in pair.at_rates.values()),
        "of LR sensitivity": lambda pair: pair.sensitivity.verdict in DIFFERENT,
    }
    for where, is_called in called.items():
        yield _at_most(f"A/A: calls a difference {where}", sum(map(is_called, pairs)), repeats)
    uneven = _simulated(noise, n_seeds, repeats, seed + 1, 0.0, (_FLAT, _SHARP))
    yield _at_most("flat and sharp optimum, equal at best: calls a difference", sum(map(_at_best, uneven)), repeats)


def _at_best(pair: Pair) -> bool:
    return pair.own_best.verdict in DIFFERENT


def _equivalence(noise: Noise, n_seeds: int, repeats: int, seed: int) -> Check:
    """A difference as large as the margin, with noise small enough for equivalence to be in reach."""
    quiet = dataclasses.replace(noise, residual=MARGIN / 4)
    pairs = _simulated(quiet, n_seeds, repeats, seed + 2, MARGIN, _ONE_RATE)
    # By the equivalence test alone: the t test mostly finds such a difference, and its verdict goes first.
    p_values = [pair.own_best.p_equivalence for pair in pairs]
    count = sum(p is not None and p <= ALPHA for p in p_values)
    return _at_most("calls a difference of one margin equivalent", count, repeats)


def _power(noise: Noise, n_seeds: int, repeats: int, seed: int) -> Check:
    """A difference of two residual sd, which is sqrt(2) sd of a paired difference."""
    pairs = _simulated(noise, n_seeds, repeats, seed + 3, _PLANTED * noise.residual, _ONE_RATE)
    count = sum(pair.own_best.verdict == Verdict.REFUTED for pair in pairs)
    predicted = paired_power(n_seeds, _PLANTED / 2**0.5)
    low, high = _binomial(count, repeats)
    found = f"{count / repeats:.1%} ({low:.1%} to {high:.1%}), predicted {predicted:.1%}"
    return Check(f"finds a planted difference of {_PLANTED:g} sd", found, low <= predicted <= high)


def _at_most(name: str, count: int, repeats: int) -> Check:
    low, high = _binomial(count, repeats)
    return Check(name, f"{count / repeats:.1%} ({low:.1%} to {high:.1%}), at most {ALPHA:.0%}", low <= ALPHA)


def _binomial(count: int, repeats: int) -> tuple[float, float]:
    interval = stats.binomtest(count, repeats).proportion_ci(_CONFIDENCE, method="exact")
    return float(interval.low), float(interval.high)


def _simulated(
    noise: Noise, n_seeds: int, repeats: int, seed: int, effect: float, levels: tuple[tuple[float, ...], ...]
) -> Iterator[Pair]:
    """Judged pairs whose first is `effect` above the second, on top of their levels at the rates."""
    rng = np.random.default_rng(seed)
    means = noise.residual * np.asarray(levels)[:, :, None] + np.asarray([effect, 0.0])[:, None, None]
    for _ in range(repeats):
        residuals = rng.normal(scale=noise.residual, size=(*means.shape[:2], n_seeds))
        losses = means + residuals + rng.normal(scale=noise.seed, size=n_seeds)
        grid = Grid.of(
            (name, rate, number, Score(float(loss), True))
            for name, rows in zip(_QUESTION.activations, losses, strict=True)
            for rate, row in zip(_RATES, rows, strict=False)  # _ONE_RATE has the first alone
            for number, loss in enumerate(row)
        )
        yield from judge_pairs(grid, [_QUESTION], MARGIN)


def floors(results: Iterable[Result]) -> Check:
    """No validation loss lies below the exact Bayes loss of its validation set."""
    known = [result for result in results if result.floor is not None]
    below = [result for result in known if _lowest(result) < (result.floor or 0.0)]
    found = f"none of {len(known)} runs with a known floor"
    if below:
        found = (
            f"{len(below)} of {len(known)} runs, {below[0].run} with {_lowest(below[0]):.4f} below {below[0].floor:.4f}"
        )
    return Check("a validation loss below the corpus's floor", found, not below)


def _lowest(result: Result) -> float:
    losses = (result.final_loss, result.best_loss, *(loss for _, loss in result.curve))
    return min((loss for loss in losses if loss is not None and math.isfinite(loss)), default=math.inf)
