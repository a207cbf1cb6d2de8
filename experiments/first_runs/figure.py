"""Draws figure.svg: activations, their slopes, and how near its floor a small decoder came with each.

Command, from the root of the repository: python experiments/first_runs/figure.py
Everything in it comes from the formulas of actlab.activations and the rows of results.csv of 2,400 steps.
"""

import csv
import pathlib
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from actlab.activations import figures
from actlab.activations.colours import style

HERE = pathlib.Path(__file__).parent
STEPS = "2400"
LOW, HIGH, POINTS = -4.0, 4.0, 161
GATES = {"swiglu": "silu"}  # what is drawn of a gated one is its gate


def runs() -> list[dict[str, str]]:
    """The first run of each activation on the embedded corpus, lowest loss first."""
    rows = csv.DictReader((HERE / "results.csv").read_text().splitlines())
    first: dict[str, dict[str, str]] = {}
    for row in rows:
        if row["data"] == "story_grammar" and row["steps"] == STEPS:
            first.setdefault(row["activation"], row)
    return sorted(first.values(), key=lambda row: float(row["final_loss"]))


@matplotlib.rc_context(figures.SETTINGS)
def draw() -> Figure:
    """Three panels: f, f', and validation losses above the floor."""
    found = runs()
    figure = Figure(figsize=(9.0, 2.9), layout="constrained")
    value, slope, losses = figure.subplots(1, 3, width_ratios=(1, 1, 1.5))
    for row in found:
        _curves(value, slope, row["activation"])
    value.set(title="f(x)", xlabel="x", ylim=(-1.3, 3.2))
    slope.set(title="f′(x)", xlabel="x", ylim=(-0.2, 1.25))
    _losses(losses, found)
    figure.legend(*value.get_legend_handles_labels(), loc="outside lower center", ncols=5, handlelength=3)
    return figure


def _curves(value: Axes, slope: Axes, name: str) -> None:
    gate = GATES.get(name, name)
    x = np.linspace(LOW, HIGH, POINTS)
    for axes, y in zip((value, slope), figures.curves(gate, LOW, HIGH, POINTS)[:2], strict=True):
        label = name if gate == name else f"{name} (its gate, {gate})"
        axes.plot(x, figures.broken(np.asarray(y)), label=label, **_line(name))


def _line(name: str) -> dict[str, Any]:
    of = style(name)
    return {"color": of.colour, "linestyle": (0, of.dashes) if of.dashes else "-", "linewidth": 1.6}


def _losses(axes: Axes, found: list[dict[str, str]]) -> None:
    floor = float(found[0]["floor"])
    for place, row in enumerate(found):
        loss, line = float(row["final_loss"]), _line(row["activation"])
        axes.plot([floor, loss], [place, place], **line)
        axes.plot(loss, place, "o", color=line["color"], ms=5)
        axes.annotate(f"{loss:.3f}", (loss, place), (6, -3), textcoords="offset points")
    axes.axvline(floor, color="black", lw=1)
    axes.annotate(f"floor {floor:.3f}", (floor, len(found) - 0.4), (3, 0), textcoords="offset points")
    names = [row["activation"] for row in found]
    axes.set(yticks=range(len(found)), yticklabels=names, xlim=(floor - 0.02, 1.42), ylim=(len(found) - 0.2, -0.6))
    axes.set(title=f"validation loss, {int(STEPS):,} steps, one seed", xlabel="nats/token")
    axes.grid(False, axis="y")


def main() -> None:
    """Writes the file."""
    draw().savefig(HERE / "figure.svg", metadata={"Date": None})


if __name__ == "__main__":
    with matplotlib.rc_context(figures.SETTINGS):
        main()
