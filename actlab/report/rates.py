"""Loss against learning rate, with intervals over seeds, and the sensitivity to it."""

import json
import math
from collections.abc import Iterator, Sequence

import altair as alt

from actlab.page import Block, Cell, Controls, Figure, Rows, Section, Slider, Table, Text
from actlab.report import ranking, scales
from actlab.report.study import Run, Study
from actlab.report.verdicts import Compared
from actlab.studies.statistics import Effect, nats

COLUMNS = ("condition", "activation", "rate", "loss", "low", "high", "kind", "seed", "link", "status")


def section(study: Study, compared: Compared) -> Section:
    """The curve, a table of its numbers, the sensitivities."""
    rows = points(study)
    if not rows:
        return Section("rates", "Loss against learning rate", (Text("No run has ended."),))
    filters = scales.Filters(study)
    losses = [row[3] for row in rows if isinstance(row[3], float)]
    low, high = math.floor(100 * min(losses)) / 100, math.ceil(100 * max(losses)) / 100
    filters.params["top"] = high
    top = Controls((Slider("top", "up to", low, high, round((high - low) / 100, 6) or 0.01, high),))
    blocks: list[Block] = [*filters.controls, top, _curve(study, filters, rows), *_tables(study)]
    blocks += _sensitivity(study, compared)
    return Section("rates", "Loss against learning rate", tuple(blocks))


def points(study: Study) -> list[list[str | int | float | None]]:
    """Rows of COLUMNS: a mean for each lane, and every run."""
    rows: list[list[str | int | float | None]] = []
    for (condition, activation, rate), runs in study.lanes().items():
        done = _ended(runs)
        if done:
            effect = Effect(tuple(run.result.loss for run in done if run.result))
            low, high = effect.interval or (effect.mean, effect.mean)
            rows.append([condition, activation, rate, effect.mean, low, high, "mean", f"{len(done)} seeds"])
        for run in done:
            assert run.result
            place = [condition, activation, rate, run.result.loss, None, None, "run"]
            rows.append([*place, str(run.seed), run.key, run.status])
    return rows


def _ended(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.result and run.status != "stopped"]


def _curve(study: Study, filters: scales.Filters, rows: Sequence[Sequence[str | int | float | None]]) -> Figure:
    plain = alt.Chart(scales.DATA).transform_filter(filters.expression)
    ticks = alt.Axis(values=list(study.rates), format="~g", labelOverlap=True)
    x = alt.X("rate:Q", scale=_across(study.rates), title="learning rate", axis=ticks)
    tops = json.dumps({condition: _highest(rows, condition) for condition in study.conditions})
    scale = alt.Scale(zero=False, nice=False, padding=8, domainMax=alt.ExprRef(f"min(top, ({tops})[condition])"))
    y = alt.Y("loss:Q", scale=scale, title=f"validation loss, {study.unit}")
    base = plain.encode(x=x, y=y, color=scales.colour(study.activations))
    means = base.transform_filter("datum.kind === 'mean'")
    band = scales.band(plain.transform_filter("datum.kind === 'mean'").encode(x=x), scale, study.activations)
    tips = [alt.Tooltip(f"{name}:{kind}") for name, kind in zip(COLUMNS[1:6], "NQQQQ", strict=True)]
    line = means.mark_line(strokeWidth=2, clip=True).encode(strokeDash=scales.dashes(study.activations))
    dot = means.mark_point(filled=True, size=60, opacity=1, clip=True).encode(tooltip=tips)
    shape = alt.Shape(
        "status:N", scale=alt.Scale(domain=["finished", "diverged"], range=["circle", "cross"]), legend=None
    )
    mine = [alt.Tooltip(f"{name}:N") for name in ("activation", "rate", "seed", "loss", "status")]
    each = (
        base.transform_filter("datum.kind === 'run'")
        .mark_point(size=36, opacity=0.75, cursor="pointer", clip=True)
        .encode(shape=shape, tooltip=mine)
    )
    chart = alt.layer(band, line, each, dot).properties(width="container", height=340)
    means_of = {name: [row for row in rows if row[6] == "mean" and row[1] == name] for name in study.activations}
    said = "; ".join(
        f"{name} " + ", ".join(f"{row[3]:.4g} at {row[2]:g}" for row in own) for name, own in means_of.items() if own
    )
    caption = (
        "Mean over seeds with its 95% interval; small marks are runs (a click leads to one), crosses those that "
        "diverged, which count with the loss they began with."
    )
    spec = scales.spec(chart, filters.params)
    return Figure("rates-figure", spec, {"points": Rows(COLUMNS, rows)}, f"Lines. Mean loss: {said}.", caption)


