"""Training curves: thinned losses of runs, the band over seeds, spikes and divergences, and their section."""

import collections
import math
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import altair as alt
import numpy as np
from jaxtyping import Float

from actlab.analysis import results
from actlab.report import charts
from actlab.report.page import Block, Choice, Controls, Figure, Rows, Section, Slider, Text, Value
from actlab.report.study import Run, Study
from actlab.workdir import traces

COLUMNS = ("id", "kind", "split", "step", "loss", "low", "high")
_CURVES = ("id", "condition", "activation", "rate", "panel", "seed", "link")
_SPLITS = ("validation", "training")  # rows have the first letter
_SHOWN = ("mean and range of the seeds", "every run")
_MOST_POINTS = 600  # of a curve
_ALL_RUNS, _ALL_BANDS = 20_000, 6_000  # points of a page
_LEAST = 60  # points of a run's curve; where there is room for fewer, runs are not drawn one by one
_MOST_MARKS = 1_000
_TALLEST = 10  # times the largest loss at step 0; a run that explodes would flatten all other curves
Point = list[Value]
Values = Float[np.ndarray, "N"]
Series = Float[np.ndarray, "S"]


class Curve(NamedTuple):
    """Losses of a run at steps that all runs of a study share; NaN where it has none."""

    run: Run
    loss_N: Values


class Band(NamedTuple):
    """Mean, minimum and maximum over the seeds of a cell."""

    cell: tuple[str, str, float]
    mean_N: Values
    low_N: Values
    high_N: Values


class Mark(NamedTuple):
    """A spike or the divergence of a run."""

    run: Run
    kind: str  # spike, diverged
    step: int
    loss: float


