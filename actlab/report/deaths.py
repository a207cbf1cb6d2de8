"""How long units live: Kaplan-Meier curves of permanent death (D6), from the censuses in traces.jsonl."""

from collections.abc import Iterator, Sequence

import altair as alt
import numpy as np

from actlab.page import Block, Choice, Figure, Rows, Text
from actlab.report import scales
from actlab.report.study import Study
from actlab.studies.survival import kaplan_meier
from actlab.training.traces import Censuses

COLUMNS = ("condition", "activation", "rate", "panel", "layer", "step", "share", "low", "high")
ALL = "all"
_MOST_ROWS = 12_000  # of a page; with more, layers are not told apart
Lane = tuple[str, str, float]
Row = list[str | int | float | None]


def rows(study: Study) -> list[Row]:
    """Rows of COLUMNS: survival of the units of a lane's runs from step 0 on, all together and layer by layer."""
    lanes = {lane: [run.censuses for run in runs if run.censuses] for lane, runs in study.lanes().items()}
    lanes = {lane: censuses for lane, censuses in lanes.items() if censuses}
    together = [row for lane, censuses in lanes.items() for row in _curve(lane, ALL, censuses)]
    each = [row for lane, censuses in lanes.items() for row in _by_layer(lane, censuses)]
    return together + each if len(together) + len(each) <= _MOST_ROWS else together


def _by_layer(lane: Lane, censuses: Sequence[Censuses]) -> Iterator[Row]:
    for layer in range(censuses[0].dead_PLF.shape[1]):
        yield from _curve(lane, str(layer), [one._replace(dead_PLF=one.dead_PLF[:, [layer]]) for one in censuses])


def _curve(lane: Lane, layer: str, censuses: Sequence[Censuses]) -> Iterator[Row]:
    condition, activation, rate = lane
    place = [condition, activation, scales.rate(rate), scales.panel(rate), layer]
    steps_E, share_E, low_E, high_E = kaplan_meier(censuses)
    if steps_E[0] > 0:
        yield [*place, 0, 1.0, 1.0, 1.0]
    # Where all live, or none, there is no interval.
    low_E, high_E = (np.where(np.isfinite(end_E), end_E, share_E) for end_E in (low_E, high_E))
    for step, *values in zip(steps_E.astype(int).tolist(), share_E, low_E, high_E, strict=True):
        yield [*place, step, *map(float, values)]


def choice(found: Sequence[Row]) -> Iterator[Choice]:
    """The control that picks a layer, where layers are told apart."""
    layers = tuple(dict.fromkeys(str(row[4]) for row in found))
    if len(layers) > 1:
        yield Choice("layer", "survival in layer", layers, ALL)


def blocks(study: Study, filters: scales.Filters, found: Sequence[Row]) -> Iterator[Block]:
    """The figure, or why there is none."""
    if not found:
        yield Text("Survival of units is not known: there was no census (config.train.census_every).", "note")
    elif all(row[6] == 1 for row in found):
        yield Text("No unit of any run died for good.", "note")
    else:
        yield _figure(study, filters, found)


def _figure(study: Study, filters: scales.Filters, found: Sequence[Row]) -> Figure:
    base = alt.Chart().encode(x=alt.X("step:Q", title="step", axis=scales.STEPS))
    scale = alt.Scale(zero=False, nice=False, domainMax=1, padding=4)
    y = alt.Y("share:Q", title="share that lives on", scale=scale, axis=alt.Axis(tickCount=5))
    tips = [alt.Tooltip(f"{name}:N") for name in ("activation", "rate", "layer", "step")]
    line = base.mark_line(interpolate="step-after", strokeWidth=1.8).encode(
        y=y, color=scales.colour(study.activations), strokeDash=scales.dashes(study.activations)
    )
    over = base.mark_point(opacity=0, size=120, filled=True).encode(
        y=y, tooltip=[*tips, *(alt.Tooltip(f"{name}:Q", format=".4g") for name in ("share", "low", "high"))]
    )
    band = scales.band(base, scale, study.activations, interpolate="step-after")
    chart = scales.by_rate(study, alt.layer(band, line, over).properties(width=250, height=150))
    layer = " && datum.layer === layer" if "layer" in filters.params else ""
    chart = chart.transform_filter(f"{filters.expression}{layer}")
    ends = {(str(row[1]), str(row[2])): row for row in found if row[4] == ALL}
    said = "; ".join(f"{name} at {rate} {row[6]:.3g}" for (name, rate), row in list(ends.items())[:12])
    caption = (
        "Survival of units (Kaplan-Meier): a life ends at the census from which on the unit is dead (D4) at every "
        "later one; at the last census every dead unit counts, for none is there to revive it. The band is Greenwood's "
        "95% interval, which takes units for independent; those of one run are not."
    )
    spec = scales.spec(chart, filters.params)
    text = f"Falling steps, the share of units that live on. At the end: {said}."
    return Figure("survival-figure", spec, {"points": Rows(COLUMNS, found)}, text, caption)
