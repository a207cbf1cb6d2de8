"""Who comes first, with intervals and groups; at equal parameters, FLOPs and seconds; and what each costs."""

import statistics
from collections.abc import Iterator, Sequence

import altair as alt

from actlab.page import Block, Cell, Choice, Figure, Rows, Section, Table, Text
from actlab.report import scales
from actlab.report.study import Run, Study
from actlab.report.verdicts import Compared
from actlab.studies.comparison import Comparison

_COST = (
    "Cost. Of runs that train side by side each has its share. What an activation costs by itself is measured by "
    "python -m actlab.bench activations."
)
COLUMNS = ("condition", "activation", "view", "value", "low", "high", "label", "order")


def section(study: Study, compared: Compared) -> Section:
    """The ranking at own best learning rate, in three views."""
    if not compared.comparisons:
        return Section("ranking", "Ranking", (Text(f"None: {compared.reason}"),))
    view = Choice("view", "equal", ("parameters", "flops", "seconds"), "parameters")
    filters = scales.Filters(study, view)
    rows = losses(study, compared)
    figure = dots(
        "ranking-figure",
        study,
        filters,
        rows,
        f"validation loss, {study.unit}",
        f"{_said(rows)} Each activation at its own best learning rate.",
        "Mean over seeds at each activation's own best learning rate, with its 95% interval by itself. Letters: "
        "activations that share one cannot be told apart.",
        "datum.view === view",
    )
    blocks: list[Block] = [*filters.controls, figure]
    for name, one in compared.by_condition(study).items():
        blocks += _tables(name, one)
    return Section("ranking", "Ranking", tuple(blocks))


def losses(study: Study, compared: Compared) -> list[list[str | int | float | None]]:
    """Rows of COLUMNS, of every condition and view."""
    return [
        [name, one.activation, seen.view.name, one.loss, *(one.interval or (None, None)), ",".join(one.groups), place]
        for name, each in compared.by_condition(study).items()
        for seen in each.seen
        for place, one in enumerate(seen.standings)
    ]


def _said(rows: Sequence[Sequence[str | int | float | None]]) -> str:
    first = [row for row in rows if row[0] == rows[0][0] and row[2] == "parameters" and row[3] is not None]
    return "Dots with intervals. " + ", ".join(f"{row[1]} {row[3]:.4f} ({row[6]})" for row in first) + "."


def dots(
    name: str,
    study: Study,
    filters: scales.Filters,
    rows: Sequence[Sequence[str | int | float | None]],
    title: str,
    alt_text: str,
    caption: str,
    expression: str = "true",
) -> Figure:
    """A dot with its interval for each activation, lowest first; rows of COLUMNS."""
    order = alt.EncodingSortField("order", op="min", order="ascending")
    tips = [alt.Tooltip(f"{field}:{kind}") for field, kind in zip(COLUMNS[1:7], "NNQQQN", strict=True)]
    base = (
        alt.Chart(scales.DATA)
        .transform_filter(f"{filters.expression} && ({expression}) && isValid(datum.value)")
        .encode(y=alt.Y("activation:N", sort=order, title=None), color=scales.colour(study.activations))
    )
    scale, ticks = alt.Scale(zero=False), alt.Axis(tickCount=8)
    axis = alt.X("value:Q", title=title, scale=scale, axis=ticks)
    line = base.mark_rule(strokeWidth=3).encode(x=alt.X("low:Q", scale=scale, title=title, axis=ticks), x2="high:Q")
    dot = base.mark_point(filled=True, size=80, opacity=1).encode(x=axis, tooltip=tips)
    label = base.mark_text(align="left", dx=8, dy=-9, fontSize=11)
    label = label.encode(x=axis, text="label:N", color=alt.value("var(--ink)"))
    chart = alt.layer(line, dot, label).properties(width="container", height=30 * len({row[1] for row in rows}))
    spec = scales.spec(chart, filters.params)
    return Figure(name, spec, {"points": Rows(COLUMNS, rows)}, alt_text, caption)


