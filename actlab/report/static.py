"""The figures of a report for papers: PNG and SVG, drawn from the same rows as those of the page."""

import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from actlab.activations import figures
from actlab.report import curves, deaths, distributions, layers, ranking, rates, scales, verdicts
from actlab.report.study import Study
from actlab.studies.comparison import Comparison

_PAGE = 7.5  # inches between the margins
_HEAT = ("D2 negative pre-activations", "D4 dead units", "gradient norm, feed-forward")
_PANELS = 3  # in a row
_COLUMNS = 5  # of a legend as wide as the page
_LANES = 60  # a place for each activation and rate; of more, those at each one's best rate
_INSIDE = 8  # activations whose legend and intervals leave room for their curves
Row = Sequence[Any]


@matplotlib.rc_context(figures.SETTINGS)
def draw(study: Study, folder: pathlib.Path, questions: Sequence[str] = ()) -> list[pathlib.Path]:
    """Writes each figure that the study has rows for, of each condition, and returns the paths.

    Raises:
        UserError: as verdicts.compare.
    """
    compared = verdicts.compare(study, questions)
    drawn: list[pathlib.Path] = []
    for number, condition in enumerate(study.conditions):
        ending = f"-{number + 1}" if len(study.conditions) > 1 else ""
        for name, figure in _figures(study, compared, condition):
            if condition:
                figure.suptitle(condition, fontsize=8)
            drawn += figures.save(figure, folder / f"{name}{ending}")
    return drawn


def _figures(study: Study, compared: verdicts.Compared, condition: str) -> Iterator[tuple[str, Figure]]:
    def mine(rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if row[0] == condition]

    if ranked := [row for row in mine(ranking.losses(study, compared)) if row[2] == "parameters"]:
        yield "ranking", _ranking(ranked, study.unit)
    if points := mine(rates.points(study)):
        yield "loss_by_learning_rate", _loss_by_rate(study, points)
    for name, (steps_N, found) in (("training", curves.training(study)), ("validation", curves.validation(study))):
        if bands := _drawable(found, condition):
            yield f"{name}_curves", _bands(steps_N, bands, f"{name} loss, {study.unit}")
    best = _best_rates(compared.by_condition(study).get(condition))
    measured = {lane: cube for lane, cube in layers.measured(study).items() if lane[0] == condition}
    if len(measured) > _LANES:
        measured = {lane: cube for lane, cube in measured.items() if lane[2] == best.get(lane[1], lane[2])}
    for label in _HEAT:
        if any(label in cell for cube in measured.values() for steps in cube.values() for cell in steps.values()):
            yield f"layers_{layers.METRICS[label].replace('/', '_')}", _heat(measured, label)
    if survivors := [row for row in mine(deaths.rows(study)) if row[4] == deaths.ALL]:
        yield "survival_of_units", _survival(study, survivors)
    if norms := mine(distributions.gradient_rows(study)):
        if len(norms) > _LANES:
            norms = [row for row in norms if row[1] not in best or row[2] == scales.rate(best[row[1]])]
        yield "gradient_norms", _norms(study, norms)
    if eigenvalues := [row for row in mine(distributions.curvature_rows(study)) if row[4] == "Hessian"]:
        yield "curvature", _curvature(study, eigenvalues)


def _best_rates(compared: Comparison | None) -> dict[str, float]:
    standings = compared.main.standings if compared else ()
    return {one.activation: one.best_rate for one in standings if one.best_rate is not None}


def _line(name: str) -> dict[str, Any]:
    style = scales.style(name)
    return {"color": style.colour, "linestyle": (0, style.dashes) if style.dashes else "-", "label": name}


def _shade(axes: Axes, name: str, among: int, *edges: Any, **settings: Any) -> None:
    """An interval, where it is one of few."""
    if among <= _INSIDE:
        axes.fill_between(*edges, color=scales.style(name).colour, alpha=0.18, lw=0, **settings)


