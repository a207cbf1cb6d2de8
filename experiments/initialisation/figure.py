"""Draws figure.svg: activations where their inputs start, and the test loss by learning rate at two initialisations.

Command, from the root of the repository: python experiments/initialisation/figure.py
Everything in it comes from the formulas of actlab.activations and the rows of results.csv.
"""

import pathlib
import statistics
import sys

import numpy as np
from scipy import stats

from actlab import activations
from actlab.analysis import results
from actlab.cli import command

try:
    import altair as alt

    from actlab.report import charts
    from actlab.report.page import Figure, Rows
    from actlab.report.page.render import export
except ModuleNotFoundError as error:
    sys.exit(command.missing(error))

HERE = pathlib.Path(__file__).parent
SHOWN = ("relu", "gelu", "silu", "swiglu", "polynorm")
CURVES = ("relu", "gelu", "silu")  # swiglu's gate is silu; polynorm depends on the other units
INITS = {"gpt2": "test loss with init=gpt2 (weights of 0.02)", "fan_in": "with init=fan_in"}
STARTS = {"gpt2": 0.02 * 64**0.5, "fan_in": 1.0}  # standard deviation of the inputs at width 64


def means() -> list[tuple[str, str, float, float, float, float]]:
    """Of each initialisation, activation and learning rate the mean test loss with its 95% t interval."""
    losses: dict[tuple[str, str, float], list[float]] = {}
    for run in results.read([HERE / "results.csv"]):
        init = dict(run.axes)["model.init"]
        if run.activation in SHOWN and init in INITS:
            loss = float("nan") if run.test_loss is None else run.test_loss
            losses.setdefault((init, run.activation, run.learning_rate), []).append(loss)
    rows = []
    for place, values in sorted(losses.items()):
        mean, error = statistics.fmean(values), statistics.stdev(values) / len(values) ** 0.5
        half = error * float(stats.t.ppf(0.975, len(values) - 1))
        rows.append((*place, mean, mean - half, mean + half))
    return rows


def lowest(init: str) -> dict[str, float]:
    """Of each activation the lowest mean over the learning rates, lowest first."""
    found: dict[str, float] = {}
    for at, name, _, mean, *_ in means():
        if at == init:
            found[name] = min(mean, found.get(name, mean))
    return dict(sorted(found.items(), key=lambda item: item[1]))


def figure() -> Figure:
    """Three panels: f with the spread of its inputs at the start, then test losses by learning rate."""
    x = np.linspace(-2.5, 2.5, 101, dtype=np.float32)
    curves = [(name, *point) for name in CURVES for point in zip(x.tolist(), _values(name, x), strict=True)]
    data = {
        "curves": Rows(("activation", "x", "y"), curves),
        "losses": Rows(("init", "activation", "rate", "mean", "low", "high"), means()),
    }
    panels = [_curves(), *(_losses(init, title) for init, title in INITS.items())]
    spec = charts.spec(alt.hconcat(*panels, spacing=16), {})
    return Figure("figure", spec, data, "Activations where their inputs start, and test losses by learning rate.")


def _values(name: str, x: np.ndarray) -> list[float]:
    activation = activations.get(name)
    return np.asarray(activation.fn(x, **activation.theta)).tolist()


def _curves() -> alt.LayerChart:
    bands = [{"low": -deviation, "high": deviation} for deviation in STARTS.values()]
    spread = alt.Chart(alt.Data(values=bands)).mark_rect(color="black", opacity=0.09).encode(x="low:Q", x2="high:Q")
    x = alt.X("x:Q", title="x; ±1 sd at the start: gpt2 dark", axis=alt.Axis(tickCount=5))
    y = alt.Y("y:Q", title=None, scale=alt.Scale(domain=(-0.5, 2.5), nice=False), axis=alt.Axis(tickCount=6))
    lines = alt.Chart(alt.NamedData("curves")).mark_line(strokeWidth=1.8, clip=True)
    drawn = lines.encode(x=x, y=y, **charts.lines(SHOWN, {"columns": 5}))
    return alt.layer(spread, drawn).properties(title="f(x)", width=150, height=190)


def _losses(init: str, title: str) -> alt.LayerChart:
    rates = alt.Axis(values=[1.8e-3, 3.2e-3, 5.6e-3, 1e-2, 1.8e-2, 3.2e-2], format="~g", labelOverlap=True)
    x = alt.X("rate:Q", title="learning rate", scale=alt.Scale(type="log", domain=(1.5e-3, 3.8e-2)), axis=rates)
    unit = "nats/byte" if init == "gpt2" else None
    scale, axis = alt.Scale(domain=(1.25, 2.0), nice=False), alt.Axis(tickCount=6)
    low, mean = (alt.Y(f"{field}:Q", title=unit, scale=scale, axis=axis) for field in ("low", "mean"))
    base = alt.Chart(alt.NamedData("losses")).transform_filter(f"datum.init === '{init}'")
    styled = charts.lines(SHOWN, {"columns": 5})
    bars = base.mark_rule(clip=True, opacity=0.5).encode(x=x, y=low, y2="high:Q", color=styled["color"])
    lines = base.mark_line(strokeWidth=1.8, clip=True).encode(x=x, y=mean, **styled)
    return alt.layer(bars, lines).properties(title=title, width=190, height=190)


if __name__ == "__main__":
    export(figure(), HERE)
