"""The excess over the entropy as a power of the size, for each activation, and what it says of a larger size.

Command: python experiments/scale/fit.py
Reads results.csv in the folders of widths, 32 to 256, and the rows of the same rate in lower_rates.csv; writes fit.csv,
figure.svg, .png and .pdf, and prints a line for each prediction. Width 128 is predicted from a fit of 32 to 96, 160
from 32 to 128, and 256 from 32 to 160: log excess = log a - b log N, least squares for each seed, of the runs at one
rate, 1e-2. Intervals of b, and of the differences of two b, are t intervals over the seeds. An interval of prediction
adds the scatter about the line.
"""

import csv
import itertools
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from actlab.__main__ import program
from actlab.analysis import results
from actlab.analysis.contrasts import losses_at_best
from actlab.analysis.effects import holm
from actlab.cli import command
from actlab.errors import UserError

try:
    import altair as alt

    from actlab.report import charts
    from actlab.report.page import Figure, Rows
    from actlab.report.page.render import export
except ModuleNotFoundError as error:
    sys.exit(command.missing(error))

FOLDER = pathlib.Path(__file__).parent
WIDTHS = (32, 48, 64, 96, 128, 160, 256)
PREDICTED = (128, 160, 256)  # each from a fit of the widths below it
RATE = 1e-2  # the same at each size, so that none has the luck of a choice; mup is to keep it near the best
CONFIDENCE = 0.95

Excess = Mapping[int, np.ndarray]  # width -> [seeds], nats/token


@command.entry
def main(argv: Sequence[str]) -> None:
    """Writes fit.csv and the figure."""
    command.parse(__doc__, argv, n_words=0)
    paths = {width: FOLDER / str(width) / "results.csv" for width in WIDTHS}
    there = {width: path for width, path in paths.items() if width not in PREDICTED or path.is_file()}
    further = results.read([FOLDER / "lower_rates.csv"])
    excess = {}
    for width, path in there.items():
        of_width = [run for run in further if dict(run.axes)["model.d_model"] == str(width)]
        excess[width] = complete(excess_of([*results.read([path]), *of_width]))
    rows = []
    for width in PREDICTED:
        below = WIDTHS[: WIDTHS.index(width)]
        if not set(below) <= excess.keys():
            break  # the width before is not trained yet
        found, slopes = predicted({one: excess[one] for one in below}, width, excess.get(width, {}))
        rows += found
        print_slopes(slopes)
    with (FOLDER / "fit.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    export(figure(latest(rows), excess), FOLDER)


def predicted(
    below: Mapping[int, Mapping[str, np.ndarray]], width: int, measured: Mapping[str, np.ndarray]
) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """Prints and returns a row for each activation of the fit below a width, and its b of each seed."""
    rows, slopes = [], {}
    for name in below[WIDTHS[0]]:
        if lacking := [one for one, of_width in below.items() if name not in of_width]:
            print(f"{name}: no prediction of width {width}, since not all seeds of width {lacking[0]} are there")
            continue
        fitted, slopes[name] = fit({one: of_width[name] for one, of_width in below.items()}, width)
        row = {"width": width, "activation": name} | fitted | {"measured": None, "holds": None}
        told = "{activation}: excess {a:.3g} N^-{b:.3f} (b {b_low:.3f} to {b_high:.3f}), "
        told += "at width {width} by it {next:.3f} ({next_low:.3f} to {next_high:.3f})"
        if name in measured:
            mean = float(measured[name].mean())
            row |= {"measured": mean, "holds": fitted["next_low"] <= mean <= fitted["next_high"]}
            told += ", measured {measured:.3f}"
        print(told.format(**row))
        rows.append(row)
    return rows, slopes


def latest(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the largest width at which something was measured, or, if nothing was, of the first one."""
    width = max((row["width"] for row in rows if row["measured"] is not None), default=rows[0]["width"])
    return [row for row in rows if row["width"] == width]


def print_slopes(slopes: Mapping[str, np.ndarray]) -> None:
    """The difference of every two b, with its interval."""
    pairs = list(itertools.combinations(slopes, 2))
    p_values = holm([float(stats.ttest_rel(slopes[one], slopes[other]).pvalue) for one, other in pairs])
    for (one, other), p in zip(pairs, p_values, strict=True):
        low, high = interval(slopes[one] - slopes[other])
        print(f"b of {one} less b of {other}: {low:.3f} to {high:.3f}, p {p:.2g} after Holm")


def complete(excess: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The activations that have every seed: a prediction is judged once."""
    n_seeds = max(map(len, excess.values()))
    return {name: values for name, values in excess.items() if len(values) == n_seeds}


def size_of(width: int) -> int:
    """Parameters without embeddings."""
    return 12 * 4 * width**2


def excess_of(runs: Sequence[results.Result]) -> dict[str, np.ndarray]:
    """Test loss less the entropy of the test stories [seeds] of each activation, at the rate."""
    if runs[0].test_floor is None:
        raise UserError(f"{runs[0].run} has no floor of its test loss: train on the story grammar with packing=padded.")
    at_rate = [run for run in runs if run.done and run.learning_rate == RATE]
    return {name: losses - runs[0].test_floor for name, losses in losses_at_best(at_rate).items()}


def interval(values: np.ndarray) -> tuple[float, float]:
    """A t interval of the mean over seeds."""
    n, mean = len(values), float(values.mean())
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1) * values.std(ddof=1) / n**0.5)
    return mean - half, mean + half


