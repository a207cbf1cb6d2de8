"""Validity of the engine itself: how often it finds a difference where there is none, or one that was planted.

A world says how the losses of two activations are distributed: loss(arm, rate, seed) = level(arm, rate) + seed effect +
residual, where activations and rates share the effect of a seed, and some seeds collapse at high rates. Thousands of
studies are drawn from each and judged as real runs are.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float64
from scipy import stats

from actlab.analysis.contrasts import Grid, Pair, Score, judge_pairs, measure
from actlab.analysis.effects import ALPHA, DIFFERENT, MARGIN, Verdict, judge, paired_power
from actlab.analysis.protocol import lower
from actlab.analysis.results import Result

_CONFIDENCE = 0.99  # of the binomial intervals, so that chance rarely fails one of twenty checks
_QUESTION = lower("one", "other")
_STEP = 1.8  # between neighbouring rates, so that a best one inside the grid is resolved
PLANTED = 2.0  # residual sd
COLLAPSED = 300.0  # residual sd above the others

Law = Literal["normal", "exponential", "mirrored", "lognormal", "t3", "spikes"]


@dataclasses.dataclass(frozen=True)
class World:
    """Two activations of equal best loss, in residual sd.

    `levels` are the mean losses of each arm at rising rates, `spread` its residual sd there, `laws` those of its
    residuals, `collapse` the share of seeds that collapse at the highest rates, the last ones. A seed collapses in both
    arms or in each by itself; with `of_one` only in the first. `limit` marks a world in which the tests are known to
    call too much: what decides the means is rarely seen, or the curves are of another shape than is assumed.
    """

    name: str
    levels: tuple[tuple[float, ...], tuple[float, ...]]
    spread: tuple[float, float] = (1.0, 1.0)
    laws: tuple[Law, Law] = ("normal", "normal")
    collapse: tuple[float, ...] = ()
    together: bool = False
    of_one: bool = False
    limit: bool = False


def _valley(bend: float, at: float = 0.0) -> tuple[float, ...]:
    """Levels of five rates around an optimum that lies `at` steps beside the middle one."""
    return tuple(bend * (place - at) ** 2 for place in (-2, -1, 0, 1, 2))


def _lopsided(bend: float, at: float = 0.0, tilt: float = 1.0) -> tuple[float, ...]:
    """A valley as sharp at its optimum, but steeper above it than below."""
    x = [tilt * (place - at) for place in (-2, -1, 0, 1, 2)]
    return tuple(2 * bend / tilt**2 * (math.exp(one) - one - 1) for one in x)


_ONE_RATE = World("one rate", ((0.0,), (0.0,)))
_LEVEL, _SHARP, _RISING = (0.0, 0.0, 0.0), (4.0, 0.0, 4.0), (8.0, 3.0, 0.0)
_CLIFF = (16.0, 4.0, 0.0, 4.0, 46.0)
_UNEVEN = World("level rates of one, an optimum of the other", ((0.0,) * 5, _valley(0.5)))
_NOISIER = World("one three times as noisy, level rates", (_LEVEL, _LEVEL), (1.0, 3.0))
WORLDS = (
    World("equal normal noise, level rates", (_LEVEL, _LEVEL)),
    World("equal normal noise, a sharp optimum", (_SHARP, _SHARP)),
    *(
        World(
            f"{share:.0%} of the seeds collapse at the top rate, which is best", (_RISING, _RISING), collapse=(share,)
        )
        for share in (0.1, 0.2, 0.3)
    ),
    *(
        World(
            f"{share:.0%} collapse at the top two rates, twice as many at the last",
            ((*_RISING, 1.0), (*_RISING, 1.0)),
            collapse=(share, 2 * share),
        )
        for share in (0.1, 0.2, 0.3)
    ),
    World("20% collapse at the top rate, the same seeds in both", (_RISING, _RISING), collapse=(0.2,), together=True),
    World("30% collapse beyond the best rate", ((3.0, 0.0, 2.0), (3.0, 0.0, 2.0)), collapse=(0.3,)),
    World("30% collapse at the only rate", ((0.0,), (0.0,)), collapse=(0.3,)),
    _NOISIER,
    World("one three times as noisy, a sharp optimum", (_SHARP, _SHARP), (1.0, 3.0)),
    World("skewed noise, exponential", (_LEVEL, _LEVEL), laws=("exponential", "exponential")),
    World("skewed noise of one, lognormal", (_SHARP, _SHARP), laws=("lognormal", "normal")),
    World("heavy tails, t with 3 df", (_LEVEL, _LEVEL), laws=("t3", "t3")),
    World("level rates of one, a sharp optimum of the other", (_LEVEL, _SHARP)),
    World("five level rates of one, a sharp optimum of the other", ((0.0,) * 5, _valley(4.0))),
    World("an optimum on the grid and one between its rates", (_valley(4.0), _valley(4.0, 0.5))),
    World("optima between rates, a quarter step left and right", (_valley(4.0, -0.25), _valley(4.0, 0.25))),
    World("lopsided valleys, one with its optimum between two rates", (_lopsided(8.0), _lopsided(8.0, 0.5))),
    World(
        "lopsided valleys whose fourth rate lies far up the steep side",
        (_lopsided(8.0)[1:], _lopsided(8.0, -0.4)[1:]),
    ),
    World("a cliff beyond the next rate of one, the other's optimum beside the grid", (_CLIFF, _valley(4.0, 0.4))),
    World(
        "lopsided valleys, 30% of the seeds collapse at the top rate, beyond the best",
        (_lopsided(8.0), _lopsided(8.0, 0.5)),
        collapse=(0.3,),
    ),
    World(
        "optima on the grid and half a step beside it, 30% of the seeds collapse at the next rate",
        (_valley(4.0), _valley(4.0, 0.5)),
        collapse=(0.3, 0.6),
    ),
    World(
        "one rate, one arm three times as noisy and skewed",
        ((0.0,), (0.0,)),
        (3.0, 1.0),
        ("lognormal", "normal"),
        limit=True,
    ),
    World("one rate, opposite skews", ((0.0,), (0.0,)), laws=("exponential", "mirrored"), limit=True),
    World("one rate, 10% of the seeds of one 10 sd worse", ((0.0,), (0.0,)), laws=("spikes", "normal"), limit=True),
    World(
        "lopsided valleys at three rates, one with its optimum between two",
        (_lopsided(8.0)[1:-1], _lopsided(8.0, 0.5)[1:-1]),
        limit=True,
    ),
    World(
        "valleys twice as lopsided, one with its optimum between two rates",
        (_lopsided(8.0, tilt=2.0), _lopsided(8.0, 0.5, tilt=2.0)),
        limit=True,
    ),
    World(
        "valleys with a kink, on a rate in one and a quarter step beside it in the other",
        ((12.0, 6.0, 0.0, 6.0, 12.0), (13.5, 7.5, 1.5, 4.5, 10.5)),
        limit=True,
    ),
    World(
        "two level rates beside a cliff in one, the other's optimum between two rates",
        ((2.0, 0.5, 0.0, 0.0, 40.0), _valley(4.0, 0.5)),
        limit=True,
    ),
    World(
        "a flat bottom with steep sides (fourth power) in one, a valley in the other, optima between rates",
        (tuple(2 * (place - 0.3) ** 4 for place in (-2, -1, 0, 1, 2)), _valley(4.0, 0.3)),
        limit=True,
    ),
    World(
        "seven level rates of one, three times as noisy, a sharp optimum of the other",
        ((0.0,) * 7, (36.0, *_valley(4.0), 36.0)),
        (3.0, 1.0),
        limit=True,
    ),
    World(
        "5% of the seeds of one collapse at the top rate, else its best",
        (_RISING, (8.0, 3.0, 8.0)),
        collapse=(0.05,),
        of_one=True,
        limit=True,
    ),
)


@dataclasses.dataclass(frozen=True)
class Check:
    """A property that must hold, what was found, and whether it holds; a `limit` is shown and need not."""

    name: str
    found: str
    holds: bool
    limit: bool = False


def check(results: Sequence[Result], n_seeds: int, repeats: int, seed: int) -> Iterator[Check]:
    """The checks, one by one: false calls and power in each world, at given rates, equivalence, floors."""
    for number, world in enumerate(WORLDS):
        yield _of_world(world, n_seeds, repeats, seed + number)
    yield from _at_given_rates(n_seeds, repeats, seed + len(WORLDS))
    for number, world in enumerate((_ONE_RATE, _UNEVEN), len(WORLDS) + 1):
        yield _equivalence(world, n_seeds, repeats, seed + number)
    yield floors(results)


def _of_world(world: World, n_seeds: int, repeats: int, seed: int) -> Check:
    """False calls at own best rates, and power: how often a difference of two residual sd is found."""
    rng = np.random.default_rng(seed)
    calls = [called(grid) for grid in grids(world, n_seeds, repeats, rng)]
    found = [called(grid) for grid in grids(world, n_seeds, repeats // 4, rng, PLANTED * max(world.spread))]
    power = np.mean([verdict == Verdict.REFUTED for verdict in found])
    count = sum(verdict in DIFFERENT for verdict in calls)
    return at_most(world.name, count, repeats, f"; power {power:.0%}", world.limit)


def called(grid: Grid) -> Verdict:
    """The verdict at own best rates."""
    return judge([measure(_QUESTION, grid).effect], MARGIN)[0].verdict


def _at_given_rates(n_seeds: int, repeats: int, seed: int) -> Iterator[Check]:
    """A/A at rates that are given, and of sensitivities; power at one, which is that of the t test."""
    rng = np.random.default_rng(seed)
    of_pair: dict[str, Callable[[Pair], bool]] = {
        "at any of three given rates": lambda pair: any(one.verdict in DIFFERENT for one in pair.at_rates.values()),
        "of LR sensitivity": lambda pair: pair.sensitivity.verdict in DIFFERENT,
    }
    pairs = [judge_pairs(grid, [_QUESTION], MARGIN)[0] for grid in grids(WORLDS[0], n_seeds, repeats, rng)]
    for where, is_called in of_pair.items():
        yield at_most(where, sum(map(is_called, pairs)), repeats)
    uneven = [judge_pairs(grid, [_QUESTION], MARGIN)[0] for grid in grids(_NOISIER, n_seeds, repeats // 4, rng)]
    count = sum(pair.sensitivity.verdict in DIFFERENT for pair in uneven)
    yield at_most("of LR sensitivity, one three times as noisy", count, len(uneven), limit=True)
    planted = grids(_ONE_RATE, n_seeds, repeats, rng, PLANTED)
    count = sum(judge_pairs(grid, [_QUESTION], MARGIN)[0].at_rates[1.0].verdict == Verdict.REFUTED for grid in planted)
    predicted = paired_power(n_seeds, PLANTED / 2**0.5)
    low, high = _binomial(count, repeats)
    found = f"{count / repeats:.1%} ({low:.1%} to {high:.1%}), predicted {predicted:.1%}"
    yield Check(f"finds a planted difference of {PLANTED:g} sd at a given rate", found, low <= predicted <= high)


def _equivalence(world: World, n_seeds: int, repeats: int, seed: int) -> Check:
    """A difference as large as the margin, with noise small enough for equivalence to be in reach."""
    margin = 4.0  # residual sd
    studies = grids(world, n_seeds, repeats, np.random.default_rng(seed), margin)
    # By the equivalence test alone: the others mostly find such a difference, and their verdict goes first.
    p_values = [measure(_QUESTION, grid).effect.p_equivalence(margin) for grid in studies]
    count = sum(p is not None and p <= ALPHA for p in p_values)
    return at_most(f"a difference of one margin called equivalent, {world.name}", count, repeats)


def at_most(name: str, count: int, repeats: int, more: str = "", limit: bool = False) -> Check:
    """Holds where the binomial interval of the share of false calls reaches down to 5%, or for a `limit`."""
    low, high = _binomial(count, repeats)
    found = f"{count / repeats:.1%} ({low:.1%} to {high:.1%}), at most {ALPHA:.0%}{more}"
    return Check(name, found, limit or low <= ALPHA, limit)


def _binomial(count: int, repeats: int) -> tuple[float, float]:
    interval = stats.binomtest(count, repeats).proportion_ci(_CONFIDENCE, method="exact")
    return float(interval.low), float(interval.high)


def grids(world: World, n_seeds: int, repeats: int, rng: np.random.Generator, effect: float = 0.0) -> Iterator[Grid]:
    """Studies of a world, in residual sd, at rates 1.8 apart. The first arm is `effect` above its levels."""
    levels = np.array(world.levels)
    rates = [_STEP**place for place in range(levels.shape[1])]
    shape = (repeats, levels.shape[1], n_seeds)
    arms = zip(world.laws, world.spread, strict=True)
    noise = np.stack([spread * residuals(law, shape, rng) for law, spread in arms], axis=1)
    losses = levels[:, :, None] + noise + rng.normal(size=(repeats, 1, 1, n_seeds))
    losses[:, 0] += effect
    # A seed that collapses at a rate does so at the higher ones too.
    draws = rng.uniform(size=(repeats, 1 if world.together else 2, 1, n_seeds))
    shares = np.pad(world.collapse, (levels.shape[1] - len(world.collapse), 0))
    failed = np.broadcast_to(draws < shares[:, None], losses.shape)
    if world.of_one:
        failed = failed & np.array([True, False])[:, None, None]
    losses = np.where(failed, COLLAPSED + losses, losses)
    how = np.where(failed, "collapsed", "").tolist()
    for study, words in zip(losses.tolist(), how, strict=True):
        yield Grid.of(
            (name, rate, number, Score(loss, word))
            for name, rows, said in zip(_QUESTION.activations, study, words, strict=True)
            for rate, row, said_of in zip(rates, rows, said, strict=True)
            for number, (loss, word) in enumerate(zip(row, said_of, strict=True))
        )


def residuals(law: Law, shape: tuple[int, ...], rng: np.random.Generator) -> Float64[np.ndarray, "..."]:
    """Noise of mean 0 and sd 1, except t with 3 df and the lognormal, whose sample sd is mostly lower, and spikes.

    Spikes are normal noise in which one seed in ten is 10 sd above the others.
    """
    if law in ("exponential", "mirrored"):
        return (rng.exponential(size=shape) - 1) * (1 if law == "exponential" else -1)
    if law == "spikes":
        return rng.normal(size=shape) + 10 * (rng.uniform(size=shape) < 0.1) - 1
    if law == "lognormal":
        return (np.exp(rng.normal(size=shape)) - math.e**0.5) / ((math.e - 1) * math.e) ** 0.5
    return rng.normal(size=shape) if law == "normal" else rng.standard_t(3, size=shape) / 3**0.5


def floors(results: Iterable[Result]) -> Check:
    """No validation loss lies below the exact Bayes loss of its validation set."""
    known = [result for result in results if result.floor is not None]
    below = [result for result in known if _lowest(result) < (result.floor or 0.0)]
    found = f"none of {len(known)} runs with a known floor" if known else "not checked: no run has a known floor"
    if below:
        found = (
            f"{len(below)} of {len(known)} runs, {below[0].run} with {_lowest(below[0]):.4f} below {below[0].floor:.4f}"
        )
    return Check("a validation loss below the corpus's floor", found, not below)


def _lowest(result: Result) -> float:
    losses = (result.final_loss, result.best_loss, *(loss for _, loss in result.curve))
    return min((loss for loss in losses if loss is not None and math.isfinite(loss)), default=math.inf)
