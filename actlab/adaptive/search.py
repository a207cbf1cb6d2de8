"""The search of one activation's best learning rate, on search seeds of its own, which decide nothing else.

Rates lie on a grid, `start` times powers of 1.5. There are three stages, each a function of what is known, so that a
search goes on where it stopped:

1. Coarse: rates a factor 1.5^3 apart are trained for a quarter of their steps, further ones at an edge, until the best
   lies between two others; these three go on to the half, and again. The others cannot win any more and stop
   (successive halving; Jamieson and Talwalkar 2016, arXiv:1502.07943).
2. Fine: the rate at the vertex of the parabola through the three, and its two neighbours on the grid, are trained to
   the end, further ones where the best is at an edge, until its neighbours are known.
3. Wide: where the valley is so flat that noise may misplace its vertex, rates about a factor 1.5^3 away are trained to
   the end as well.

The rate found is the vertex of the parabola in log rate through the best and its neighbours, or the least-squares one
through the wider rates too.
"""

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

RUNGS = 4  # a search run is trained and evaluated in quarters of its steps
SEEDS = 2  # search seeds of each rate: fewer show no noise, more buy less than seeds of the judgement
STEP = 1.5  # between neighbouring rates of the grid
REACH = 12  # steps from the start, each way: a factor of 130
_COARSE = 3  # steps
_SCREEN = 2  # rungs of the first stage
_FLAT = 0.05  # residual sd: an expected loss by misplacement that is worth wider rates
_BOUND = 3.0  # the allowance, times the expected loss by misplacement


@dataclasses.dataclass(frozen=True)
class Progress:
    """Of one rate: what its search seeds have done so far.

    `rung` counts the quarters that are done, 1..RUNGS; `losses` are the validation losses of each seed there, nan where
    it diverged; `failed` says which diverged or collapsed (a loss no better than the trivial one) by then.
    """

    rung: int
    losses: tuple[float, ...]
    failed: tuple[bool, ...]


class Task(NamedTuple):
    """Train this rate's search seeds up to and with this rung."""

    rate: float
    rung: int


@dataclasses.dataclass(frozen=True)
class Found:
    """The rate to judge at; why it is not resolved, or ""; by how much its loss may lie above that at the true best."""

    rate: float
    unresolved: str
    allowance: float


def next_tasks(known: Mapping[float, Progress], start: float) -> tuple[Task, ...] | Found:
    """What to train next, or the rate that was found. `start` is the config's own rate, `known` holds all tasks so far.

    A rate is resolved where its neighbours within a factor 1.5 are trained to the end and no run failed at the three. A
    rate at which a run failed does not win. The search is bounded: at most 25 rates, a factor of 130 each way.
    """
    search = _Search({round(math.log(rate / start, STEP)): progress for rate, progress in known.items()}, start)
    return search.coarse() or search.fine()


def expected_runs() -> float:
    """What a search costs, in full runs over all its seeds: the mean of simulated searches, see simulation.py."""
    return SEEDS * 5.5


class _Fit(NamedTuple):
    """A parabola's vertex in steps, and the expected loss there above the true best, also relative to the noise."""

    vertex: float
    misplaced: float
    relative: float


