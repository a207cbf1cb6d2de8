"""Final losses: the ranking and what is shown of it, the cost, loss against learning rate and its sensitivity."""

import itertools
import json
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import altair as alt

from actlab.analysis.comparison import UNRESOLVED, Comparison, beyond_ranking, qualified
from actlab.analysis.effects import Effect, Verdict, from_zero, nats, span
from actlab.analysis.ranking import View, step_seconds
from actlab.analysis.results import Result
from actlab.console import counted
from actlab.report import charts
from actlab.report.page import Block, Cell, Choice, Controls, Details, Figure, Rows, Section, Slider, Table, Value
from actlab.report.study import Run, Study
from actlab.report.verdicts import Compared

_COST = (
    "Cost. The time of a program is divided equally among its runs. The cost of an activation by itself is measured "
    "by python -m actlab bench activations."
)
DOTS = ("condition", "activation", "view", "value", "low", "high", "state", "order")
# What is shown of a loss beside that of the baseline: colour and shape, so that it is told without colour too.
LOWER, HIGHER, EQUAL, OPEN, UNASKED, BASELINE = "lower", "higher", "equal", "open", "not asked", "baseline"
_STATES = {
    LOWER: (charts.BLUE, "circle"),
    HIGHER: (charts.VERMILLION, "square"),
    EQUAL: (charts.GREEN, "diamond"),
    OPEN: (charts.GREY, "triangle-up"),
    UNASKED: (charts.GREY, "cross"),
    BASELINE: (charts.BLACK, "triangle-right"),
}
_OF_VERDICT = {
    Verdict.SUPPORTED: LOWER,
    Verdict.REFUTED: HIGHER,
    Verdict.EQUIVALENT: EQUAL,
    Verdict.UNDECIDED: OPEN,
}
_TALLEST = 470  # pixels of the ranking, so that it is seen whole when the page opens


def states(one: Comparison, view: View | None = None) -> dict[str, str]:
    """What is shown of each activation beside the baseline, in a view or in the main one."""
    view, known = view or one.main, {}
    for pair in view.pairs:
        first, second = pair.contrast.activations
        if second == one.baseline:
            known[first] = _OF_VERDICT[pair.own_best.verdict]
    names = [standing.activation for standing in view.standings]
    return {name: BASELINE if name == one.baseline else known.get(name, UNASKED) for name in names}


def ranking(study: Study, compared: Compared, shown: charts.Shown) -> Section:
    """The ranking with each activation at its own best learning rate, in three views of equal cost."""
    found = compared.by_condition(study)
    rows = losses(study, compared)
    against = " or ".join(dict.fromkeys(one.baseline for one in found.values()))
    figure = dots(
        "ranking-figure",
        shown,
        rows,
        f"loss, {study.unit}",
        charts.told(
            study,
            "Dots with intervals, each activation at its own best learning rate",
            [row for row in rows if row[2] == "parameters" and row[3] is not None],
            lambda row: f"{row[1]} {row[3]:.4f} ({row[6]})",
        ),
        f"Mean over seeds at each activation's own best learning rate, with its 95% interval: of {_read_on(compared)}. "
        "Colour and shape: loss "
        f"lower or higher than that of {against}, equal within the margin, or open (after Holm); the dotted line is "
        f"{against}. Intervals that overlap may belong to a difference that is shown: differences are paired by seed.",
        {"ranking": {}},
        of_states=True,
    )
    views = (Choice("view", "at equal", ("parameters", "flops", "seconds"), "parameters"),)
    blocks: list[Block] = [figure, Controls(views), _table(study, found), *_questions(study, found)]
    budgets = [[*cells, name] for name, one in found.items() for cells in _views(one)]
    table = charts.table(study, "views-table", ("equal", "budget", "ranking"), budgets, "")
    blocks += [Details("views", "Three views of equal cost", (table,)), *_other_pairs(study, found)]
    return Section("ranking", "Ranking", tuple(blocks))


def losses(study: Study, compared: Compared) -> list[list[Value]]:
    """Rows of DOTS, of every condition and view."""
    return [
        [name, one.activation, view.name, one.loss, *(one.interval or (None, None)), of[one.activation], place]
        for name, each in compared.by_condition(study).items()
        for view in each.views
        for of in [states(each, view)]
        for place, one in enumerate(view.standings)
    ]


