"""The section of training curves: a panel for each learning rate."""

from collections.abc import Iterator

import altair as alt
import numpy as np

from actlab.page import Block, Choice, Figure, Rows, Section, Slider, Text
from actlab.page.blocks import Controls
from actlab.report import curves, scales
from actlab.report.curves import Band, Curve, Mark, Values
from actlab.report.study import Study

COLUMNS = ("id", "kind", "split", "step", "loss", "low", "high")
_LANES = ("id", "condition", "activation", "rate", "panel", "seed", "link")
_SPLITS = ("validation", "training")  # of which rows have the first letter
_SHOWN = ("mean and range of the seeds", "every run")
Point = list[str | int | float | None]


def section(study: Study) -> Section:
    """Curves that can be switched by condition, activation, learning rate and seed."""
    trained = curves.training(study)
    validated = curves.validation(study)
    rows = [*_rows(study, *trained, "t"), *_rows(study, *validated, "v")]
    if not rows:
        return Section("training", "Training curves", (Text("None: metrics.jsonl is not there."),))
    found, n_spikes = curves.marks(study)
    rows += [_mark(mark) for mark in found]
    split = _SPLITS[0] if any(row[2] == "v" and row[3] for row in rows) else _SPLITS[1]
    shown = (Choice("shown", "show", _SHOWN, _SHOWN[0]), Choice("split", "loss", _SPLITS, split))
    filters = scales.Filters(study, *shown, rates=True, seeds=True)
    last = int(max(row[3] for row in rows if isinstance(row[3], int)))
    start = Controls((Slider("from_step", "from step", 0, last, max(1, last // 100), 0),))
    filters.params["from_step"] = 0
    blocks: list[Block] = [*filters.controls, start, _figure(study, filters, rows, found)]
    known = any(run.steps is not None for run in study.runs)
    diverged = sum(mark.kind == "diverged" for mark in found)
    spikes = "Spikes are not known: traces.jsonl, which has every step, is not there"
    if known:
        marked = f", {len(found) - diverged:,} of them marked" if n_spikes > len(found) - diverged else ""
        spikes = f"{n_spikes:,} steps spike (loss or gradient norm above mean + 6 sd of the 128 steps before){marked}"
    words = f"{diverged} of {len(study.runs)} runs diverged. {spikes}"
    return Section("training", "Training curves", (*blocks, Text(f"{words}.", "note")))


def _rows(study: Study, steps_N: Values, found: list[Curve], split: str) -> Iterator[Point]:
    for curve in found:
        keep = np.flatnonzero(np.isfinite(curve.loss_N))
        hovered = set(keep[curves.hovered(len(keep))].tolist())
        for index in keep.tolist():
            point = [split, int(steps_N[index]), float(curve.loss_N[index])]
            yield [curve.run.key, "run", *point]
            if index in hovered:
                yield [curve.run.key, "over run", *point]
    yield from _band_rows(study, steps_N, curves.bands(found), split)


def _band_rows(study: Study, steps_N: Values, found: list[Band], split: str) -> Iterator[Point]:
    most = max(2, curves.lane_points() // max(1, len(found)))
    chosen = np.unique(np.linspace(0, len(steps_N) - 1, min(len(steps_N), most)).round().astype(int))
    names = _names(study)
    for band in found:
        keep = [index for index in chosen.tolist() if np.isfinite(band.mean_N[index])]
        hovered = {keep[place] for place in curves.hovered(len(keep))}
        for index in keep:
            values = (float(values_N[index]) for values_N in (band.mean_N, band.low_N, band.high_N))
            point = [split, int(steps_N[index]), *values]
            yield [names[band.lane], "band", *point]
            if index in hovered:
                yield [names[band.lane], "over band", *point]


def _names(study: Study) -> dict[tuple[str, str, float], str]:
    """Short names of lanes: they stand in every row."""
    return {lane: f"lane-{number}" for number, lane in enumerate(study.lanes())}


def _mark(mark: Mark) -> Point:
    return [mark.run.key, mark.kind, "t", mark.step, mark.loss]


def _lanes(study: Study) -> Rows:
    """What the points' ids stand for, told once. Bands have all seeds."""
    rows = [
        [run.key, run.condition, run.activation, *_shown(run.learning_rate), str(run.seed), run.key]
        for run in study.runs
    ]
    for (condition, activation, rate), name in _names(study).items():
        rows.append([name, condition, activation, *_shown(rate), "all", ""])
    return Rows(_LANES, rows)


def _shown(rate: float) -> tuple[str, str]:
    return scales.rate(rate), scales.panel(rate)


def _figure(study: Study, filters: scales.Filters, rows: list[Point], found: list[Mark]) -> Figure:
    lookup = alt.LookupData(data=alt.NamedData("lanes"), key="id", fields=list(_LANES[1:]))
    # A band is of all seeds, whichever are switched on.
    expression = filters.expression.replace("&& indexof(seeds, datum.seed) >= 0", "")
    seeds = "(datum.seed === 'all' || indexof(seeds, datum.seed) >= 0)"
    bands = f"shown === '{_SHOWN[0]}'"
    kinds = f"((indexof(datum.kind, 'band') >= 0) ? {bands} : (indexof(datum.kind, 'run') >= 0) ? !({bands}) : true)"
    split = "(datum.split === slice(split, 0, 1) || datum.kind === 'diverged')"
    chosen = f"{expression} && {seeds} && {kinds} && {split} && datum.step >= from_step"
    scale = alt.Scale(type="log", nice=False)
    y = alt.Y("loss:Q", title=f"loss, {study.unit}", scale=scale, axis=alt.Axis(format="~g", tickCount=6))
    x = alt.X("step:Q", title="step", axis=scales.STEPS)
    base = alt.Chart().encode(x=x, color=scales.colour(study.activations), detail="id:N")
    plain = alt.Chart().transform_filter("datum.kind === 'band'").encode(x=x, detail="id:N")
    band = scales.band(plain, scale, study.activations)
    dash = scales.dashes(study.activations)
    line = base.transform_filter("datum.kind === 'band'").mark_line(strokeWidth=1.8).encode(y=y, strokeDash=dash)
    run = (
        base.transform_filter("datum.kind === 'run'")
        .mark_line(strokeWidth=1, opacity=0.75)
        .encode(y=y, strokeDash=dash)
    )
    tips = [alt.Tooltip(f"{name}:{kind}") for name, kind in (("activation", "N"), ("rate", "N"), ("seed", "N"))]
    tips += [alt.Tooltip(f"{name}:Q") for name in ("step", "loss", "low", "high")]
    over = base.transform_filter("indexof(datum.kind, 'over') === 0").mark_point(opacity=0, size=120, filled=True)
    over = over.encode(y=y, tooltip=tips)
    shape = alt.Shape(
        "kind:N", scale=alt.Scale(domain=["spike", "diverged"], range=["triangle-up", "cross"]), legend=None
    )
    mark = base.transform_filter("datum.kind === 'spike' || datum.kind === 'diverged'")
    mark = mark.mark_point(size=60, filled=True, opacity=0.8, cursor="pointer")
    mark = mark.encode(y=y, shape=shape, tooltip=[*tips[:5], alt.Tooltip("kind:N")])
    layers = alt.layer(band, line, run, mark, over).properties(width=250, height=200)
    chart = scales.by_rate(study, layers).transform_lookup(lookup="id", from_=lookup).transform_filter(chosen)
    caption = (
        "Line and band: mean, least and most over seeds. Training losses are means over the steps since the point "
        "before. Triangles are spikes, crosses the end of a run that diverged; a click leads to the run."
    )
    diverged = sum(one.kind == "diverged" for one in found)
    said = (
        f"Loss over steps, a panel for each of {len(study.rates)} learning rates, a line for each of "
        f"{', '.join(study.activations)}; {diverged} runs diverged. The tables above have the final losses."
    )
    data = {"points": Rows(COLUMNS, rows), "lanes": _lanes(study)}
    return Figure("training-figure", scales.spec(chart, filters.params), data, said, caption)
