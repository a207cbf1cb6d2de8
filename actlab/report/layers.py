"""What probes and censuses measured: layers over training, survival of units, gradients, activations, curvature."""

import collections
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
from jaxtyping import Float

from actlab.analysis.survival import kaplan_meier, permanently_dead
from actlab.config import Config
from actlab.report import charts
from actlab.report.page import Block, Cell, Choice, Controls, Figure, Rows, Section, Table, Text, Value
from actlab.report.study import Run, Study
from actlab.sweeps.existing import Probed
from actlab.workdir.traces import Censuses, tail

# Label on the page -> name in a probe row, without the layer.
METRICS = {
    "zero outputs (D1)": "zero_fraction",
    "negative pre-activations (D2)": "negative_fraction",
    "outputs below 0.01 rms (D3)": "tau_sparsity_0.01",
    "outputs below 0.1 rms (D3)": "tau_sparsity_0.1",
    "dead units (D4)": "dead_fraction",
    "gradient-dead units (D5)": "gradient_dead_fraction",
    "permanently dead units (D6)": "permanently_dead",
    "removable units (D7, CETT)": "cett_sparsity",
    "mean pre-activation": "pre_mean",
    "rms pre-activation": "pre_rms",
    "mean output": "post_mean",
    "rms output": "post_rms",
    "gradient norm, feed-forward": "feed_forward/grad_norm",
    "gradient norm, attention": "attention/grad_norm",
}
_SHARES = tuple(label for label in METRICS if label.endswith(")"))  # from 0 to 1
SURVIVAL = ("condition", "activation", "rate", "panel", "layer", "step", "share", "low", "high")
ALL = "all"  # the layer that stands for all layers together
_QUANTILES = {"p1": 0.01, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p99": 0.99}
GRADIENTS = ("condition", "activation", "rate", *_QUANTILES, "steps")
_MOMENTS = ("mean", "sd", "low", "high", "max", "kurtosis")
ACTIVATIONS = ("condition", "activation", "rate", "panel", "side", "layer", *_MOMENTS)
CURVATURE = ("condition", "activation", "rate", "panel", "matrix", "step", "value", "low", "high")
_SIDES = {"pre-activations": "pre", "outputs": "post"}
_MATRICES = {"Hessian": "hessian_top", "Gauss-Newton": "gauss_newton_top"}
_EXPORTED = ("negative pre-activations (D2)", "dead units (D4)", "gradient norm, feed-forward")
_VALUES = 90_000  # numbers in the heat maps of a page
_MOST_ROWS = 12_000  # rows of survival on a page; if there are more, layers are not shown separately
_FEW = 3  # up to this many layers, the cells of a heat map are taller
CellKey = tuple[str, str, float]
Cube = dict[int, dict[int, dict[str, float]]]  # step -> layer -> label -> value
Row = list[Value]


def section(study: Study, shown: charts.Shown, best: Collection[CellKey]) -> list[Section]:
    """Heat maps of layer and step at each activation's best rate, and survival of units; nothing without probes."""
    cells = measured(study)
    if not cells:
        return []
    resolved = {cell[:2] for cell in best}
    cells = {cell: cube for cell, cube in cells.items() if cell in best or cell[:2] not in resolved}
    measures = {
        label for cube in cells.values() for by_layer in cube.values() for of in by_layer.values() for label in of
    }
    present = [label for label in METRICS if label in measures]
    first = present[min(1, len(present) - 1)]
    blocks: list[Block] = [
        Controls((Choice("metric", "measure", tuple(present), first),)),
        _heat_maps(study, shown, cells, present, first),
    ]
    words = (
        "Means over seeds, on a batch of the validation set; D4 and D6 over the whole set. D6 is D4 at this census and "
        "at all later ones. At initialisation half of all pre-activations are negative for every activation."
    )
    blocks.append(Text(words, "note"))
    return [Section("layers", "Layers over training", (*blocks, *_survival(study, shown)))]


def measured(study: Study) -> dict[CellKey, Cube]:
    """Means over the seeds of each cell that has probes."""
    found = {}
    for cell, runs in study.cells().items():
        sums: dict[tuple[int, int, str], list[float]] = collections.defaultdict(list)
        for run in runs:
            for step, layer, label, value in _values(run):
                sums[step, layer, label].append(value)
        cube: Cube = {}
        for (step, layer, label), values in sorted(sums.items()):
            cube.setdefault(step, {}).setdefault(layer, {})[label] = float(np.mean(values))
        if cube:
            found[cell] = cube
    return found


def _values(run: Run) -> Iterator[tuple[int, int, str, float]]:
    for row in run.probes():
        layer = 0
        while f"layer_{layer}/pre_mean" in row or f"layer_{layer}/dead_fraction" in row:
            for label, name in METRICS.items():
                value = row.get(f"layer_{layer}/{name}")
                if value is not None:
                    yield row["step"], layer, label, value
            layer += 1
    if run.censuses:
        gone_PLF = permanently_dead(run.censuses.dead_PLF)
        for step, gone_L in zip(run.censuses.steps_P.tolist(), gone_PLF.mean(axis=2), strict=True):
            for layer, share in enumerate(gone_L.tolist()):
                yield step, layer, "permanently dead units (D6)", share


def _heat_maps(
    study: Study, shown: charts.Shown, cells: Mapping[CellKey, Cube], present: Sequence[str], first: str
) -> Figure:
    # A row has all measures, of which the figure takes the chosen one: a row for each would repeat the place.
    n_tiles = sum(len(layers) for cube in cells.values() for layers in cube.values())
    stride = -(-n_tiles * len(present) // _VALUES)
    order = {name: place for place, name in enumerate(study.activations)}
    ordered = sorted(cells, key=lambda cell: (order[cell[1]], cell[2]))
    rows = [
        [*_place(cell), step, layer, *(values.get(label) for label in present)]
        for cell in ordered
        for step in _thinned(sorted(cells[cell]), stride)
        for layer, values in cells[cell][step].items()
    ]
    several = len({cell[:2] for cell in cells}) < len(cells)  # without a comparison no rate is the best
    is_chosen = not several and len(study.rates) > 1
    n_layers = 1 + max(layer for cube in cells.values() for layers in cube.values() for layer in layers)
    columns = ("condition", "activation", "rate", "panel", "step", "layer", *present)
    ticks = alt.Axis(labelOverlap=True, labelAngle=0, ticks=False)
    # One scale for all panels and conditions, or a shade would not mean the same everywhere.
    ends = json.dumps({label: _ends(label, [row[6 + place] for row in rows]) for place, label in enumerate(present)})
    low, high = (alt.ExprRef(f"({ends})[metric][{end}]") for end in (0, 1))
    shades = alt.Color(
        "value:Q",
        title=None,
        scale=alt.Scale(scheme="viridis", domainMin=low, domainMax=high, nice=False),
        legend=alt.Legend(format="~g", gradientLength=180),
    )
    tiles = (
        alt.Chart()
        .mark_rect()
        .encode(
            x=alt.X("step:O", title="step", axis=ticks),
            y=alt.Y("layer:O", title="layer", sort="descending"),
            color=shades,
            tooltip=["panel:N", "step:Q", "layer:Q", "value:Q"],
        )
        .properties(width=200, height=alt.Step(28 if n_layers <= _FEW else 14))
    )
    facet = alt.Facet("panel:N", title=None, sort=list(dict.fromkeys(_place(cell)[3] for cell in ordered)))
    chart = tiles.facet(facet, data=charts.DATA).resolve_axis(x="independent")
    chart = chart.transform_calculate(value="datum[metric]")
    # Panels are drawn of the activations in colour alone: dozens of heat maps in grey would tell nothing.
    chart = chart.transform_filter(f"datum.condition === condition && {charts.CHOSEN} && isValid(datum.value)")
    ends = [[*_place(cell), np.mean(values)] for cell in ordered if (values := _at_the_end(cells[cell], first))]
    lead = f"Heat maps of layer against step. {first}, mean over layers at the end"
    return Figure(
        "layers-figure",
        charts.spec(chart, shown.params | {"metric": first}),
        {"points": Rows(columns, rows)},
        charts.told(study, lead, ends, lambda row: f"{row[3]} {row[4]:.3g}"),
        f"A panel for each activation{' and learning rate' if several else ', at its best learning rate' * is_chosen}. "
        "Colour: the "
        "measure chosen above, on one scale for all panels; shares from 0 to 1.",
        {f"layers_{METRICS[label].replace('/', '_')}": {"metric": label} for label in _EXPORTED if label in present},
    )


def _at_ends(rows: Iterable[Row]) -> list[Row]:
    """The last row of each condition, activation and rate."""
    return list({tuple(map(str, row[:3])): row for row in rows}.values())


def _words(row: Sequence[Any], value: float | None = None) -> str:
    return f"{row[1]} at {row[2]} {row[6] if value is None else value:.3g}"


def _at_the_end(cube: Cube, label: str) -> list[float]:
    """A measure of each layer at the last step that has it; steps of the census alone lack all but its own."""
    steps = ([of[label] for of in cube[step].values() if label in of] for step in sorted(cube, reverse=True))
    return next(filter(None, steps), [])


def _ends(label: str, values: Iterable[Any]) -> tuple[float, float]:
    """The ends of a measure's scale."""
    if label in _SHARES:
        return 0.0, 1.0
    known = [value for value in values if value is not None and np.isfinite(value)]
    low, high = (float(f"{end:.3g}") for end in (min(known, default=0.0), max(known, default=1.0)))
    return (low, high) if high > low else (low, low + 1.0)


def _place(cell: CellKey) -> list[str]:
    condition, activation, rate = cell
    return [condition, activation, charts.rate(rate), f"{activation}, {charts.rate(rate)}"]


def _thinned(steps: Sequence[int], stride: int) -> Sequence[int]:
    """Every `stride`-th step and the last one."""
    return steps if stride < 2 else sorted({*steps[::stride], steps[-1]})


def survival_rows(study: Study) -> list[Row]:
    """Rows of SURVIVAL: the Kaplan-Meier curve of each cell's units from step 0, all layers together and by layer."""
    cells = {cell: [run.censuses for run in runs if run.censuses] for cell, runs in study.cells().items()}
    cells = {cell: censuses for cell, censuses in cells.items() if censuses}
    together = [row for cell, censuses in cells.items() for row in _curve(cell, ALL, censuses)]
    each = [
        row
        for cell, censuses in cells.items()
        for layer in range(censuses[0].dead_PLF.shape[1])
        for row in _curve(cell, str(layer), [one._replace(dead_PLF=one.dead_PLF[:, [layer]]) for one in censuses])
    ]
    return together + each if len(together) + len(each) <= _MOST_ROWS else together


def _curve(cell: CellKey, layer: str, censuses: Sequence[Censuses]) -> Iterator[Row]:
    steps_E, share_E, low_E, high_E = kaplan_meier(censuses)
    if steps_E[0] > 0:  # the curve begins at step 0, where all units live
        yield [*charts.place(cell), layer, 0, 1.0, 1.0, 1.0]
    # The interval is NaN where all units live, or none.
    low_E, high_E = (np.where(np.isfinite(end_E), end_E, share_E) for end_E in (low_E, high_E))
    for step, *values in zip(steps_E.astype(int).tolist(), share_E, low_E, high_E, strict=True):
        yield [*charts.place(cell), layer, step, *map(float, values)]


def _survival(study: Study, shown: charts.Shown) -> list[Block]:
    """The survival of units, where there was a census and a unit died."""
    found = survival_rows(study)
    if not found:
        return []
    if all(row[6] == 1 for row in found):
        return [Text("No unit was dead at a census and at all later ones.", "note")]
    layers = tuple(dict.fromkeys(str(row[4]) for row in found))
    base = alt.Chart().encode(x=charts.STEPS)
    scale = alt.Scale(zero=False, nice=False, domainMax=1, padding=4)
    y = alt.Y("share:Q", title="share of units alive", scale=scale, axis=alt.Axis(tickCount=5))
    tips = ["activation:N", "rate:N", "layer:N", "step:Q", "share:Q", "low:Q", "high:Q"]
    line = base.mark_line(interpolate="step-after", strokeWidth=1.8).encode(y=y, **charts.lines(study.activations))
    over = base.mark_point(opacity=0, size=120, filled=True).encode(y=y, tooltip=tips)
    band = charts.band(base, scale, study.activations, interpolate="step-after")
    drawn = alt.layer(*shown.with_grey(base.encode(y=y), band, line, over, interpolate="step-after"))
    chart = charts.by_rate(study, drawn.properties(width=250, height=150))
    params = shown.params | ({"layer": ALL} if len(layers) > 1 else {})
    layer = ["datum.layer === layer"] if len(layers) > 1 else []
    chart = chart.transform_filter(shown.filter(charts.RATES, *layer))
    ends = _at_ends(row for row in found if row[4] == ALL)
    figure = Figure(
        "survival-figure",
        charts.spec(chart, params),
        {"points": Rows(SURVIVAL, charts.in_order(found, study.activations))},
        charts.told(study, "Falling steps: the share of units alive. At the end", ends, _words),
        "Survival of units (Kaplan-Meier). A unit dies at the first census from which on it is dead (D4) at every "
        "later one, of which there must be one: a unit that is dead at the last census alone is censored. The band is "
        "Greenwood's 95% interval. It assumes independent units; the units of one run are not.",
        {"survival_of_units": {}},
    )
    choice = [Controls((Choice("layer", "survival in layer", layers, ALL),))] if len(layers) > 1 else []
    return [*choice, figure]


def distributions(study: Study, shown: charts.Shown) -> list[Section]:
    """Gradient norms over the last steps, and activations at the last probe; nothing where neither was measured."""
    norms, units = gradient_rows(study), activation_rows(study)
    blocks: list[Block] = [_norms(study, shown, norms)] if norms else []
    if units:
        blocks += [Controls((Choice("side", "activations", tuple(_SIDES), "pre-activations"),))]
        blocks += [_units(study, shown, units)]
    return [Section("distributions", "Gradients and activations", tuple(blocks))] if blocks else []


def gradient_rows(study: Study) -> list[Row]:
    """Rows of GRADIENTS, over all seeds of a cell."""
    rows: list[Row] = []
    for (condition, activation, rate), runs in study.cells().items():
        norms_S = np.concatenate([_tail(run) for run in runs])
        norms_S = norms_S[np.isfinite(norms_S) & (norms_S > 0)]
        if len(norms_S):
            quantiles = np.quantile(norms_S, list(_QUANTILES.values())).tolist()
            rows.append([condition, activation, charts.rate(rate), *quantiles, len(norms_S)])
    return rows


def _tail(run: Run) -> Float[np.ndarray, "S"]:
    if run.steps is not None:
        norms_S = run.steps.grad_norm_S.astype(np.float64)
    else:
        logged = [row["grad_norm"] for row in run.metrics if row["split"] == "train" and row.get("grad_norm")]
        norms_S = np.asarray(logged, np.float64)
    return tail(norms_S)


def _norms(study: Study, shown: charts.Shown, rows: Sequence[Row]) -> Figure:
    base = (
        alt.Chart(charts.DATA)
        .transform_filter(f"datum.condition === condition && {charts.CHOSEN} && {charts.RATES}")
        .encode(
            y=alt.Y("rate:N", title="learning rate", sort=[charts.rate(rate) for rate in study.rates]),
            yOffset=alt.YOffset("activation:N", sort=list(study.activations)),
            color=charts.colour(study.activations),
            tooltip=[f"{name}:N" for name in GRADIENTS],
        )
    )
    scale = alt.Scale(type="log", nice=False, padding=10)
    ends = [value for row in rows for value in row[3:-1] if isinstance(value, float)]
    axis = alt.Axis(values=charts.log_ticks(ends), format=",~g", labelOverlap=True)
    x = alt.X("p1:Q", title="gradient norm (log scale)", scale=scale, axis=axis)
    reach = base.mark_rule(strokeWidth=1.5).encode(x=x, x2="p99:Q", **charts.lines(study.activations))
    half = base.mark_rule(strokeWidth=7).encode(x=alt.X("p25:Q", scale=scale), x2="p75:Q")
    middle = base.mark_tick(thickness=2, color="var(--ink)").encode(
        x=alt.X("p50:Q", scale=scale), color=alt.value("var(--ink)")
    )
    # Vega-Lite cannot fit the width of a chart whose height is a step per bar.
    height = 15 * len(shown.params["rates"]) * len(shown.params["activations"]) + 10
    chart = alt.layer(reach, half, middle).properties(width="container", height=height)
    return Figure(
        "gradients-figure",
        charts.spec(chart, shown.params),
        {"points": Rows(GRADIENTS, rows)},
        charts.told(study, "Bars of quantiles. Median gradient norms", rows, lambda row: _words(row, row[5])),
        "Gradient norms before clipping over the last fifth of training, all seeds together: the thin line spans 1% to "
        "99%, the thick one 25% to 75%, the tick is the median. Norms of 0 have no place on the axis.",
        {"gradient_norms": {}},
    )


def activation_rows(study: Study) -> list[Row]:
    """Rows of ACTIVATIONS: moments at the last probe of each run, means over seeds."""
    rows: list[Row] = []
    for cell, runs in study.cells().items():
        found: dict[tuple[str, int], list[list[float]]] = collections.defaultdict(list)
        for run in runs:
            for side, layer, values in _moments(run):
                found[side, layer].append(values)
        for (side, layer), values in found.items():
            mean, sd, largest, kurtosis = np.mean(values, axis=0).tolist()
            rows.append([*charts.place(cell), side, layer, mean, sd, mean - sd, mean + sd, largest, kurtosis])
    return rows


def _moments(run: Run) -> Iterator[tuple[str, int, list[float]]]:
    probes = [row for row in run.probes() if "layer_0/pre_mean" in row]
    if not probes:
        return
    for side, name in _SIDES.items():
        layer = 0
        while f"layer_{layer}/{name}_mean" in probes[-1]:
            values = [probes[-1][f"layer_{layer}/{name}_{moment}"] for moment in ("mean", "sd", "max", "kurtosis")]
            if None not in values:
                yield side, layer, values
            layer += 1


def _units(study: Study, shown: charts.Shown, rows: Sequence[Row]) -> Figure:
    base = alt.Chart().encode(
        y=alt.Y("layer:O", title="layer"),
        yOffset=alt.YOffset("activation:N", sort=list(study.activations)),
        color=charts.colour(study.activations),
        tooltip=["activation:N", "rate:N", "layer:N", "mean:Q", "sd:Q", "max:Q", "kurtosis:Q"],
    )
    x = alt.X("low:Q", title="mean, one sd to each side, largest", axis=alt.Axis(tickCount=6))
    reach = base.mark_rule(strokeWidth=3).encode(x=x, x2="high:Q", **charts.lines(study.activations))
    middle = base.mark_point(filled=True, size=40, opacity=1).encode(x="mean:Q")
    largest = base.mark_point(size=25, opacity=0.8).encode(x="max:Q")
    chart = alt.layer(reach, middle, largest).properties(width=250, height=alt.Step(9))
    drawn = f"datum.condition === condition && {charts.CHOSEN} && {charts.RATES} && datum.side === side"
    chart = charts.by_rate(study, chart).transform_filter(drawn)
    lead = "Dots with bars. Mean and standard deviation"
    return Figure(
        "activations-figure",
        charts.spec(chart, shown.params | {"side": "pre-activations"}),
        {"points": Rows(ACTIVATIONS, rows)},
        charts.told(
            study,
            lead,
            rows,
            lambda row: f"{row[4]} of {row[1]} at {row[2]}, layer {row[5]}: {row[6]:.3g}, {row[7]:.3g}",
        ),
        "Activations at the last probe, means over seeds: dot and bar are the mean and one standard deviation to each "
        "side, the ring is the largest value. Probes keep moments, not histograms. Hover for the kurtosis.",
        {"activation_moments": {}},
    )


def curvature(study: Study, shown: charts.Shown) -> list[Section]:
    """The largest eigenvalues of the Hessian and the Gauss-Newton matrix over training; nothing if not measured."""
    rows = curvature_rows(study)
    if not rows:
        return []
    scale = alt.Scale(type="symlog", constant=0.1, zero=False, nice=False)
    base = alt.Chart().encode(x=charts.STEPS)
    # By default Vega spaces the ticks of a symlog scale linearly.
    ends = [end for row in rows for end in row[-2:] if isinstance(end, float)]
    below, above = (charts.log_ticks(side * end for end in ends) for side in (-1, 1))
    values = [*(-tick for tick in reversed(below)), 0, *above]
    ticks = alt.Axis(values=values, labelExpr="format(datum.value, ',~g')", labelOverlap=True)
    y = alt.Y("value:Q", title="largest eigenvalue (log)", scale=scale, axis=ticks)
    tips = ["activation:N", "rate:N", "step:Q", "value:Q"]
    line = base.mark_line(point=True).encode(y=y, tooltip=tips, **charts.lines(study.activations))
    band = charts.band(base, scale, study.activations)
    drawn = alt.layer(*shown.with_grey(base.encode(y=y), band, line)).properties(width=250, height=170)
    chart = charts.by_rate(study, drawn).transform_filter(shown.filter(charts.RATES, "datum.matrix === matrix"))
    last = _at_ends(row for row in rows if row[4] == "Hessian")
    figure = Figure(
        "curvature-figure",
        charts.spec(chart, shown.params | {"matrix": "Hessian"}),
        {"points": Rows(CURVATURE, charts.in_order(rows, study.activations))},
        charts.told(study, "Lines over steps. The Hessian's largest eigenvalue at the end", last, _words),
        "On a validation batch. Line and dots are the mean over seeds, the band spans minimum and maximum.",
        {"curvature": {}},
    )
    choice = Controls((Choice("matrix", "matrix", tuple(_MATRICES), "Hessian"),))
    return [Section("curvature", "Curvature over training", (choice, figure))]


def curvature_rows(study: Study) -> list[Row]:
    """Rows of CURVATURE, over the seeds of a cell."""
    rows: list[Row] = []
    for cell, runs in study.cells().items():
        for label, name in _MATRICES.items():
            found: dict[int, list[float]] = collections.defaultdict(list)
            for row in (row for run in runs for row in run.probes() if row.get(name) is not None):
                found[row["step"]].append(row[name])
            place = [*charts.place(cell), label]
            rows += [[*place, step, float(np.mean(v)), min(v), max(v)] for step, v in sorted(found.items())]
    return rows


# Of a single model: label, name in a probe row, and how it is written. z is a unit's input, a its output.
_OF_MODEL = (
    ("dead D4", "dead_fraction", "{:.2%}"),
    ("gradient-dead D5", "gradient_dead_fraction", "{:.2%}"),
    ("z<0 D2", "negative_fraction", "{:.1%}"),
    ("a=0 D1", "zero_fraction", "{:.1%}"),
    ("small D3", "tau_sparsity_0.1", "{:.1%}"),
    ("removable D7", "cett_sparsity", "{:.1%}"),
    ("z mean", "pre_mean", "{:.2g}"),
    ("z sd", "pre_sd", "{:.2g}"),
    ("a rms", "post_rms", "{:.2g}"),
    ("grad norm", "feed_forward/grad_norm", "{:.2g}"),
)


def by_layer(config: Config, found: Probed) -> tuple[tuple[str, ...], list[list[str]]]:
    """Headings and rows of a table of a model's layers, as text."""
    known = [entry for entry in _OF_MODEL if f"layer_0/{entry[1]}" in found.values]
    rows = []
    for layer in range(config.model.n_layers):
        values = [form.format(found.values[f"layer_{layer}/{name}"]) for _, name, form in known]
        rows.append([str(layer), *values])
    return ("layer", *(label for label, _, _ in known)), rows


def of_model(config: Config, found: Probed) -> tuple[str, list[Section]]:
    """The answer in words, and the sections of the page of a single model."""
    columns, rows = by_layer(config, found)
    activation = config.model.activation
    loss = " The model has no head for tokens, so that there is no loss and no gradient."
    if found.loss is not None:
        loss = f" The model's loss is {found.loss:.4f} {found.spec.unit}."
    if found.dead_UF is None:
        lead = f"{activation} looks at all units of a token at once, so that none can be dead.{loss}"
    else:
        n_dead, n_units = int(found.dead_UF.sum()), found.dead_UF.size
        lead = (
            f"Of {n_units:,} {activation} units {n_dead:,} ({n_dead / n_units:.2%}) are dead: their slope is below "
            f"0.001 on each of {found.n_tokens:,} tokens.{loss}"
        )
    table = Table("layers", columns, [[Cell(row[0], int(row[0])), *row[1:]] for row in rows])
    note = (
        "z is a unit's input, a its output. Dead units (D4) have a slope below 0.001 on every token of the validation "
        "part of the text; all else is measured on one batch of it. D5: units without gradient. D3: outputs below a "
        "tenth of the layer's rms. D7: the smallest outputs of a token that may go together at a relative error below "
        "0.2. docs/probes.md has the definitions."
    )
    head = Section("layers-table", "By layer, from the input on", (_profile(config, found), table, Text(note, "note")))
    return lead, [head]


def _profile(config: Config, found: Probed) -> Figure:
    shown = [(label, name) for label, name, _ in _OF_MODEL if f"layer_0/{name}" in found.values]
    rows = [
        [label, layer, found.values[f"layer_{layer}/{name}"]]
        for label, name in shown
        for layer in range(config.model.n_layers)
    ]
    base = alt.Chart().encode(
        x=alt.X("layer:Q", title="layer", axis=alt.Axis(tickMinStep=1, format="d")),
        y=alt.Y("value:Q", title=None),
        tooltip=["measure:N", "layer:Q", "value:Q"],
    )
    chart = alt.layer(base.mark_line(strokeWidth=1.8), base.mark_point(filled=True, size=30))
    facet = alt.Facet("measure:N", title=None, sort=[label for label, _ in shown])
    panels = chart.properties(width=200, height=110).facet(facet, data=charts.DATA, columns=4)
    panels = panels.resolve_scale(y="independent")
    alt_text = "A panel for each measure of the table below, against the layer."
    data = {"points": Rows(("measure", "layer", "value"), rows)}
    return Figure("profile", charts.spec(panels, {}), data, alt_text, "Each measure against the layer.")