def _read_on(compared: Compared) -> str:
    """The losses of the figure in words. A view that ends runs early reads validation losses: no others are known."""
    read_on = {one.main.grid.read_on for one in compared.comparisons if one.main.grid} or {"validation"}
    if read_on == {"validation"}:
        return "validation loss"
    if len(read_on) > 1:
        return "test loss, of validation loss where the table has no other"
    return "test loss, of validation loss where a view ends runs early"


def dots(
    name: str,
    shown: charts.Shown,
    rows: Sequence[Sequence[Value]],
    title: str,
    alt_text: Mapping[str, str],
    caption: str,
    files: Mapping[str, Mapping[str, Value]],
    of_states: bool = False,
) -> Figure:
    """A dot with its interval for each activation, lowest first, from rows of DOTS."""
    order = alt.EncodingSortField("order", op="min", order="ascending")
    tips = ["activation:N", *(["view:N", "state:N"] if of_states else []), "value:Q", "low:Q", "high:Q"]
    drawn = shown.filter("isValid(datum.value)", *(["datum.view === view"] if of_states else []))
    names = list(dict.fromkeys(str(row[1]) for row in rows))
    step = max(12, min(22, _TALLEST // max(len(names), 1)))
    if of_states:
        present = [state for state in _STATES if any(row[6] == state for row in rows)]
        colours, shapes = ([_STATES[state][index] for state in present] for index in (0, 1))
        legend = alt.Legend(title=None, orient="top", columns=3)
        channels: dict[str, Any] = {
            "color": alt.Color("state:N", scale=alt.Scale(domain=present, range=colours), legend=legend),
            "shape": alt.Shape("state:N", scale=alt.Scale(domain=present, range=shapes), legend=legend),
        }
    else:
        colour = charts.colour(shown.names)
        channels = {"color": alt.condition(charts.CHOSEN, colour, alt.value(charts.GREY)) if shown.many else colour}
    base = alt.Chart(charts.DATA).transform_filter(drawn)
    labels = alt.Axis(labelFontSize=min(12, step - 1))
    base = base.encode(y=alt.Y("activation:N", sort=order, title=None, axis=labels))
    axis = {"title": title, "scale": alt.Scale(zero=False), "axis": alt.Axis(tickCount=6)}
    line = base.mark_rule(strokeWidth=2.5).encode(x=alt.X("low:Q", **axis), x2="high:Q", color=channels["color"])
    dot = base.mark_point(filled=True, size=75, opacity=1).encode(x=alt.X("value:Q", **axis), tooltip=tips, **channels)
    layers = [line, dot]
    if of_states:
        rule = alt.Chart(charts.DATA).transform_filter(f"{drawn} && datum.state === '{BASELINE}'")
        layers.insert(0, rule.mark_rule(strokeDash=[2, 3], color=charts.BLACK).encode(x=alt.X("value:Q", **axis)))
    chart = alt.layer(*layers)
    # Vega-Lite cannot fit the width of a chart whose height is a step per row.
    chart = chart.properties(width="container", height=step * len(names))
    params = shown.params | ({"view": "parameters"} if of_states else {})
    return Figure(name, charts.spec(chart, params), {"points": Rows(DOTS, rows)}, alt_text, caption, files, narrow=True)


def _table(study: Study, found: Mapping[str, Comparison]) -> Table:
    """The ranking with the difference to the baseline."""
    swatches = charts.styles(study.activations)
    baseline = next(iter(found.values())).baseline
    least = "minus baseline" if len({one.baseline for one in found.values()}) > 1 else f"minus {baseline}"
    columns = ("activation", "loss", "95% interval", least, "its 95% interval", "p, Holm", "verdict", "best rate")
    columns += ("seeds", "runs", "failed")
    rows, links = [], []
    for name, one in found.items():
        pairs = {pair.contrast.activations: pair for pair in one.main.pairs}
        of = states(one)
        for standing in one.main.standings:
            pair = pairs.get((standing.activation, one.baseline))
            judged = pair and pair.own_best
            elsewhere = beyond_ranking(one.main.grid, pair) if one.main.grid and pair else ""
            best = "" if standing.best_rate is None else charts.rate(standing.best_rate)
            unresolved = judged.effect.unresolved if judged else standing.unresolved
            links.append(charts.runs_with(standing.activation, name, best))
            rows.append(
                [
                    Cell(standing.activation, swatch=swatches[standing.activation]),
                    charts.number(standing.loss),
                    span(standing.interval),
                    charts.number(judged.effect.mean if judged else None, "+"),
                    span(judged.effect.interval if judged else None, "+"),
                    charts.number(judged.p if judged else None, ".2g"),
                    f"{of[standing.activation]}{f', {UNRESOLVED}' if unresolved else ''}"
                    f"{f' ({elsewhere})' if elsewhere else ''}",
                    charts.number(standing.best_rate, "g"),
                    charts.number(standing.seeds, "d"),
                    charts.number(standing.runs, "d"),
                    charts.number(sum(standing.failed.values()), "d"),
                    name,
                ]
            )
    caption = (
        "Losses and differences in nats at each one's best rate; intervals are 95%, each by itself. A row leads to its "
        "runs."
    )
    return charts.table(study, "ranking-table", columns, rows, caption, links=links)


def _pair_table(
    study: Study, name: str, caption: str, pairs: Sequence[tuple[str, str, Any]], filtered: bool = False
) -> Table:
    """A row for each (condition, question, judgement)."""
    rows: list[list[Cell | str]] = [
        [
            question,
            charts.number(judged.effect.mean, "+"),
            span(judged.effect.interval, "+"),
            charts.number(judged.p, ".2g"),
            qualified(judged),
            condition,
        ]
        for condition, question, judged in pairs
    ]
    columns = ("question", "difference", "95% interval", "p, Holm", "verdict")
    return charts.table(study, name, columns, rows, caption, filtered=filtered)


def _questions(study: Study, found: Mapping[str, Comparison]) -> Iterator[Block]:
    """The questions that the ranking does not hold: those about two others than the baseline."""
    pairs = [
        (name, pair.question, pair.own_best)
        for name, one in found.items()
        for pair in one.main.pairs
        if pair.contrast.activations[1] != one.baseline
    ]
    if pairs:
        caption = "Further questions of the study: first minus second, each at its own best rate, in nats."
        yield _pair_table(study, "questions-table", caption, pairs)


def _other_pairs(study: Study, found: Mapping[str, Comparison]) -> Iterator[Block]:
    others = {name: one.other_pairs() for name, one in found.items()}
    pairs = [(name, " < ".join(pair.activations), one) for name, of in others.items() for pair, one in of.items()]
    if pairs:
        caption = (
            f"Pairs that no question is about, with Holm over them alone ({max(map(len, others.values()))}): to look "
            "at, not to decide by. First minus second, each at its own best rate, in nats."
        )
        table = _pair_table(study, "pairs-table", caption, pairs, filtered=True)
        yield Details("pairs", "The other pairs", (table,))


def _views(one: Comparison) -> Iterator[list[Cell | str]]:
    for view in one.views:
        order = ", ".join(
            f"{standing.activation} {standing.loss:.4f}" for standing in view.standings if standing.loss is not None
        )
        yield [view.name, view.words, f"{order}{one.read_on(view)}" if order else view.reason]


def cost(study: Study, shown: charts.Shown) -> list[Section]:
    """Parameters, FLOPs and seconds of each activation under each condition; nothing before a run has ended."""
    cells: dict[tuple[str, str], list[Result]] = {}
    for place in itertools.product(study.conditions, study.activations):
        runs = [run for run in study.runs if (run.condition, run.activation) == place]
        if results := [run.result for run in runs if run.result and run.result.steps]:
            cells[place] = results
    timed = {place: times for place, results in cells.items() if (times := _milliseconds(results))}
    if not cells:
        return []
    middles = {place: statistics.median(times) for place, times in timed.items()}
    blocks: list[Block] = []
    if timed:
        rows: list[list[Value]] = [
            [*place, "time", middles[place], min(timed[place]), max(timed[place]), "", order]
            for order, place in enumerate(sorted(timed, key=middles.__getitem__))
        ]
        said = charts.told(study, "Dots with ranges, milliseconds per step", rows, lambda row: f"{row[1]} {row[3]:.3g}")
        caption = (
            "Milliseconds per training step of one run: dot and line are median, minimum and maximum over runs. "
            "Other load on the machine is included, and times of different sessions or machines do not compare."
        )
        blocks.append(dots("cost-figure", shown, rows, "milliseconds per step", said, caption, {"cost": {}}))
    swatches = charts.styles(study.activations)
    columns = ("activation", "parameters", "MFLOP per token", "ms per step", "relative to the fastest", "tokens/s")
    table = []
    for (condition, name), results in cells.items():
        least = min((middle for place, middle in middles.items() if place[0] == condition), default=None)
        row = _cost_row(results[0], middles.get((condition, name)), least)
        table.append([Cell(name, swatch=swatches[name]), *row, condition])
    links = [charts.runs_with(name, condition) for condition, name in cells]
    blocks.append(charts.table(study, "cost-table", columns, table, _COST, links=links))
    return [Section("cost", "Cost", tuple(blocks))]


def _cost_row(first: Result, each: float | None, least: float | None) -> list[Cell | str]:
    return [
        charts.number(first.parameters, ",d"),
        charts.number(first.flops_per_token / 1e6, ",.2f"),
        charts.number(each, f",.{max(0, 2 - math.floor(math.log10(each)))}f" if each else ""),  # three digits
        charts.number(each / least if each and least else None, ".2f"),
        charts.number(first.tokens / first.steps / each * 1000 if each else None, ",.0f"),
    ]


def _milliseconds(results: Iterable[Result]) -> list[float]:
    """Time of a step, for each run that finished and was timed."""
    return [1000 * seconds for one in results if one.status == "finished" and (seconds := step_seconds(one))]


RATES = ("condition", "activation", "rate", "loss", "low", "high", "kind", "seed", "link", "status")


def rates(study: Study, compared: Compared, shown: charts.Shown) -> list[Section]:
    """The curve of loss against learning rate, a table of its values, and the sensitivities; nothing at one rate."""
    rows = rate_rows(study)
    if len({row[2] for row in rows}) < 2:  # the ranking and the runs say the same
        return []
    losses = [row[3] for row in rows if isinstance(row[3], float)]
    low, high = math.floor(100 * min(losses)) / 100, math.ceil(100 * max(losses)) / 100
    top = Controls((Slider("top", "loss up to", low, high, round((high - low) / 100, 6) or 0.01, high),))
    blocks: list[Block] = [
        _curve(study, shown, rows, high),
        top,
        _rate_table(study),
        *_sensitivity(study, compared, shown),
    ]
    return [Section("rates", "Loss against learning rate", tuple(blocks))]


def rate_rows(study: Study) -> list[list[Value]]:
    """Rows of RATES: a mean for each cell, and every run; rates ascending."""
    rows: list[list[Value]] = []
    for (condition, activation, rate), runs in sorted(study.cells().items(), key=lambda cell: cell[0][2]):
        done = _ended(runs)
        if done:
            effect = Effect(tuple(result.loss for _, result in done))
            low, high = from_zero(effect.interval) if effect.interval else (effect.mean, effect.mean)
            rows.append(
                [condition, activation, rate, effect.mean, low, high, "mean", counted(len(done), "seed"), "", ""]
            )
        for run, result in done:
            place = [condition, activation, rate, result.loss, None, None, "run"]
            rows.append([*place, str(run.seed), run.key, run.status])
    return rows


def _ended(runs: Sequence[Run]) -> list[tuple[Run, Result]]:
    return [(run, run.result) for run in runs if run.result and run.result.done]


def _curve(study: Study, shown: charts.Shown, rows: Sequence[Sequence[Value]], high: float) -> Figure:
    ticks = alt.Axis(values=list(study.rates), format="~g", labelOverlap=True)
    scale = _across(study.rates)
    x = alt.X("rate:Q", scale=scale, title="learning rate (log scale)", axis=ticks)
    # The highest loss of each condition: those of another must not compress its curves.
    highest = dict.fromkeys(study.conditions, 0.0)
    for condition, _, _, loss, *_ in rows:
        highest[str(condition)] = max(highest[str(condition)], loss if isinstance(loss, float) else 0.0)
    tops = json.dumps(highest)
    y_scale = alt.Scale(zero=False, nice=False, padding=8, domainMax=alt.ExprRef(f"min(top, ({tops})[condition])"))
    y = alt.Y("loss:Q", scale=y_scale, title=f"validation loss, {study.unit}")
    base = alt.Chart(charts.DATA).transform_filter(shown.filter()).encode(x=x)
    means = base.transform_filter("datum.kind === 'mean'")
    band = charts.band(means, y_scale, study.activations)
    tips = ["activation:N", "rate:Q", "loss:Q", "low:Q", "high:Q"]
    line = means.mark_line(strokeWidth=2, clip=True).encode(y=y, **charts.lines(study.activations))
    coloured = {"y": y, "color": charts.colour(study.activations)}
    dot = means.mark_point(filled=True, size=40, opacity=1, clip=True).encode(tooltip=tips, **coloured)
    shapes = alt.Scale(domain=["finished", "diverged"], range=["circle", "cross"])
    each = base.transform_filter(f"datum.kind === 'run' && {charts.FEW}")
    each = each.mark_point(size=36, opacity=0.75, cursor="pointer", clip=True).encode(
        shape=alt.Shape("status:N", scale=shapes, legend=None),
        tooltip=["activation:N", "rate:Q", "seed:N", "loss:Q", "status:N"],
        **coloured,
    )
    chart = alt.layer(*shown.with_grey(means.encode(y=y), band, line, each, dot)).properties(
        width="container", height=340
    )
    means_of: dict[tuple[Value, Value], list[str]] = {}
    for row in rows:
        if row[6] == "mean":
            means_of.setdefault((row[0], row[1]), []).append(f"{row[3]:.4g} at {row[2]:g}")
    listed = [[*place, ", ".join(words)] for place, words in means_of.items()]
    said = charts.told(study, "Lines. Mean loss", listed, lambda row: f"{row[1]} {row[2]}")
    caption = (
        "Line and large dots: mean over seeds; band: its 95% interval. Small marks are runs (a click on one leads to "
        "it), crosses diverged runs; these, and runs that learned nothing, count with their initial loss. Bands and "
        "runs are drawn for at most 8 activations at a time."
    )
    spec = charts.spec(chart, shown.params | {"top": high})
    files = {"loss_by_learning_rate": {}}
    points = Rows(RATES, charts.in_order(rows, study.activations))
    return Figure("rates-figure", spec, {"points": points}, said, caption, files)


def _across(rates: Sequence[float]) -> alt.Scale:
    lowest, highest = rates[0], rates[-1]
    if lowest == 0:  # 0 has no logarithm
        step = min((rate for rate in rates if rate > 0), default=1.0)
        return alt.Scale(type="symlog", constant=step / 10, nice=False, padding=12, domain=[0, highest or step])
    ends = [lowest, highest] if highest > lowest else [lowest / 2, highest * 2]
    return alt.Scale(type="log", nice=False, padding=12, domain=ends)


def _rate_table(study: Study) -> Table:
    found = study.cells()
    swatches = charts.styles(study.activations)
    rows, links = [], []
    for condition, name in itertools.product(study.conditions, study.activations):
        cells = [_cell(found.get((condition, name, rate), [])) for rate in study.rates]
        rows.append([Cell(name, swatch=swatches[name]), *cells, condition])
        links.append(charts.runs_with(name, condition))
    columns = ("activation", *map(charts.rate, study.rates))
    caption = (
        f"Mean final validation loss by learning rate, {study.unit}; after \N{PLUS-MINUS SIGN} half its 95% interval."
    )
    return charts.table(study, "rates-table", columns, rows, caption, links=links)


def _cell(runs: Sequence[Run]) -> Cell:
    done = _ended(runs)
    if not done:
        return Cell("-")
    effect = Effect(tuple(result.loss for _, result in done))
    assert effect.mean is not None
    text = nats(effect.mean)
    if effect.interval:
        text += f" \N{PLUS-MINUS SIGN} {nats((effect.interval.high - effect.interval.low) / 2)}"
    diverged = sum(run.status == "diverged" for run, _ in done)
    text += f" ({diverged} diverged)" if diverged else ""
    return Cell(text, effect.mean)


def _sensitivity(study: Study, compared: Compared, shown: charts.Shown) -> Iterator[Block]:
    rows: list[list[Value]] = []
    for name, one in compared.by_condition(study).items():
        known = [each for each in one.main.standings if each.sensitivity is not None]
        known.sort(key=lambda each: each.sensitivity or 0.0)
        for place, each in enumerate(known):
            ends = each.sensitivity_interval or (None, None)
            rows.append([name, each.activation, "", each.sensitivity, *ends, "", place])
    if not rows:
        return
    said = charts.told(study, "Dots", rows, lambda row: f"{row[1]} {row[3]:.4f}")
    caption = (
        "Learning-rate sensitivity: the mean loss over the rates at which not every run failed, minus the best one "
        "(Wortsman et al. 2023, section 2.2); dot and line are the mean over seeds and its 95% interval."
    )
    title = "learning-rate sensitivity, nats"
    yield dots("sensitivity-figure", shown, rows, title, said, caption, {"sensitivity": {}})