def fit(excess: Excess, width: int) -> tuple[dict[str, float], np.ndarray]:
    """a and b of a N^-b, an interval of b, the excess at the next width with its interval; and b of each seed."""
    log_n = np.log([size_of(one) for one in excess])
    log_e_WS = np.log(list(excess.values()))
    slopes_S, intercepts_S = np.polyfit(log_n, log_e_WS, 1)
    # Scatter of the means about the line, which a true power law would not have: a t interval for a new mean.
    next_n, n = np.log(size_of(width)), len(log_n)
    line = intercepts_S.mean() + slopes_S.mean() * log_n
    scatter = np.sqrt(((log_e_WS.mean(axis=1) - line) ** 2).sum() / (n - 2))
    leverage = 1 + 1 / n + (next_n - log_n.mean()) ** 2 / ((log_n - log_n.mean()) ** 2).sum()
    next_S = intercepts_S + slopes_S * next_n
    of_seeds = next_S.std(ddof=1) / len(next_S) ** 0.5
    half = stats.t.ppf((1 + CONFIDENCE) / 2, n - 2) * np.hypot(scatter * leverage**0.5, of_seeds)
    low, high = interval(-slopes_S)
    found = {
        "a": float(np.exp(intercepts_S.mean())),
        "b": float(-slopes_S.mean()),
        "b_low": low,
        "b_high": high,
        "next": float(np.exp(next_S.mean())),
        "next_low": float(np.exp(next_S.mean() - half)),
        "next_high": float(np.exp(next_S.mean() + half)),
    }
    return found, -slopes_S


def figure(rows: Sequence[Mapping[str, Any]], excess: Mapping[int, Mapping[str, np.ndarray]]) -> Figure:
    """Left the mean excess by size and the fitted lines, dashed beyond the fit; right what they predict of the next."""
    names, next_width = [row["activation"] for row in rows], rows[0]["width"]
    points = [
        (name, size_of(width), float(values.mean())) for width, of in excess.items() for name, values in of.items()
    ]
    last = WIDTHS[WIDTHS.index(next_width) - 1]
    lines = [
        (row["activation"], part, size_of(width), row["a"] * size_of(width) ** -row["b"])
        for row in rows
        for part, widths in (("fit", (WIDTHS[0], last)), ("beyond", (last, next_width)))
        for width in widths
    ]
    predicted = [(row["activation"], *(row[key] for key in ("next_low", "next", "next_high"))) for row in rows]
    measured = [(row["activation"], row["measured"]) for row in rows if row["measured"] is not None]
    data = {
        "points": Rows(("activation", "size", "excess"), points),
        "lines": Rows(("activation", "part", "size", "excess"), lines),
        "predicted": Rows(("activation", "low", "next", "high"), predicted),
        "measured": Rows(("activation", "excess"), measured),
    }
    log = alt.Scale(type="log", nice=False, padding=8)
    x = alt.X("size:Q", title="parameters without embeddings", scale=log, axis=alt.Axis(format="~s", tickCount=4))
    y = alt.Y("excess:Q", title="loss above the entropy, nats/token", scale=log, axis=alt.Axis(tickCount=6))
    drawn = alt.Chart(alt.NamedData("lines")).encode(x=x, y=y, **{"color": charts.lines(names, {})["color"]})
    fitted = drawn.transform_filter("datum.part === 'fit'").mark_line(strokeWidth=1.5)
    beyond = drawn.transform_filter("datum.part === 'beyond'").mark_line(strokeWidth=1.5, strokeDash=[3, 3])
    dots = (
        alt.Chart(alt.NamedData("points"))
        .mark_point(filled=True, size=30, opacity=1)
        .encode(x=x, y=y, color=charts.lines(names)["color"])
    )
    by_name = {"y": alt.Y("activation:N", sort=names, title=None), "color": charts.lines(names)["color"]}
    across = alt.X("low:Q", title="nats/token", scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=3))
    intervals = alt.Chart(alt.NamedData("predicted")).mark_rule(strokeWidth=2).encode(x=across, x2="high:Q", **by_name)
    middles = alt.Chart(alt.NamedData("predicted")).mark_tick(thickness=2, height=9).encode(x="next:Q", **by_name)
    found = (
        alt.Chart(alt.NamedData("measured"))
        .mark_point(filled=True, size=60, opacity=1, shape="diamond")
        .encode(x="excess:Q", y=by_name["y"], color=alt.value("black"))
    )
    left = alt.layer(fitted, beyond, dots).properties(width=240, height=200)
    title = f"width {next_width}: predicted, measured (diamonds)" if measured else f"width {next_width}: predicted"
    right = alt.layer(intervals, middles, found).properties(width=190, height=120, title=title)
    told = "; ".join(f"{row['activation']} {row['a']:.3g} N^-{row['b']:.3f}" for row in rows)
    return Figure("figure", charts.spec(alt.hconcat(left, right, spacing=24), {}), data, f"Excess by size: {told}.")


if __name__ == "__main__":
    program(main)