@dataclasses.dataclass(frozen=True)
class _Search:
    """Places are steps from the start."""

    at: Mapping[int, Progress]
    start: float

    def coarse(self) -> tuple[Task, ...]:
        """Tasks of the first stage; none once it is over."""
        if not self.at:
            return self._tasks((-_COARSE, 0, _COARSE), 1)
        if any(progress.rung == RUNGS for progress in self.at.values()):
            return ()
        if not self._usable:
            further = (min(self.at) - _COARSE, max(self.at) + _COARSE)
            return self._tasks([place for place in further if abs(place) <= REACH][:1], 1)
        best = min(self._usable, key=self._order)
        rung, three = self.at[best].rung, (best - _COARSE, best, best + _COARSE)
        if tasks := self._tasks(three, rung):
            return tasks
        return self._tasks([place for place in three if place in self._usable], rung + 1) if rung < _SCREEN else ()

    def fine(self) -> tuple[Task, ...] | Found:
        """Tasks of the second and third stage, or what they found."""
        if not self._usable:
            return Found(self.start, "at every rate some run failed", math.inf)
        best = min(self._usable, key=self._order)
        if self.at[best].rung < RUNGS:
            centre = best
            if {best - _COARSE, best + _COARSE} <= self._usable.keys():
                centre += round(np.clip(self._fit(best, _COARSE).vertex, -1, 1))
            return self._tasks((centre - 1, centre, centre + 1), RUNGS) or self._tasks([best], RUNGS)
        if tasks := self._tasks((best - 1, best, best + 1), RUNGS):
            return tasks
        if reason := self._unresolved(best):
            return Found(self._rate(best), reason, self._beyond(best))
        fit = self._fit(best, 1)
        if fit.relative > _FLAT:
            if tasks := self._tasks([self._wider(best, -1), self._wider(best, 1)], RUNGS):
                return tasks
            wide = self._fit(best, _COARSE + 1)
            centre = best + round(wide.vertex)
            if tasks := self._tasks((centre - 1, centre, centre + 1), RUNGS):
                return tasks
            fit = fit if self._unresolved(centre) else wide
        rate = self.start * STEP ** (best + fit.vertex)
        return Found(float(f"{rate:.3g}"), "", _BOUND * fit.misplaced)

    @functools.cached_property
    def _usable(self) -> dict[int, float]:
        """Mean losses of the places at which no run failed, rising."""
        places = [place for place in sorted(self.at) if not any(self.at[place].failed)]
        means = {place: float(np.mean(self.at[place].losses)) for place in places}
        return {place: mean for place, mean in means.items() if math.isfinite(mean)}

    def _order(self, place: int) -> tuple[int, float]:
        """Who went on farther won against those who stopped."""
        return -self.at[place].rung, self._usable[place]

    def _rate(self, place: int) -> float:
        return self.start if place == 0 else float(f"{self.start * STEP**place:.6g}")

    def _tasks(self, places: Iterable[int], rung: int) -> tuple[Task, ...]:
        """To train these places up to a rung, but those that are beyond it, out of reach, or failed."""
        return tuple(
            Task(self._rate(place), rung)
            for place in places
            if abs(place) <= REACH and (place not in self.at or (self.at[place].rung < rung and place in self._usable))
        )

    def _unresolved(self, best: int) -> str:
        """Why a place is not resolved; the words of analysis/best_rates.py."""
        rate = f"{self._rate(best):g}"
        for beside in (best - 1, best + 1):
            if beside not in self.at:
                return f"{rate} is at the edge of the search"
            if beside not in self._usable:
                count, runs = sum(self.at[beside].failed), len(self.at[beside].failed)
                return f"of {rate}, {count} of {runs} runs failed at {self._rate(beside):g} beside it"
        return ""

    def _beyond(self, best: int) -> float:
        """How far the loss may fall towards the next higher rate, at which a run failed.

        By no more than it fell over the step before, as the valley is convex; without that step there is no bound.
        """
        if best - 1 in self._usable and best + 1 in self.at:
            return max(self._usable[best - 1] - self._usable[best], 0.0)
        return math.inf

    def _wider(self, best: int, sign: int) -> int:
        """The place about a coarse step away that has come farthest."""
        near = sorted((2, 3, 4), key=lambda away: abs(away - _COARSE))
        known = [best + sign * away for away in near if best + sign * away in self.at]
        return max(known, key=lambda place: self.at[place].rung) if known else best + sign * _COARSE

    def _fit(self, best: int, farthest: int) -> _Fit:
        """The parabola through the places at the best's rung that are at most so far away."""
        places = [
            place
            for place in self._usable
            if self.at[place].rung == self.at[best].rung and abs(place - best) <= farthest
        ]
        x = np.array(places, np.float64) - best
        losses = np.array([self.at[place].losses for place in places])
        inverse = np.linalg.pinv(np.stack([np.ones_like(x), x, x**2], axis=1))
        _, slope, bend = inverse @ losses.mean(axis=1)
        vertex = float(np.clip(-slope / (2 * bend), x.min(), x.max())) if bend > 0 else 0.0
        n_places, n_seeds = losses.shape
        residuals = losses - losses.mean(axis=0) - losses.mean(axis=1, keepdims=True) + losses.mean()
        noise = math.sqrt((residuals**2).sum() / max((n_places - 1) * (n_seeds - 1), 1))
        # An error of the slope at the vertex moves it by error / (2 bend), where the loss is error^2 / (4 bend) higher.
        error = noise * float(np.linalg.norm(np.array([0, 1, 2 * vertex]) @ inverse)) / n_seeds**0.5
        farthest_loss = error * float(np.abs(x).max())
        misplaced = min(error**2 / (4 * bend), farthest_loss) if bend > 0 else farthest_loss
        return _Fit(vertex, misplaced, misplaced / noise if noise else 0.0)
