"""The search of one activation's best learning rate, on search seeds of its own, which decide nothing else.

Rates lie on a grid, `start` times powers of 1.5. There are three stages, each a function of what is known, so that a
search goes on where it stopped:

1. Coarse: rates a factor 1.5^3 apart are trained for a quarter of their steps, further ones at an edge, until the best
   lies between two others; these three go on to the half, and again. The others cannot win any more and stop
   (successive halving; Jamieson and Talwalkar 2016, arXiv:1502.07943).
2. Fine: the rate at the vertex of the parabola through the three, and its two neighbours on the grid, are trained to
   the end, further ones where the best is at an edge, until its neighbours are known.
3. Wide: the rates two steps away are trained to the end too. Five rates say how sharp the valley is; where it is so
   flat that noise may misplace the vertex of the three in its middle, the parabola is the least-squares one through
   five, or through those up to four steps away. A wide parabola has less noise, a narrow one fits a lopsided valley.

The rate found is the vertex in log rate. Three rates alone, where the best is the lowest by luck, look sharper than
they are: placing by them gave 6 to 8% false calls in flat valleys with 40 seeds judged, placing by five at most 4%.
"""

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from scipy import special

RUNGS = 4  # a search run is trained and evaluated in quarters of its steps
SEEDS = 2  # search seeds of each rate: fewer show no noise, more buy less than seeds of the judgement
STEP = 1.5  # between neighbouring rates of the grid
REACH = 12  # steps from the start, each way: a factor of 130
_COARSE = 3  # steps
_SCREEN = 2  # rungs of the first stage
_WIDTHS = (1, 2, 4)  # steps, of the parabolas
_FLAT = 0.1  # residual sd: an expected loss by misplacement that is worth a wider parabola
_LESS = 1.0  # standard errors by which the valley may be flatter than estimated
_LACK = 5.0  # F of the lack of fit beyond which a valley is no parabola
_LOST = 3  # rates at which full trainings learn nothing, after which lower ones are tried; after 3 more it ends
_UNSURE = 0.1  # that a loss by misplacement exceeds its allowance, for two activations; more share it


