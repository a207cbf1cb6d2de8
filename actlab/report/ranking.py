"""Final losses: the ranking with intervals and groups, the cost, loss against learning rate and its sensitivity."""

import json
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence

import altair as alt

from actlab.analysis.comparison import Comparison, qualified
from actlab.analysis.effects import Effect, nats
from actlab.report import charts
from actlab.report.page import Block, Cell, Choice, Controls, Figure, Rows, Section, Slider, Table, Text, Value
from actlab.report.study import Run, Study
from actlab.report.verdicts import Compared

_COST = (
    "Cost. The time of a program is divided equally among its runs. The cost of an activation by itself is measured "
    "by python -m actlab bench activations."
)
RANKING = ("condition", "activation", "view", "value", "low", "high", "label", "order")


def ranking(study: Study, compared: Compared) -> Section:
    """The ranking with each activation at its own best learning rate, in three views of equal cost."""
    if not compared.comparisons:
        return Section("ranking", "Ranking", (Text(f"None: {compared.reason}"),))
    view = Choice("view", "equal", ("parameters", "flops", "seconds"), "parameters")
    filters = charts.Filters(study, view)
    rows = losses(study, compared)
    figure = dots(
        "ranking-figure",
        study,
        filters,
        rows,
        f"validation loss, {study.unit}",
        f"{_said(rows)} Each activation at its own best learning rate.",
        "Mean over seeds at each activation's own best learning rate, with its own 95% interval. Activations that "
        "share a letter cannot be distinguished.",
        {"ranking": {}},
        "datum.view === view",
    )
    blocks: list[Block] = [*filters.controls, figure]
    for name, one in compared.by_condition(study).items():
        blocks += _tables(name, one)
    return Section("ranking", "Ranking", tuple(blocks))


def losses(study: Study, compared: Compared) -> list[list[Value]]:
    """Rows of RANKING, of every condition and view."""
    return [
        [name, one.activation, view.name, one.loss, *(one.interval or (None, None)), ",".join(one.groups), place]
        for name, each in compared.by_condition(study).items()
        for view in each.views
        for place, one in enumerate(view.standings)
    ]


def _said(rows: Sequence[Sequence[Value]]) -> str:
    first = [row for row in rows if row[0] == rows[0][0] and row[2] == "parameters" and row[3] is not None]
    return "Dots with intervals. " + ", ".join(f"{row[1]} {row[3]:.4f} ({row[6]})" for row in first) + "."


def dots(
    name: str,
    study: Study,
    filters: charts.Filters,
    rows: Sequence[Sequence[Value]],
    title: str,
    alt_text: str,
    caption: str,
    files: Mapping[str, Mapping[str, Value]],
    expression: str = "true",
) -> Figure:
    """A dot with its interval for each activation, lowest first, from rows of RANKING."""
    order = alt.EncodingSortField("order", op="min", order="ascending")
    tips = ["activation:N", "view:N", "value:Q", "low:Q", "high:Q", "label:N"]
    base = (
        alt.Chart(charts.DATA)
        .transform_filter(f"{filters.expression} && ({expression}) && isValid(datum.value)")
        .encode(y=alt.Y("activation:N", sort=order, title=None), color=charts.colour(study.activations))
    )
    scale, ticks = alt.Scale(zero=False), alt.Axis(tickCount=8)
    axis = alt.X("value:Q", title=title, scale=scale, axis=ticks)
    line = base.mark_rule(strokeWidth=3).encode(x=alt.X("low:Q", scale=scale, title=title, axis=ticks), x2="high:Q")
    dot = base.mark_point(filled=True, size=80, opacity=1).encode(x=axis, tooltip=tips)
    label = base.mark_text(align="left", dx=8, dy=-7, fontSize=11)
    label = label.encode(x=axis, text="label:N", color=alt.value("var(--ink)"))
    chart = alt.layer(line, dot, label).properties(width="container", height=22 * len({row[1] for row in rows}))
    spec = charts.spec(chart, filters.params)
    return Figure(name, spec, {"points": Rows(RANKING, rows)}, alt_text, caption, files)


