"""Whole comparisons simulated, search and judgement, to count how often they call a difference where there is none.

They drive the very code that a real comparison does. A run's loss is level(activation, rate) + effect of the seed +
residual; a run of the search that stops early has more noise and an optimum at a lower rate.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from actlab.adaptive import search
from actlab.adaptive.judgement import BLOCK, PairState, judge, trends
from actlab.analysis import validity
from actlab.analysis.effects import DIFFERENT, Verdict
from actlab.analysis.validity import COLLAPSED, Check, Law, at_most, residuals

_SEEDS = 40  # looked at after each
_PLANTED = 3.0  # residual sd
_MARGIN = 0.25  # residual sd
_START = 1e-3
_DRIFT = 2.0  # steps by which the optimum after no training lies below that at the end
_GRID = (6, 8)  # rates and seeds of the fixed design that the saving is measured against
_FIXED_STEP = math.log(1.8) / math.log(search.STEP)  # of that grid


@dataclasses.dataclass(frozen=True)
class World:
    """Activations of equal best loss, in residual sd; each has one value of bends, optima, spread and laws.

    The level is bend x^2 at x steps of a factor 1.5 from the optimum, and `optima` are in steps from the start. With a
    tilt k it is 2 bend (exp(k x) - k x - 1) / k^2, as sharp at the optimum, but steeper above than below. Of the seeds
    a share `collapse` fails at the optimum, twice as many with every step up, each activation's or the same `together`.
    With a `cliff` the level falls by bend a step up to the optimum, and beyond it every run fails. At `diverges` steps
    above the optimum and beyond, every run diverges.
    With `better` the first activation is so much lower where it does not fail, and it alone fails, in the same share of
    seeds at every rate. So its mean is higher, and calling it lower is false: a limit of the test.
    """

    name: str
    bends: tuple[float, ...] = (1.0, 1.0)
    optima: tuple[float, ...] = (0.4, -0.25)
    spread: tuple[float, ...] = (1.0, 1.0)
    laws: tuple[Law, ...] = ("normal", "normal")
    tilt: float = 0.0
    collapse: float = 0.0
    together: bool = False
    cliff: bool = False
    diverges: float = math.inf
    better: float = 0.0


_UNEVEN = World("a flat valley of one, a sharp optimum of the other", (0.1, 4.0), (2.5, 0.4))
_SIX: Any = ((2.5, -4.6, 0.4, -0.25, 1.3, -2.1), (1.0,) * 6, ("normal",) * 6)  # optima, spread, laws
WORLDS = (
    World("equal normal noise, optima between rates"),
    World("level rates of one, a sharp optimum of the other", (0.0, 4.0)),
    _UNEVEN,
    World("two flat valleys, optima far apart", (0.1, 0.1), (2.5, -4.6)),
    World("lopsided valleys, one flat", (0.3, 2.0), (-0.6, 0.4), tilt=0.6),
    World("10% of the seeds collapse at the best rate", collapse=0.1),
    World("30% of the seeds collapse at the best rate", collapse=0.3),
    World("20% collapse at the best rate, the same seeds in both", collapse=0.2, together=True),
    World("beyond the best rate every run fails", (2.0, 2.0), (0.9, 0.05), cliff=True),
    World("from a factor 3.4 above the best rate on every run diverges", (1.0, 1.0), (-6.0, -5.3), diverges=3.0),
    World("one three times as noisy", spread=(3.0, 1.0)),
    World("skewed noise of one, lognormal", laws=("lognormal", "normal")),
    World("heavy tails, t with 3 df", laws=("t3", "t3")),
    World("one three times as noisy, exponential", spread=(3.0, 1.0), laws=("exponential", "normal")),
    World("one three times as noisy, lognormal", spread=(3.0, 1.0), laws=("lognormal", "normal")),
    World("three activations", (1.0,) * 3, (0.4, 0.0, -0.3), (3.0, 1.0, 1.0), ("exponential", "normal", "normal")),
    World("six activations, flat valleys, optima far apart", (0.1,) * 6, *_SIX),
    World("six activations, 10% of the seeds collapse at the best rate", (1.0,) * 6, *_SIX, collapse=0.1),
    World("six activations, beyond the best rate every run fails", (2.0,) * 6, *_SIX, cliff=True),
    World("one is 3 sd lower, but for 5% of its seeds, which collapse", collapse=0.05, better=3.0),
)


class Outcome(NamedTuple):
    """One comparison: its pairs at the end, whether a look called one, and the cost of its searches in full runs."""

    pairs: tuple[PairState, ...]
    called: bool
    searched: float


def check(repeats: int, seed: int) -> Iterator[Check]:
    """The checks, one by one: false calls of any pair in each world, equivalence, and the saving of runs."""
    for number, world in enumerate(WORLDS):
        yield _of_world(world, repeats, np.random.default_rng((seed, number)))
    rng = np.random.default_rng((seed, len(WORLDS)))
    yield _equivalence(repeats, rng)
    yield _trend(repeats, rng)
    yield _saving(repeats // 4, rng)


def _of_world(world: World, repeats: int, rng: np.random.Generator) -> Check:
    """False calls of any pair, and how often and soon a difference of three residual sd (of the noisiest) is found."""
    count = sum(_outcome(world, rng).called for _ in range(repeats))
    effect = _PLANTED * max(world.spread)
    planted = [_outcome(world, rng, effect).pairs[0] for _ in range(repeats // 8)]
    seeds = [pair.decided_at for pair in planted if pair.verdict == Verdict.REFUTED and pair.decided_at]
    more = f"; power {len(seeds) / len(planted):.0%}" + (f" in {np.median(seeds):.0f} seeds" if seeds else "")
    if world.better:
        return at_most(world.name, count, repeats, limit=True)
    return at_most(world.name, count, repeats, more)


def _equivalence(repeats: int, rng: np.random.Generator) -> Check:
    """A difference as large as the margin, and so little noise that equivalence is in reach."""
    margin = 2.0
    count = sum(_outcome(WORLDS[0], rng, margin, margin).pairs[0].verdict == Verdict.EQUIVALENT for _ in range(repeats))
    equal = [_outcome(WORLDS[0], rng, 0.0, margin).pairs[0].verdict == Verdict.EQUIVALENT for _ in range(repeats // 8)]
    return at_most("a difference of one margin called equivalent", count, repeats, f"; power {np.mean(equal):.0%}")


def _trend(repeats: int, rng: np.random.Generator) -> Check:
    """Over two widths with one difference, and power for a change of it by three residual sd times sqrt(2)."""
    world, n_tests = _UNEVEN, 2

    def change(effect: float) -> PairState:
        found, _ = zip(*(_search(world, arm, rng) for arm in (0, 1)), strict=True)
        widths = []
        for width in (0, 1):
            shared = rng.normal(size=_SEEDS)
            levels = [_level(world, arm, _step(found[arm].rate)) + shared + rng.normal(size=_SEEDS) for arm in (0, 1)]
            widths.append({"0": levels[0] + effect * width, "1": levels[1]})
        return trends(widths, _MARGIN, {str(arm): found[arm].allowance for arm in (0, 1)}, n_tests=n_tests)[0]

    count = sum(change(0.0).verdict in DIFFERENT for _ in range(repeats))
    power = float(np.mean([change(_PLANTED * 2**0.5).verdict == Verdict.REFUTED for _ in range(repeats // 8)]))
    return at_most("a change over two widths", count, repeats, f"; power {power:.0%}")


def _saving(repeats: int, rng: np.random.Generator) -> Check:
    """Full runs, and so updates, against a fixed grid of rates and seeds judged at own best rates, at equal power."""
    world, (n_rates, n_seeds), effect = WORLDS[0], _GRID, validity.PLANTED
    steps = _FIXED_STEP * (np.arange(n_rates) - (n_rates - 1) / 2)
    one, other = (tuple(_level(world, arm, step) for step in steps.tolist()) for arm in (0, 1))
    fixed = validity.World("the same on a fixed grid", (one, other))
    verdicts = [validity.called(grid) for grid in validity.grids(fixed, n_seeds, repeats, rng, effect)]
    power = float(np.mean([verdict == Verdict.REFUTED for verdict in verdicts]))
    outcomes = [_outcome(world, rng, effect) for _ in range(repeats)]
    ends = np.array([outcome.pairs[0].decided_at or _SEEDS for outcome in outcomes])
    hits = np.array([outcome.pairs[0].verdict == Verdict.REFUTED for outcome in outcomes])
    # The fewest seeds to stop at that give the power of the grid.
    most = next((n for n in range(1, _SEEDS + 1) if np.mean(hits & (ends <= n)) >= power), _SEEDS)
    runs = np.mean([outcome.searched for outcome in outcomes]) + 2 * np.minimum(ends, most).mean()
    share = float(runs) / (2 * n_rates * n_seeds)
    found = f"{share:.0%} of the runs of {n_rates} rates and {n_seeds} seeds, at most 67%; power {power:.0%}"
    return Check("saves runs", f"{found}, at most {most} seeds", share <= 2 / 3)


def _outcome(world: World, rng: np.random.Generator, effect: float = 0.0, margin: float = _MARGIN) -> Outcome:
    """A comparison, the first activation `effect` above the others."""
    arms = range(len(world.bends))
    found, costs = zip(*(_search(world, arm, rng) for arm in arms), strict=True)
    shared = rng.normal(size=_SEEDS)
    fates = np.broadcast_to(rng.uniform(size=(1 if world.together else len(arms), _SEEDS)), (len(arms), _SEEDS))
    losses, failed, allowances = {}, {}, {}
    for arm in arms:
        name, step = str(arm), _step(found[arm].rate)
        failed[name] = fates[arm] < _share(world, arm, step)
        noise = world.spread[arm] * residuals(world.laws[arm], (_SEEDS,), rng)
        values = _level(world, arm, step) + shared + noise + (effect - world.better if arm == 0 else 0.0)
        losses[name] = np.where(failed[name], COLLAPSED, values)
        allowances[name] = found[arm].allowance
    return Outcome(*_judged(losses, margin, allowances, failed), sum(costs))


def _judged(
    losses: Mapping[str, np.ndarray],
    margin: float,
    allowances: Mapping[str, float],
    failed: Mapping[str, np.ndarray],
) -> tuple[tuple[PairState, ...], bool]:
    """The pairs where a comparison ends, and whether a look called a difference: a budget may end at any of them.

    The first failure of an activation revokes decisions, so what was decided is read at the look before each. But a
    comparison in which every pair is decided has ended, and sees no later failure.
    """
    called, pairs = False, ()
    failing = {int(row.argmax()) // BLOCK * BLOCK for row in failed.values() if row.any()}
    for n in sorted(failing - {0} | {_SEEDS}):
        pairs = judge(_first(n, losses), margin, allowances, _first(n, failed))
        called |= any(pair.verdict in DIFFERENT for pair in pairs)
        if all(pair.verdict != Verdict.UNDECIDED for pair in pairs):
            break
    return pairs, called


def _first(n: int, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: row[:n] for name, row in rows.items()}


def _step(rate: float) -> float:
    return math.log(rate / _START, search.STEP)


def _level(world: World, arm: int, step: float) -> float:
    away = step - world.optima[arm]
    if world.cliff:
        return world.bends[arm] * max(-away, 0.0)
    if world.tilt:
        return 2 * world.bends[arm] * (math.exp(world.tilt * away) - world.tilt * away - 1) / world.tilt**2
    return world.bends[arm] * away**2


def _share(world: World, arm: int, step: float) -> float:
    if world.better:
        return world.collapse if arm == 0 else 0.0
    if world.cliff:
        return float(step > world.optima[arm])
    if step >= world.optima[arm] + world.diverges:
        return 1.0
    return world.collapse * 2.0 ** (step - world.optima[arm])


def _search(world: World, arm: int, rng: np.random.Generator) -> tuple[search.BestRate, float]:
    """An activation's search, and its full runs over all seeds."""
    n, runs = search.SEEDS, 0.0
    known: dict[float, search.Progress] = {}
    noise: dict[float, np.ndarray] = {}
    shared, fates = rng.normal(size=n), rng.uniform(size=n)
    while isinstance(tasks := search.next_tasks(known, _START, len(world.bends)), tuple):
        for rate, rung in tasks:
            part, step = rung / search.RUNGS, _step(rate)
            runs += n * (part - (known[rate].rung / search.RUNGS if rate in known else 0))
            own, early = world.spread[arm] * residuals(world.laws[arm], (2, n), rng)
            own = noise.setdefault(rate, own)
            losses = _level(world, arm, step + _DRIFT * (1 - part)) + shared + own + (1 / part - 1) ** 0.5 * early
            failed = fates < _share(world, arm, step)
            losses = np.where(failed, COLLAPSED, losses)
            if step >= world.optima[arm] + world.diverges:
                rung, losses = search.RUNGS, np.full(n, math.nan)
            known[rate] = search.Progress(rung, tuple(losses.tolist()), tuple(failed.tolist()))
    return tasks, runs