def section(study: Study, shown: charts.Shown) -> list[Section]:
    """Curves that can be switched by condition, activation, learning rate and seed; nothing without metrics."""
    rows = [*_rows(study, *training(study), "t"), *_rows(study, *validation(study), "v")]
    starts = [row[4] for row in rows if row[3] == 0 and isinstance(row[4], float)]
    highest = _TALLEST * max(starts, default=math.inf)
    # A log axis that began at the loss of step 0 would give most of its height to the first steps.
    rows = [row for row in rows if row[3]]
    points = collections.Counter((row[0], row[2]) for row in rows)
    rows = [row for row in rows if points[row[0], row[2]] > 1]  # a point is no curve
    if not rows:
        return []
    found, n_spikes = marks(study)
    rows += [[mark.run.key, mark.kind, "t", mark.step, mark.loss, None, None] for mark in found]
    splits = [name for name in _SPLITS if any(row[2] == name[0] and row[1] in ("band", "run") for row in rows)]
    kinds = [name for name, kind in zip(_SHOWN, ("band", "run"), strict=True) if any(row[1] == kind for row in rows)]
    items: list[Choice | Slider] = []
    params = {"shown": kinds[0], "split": splits[0], "from_step": 0}
    items += [Choice("shown", "show", tuple(kinds), kinds[0])] if len(kinds) > 1 else []
    items += [Choice("split", "loss", tuple(splits), splits[0])] if len(splits) > 1 else []
    last = int(max(row[3] for row in rows if isinstance(row[3], int)))
    items.append(Slider("from_step", "from step", 0, last, max(1, last // 100), 0))
    blocks: list[Block] = [_figure(study, shown, params, rows, splits, highest), Controls(tuple(items))]
    n_ends = sum(mark.kind == "diverged" for mark in found)
    diverged = sum(run.status == "diverged" for run in study.runs)
    spikes = "Spikes are unknown: traces.jsonl, which holds every step, is missing"
    if any(run.steps is not None for run in study.runs):
        marked = f", {len(found) - n_ends:,} of them marked" if n_spikes > len(found) - n_ends else ""
        what = "loss or gradient norm above mean + 6 sd of the 128 steps before, or not finite"
        spikes = f"{n_spikes:,} spikes ({what}){marked}"
    words = f"{diverged} of {len(study.runs)} runs diverged. {spikes}"
    return [Section("training", "Training curves", (*blocks, Text(f"{words}.", "note")))]


def training(study: Study) -> tuple[Values, list[Curve]]:
    """Training losses; a point is the mean over the steps since the point before."""
    longest = max((run.step for run in study.runs), default=0)
    n = max(2, min(_MOST_POINTS, _ALL_RUNS // max(len(study.runs), 1), longest))
    steps_N = np.unique(np.linspace(longest / n, longest, n).round()) if longest else np.zeros(0)
    return steps_N, [Curve(run, _means(steps_N, *_series(run))) for run in study.runs]


def validation(study: Study) -> tuple[Values, list[Curve]]:
    """Validation losses at the steps of evaluation."""
    found = {run.key: dict(_validated(run)) for run in study.runs}
    steps_N = np.asarray(sorted({step for losses in found.values() for step in losses}), np.float64)
    steps_N = steps_N[_spaced(len(steps_N), _MOST_POINTS)]
    nan = float("nan")
    return steps_N, [
        Curve(run, np.asarray([found[run.key].get(int(step), nan) for step in steps_N], np.float64))
        for run in study.runs
    ]


def _validated(run: Run) -> results.Curve:
    return run.result.curve if run.result else results.curve(run.metrics)


def _series(run: Run) -> tuple[Series, Series]:
    """Steps and losses: of every step where there are traces, else of the logged ones."""
    if run.steps is not None:
        loss_S = run.steps.loss_S.astype(np.float64)
        return np.arange(1, len(loss_S) + 1, dtype=np.float64), loss_S
    logged = [
        (row["step"], row["loss"]) for row in run.metrics if row["split"] == "train" and row.get("loss") is not None
    ]
    steps, losses = zip(*logged, strict=True) if logged else ((), ())
    return np.asarray(steps, np.float64), np.asarray(losses, np.float64)


def _means(ends_N: Values, steps_S: Series, loss_S: Series) -> Values:
    """Mean of the finite losses in each span that ends at `ends_N`; NaN in a span without any."""
    keep = np.isfinite(loss_S)
    place = np.searchsorted(ends_N, steps_S[keep])
    inside = place < len(ends_N)
    total = np.bincount(place[inside], loss_S[keep][inside], minlength=len(ends_N))
    count = np.bincount(place[inside], minlength=len(ends_N))
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def bands(curves: Iterable[Curve]) -> list[Band]:
    """Mean, minimum and maximum over the seeds of each cell.

    Where some seeds have fewer steps than others, the band is over those that have come so far. It ends where a seed
    diverges.
    """
    cells: dict[tuple[str, str, float], list[Curve]] = collections.defaultdict(list)
    for curve in curves:
        cells[curve.run.condition, curve.run.activation, curve.run.learning_rate].append(curve)
    return [Band(cell, *_spread(of)) for cell, of in cells.items()]


def _spread(curves: Sequence[Curve]) -> tuple[Values, Values, Values]:
    loss_RN = np.stack([curve.loss_N for curve in curves])
    for curve in curves:
        if curve.run.status == "diverged":
            # The mean of the others would fall where the worst of them is gone.
            loss_RN[:, np.isfinite(curve.loss_N).nonzero()[0].max(initial=-1) + 1 :] = np.nan
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(Mean of empty|All-NaN)", RuntimeWarning)
        return np.nanmean(loss_RN, axis=0), np.nanmin(loss_RN, axis=0), np.nanmax(loss_RN, axis=0)


def marks(study: Study) -> tuple[list[Mark], int]:
    """Divergences, at most 1,000 spikes of loss or gradient norm, and the number of all spikes.

    Spikes are known where traces hold every step.
    """
    ended = [mark for run in study.runs if run.status == "diverged" and (mark := _end(run))]
    spikes, n_spikes = [], 0
    for run in study.runs:
        if run.steps is not None:
            loss_S = run.steps.loss_S
            spiking_S = traces.spikes(loss_S) | traces.spikes(run.steps.grad_norm_S)
            n_spikes += int(spiking_S.sum())
            drawn = np.flatnonzero(spiking_S & np.isfinite(loss_S))  # a loss of NaN has no place on the axis
            spikes += [Mark(run, "spike", int(index) + 1, float(loss_S[index])) for index in drawn]
    # Evenly thinned, so that no run loses all of its own.
    stride = max(1, -(-len(spikes) // _MOST_MARKS))
    return [*ended, *spikes[::stride]], n_spikes


def _end(run: Run) -> Mark | None:
    steps_S, loss_S = _series(run)
    keep = np.isfinite(loss_S)
    if keep.any():
        return Mark(run, "diverged", int(steps_S[keep][-1]), float(loss_S[keep][-1]))
    validated = _validated(run)
    return Mark(run, "diverged", 0, validated[0][1]) if validated else None


def _spaced(count: int, most: int) -> list[int]:
    """At most `most` evenly spaced indices of `count`, with the first and the last."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int)).tolist() if count else []


def _rows(study: Study, steps_N: Values, found: list[Curve], split: str) -> Iterator[Point]:
    # A log axis has no place for a loss of zero.
    found = [curve._replace(loss_N=np.where(curve.loss_N > 0, curve.loss_N, np.nan)) for curve in found]
    # Where two lines meet, the solid one shows between the dashes of the other, which is drawn over it.
    styles = charts.styles(study.activations)
    found.sort(key=lambda curve: bool(styles[curve.run.activation].dashes))
    if _ALL_RUNS // max(len(found), 1) >= _LEAST:
        for curve in found:
            keep = np.flatnonzero(np.isfinite(curve.loss_N)).tolist()
            for index in keep:
                yield [curve.run.key, "run", split, int(steps_N[index]), float(curve.loss_N[index]), None, None]
    cells = bands(found)
    names = _names(study)
    chosen = _spaced(len(steps_N), max(2, _ALL_BANDS // max(1, len(cells))))
    for band in cells:
        keep = [index for index in chosen if np.isfinite(band.mean_N[index])]
        if len(keep) > 1:  # a single point makes no line
            for index in keep:
                values = (float(values_N[index]) for values_N in (band.mean_N, band.low_N, band.high_N))
                yield [names[band.cell], "band", split, int(steps_N[index]), *values]


def _names(study: Study) -> dict[tuple[str, str, float], str]:
    """Short names of cells, since one stands in every row."""
    return {cell: f"cell-{number}" for number, cell in enumerate(study.cells())}


def _curve_rows(study: Study, drawn: Collection[Value]) -> Rows:
    """What the ids of the points that are drawn stand for. A band is of all seeds.

    Points have the id only, and the figure looks up the rest: activation, rate and panel would stand in every row.
    """
    curves = [
        ((run.condition, run.activation, run.learning_rate), run.key, str(run.seed), run.key) for run in study.runs
    ]
    curves += [(cell, name, "all", "") for cell, name in _names(study).items()]
    return Rows(_CURVES, [[key, *charts.place(cell), seed, link] for cell, key, seed, link in curves if key in drawn])


def _figure(
    study: Study,
    shown: charts.Shown,
    params: dict[str, Any],
    rows: list[Point],
    splits: Sequence[str],
    highest: float,
) -> Figure:
    lookup = alt.LookupData(data=alt.NamedData("curves"), key="id", fields=list(_CURVES[1:]))
    # A band is of all seeds, whichever are switched on.
    seeds = "(datum.seed === 'all' || indexof(seeds, datum.seed) >= 0)"
    mean = f"shown === '{_SHOWN[0]}'"
    kinds = f"(datum.kind === 'band' ? {mean} : datum.kind === 'run' ? !({mean}) : true)"
    split = "(datum.split === slice(split, 0, 1) || datum.kind === 'diverged')"
    chosen = shown.filter(charts.RATES, seeds, kinds, split, "datum.step >= from_step")
    scale = alt.Scale(type="log", nice=False)
    losses = [row[4] for row in rows if isinstance(row[4], float)]
    top, axis, note = min(highest, max(losses)), "log scale", ""
    if top < max(losses):
        axis = f"log scale, cut at {top:.3g}"
        note = f"Losses above {top:.3g}, {_TALLEST} times the largest at step 0, are drawn there. "
    ticks = alt.Axis(values=charts.log_ticks(min(loss, top) for loss in losses), format=",~g", labelOverlap=True)
    y = alt.Y("drawn:Q", title=f"loss, {study.unit} ({axis})", scale=scale, axis=ticks)
    of_lines = "datum.kind === 'band' || datum.kind === 'run'"
    plain = alt.Chart().transform_calculate(drawn=f"min(datum.loss, {top})").encode(x=charts.STEPS, detail="id:N")
    base = plain.encode(color=charts.colour(study.activations))
    bands = plain.transform_calculate(low=f"min(datum.low, {top})", high=f"min(datum.high, {top})")
    band = charts.band(bands.transform_filter("datum.kind === 'band'"), scale, study.activations)
    lines = base.transform_filter(of_lines).encode(y=y, **charts.lines(study.activations))
    line = lines.mark_line(strokeWidth=1.6)
    tips = ["activation:N", "rate:N", "seed:N", "step:Q", "loss:Q", "low:Q", "high:Q"]
    # Invisible points answer the pointer, which finds no single datum of a line.
    over = base.transform_filter(of_lines).mark_point(opacity=0, size=120, filled=True).encode(y=y, tooltip=tips)
    shapes = alt.Scale(domain=["spike", "diverged"], range=["triangle-up", "cross"])
    mark = base.transform_filter("datum.kind === 'spike' || datum.kind === 'diverged'")
    mark = mark.mark_point(size=60, filled=True, opacity=0.8, cursor="pointer")
    shape = alt.Shape("kind:N", scale=shapes, legend=None)
    mark = mark.encode(y=y, shape=shape, tooltip=[*tips[:5], "kind:N"])
    grey = plain.transform_filter(of_lines).encode(y=y)
    layers = alt.layer(*shown.with_grey(grey, band, line, mark, over, detail="id:N")).properties(width=250, height=200)
    chart = charts.by_rate(study, layers).transform_lookup(lookup="id", from_=lookup).transform_filter(chosen)
    diverged = sum(run.status == "diverged" for run in study.runs)
    return Figure(
        "training-figure",
        charts.spec(chart, shown.params | params),
        {"points": Rows(COLUMNS, rows), "curves": _curve_rows(study, {row[0] for row in rows})},
        f"Loss over steps, a panel for each learning rate ({', '.join(map(charts.rate, study.rates))}), a line for "
        f"each of {', '.join(study.activations)}; {diverged} of {len(study.runs)} runs diverged.",
        "Line and band: mean, minimum and maximum over seeds, from the first evaluation after step 0 to the first "
        f"divergence of a seed. Training losses are means over the steps since the previous point. {note}Triangles are "
        "spikes, crosses the ends of diverged runs; a click on one leads to its run.",
        {f"{name}_curves": {"split": name} for name in splits},
    )