def _tables(name: str, one: Comparison) -> Iterator[Block]:
    columns = ("activation", "group", "loss", "95% interval", "best rate", "seeds", "runs", "failed")
    rows = []
    for standing in one.main.standings:
        best = "" if standing.best_rate is None else charts.rate(standing.best_rate)
        link = {"link": "runs-table", "words": charts.words(standing.activation, best, name)}
        every = {"link": "runs-table", "words": charts.words(standing.activation, name)}
        loss = charts.number(standing.loss, **link)
        failed = sum(standing.failed.values())
        counts = [charts.number(count, "d", **every) for count in (standing.seeds, standing.runs, failed)]
        rows.append(
            [
                Cell(standing.activation, swatch=charts.style(standing.activation)),
                ",".join(standing.groups),
                loss,
                charts.span(standing.interval),
                charts.number(standing.best_rate, "g", **link),
                *counts,
            ]
        )
    at = f" at {name}" if name else ""
    yield Table(f"ranking-{name}", columns, rows, f"Ranking{at}. A click on a number shows its runs.")
    yield Table(f"views-{name}", ("equal", "budget", "ranking"), list(_views(one)), f"Three views of equal cost{at}.")
    pairs = [
        [
            str(pair.question),
            charts.number(pair.own_best.effect.mean, "+"),
            charts.span(pair.own_best.effect.interval, "+"),
            charts.number(pair.own_best.p, ".2g"),
            qualified(pair.own_best),
        ]
        for pair in one.main.pairs
    ]
    headings = ("question", "difference", "95% interval", "p after Holm", "verdict")
    yield Table(f"pairs-{name}", headings, pairs, f"Pairs{at}: first minus second, each at its own best rate, in nats.")


def _views(one: Comparison) -> Iterator[list[Cell | str]]:
    for view in one.views:
        order = ", ".join(
            f"{standing.activation} {standing.loss:.4f}" for standing in view.standings if standing.loss is not None
        )
        yield [view.name, view.words, order or view.reason]


def cost(study: Study) -> Section:
    """Parameters, FLOPs and seconds of each activation."""
    begun = [run for run in study.runs if run.result and run.result.steps]
    done = {name: [run for run in begun if run.activation == name] for name in study.activations}
    timed = {name: times for name, runs in done.items() if (times := list(_milliseconds(runs)))}
    blocks: list[Block] = []
    if timed:
        ordered = sorted(timed, key=lambda name: statistics.median(timed[name]))
        rows = [
            ["", name, "time", statistics.median(timed[name]), min(timed[name]), max(timed[name]), "", place]
            for place, name in enumerate(ordered)
        ]
        said = "Dots with ranges: " + ", ".join(f"{row[1]} {row[3]:.3g} ms" for row in rows) + " per step."
        caption = (
            "Milliseconds per training step of one run: median, minimum and maximum over runs. Evaluation is included, "
            "and so is other load on the machine."
        )
        filters = charts.Filters(study)
        filters.expression = "true"  # costs are of all conditions together
        blocks.append(dots("cost-figure", study, filters, rows, "milliseconds per step", said, caption, {"cost": {}}))
    least = min((statistics.median(values) for values in timed.values()), default=None)
    table = [_cost_row(name, runs, timed.get(name), least) for name, runs in done.items() if runs]
    if not table:
        return Section("cost", "Cost", (Text("No run has ended."),))
    columns = ("activation", "parameters", "MFLOP per token", "ms per step", "relative to the fastest", "tokens/s")
    blocks.append(Table("cost-table", columns, table, _COST))
    return Section("cost", "Cost", tuple(blocks))


def _cost_row(name: str, runs: Sequence[Run], times: Sequence[float] | None, least: float | None) -> list[Cell | str]:
    first = runs[0].result
    assert first
    link = {"link": "runs-table", "words": charts.words(name)}
    each = statistics.median(times) if times else None
    return [
        Cell(name, swatch=charts.style(name)),
        charts.number(first.parameters, ",d", **link),
        charts.number(first.flops_per_token / 1e6, ",.2f", **link),
        charts.number(each, ",.3g", **link),
        charts.number(each / least if each and least else None, ".2f", **link),
        charts.number(first.tokens / first.steps / each * 1000 if each else None, ",.0f", **link),
    ]


def _milliseconds(runs: Iterable[Run]) -> Iterator[float]:
    """Of a step of each run that finished and was timed."""
    for run in runs:
        if run.result and run.result.status == "finished" and run.result.seconds:
            yield 1000 * run.result.seconds / run.result.lanes / run.result.steps


RATES = ("condition", "activation", "rate", "loss", "low", "high", "kind", "seed", "link", "status")


def rates(study: Study, compared: Compared) -> Section:
    """The curve of loss against learning rate, a table of its values, and the sensitivities."""
    rows = rate_rows(study)
    if not rows:
        return Section("rates", "Loss against learning rate", (Text("No run has ended."),))
    filters = charts.Filters(study)
    losses = [row[3] for row in rows if isinstance(row[3], float)]
    low, high = math.floor(100 * min(losses)) / 100, math.ceil(100 * max(losses)) / 100
    filters.params["top"] = high
    top = Controls((Slider("top", "up to", low, high, round((high - low) / 100, 6) or 0.01, high),))
    blocks: list[Block] = [*filters.controls, top, _curve(study, filters, rows), *_rate_tables(study)]
    blocks += _sensitivity(study, compared)
    return Section("rates", "Loss against learning rate", tuple(blocks))


def rate_rows(study: Study) -> list[list[Value]]:
    """Rows of RATES: a mean for each cell, and every run."""
    rows: list[list[Value]] = []
    for (condition, activation, rate), runs in study.cells().items():
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


