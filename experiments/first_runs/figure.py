"""Draws figure.svg: activations, their slopes, and how near its floor a small decoder came with each.

Command, from the root of the repository: python experiments/first_runs/figure.py
Everything in it comes from the formulas of actlab.activations and the rows of results.csv with 2,400 steps.
"""

import pathlib
import sys

from actlab.analysis import results
from actlab.analysis.results import Result
from actlab.cli import command

try:
    import altair as alt

    from actlab.report import charts, explorer
    from actlab.report.page import Figure, Rows
    from actlab.report.page.render import export
except ModuleNotFoundError as error:
    sys.exit(command.missing(error))

HERE = pathlib.Path(__file__).parent
STEPS = 2400
GATES = {"swiglu": "silu"}  # of a gated activation the gate is drawn


def runs() -> list[Result]:
    """The first run of each activation on the embedded corpus, lowest loss first."""
    first: dict[str, Result] = {}
    for run in results.read([HERE / results.FILE]):
        if run.data == "story_grammar" and run.steps == STEPS:
            first.setdefault(run.activation, run)
    return sorted(first.values(), key=lambda run: run.final_loss)


def figure() -> Figure:
    """Three panels: f, f', and validation losses above the floor."""
    found = runs()
    names = [run.activation for run in found]
    curves = [
        (name, order, x, y)
        for name in names
        for order, points in zip("01", explorer.facts(GATES.get(name, name), complete=False).curves, strict=False)
        for x, y in points
        if -4 <= x <= 4
    ]
    losses = [(run.activation, float(run.floor or "nan"), run.final_loss) for run in found]
    data = {
        "curves": Rows(("activation", "order", "x", "y"), curves),
        "losses": Rows(("activation", "low", "loss"), losses),
    }
    panels = [
        _curves(names, "0", "f(x)", (-1.3, 3.2)),
        _curves(names, "1", "f′(x)", (-0.2, 1.25)),
        _losses(names, losses[0][1]),
    ]
    spec = charts.spec(alt.hconcat(*panels, spacing=16), {})
    return Figure("figure", spec, data, "f, f' and the validation loss of five activations.")


def _curves(names: list[str], order: str, title: str, window: tuple[float, float]) -> alt.Chart:
    labels = " : ".join(f"datum.label === '{name}' ? '{name} (its gate, {gate})'" for name, gate in GATES.items())
    legend = {"labelExpr": f"{labels} : datum.label", "columns": 5}
    return (
        alt.Chart(alt.NamedData("curves"), title=title, width=145, height=175)
        .transform_filter(f"datum.order === '{order}'")
        .mark_line(strokeWidth=1.8, clip=True)
        .encode(
            x=alt.X("x:Q", axis=alt.Axis(tickCount=5)),
            y=alt.Y("y:Q", title=None, scale=alt.Scale(domain=window, nice=False), axis=alt.Axis(tickCount=6)),
            **charts.lines(names, legend),
        )
    )


def _losses(names: list[str], floor: float) -> alt.LayerChart | alt.FacetChart:
    scale = alt.Scale(domain=[floor - 0.02, 1.45], nice=False)
    x = alt.X("loss:Q", title="nats/token", scale=scale, axis=alt.Axis(tickCount=6))
    base = alt.Chart(alt.NamedData("losses")).encode(
        y=alt.Y("activation:N", sort=names, title=None), **charts.lines(names)
    )
    bars = base.mark_rule(strokeWidth=2).encode(x=x, x2="low:Q")
    dots = base.mark_point(filled=True, size=60, opacity=1).encode(x=x)
    texts = base.mark_text(align="left", dx=7).encode(
        x=x, text=alt.Text("loss:Q", format=".3f"), color=alt.value("black")
    )
    line = alt.Chart(alt.Data(values=[{"floor": floor}])).encode(x=alt.X("floor:Q", scale=scale))
    edge = line.mark_rule(color="black")
    label = line.mark_text(align="left", baseline="bottom", dx=3).encode(
        y=alt.value(174), text=alt.value(f"floor {floor:.3f}")
    )
    title = f"validation loss, {STEPS:,} steps, one seed"
    return alt.layer(bars, dots, texts, edge, label).properties(title=title, width=215, height=175)


if __name__ == "__main__":
    export(figure(), HERE)