def _across(rates: Sequence[float]) -> alt.Scale:
    lowest, highest = rates[0], rates[-1]
    if lowest == 0:  # which has no logarithm
        step = scales.least_positive(rates)
        return alt.Scale(type="symlog", constant=step / 10, nice=False, padding=12, domain=[0, highest or step])
    ends = [lowest, highest] if highest > lowest else [lowest / 2, highest * 2]
    return alt.Scale(type="log", nice=False, padding=12, domain=ends)


def _highest(rows: Sequence[Sequence[str | int | float | None]], condition: str) -> float:
    """Of the losses at a condition, so that another's do not press its curves together."""
    return max((row[3] for row in rows if row[0] == condition and isinstance(row[3], float)), default=0.0)


def _tables(study: Study) -> Iterator[Block]:
    lanes = study.lanes()
    for condition in study.conditions:
        rows = []
        for name in study.activations:
            cells = [_cell(condition, name, rate, lanes.get((condition, name, rate), [])) for rate in study.rates]
            rows.append([Cell(name, swatch=scales.swatch(name)), *cells])
        at = f" at {condition}" if condition else ""
        columns = ("activation", *map(scales.rate, study.rates))
        caption = f"Mean final validation loss by learning rate{at}, {study.unit}; + and - its 95% interval."
        yield Table(f"rates-{condition}", columns, rows, caption)


def _cell(condition: str, name: str, rate: float, runs: Sequence[Run]) -> Cell:
    done = _ended(runs)
    if not done:
        return Cell("-")
    effect = Effect(tuple(run.result.loss for run in done if run.result))
    assert effect.mean is not None
    text = nats(effect.mean)
    if effect.interval:
        text += f" \N{PLUS-MINUS SIGN} {nats((effect.interval.high - effect.interval.low) / 2)}"
    diverged = sum(run.status == "diverged" for run in done)
    text += f" ({diverged} diverged)" if diverged else ""
    return Cell(text, effect.mean, "runs-table", scales.words(name, scales.rate(rate), condition))


def _sensitivity(study: Study, compared: Compared) -> Iterator[Block]:
    rows: list[list[str | int | float | None]] = []
    for name, one in compared.by_condition(study).items():
        known = [each for each in one.main.standings if each.sensitivity is not None]
        known.sort(key=lambda each: each.sensitivity or 0.0)
        for place, each in enumerate(known):
            ends = each.sensitivity_interval or (None, None)
            rows.append([name, each.activation, "", each.sensitivity, *ends, "", place])
    if not rows:
        yield Text("No learning-rate sensitivity: it needs two learning rates that all activations share.", "note")
        return
    said = ", ".join(f"{row[1]} {row[3]:.4f}" for row in rows if row[0] == rows[0][0])
    caption = (
        "Learning-rate sensitivity: how far the mean loss over the rates lies above the best one (Wortsman et al. "
        "2023, section 2.2), mean over seeds with its 95% interval."
    )
    title = "learning-rate sensitivity, nats"
    yield ranking.dots("sensitivity-figure", study, scales.Filters(study), rows, title, f"Dots: {said}.", caption)