def _curve(study: Study, filters: charts.Filters, rows: Sequence[Sequence[Value]]) -> Figure:
    plain = alt.Chart(charts.DATA).transform_filter(filters.expression)
    ticks = alt.Axis(values=list(study.rates), format="~g", labelOverlap=True)
    x = alt.X("rate:Q", scale=_across(study.rates), title="learning rate", axis=ticks)
    # The highest loss of each condition: those of another must not compress its curves.
    highest = dict.fromkeys(study.conditions, 0.0)
    for condition, _, _, loss, *_ in rows:
        highest[str(condition)] = max(highest[str(condition)], loss if isinstance(loss, float) else 0.0)
    tops = json.dumps(highest)
    scale = alt.Scale(zero=False, nice=False, padding=8, domainMax=alt.ExprRef(f"min(top, ({tops})[condition])"))
    y = alt.Y("loss:Q", scale=scale, title=f"validation loss, {study.unit}")
    base = plain.encode(x=x, y=y, color=charts.colour(study.activations))
    means = base.transform_filter("datum.kind === 'mean'")
    band = charts.band(plain.transform_filter("datum.kind === 'mean'").encode(x=x), scale, study.activations)
    tips = ["activation:N", "rate:Q", "loss:Q", "low:Q", "high:Q"]
    line = means.mark_line(strokeWidth=2, clip=True).encode(**charts.lines(study.activations))
    dot = means.mark_point(filled=True, size=40, opacity=1, clip=True).encode(tooltip=tips)
    shape = alt.Shape(
        "status:N", scale=alt.Scale(domain=["finished", "diverged"], range=["circle", "cross"]), legend=None
    )
    each = (
        base.transform_filter(f"datum.kind === 'run' && {charts.FEW}")
        .mark_point(size=36, opacity=0.75, cursor="pointer", clip=True)
        .encode(shape=shape, tooltip=["activation:N", "rate:Q", "seed:N", "loss:Q", "status:N"])
    )
    chart = alt.layer(band, line, each, dot).properties(width="container", height=340)
    means_of = {name: [row for row in rows if row[6] == "mean" and row[1] == name] for name in study.activations}
    said = "; ".join(
        f"{name} " + ", ".join(f"{row[3]:.4g} at {row[2]:g}" for row in own) for name, own in means_of.items() if own
    )
    caption = (
        "Mean over seeds with its 95% interval. Small marks are runs (a click on one leads to it), crosses diverged "
        "runs, which count with their initial loss. Intervals and runs are drawn for at most 8 activations at a time."
    )
    spec = charts.spec(chart, filters.params)
    files = {"loss_by_learning_rate": {}}
    return Figure("rates-figure", spec, {"points": Rows(RATES, rows)}, f"Lines. Mean loss: {said}.", caption, files)


def _across(rates: Sequence[float]) -> alt.Scale:
    lowest, highest = rates[0], rates[-1]
    if lowest == 0:  # 0 has no logarithm
        step = min((rate for rate in rates if rate > 0), default=1.0)
        return alt.Scale(type="symlog", constant=step / 10, nice=False, padding=12, domain=[0, highest or step])
    ends = [lowest, highest] if highest > lowest else [lowest / 2, highest * 2]
    return alt.Scale(type="log", nice=False, padding=12, domain=ends)


def _rate_tables(study: Study) -> Iterator[Block]:
    found = study.cells()
    for condition in study.conditions:
        rows = []
        for name in study.activations:
            cells = [_cell(condition, name, rate, found.get((condition, name, rate), [])) for rate in study.rates]
            rows.append([Cell(name, swatch=charts.style(name)), *cells])
        at = f" at {condition}" if condition else ""
        columns = ("activation", *map(charts.rate, study.rates))
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
    return Cell(text, effect.mean, "runs-table", charts.words(name, charts.rate(rate), condition))


def _sensitivity(study: Study, compared: Compared) -> Iterator[Block]:
    rows: list[list[Value]] = []
    for name, one in compared.by_condition(study).items():
        known = [each for each in one.main.standings if each.sensitivity is not None]
        known.sort(key=lambda each: each.sensitivity or 0.0)
        for place, each in enumerate(known):
            ends = each.sensitivity_interval or (None, None)
            rows.append([name, each.activation, "", each.sensitivity, *ends, "", place])
    if not rows:
        yield Text("No learning-rate sensitivity: it needs two learning rates common to all activations.", "note")
        return
    said = ", ".join(f"{row[1]} {row[3]:.4f}" for row in rows if row[0] == rows[0][0])
    caption = (
        "Learning-rate sensitivity: the mean loss over the rates at which any run learned, minus the best one "
        "(Wortsman et al. 2023, section 2.2), mean over seeds with its 95% interval."
    )
    title = "learning-rate sensitivity, nats"
    yield dots(
        "sensitivity-figure", study, charts.Filters(study), rows, title, f"Dots: {said}.", caption, {"sensitivity": {}}
    )
