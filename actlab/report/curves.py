"""Training curves: thinned losses of runs, the band of their seeds, spikes and divergences."""

import collections
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from actlab.probes import gradients
from actlab.report.study import Run, Study

_MOST_POINTS = 600  # of a curve
_ALL_RUNS, _ALL_LANES = 24_000, 12_000  # points of a page
_MOST_MARKS = 1_000
_MOST_HOVERED = 40  # of a curve: more and a pointer cannot choose
Values = Float[np.ndarray, "N"]
Series = Float[np.ndarray, "S"]


class Curve(NamedTuple):
    """Losses of a run at steps that all runs of a study share; NaN where it has none."""

    run: Run
    loss_N: Values


class Mark(NamedTuple):
    """A step of a run at which something happened."""

    run: Run
    kind: str  # spike, diverged
    step: int
    loss: float


class Band(NamedTuple):
    """Mean, least and most over the seeds of a lane."""

    lane: tuple[str, str, float]
    mean_N: Values
    low_N: Values
    high_N: Values


def ends(study: Study, many: int, most: int) -> Values:
    """Steps at which curves have points, where `many` curves may have `most` of them together."""
    longest = max((run.step for run in study.runs), default=0)
    n = max(2, min(_MOST_POINTS, most // max(many, 1), longest))
    return np.unique(np.linspace(longest / n, longest, n).round()) if longest else np.zeros(0)


def training(study: Study, most: int = _ALL_RUNS) -> tuple[Values, list[Curve]]:
    """Training losses, each the mean over the steps since the point before."""
    steps_N = ends(study, len(study.runs), most)
    return steps_N, [Curve(run, _means(steps_N, *_series(run))) for run in study.runs]


def validation(study: Study) -> tuple[Values, list[Curve]]:
    """Validation losses at the steps at which they were taken."""
    found = {run.key: dict(_validated(run)) for run in study.runs}
    steps_N = np.asarray(sorted({step for losses in found.values() for step in losses}), np.float64)
    if len(steps_N) > _MOST_POINTS:
        steps_N = steps_N[np.unique(np.linspace(0, len(steps_N) - 1, _MOST_POINTS).round().astype(int))]
    nan = float("nan")
    return steps_N, [
        Curve(run, np.asarray([found[run.key].get(int(step), nan) for step in steps_N], np.float64))
        for run in study.runs
    ]


def _validated(run: Run) -> Iterator[tuple[int, float]]:
    for row in run.metrics:
        if row["split"] == "validation" and row.get("loss") is not None:
            yield row["step"], row["loss"]


def _series(run: Run) -> tuple[Series, Series]:
    """Steps and losses: every step where traces have them, else the logged ones."""
    if run.steps is not None:
        loss_S = run.steps.loss_S.astype(np.float64)
        return np.arange(1, len(loss_S) + 1, dtype=np.float64), loss_S
    logged = [(row["step"], row["loss"]) for row in run.metrics if row["split"] == "train" and _finite(row)]
    steps, losses = zip(*logged, strict=True) if logged else ((), ())
    return np.asarray(steps, np.float64), np.asarray(losses, np.float64)


def _finite(row: dict[str, object]) -> bool:
    return row.get("loss") is not None


def _means(ends_N: Values, steps_S: Series, loss_S: Series) -> Values:
    """Mean of the finite losses in each span that ends at `ends_N`; NaN in a span without any."""
    keep = np.isfinite(loss_S)
    place = np.searchsorted(ends_N, steps_S[keep])
    inside = place < len(ends_N)
    total = np.bincount(place[inside], loss_S[keep][inside], minlength=len(ends_N))
    count = np.bincount(place[inside], minlength=len(ends_N))
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def bands(curves: Iterable[Curve]) -> list[Band]:
    """Of each lane, over its seeds; where one has ended, over the others."""
    lanes: dict[tuple[str, str, float], list[Values]] = collections.defaultdict(list)
    for curve in curves:
        lanes[curve.run.condition, curve.run.activation, curve.run.learning_rate].append(curve.loss_N)
    return [Band(lane, *_spread(np.stack(losses))) for lane, losses in lanes.items()]


def _spread(loss_RN: Float[np.ndarray, "R N"]) -> tuple[Values, Values, Values]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(Mean of empty|All-NaN)", RuntimeWarning)
        return np.nanmean(loss_RN, axis=0), np.nanmin(loss_RN, axis=0), np.nanmax(loss_RN, axis=0)


def marks(study: Study) -> tuple[list[Mark], int]:
    """Divergences, and the spikes of loss or gradient norm; how many spikes there are, of which at most 1,000 come.

    Spikes are known where traces have every step.
    """
    ended = [mark for run in study.runs if run.status == "diverged" and (mark := _end(run))]
    spikes = [mark for run in study.runs for mark in _spikes(run)]
    # Evenly thinned, so that no run loses all of its own.
    stride = max(1, -(-len(spikes) // _MOST_MARKS))
    return [*ended, *spikes[::stride]], len(spikes)


def _end(run: Run) -> Mark | None:
    steps_S, loss_S = _series(run)
    keep = np.isfinite(loss_S)
    if keep.any():
        return Mark(run, "diverged", int(steps_S[keep][-1]), float(loss_S[keep][-1]))
    initial = [loss for _, loss in _validated(run)]
    return Mark(run, "diverged", 0, initial[0]) if initial else None


def _spikes(run: Run) -> Iterator[Mark]:
    if run.steps is None:
        return
    loss_S = run.steps.loss_S
    found = gradients.spikes(loss_S) | gradients.spikes(run.steps.grad_norm_S)
    for index in np.flatnonzero(found & np.isfinite(loss_S)):
        yield Mark(run, "spike", int(index) + 1, float(loss_S[index]))


def hovered(count: int) -> Sequence[int]:
    """Which of so many points answer a pointer."""
    return np.unique(np.linspace(0, count - 1, min(count, _MOST_HOVERED)).round().astype(int)).tolist() if count else []


def lane_points() -> int:
    """Points that the bands of a page may have together."""
    return _ALL_LANES