def _plain(axis: Axis) -> None:
    """Numbers of a logarithmic axis as they are said: 0.5, 1, 2."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _ranking(rows: Sequence[Row], unit: str) -> Figure:
    figure = Figure(figsize=(_PAGE / 2, 0.3 * len(rows) + 0.8), layout="constrained")
    axes = figure.subplots()
    for place, (_, name, _, loss, low, high, groups, _) in enumerate(rows):
        if loss is not None:
            colour = scales.style(name).colour
            axes.plot([low, high] if low is not None else [loss], [place] * (1 + (low is not None)), color=colour, lw=2)
            axes.plot(loss, place, "o", color=colour, ms=5)
            axes.annotate(groups, (loss, place), (3, 4), textcoords="offset points", fontsize=7)
    axes.set(yticks=range(len(rows)), yticklabels=[row[1] for row in rows], xlabel=f"validation loss, {unit}")
    axes.invert_yaxis()
    return figure


def _loss_by_rate(study: Study, rows: Sequence[Row]) -> Figure:
    among = len({row[1] for row in rows})
    figure = Figure(figsize=(_PAGE, 4.2) if among > _INSIDE else (_PAGE / 2, 2.8), layout="constrained")
    axes = figure.subplots()
    for name in study.activations:
        means = sorted((row[:6] for row in rows if row[1] == name and row[6] == "mean"), key=lambda row: row[2])
        runs = [row for row in rows if row[1] == name and row[6] == "run"]
        if means:
            _, _, at, loss, low, high, *_ = (np.asarray(column) for column in zip(*means, strict=True))
            axes.plot(at, loss, marker="o", ms=3, **_line(name))
            _shade(axes, name, among, at, low, high)
        for status, marker in (("finished", "."), ("diverged", "x")):
            points = [(row[2], row[3]) for row in runs if row[9] == status]
            if points:
                axes.plot(*zip(*points, strict=True), marker, color=scales.style(name).colour, ms=4, alpha=0.6)
    if study.rates[0] == 0:  # which has no logarithm
        axes.set_xscale("symlog", linthresh=scales.least_positive(study.rates))
    else:
        axes.set_xscale("log")
    axes.set(xlabel="learning rate", ylabel=f"validation loss, {study.unit}")
    axes.set_xticks(study.rates, list(map(scales.rate, study.rates)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    if among > _INSIDE:
        _legend_below(figure, [axes])
    else:
        axes.legend()
    return figure


def _legend_below(figure: Figure, panels: Sequence[Axes]) -> None:
    """One legend for all panels, for which the figure grows: dozens of names would leave no room for curves."""
    found = {name: line for panel in panels for line, name in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.set_figheight(figure.get_figheight() + 0.17 * -(-len(found) // _COLUMNS))
    figure.legend(list(found.values()), list(found), loc="outside lower center", ncols=_COLUMNS)


def _by_rate(rates: Sequence[float], drawing: Callable[[Axes, float], None], label: str) -> Figure:
    """A panel for each learning rate."""
    n_rows = -(-len(rates) // _PANELS)
    width = min(_PANELS, len(rates)) / _PANELS * _PAGE
    figure = Figure(figsize=(max(width, _PAGE / 2), 2.1 * n_rows + 0.13), layout="constrained")
    panels = list(np.ravel(figure.subplots(n_rows, min(_PANELS, len(rates)), sharex=True, sharey=True)))
    for panel, rate in zip(panels, rates, strict=False):
        drawing(panel, rate)
        panel.set_title(scales.panel(rate), fontsize=8)
    for panel in panels[len(rates) :]:
        panel.remove()
    for panel in panels[: len(rates)][-_PANELS:]:
        panel.tick_params(labelbottom=True)  # the lowest of its column, which need not be in the last row
    panels[0].set_ylabel(label)
    _legend_below(figure, panels[: len(rates)])
    return figure


def _drawable(found: Sequence[curves.Curve], condition: str) -> list[curves.Band]:
    # One point is no line: runs that stopped at their first evaluation have nothing to draw.
    return [band for band in curves.bands(found) if band.lane[0] == condition and np.isfinite(band.mean_N).sum() > 1]


def _bands(steps_N: curves.Values, bands: Sequence[curves.Band], label: str) -> Figure:
    among = len({band.lane[1] for band in bands})

    def drawing(axes: Axes, rate: float) -> None:
        for band in bands:
            if band.lane[2] == rate:
                keep = np.isfinite(band.mean_N)
                axes.plot(steps_N[keep], band.mean_N[keep], lw=1.2, **_line(band.lane[1]))
                _shade(axes, band.lane[1], among, steps_N[keep], band.low_N[keep], band.high_N[keep])
        axes.set(yscale="log", xlabel="step")
        _plain(axes.yaxis)

    return _by_rate(sorted({band.lane[2] for band in bands}), drawing, label)


def _heat(measured: dict[layers.Lane, layers.Cube], label: str) -> Figure:
    cells = [
        (step, layer)
        for cube in measured.values()
        for step in cube
        for layer, cell in cube[step].items()
        if label in cell
    ]
    steps, n_layers = sorted({step for step, _ in cells}), 1 + max(layer for _, layer in cells)
    grids = {lane: _grid(cube, label, steps, n_layers) for lane, cube in measured.items()}
    n_rows = -(-len(grids) // _PANELS)
    figure = Figure(figsize=(_PAGE, 1.2 * n_rows + 0.5), layout="constrained")
    panels = list(np.ravel(figure.subplots(n_rows, _PANELS, squeeze=False)))
    low, high = np.nanmin(list(grids.values())), np.nanmax(list(grids.values()))
    images = []
    for panel, ((_, name, rate), grid) in zip(panels, grids.items(), strict=False):
        images.append(panel.imshow(grid, aspect="auto", origin="lower", cmap="viridis", vmin=low, vmax=high))
        panel.grid(False)
        ends = sorted({0, len(steps) - 1})
        panel.set(xticks=ends, xticklabels=[steps[end] for end in ends], yticks=sorted({0, n_layers - 1}))
        panel.set_title(f"{name}, {scales.rate(rate)}", fontsize=8)
    for panel in panels[len(grids) :]:
        panel.remove()
    figure.supxlabel("step", fontsize=8)
    figure.supylabel("layer", fontsize=8)
    figure.colorbar(images[0], ax=panels[: len(grids)], label=label)
    return figure


def _grid(cube: layers.Cube, label: str, steps: Sequence[int], n_layers: int) -> np.ndarray:
    """Values by layer and step, NaN where it was not measured."""
    return np.asarray(
        [[cube.get(step, {}).get(layer, {}).get(label, np.nan) for step in steps] for layer in range(n_layers)]
    )


def _measured(study: Study, rows: Sequence[Row], rate: float) -> Iterator[tuple[Any, ...]]:
    """(activation, step, value, low, high) of those that have rows at a rate."""
    for name in study.activations:
        mine = [row[5:9] for row in rows if row[1] == name and row[2] == scales.rate(rate)]
        if mine:
            yield name, *np.asarray(mine, np.float64).T


def _rates_of(study: Study, rows: Sequence[Row]) -> list[float]:
    return [rate for rate in study.rates if any(row[2] == scales.rate(rate) for row in rows)]


def _survival(study: Study, rows: Sequence[Row]) -> Figure:
    def drawing(axes: Axes, rate: float) -> None:
        for name, step, share, low, high in _measured(study, rows, rate):
            axes.step(step, share, where="post", lw=1.2, **_line(name))
            _shade(axes, name, len(study.activations), step, low, high, step="post")
        axes.set(xlabel="step")

    return _by_rate(_rates_of(study, rows), drawing, "share of units not yet dead for good")


def _norms(study: Study, rows: Sequence[Row]) -> Figure:
    figure = Figure(figsize=(_PAGE / 2, 0.16 * len(rows) + 1.0), layout="constrained")
    axes = figure.subplots()
    for place, row in enumerate(rows):
        colour = scales.style(row[1]).colour
        p1, p25, p50, p75, p99 = row[3:8]
        axes.plot([p1, p99], [place, place], color=colour, lw=0.8)
        axes.plot([p25, p75], [place, place], color=colour, lw=4, solid_capstyle="butt")
        axes.plot(p50, place, "|", color="black", ms=6)
    axes.set(yticks=range(len(rows)), yticklabels=[f"{row[1]}, {row[2]}" for row in rows], xscale="log")
    axes.set_xlabel("gradient norm before clipping: 1, 25, 50, 75, 99%")
    _plain(axes.xaxis)
    axes.invert_yaxis()
    return figure


def _curvature(study: Study, rows: Sequence[Row]) -> Figure:
    def drawing(axes: Axes, rate: float) -> None:
        for name, step, value, low, high in _measured(study, rows, rate):
            axes.plot(step, value, lw=1.2, marker=".", ms=4, **_line(name))
            _shade(axes, name, len(study.activations), step, low, high)
        axes.set(yscale="symlog", xlabel="step")

    return _by_rate(_rates_of(study, rows), drawing, "largest eigenvalue of the Hessian")