@dataclasses.dataclass(frozen=True)
class Progress:
    """What the search seeds have done so far at one rate.

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
class BestRate:
    """The rate to judge at; why it is not resolved, or ""; by how much its loss may lie above that at the true best.

    At an edge of the search the best rate may lie beyond those that were tried.
    """

    rate: float
    unresolved: str
    allowance: float
    at_edge: bool = False


def next_tasks(known: Mapping[float, Progress], start: float, n_activations: int = 2) -> tuple[Task, ...] | BestRate:
    """What to train next, or the rate that was found. `start` is the config's own rate, `known` holds all tasks so far.

    `n_activations` are compared: each has its own search, and the more there are, the wider are the allowances. A rate
    is resolved where its neighbours within a factor 1.5 are trained to the end and no run failed at the three. A rate
    at which a run failed does not win. The search is bounded: at most 25 rates, a factor of 130 each way; where whole
    trainings learn nothing, lower rates are tried once more.
    """
    at = {round(math.log(rate / start, STEP)): progress for rate, progress in known.items()}
    search = _Search(at, start, 1 - _UNSURE / (n_activations - 1))
    return search.coarse() or search.fine()


# Mean cost of a search over all its seeds, in full runs, by the simulations of simulation.py.
EXPECTED_RUNS = SEEDS * 6.3


class _Fit(NamedTuple):
    """A parabola in steps: its vertex, the standard error of its slope there, its bend with its standard error.

    `lack` is the F statistic of the lack of fit: the squares that are left, per degree of freedom, over those of noise.
    """

    vertex: float
    slope_error: float
    bend: float
    bend_error: float
    lack: float


@dataclasses.dataclass(frozen=True)
class _Search:
    """The search of one activation; the index of a rate is its number of grid steps from the start.

    The loss by misplacement is within the allowance with probability `sure`.
    """

    at: Mapping[int, Progress]
    start: float
    sure: float

    def coarse(self) -> tuple[Task, ...]:
        """Tasks of the first stage; none once it is over."""
        if not self.at:
            return self._tasks((-_COARSE, 0, _COARSE), 1)
        # A rate at which every run diverged has ended early: it is no whole training.
        if any(one.rung == RUNGS and any(map(math.isfinite, one.losses)) for one in self.at.values()):
            return ()
        if not self._usable:
            further = (min(self.at) - _COARSE, max(self.at) + _COARSE)
            return self._tasks([index for index in further if abs(index) <= REACH][:1], 1)
        best = min(self._usable, key=self._order)
        rung, three = self.at[best].rung, (best - _COARSE, best, best + _COARSE)
        if tasks := self._tasks(three, rung):
            return tasks
        return self._tasks([index for index in three if index in self._usable], rung + 1) if rung < _SCREEN else ()

    def fine(self) -> tuple[Task, ...] | BestRate:
        """Tasks of the second and third stage, or what they found."""
        lost = self._lost
        usable = [index for index in self._usable if not lost or index < min(lost)]
        if not usable or len(lost) >= 2 * _LOST:
            rate = self._rate(min(self._usable, default=0))
            return BestRate(rate, "at every rate trained to the end some run failed", math.inf)
        best = min(usable, key=self._order)
        if self.at[best].rung < RUNGS:
            centre = best
            if {best - _COARSE, best + _COARSE} <= self._usable.keys():
                centre += round(np.clip(self._fit(best, _COARSE).vertex, -1, 1))
            return self._tasks((centre - 1, centre, centre + 1), RUNGS) or self._tasks([best], RUNGS)
        if tasks := self._tasks((best - 1, best, best + 1), RUNGS):
            return tasks
        if reason := self._unresolved(best):
            return BestRate(self._rate(best), reason, self._beyond(best), not {best - 1, best + 1} <= self.at.keys())
        used, fit = 1, self._fit(best, 1)
        for width in _WIDTHS:
            if tasks := self._tasks((best - max(width, 2), best + max(width, 2)), RUNGS):
                return tasks
            wider = self._fit(best, width)
            if wider.lack > _LACK:
                break
            used, fit = width, wider
            if self._misplaced(best, used, fit.slope_error) <= _FLAT * self._noise[0]:
                break
        centre = best + round(fit.vertex)
        if tasks := self._tasks((centre - 1, centre, centre + 1), RUNGS):
            return tasks
        error = fit.slope_error * self._quantile()
        vertex = best + (float(np.clip(fit.vertex, -1, 1)) if self._unresolved(centre) else fit.vertex)
        return BestRate(float(f"{self.start * STEP**vertex:.3g}"), "", self._misplaced(best, used, error))

    @property
    def _lost(self) -> list[int]:
        """Indices of the fully trained rates, if there are three or more and all their runs failed with a finite loss.

        Higher rates need not be tried then. If lower ones fail too, the training is too short.
        """
        ended = [index for index, progress in self.at.items() if progress.rung == RUNGS]
        lost = [
            index for index in ended if all(self.at[index].failed) and all(map(math.isfinite, self.at[index].losses))
        ]
        return lost if len(lost) == len(ended) >= _LOST else []

    @functools.cached_property
    def _usable(self) -> dict[int, float]:
        """Mean losses of the rates at which no run failed, by rising index."""
        indices = [index for index in sorted(self.at) if not any(self.at[index].failed)]
        means = {index: sum(self.at[index].losses) / len(self.at[index].losses) for index in indices}
        return {index: mean for index, mean in means.items() if math.isfinite(mean)}

    def _order(self, index: int) -> tuple[int, float]:
        """A rate that was trained further has beaten those that were stopped."""
        return -self.at[index].rung, self._usable[index]

    def _rate(self, index: int) -> float:
        return self.start if index == 0 else float(f"{self.start * STEP**index:.4g}")

    def _tasks(self, indices: Iterable[int], rung: int) -> tuple[Task, ...]:
        """To train these rates up to a rung, but those that are beyond it, out of reach, or failed."""
        return tuple(
            Task(self._rate(index), rung)
            for index in indices
            if abs(index) <= REACH and (index not in self.at or (self.at[index].rung < rung and index in self._usable))
        )

    def _unresolved(self, best: int) -> str:
        """Why a rate is not resolved; the words of analysis/best_rates.py."""
        rate = f"{self._rate(best):g}"
        for beside in (best - 1, best + 1):
            if beside not in self.at:
                return f"{rate} is at the edge of the search"
            if beside not in self._usable:
                count, runs = sum(self.at[beside].failed), len(self.at[beside].failed)
                return f"of {rate}, {count} of {runs} runs failed at {self._rate(beside):g} beside it"
        return ""

    def _beyond(self, best: int) -> float:
        """How far the loss may fall towards the next higher rate, at which every run failed.

        By no more than it fell over the step before, as the valley is convex, and noise may hide how far that was.
        Without that step there is no bound, nor where a run of the higher rate did not fail: the best rate may then lie
        several steps on.
        """
        if best - 1 in self._usable and best + 1 in self.at and all(self.at[best + 1].failed):
            fall = max(self._usable[best - 1] - self._usable[best], 0.0)
            return fall + self._quantile() * self._noise[0] * (2 / len(self.at[best].losses)) ** 0.5
        return math.inf

    def _misplaced(self, best: int, width: int, error: float) -> float:
        """The loss above the true best at a vertex where the slope is wrong by `error`.

        It is error^2 / (4 bend), but not more than the error times the width; the bend is that of five rates or more,
        and somewhat less than estimated.
        """
        of = self._fit(best, max(width, 2))
        bend = of.bend - _LESS * of.bend_error
        return min(error**2 / (4 * bend), error * width) if bend > 0 else error * width

    def _fit(self, best: int, width: int) -> _Fit:
        """The parabola through the usable rates up to so many steps from the best, at its rung."""
        rung = self.at[best].rung
        indices = [index for index in self._usable if self.at[index].rung == rung and abs(index - best) <= width]
        x = np.array(indices, np.float64) - best
        inverse = _least_squares(tuple(index - best for index in indices))
        losses = np.array([self._usable[index] for index in indices])
        (middle, slope, bend), n_seeds = inverse @ losses, len(self.at[best].losses)
        vertex = float(np.clip(-slope / (2 * bend), x.min(), x.max())) if bend > 0 else 0.0
        error = self._noise[0] / n_seeds**0.5
        left = float(((losses - middle - slope * x - bend * x**2) ** 2).sum()) / max(len(indices) - 3, 1)
        lack = left / error**2 if error and len(indices) > 3 else 0.0
        slope_error = error * float(np.linalg.norm(np.array([0.0, 1.0, 2 * vertex]) @ inverse))
        return _Fit(vertex, slope_error, float(bend), error * float(np.linalg.norm(inverse[2])), lack)

    def _quantile(self) -> float:
        """The bound of an error, in standard errors: its square over noise^2 has F with 1 and df degrees of freedom."""
        return float(special.fdtri(1, self._noise[1], self.sure)) ** 0.5

    @functools.cached_property
    def _noise(self) -> tuple[float, int]:
        """Residual sd of the rates trained to the end, without the effects of rate and seed, and its df, 1 or more."""
        losses = np.array([self.at[index].losses for index in self._usable if self.at[index].rung == RUNGS])
        if not losses.size:
            return 0.0, 1
        residuals = losses - losses.mean(axis=0) - losses.mean(axis=1, keepdims=True) + losses.mean()
        df = max((losses.shape[0] - 1) * (losses.shape[1] - 1), 1)
        return math.sqrt(float((residuals**2).sum()) / df), df


@functools.cache
def _least_squares(indices: tuple[int, ...]) -> Float64[np.ndarray, "3 n"]:
    """Constant, slope and bend of the parabola, as sums of the losses at the indices."""
    return np.linalg.pinv(np.vander(np.array(indices, np.float64), 3, increasing=True))