def _tables(name: str, one: Comparison) -> Iterator[Block]:
    columns = ("activation", "group", "loss", "95% interval", "best rate", "seeds", "runs", "failed")
    rows = []
    for standing in one.main.standings:
        best = "" if standing.best_rate is None else scales.rate(standing.best_rate)
        link = {"link": "runs-table", "words": scales.words(standing.activation, best, name)}
        every = {"link": "runs-table", "words": scales.words(standing.activation, name)}
        loss = scales.number(standing.loss, **link)
        counts = [scales.number(count, "d", **every) for count in (standing.seeds, standing.runs, standing.failed)]
        rows.append(
            [
                Cell(standing.activation, swatch=scales.swatch(standing.activation)),
                ",".join(standing.groups),
                loss,
                scales.span(standing.interval),
                scales.number(standing.best_rate, "g", **link),
                *counts,
            ]
        )
    at = f" at {name}" if name else ""
    yield Table(f"ranking-{name}", columns, rows, f"Ranking{at}. Numbers lead to their runs.")
    yield Table(f"views-{name}", ("equal", "budget", "ranking"), list(_views(one)), f"Three views of fairness{at}.")
    pairs = [
        [
            str(pair.question),
            scales.number(pair.own_best.effect.mean, "+"),
            scales.span(pair.own_best.effect.interval, "+"),
            scales.number(pair.own_best.p, ".2g"),
            str(pair.own_best.verdict),
        ]
        for pair in one.main.pairs
    ]
    headings = ("question", "difference", "95% interval", "p after Holm", "verdict")
    yield Table(f"pairs-{name}", headings, pairs, f"Pairs{at}: first minus second at own best rates, nats.")


def _views(one: Comparison) -> Iterator[list[Cell | str]]:
    for seen in one.seen:
        order = ", ".join(
            f"{standing.activation} {standing.loss:.4f}" for standing in seen.standings if standing.loss is not None
        )
        yield [seen.view.name, seen.view.words, order or seen.view.reason]


def cost(study: Study) -> Section:
    """Parameters, FLOPs and seconds of each activation."""
    done = {name: [run for run in study.runs if run.activation == name and _steps(run)] for name in study.activations}
    seconds = {name: [_milliseconds(run) for run in runs if _timed(run)] for name, runs in done.items()}
    timed = {name: values for name, values in seconds.items() if values}
    blocks: list[Block] = []
    if timed:
        ordered = sorted(timed, key=lambda name: statistics.median(timed[name]))
        rows = [
            [
                study.conditions[0],
                name,
                "time",
                statistics.median(timed[name]),
                min(timed[name]),
                max(timed[name]),
                "",
                n,
            ]
            for n, name in enumerate(ordered)
        ]
        said = "Dots with ranges: " + ", ".join(f"{row[1]} {row[3]:.3g} ms" for row in rows) + " a step."
        caption = (
            "Milliseconds of a training step of one run: median, least and most over runs. Evaluation is included, and "
            "whatever else the machine did."
        )
        filters = scales.Filters(study)
        filters.expression = "true"
        blocks.append(dots("cost-figure", study, filters, rows, "milliseconds a step", said, caption))
    least = min((statistics.median(values) for values in timed.values()), default=None)
    table = [_cost_row(name, runs, timed.get(name), least) for name, runs in done.items() if runs]
    if not table:
        return Section("cost", "Cost", (Text("No run has ended."),))
    columns = ("activation", "parameters", "MFLOP per token", "ms a step", "to the fastest", "tokens/s")
    blocks.append(Table("cost-table", columns, table, _COST))
    return Section("cost", "Cost", tuple(blocks))


def _cost_row(name: str, runs: Sequence[Run], times: Sequence[float] | None, least: float | None) -> list[Cell | str]:
    first = runs[0].result
    assert first
    link = {"link": "runs-table", "words": scales.words(name)}
    each = statistics.median(times) if times else None
    return [
        Cell(name, swatch=scales.swatch(name)),
        scales.number(first.parameters, ",d", **link),
        scales.number(first.flops_per_token / 1e6, ",.2f", **link),
        scales.number(each, ",.3g", **link),
        scales.number(each / least if each and least else None, ".2f", **link),
        scales.number(first.tokens / first.steps / each * 1000 if each else None, ",.0f", **link),
    ]


def _steps(run: Run) -> int:
    return run.result.steps if run.result else 0


def _timed(run: Run) -> bool:
    return bool(run.result and run.result.status == "finished" and run.result.seconds)


def _milliseconds(run: Run) -> float:
    assert run.result and run.result.seconds
    return 1000 * run.result.seconds / run.result.lanes / run.result.steps
