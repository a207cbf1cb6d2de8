"""How gradient norms and activations are distributed, and how curved the loss is."""

import collections
from collections.abc import Iterator, Sequence

import altair as alt
import numpy as np
from jaxtyping import Float

from actlab.page import Block, Choice, Figure, Rows, Section, Text
from actlab.probes.gradients import TAIL
from actlab.report import scales
from actlab.report.study import Run, Study

_QUANTILES = {"p1": 0.01, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p99": 0.99}
GRADIENTS = ("condition", "activation", "rate", *_QUANTILES, "steps")
ACTIVATIONS = (
    "condition",
    "activation",
    "rate",
    "panel",
    "side",
    "layer",
    "mean",
    "sd",
    "low",
    "high",
    "max",
    "kurtosis",
)
CURVATURE = ("condition", "activation", "rate", "panel", "matrix", "step", "value", "low", "high")
_SIDES = {"pre-activations": "pre", "outputs": "post"}
_MATRICES = {"Hessian": "hessian_top", "Gauss-Newton": "gauss_newton_top"}
Table = list[list[str | int | float | None]]


def section(study: Study) -> Section:
    """Gradient norms over the last steps, activations at the last probe."""
    norms, units = gradient_rows(study), activation_rows(study)
    side = (Choice("side", "activations, as", tuple(_SIDES), "pre-activations"),) if units else ()
    filters = scales.Filters(study, *side, rates=True)
    blocks: list[Block] = [*filters.controls]
    blocks += [_norms(study, filters, norms)] if norms else []
    blocks += [_units(study, filters, units)] if units else []
    if not norms and not units:
        blocks = [Text("Not measured: traces.jsonl and probe rows are not there.")]
    return Section("distributions", "Gradients and activations", tuple(blocks))


def gradient_rows(study: Study) -> Table:
    """Rows of GRADIENTS, the seeds of a lane together."""
    rows: Table = []
    for (condition, activation, rate), runs in study.lanes().items():
        norms_S = np.concatenate([_tail(run) for run in runs])
        norms_S = norms_S[np.isfinite(norms_S) & (norms_S > 0)]
        if len(norms_S):
            quantiles = np.quantile(norms_S, list(_QUANTILES.values())).tolist()
            rows.append([condition, activation, scales.rate(rate), *quantiles, len(norms_S)])
    return rows


def _tail(run: Run) -> Float[np.ndarray, "S"]:
    if run.steps is not None:
        norms_S = run.steps.grad_norm_S.astype(np.float64)
    else:
        logged = [row["grad_norm"] for row in run.metrics if row["split"] == "train" and row.get("grad_norm")]
        norms_S = np.asarray(logged, np.float64)
    return norms_S[len(norms_S) - -(-len(norms_S) // TAIL) :]


def _norms(study: Study, filters: scales.Filters, rows: Table) -> Figure:
    base = (
        alt.Chart(scales.DATA)
        .transform_filter(filters.expression)
        .encode(
            y=alt.Y("rate:N", title="learning rate", sort=[scales.rate(rate) for rate in study.rates]),
            yOffset=alt.YOffset("activation:N", sort=list(study.activations)),
            color=scales.colour(study.activations),
            tooltip=[alt.Tooltip(f"{name}:N") for name in GRADIENTS],
        )
    )
    scale = alt.Scale(type="log", nice=False, padding=10)
    x = alt.X("p1:Q", title="gradient norm", scale=scale, axis=alt.Axis(format="~g", tickCount=6))
    reach = base.mark_rule(strokeWidth=1.5).encode(x=x, x2="p99:Q")
    half = base.mark_rule(strokeWidth=7).encode(x=alt.X("p25:Q", scale=scale), x2="p75:Q")
    middle = base.mark_tick(thickness=2, color="var(--ink)").encode(
        x=alt.X("p50:Q", scale=scale), color=alt.value("var(--ink)")
    )
    chart = alt.layer(reach, half, middle).properties(
        width="container", height=15 * len(study.rates) * len(study.activations) + 10
    )
    said = "; ".join(f"{row[1]} at {row[2]} {row[5]:.3g}" for row in rows[:12])
    text = f"Bars of quantiles. Median gradient norms: {said}."
    caption = (
        "Gradient norms before clipping, of the steps of the last fifth of training, all seeds together: 1 to 99%, "
        "25 to 75%, median."
    )
    spec = scales.spec(chart, filters.params)
    return Figure("gradients-figure", spec, {"points": Rows(GRADIENTS, rows)}, text, caption)


def activation_rows(study: Study) -> Table:
    """Rows of ACTIVATIONS: moments at the last probe of each run, means over seeds."""
    rows: Table = []
    for (condition, activation, rate), runs in study.lanes().items():
        found: dict[tuple[str, int], list[list[float]]] = collections.defaultdict(list)
        for run in runs:
            for side, layer, values in _moments(run):
                found[side, layer].append(values)
        for (side, layer), values in found.items():
            mean, sd, largest, kurtosis = np.mean(values, axis=0).tolist()
            place: list[str | int | float | None] = [
                condition,
                activation,
                scales.rate(rate),
                scales.panel(rate),
                side,
                layer,
            ]
            rows.append([*place, mean, sd, mean - sd, mean + sd, largest, kurtosis])
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


def _units(study: Study, filters: scales.Filters, rows: Table) -> Figure:
    values = [alt.Tooltip(f"{name}:Q", format=".4g") for name in ("mean", "sd", "max", "kurtosis")]
    base = alt.Chart().encode(
        y=alt.Y("layer:O", title="layer"),
        yOffset=alt.YOffset("activation:N", sort=list(study.activations)),
        color=scales.colour(study.activations),
        tooltip=[*(alt.Tooltip(f"{name}:N") for name in ("activation", "rate", "layer")), *values],
    )
    reach = base.mark_rule(strokeWidth=3).encode(x=alt.X("low:Q", title=None, axis=alt.Axis(tickCount=6)), x2="high:Q")
    middle = base.mark_point(filled=True, size=40, opacity=1).encode(x="mean:Q")
    largest = base.mark_point(size=25, opacity=0.8).encode(x="max:Q")
    chart = alt.layer(reach, middle, largest).properties(width=250, height=alt.Step(9))
    chart = scales.by_rate(study, chart).transform_filter(f"{filters.expression} && datum.side === side")
    said = "; ".join(f"{row[1]} at {row[2]}, layer {row[5]}: {row[6]:.3g} and {row[7]:.3g}" for row in rows[:8])
    text = f"Dots with bars. Mean and standard deviation of pre-activations: {said}."
    caption = (
        "Activations at the last probe, means over seeds: dot and bar are mean and one standard deviation either side, "
        "the ring the largest. Probes keep moments, not histograms; the pointer tells the kurtosis, 3 if normal."
    )
    spec = scales.spec(chart, filters.params)
    return Figure("activations-figure", spec, {"points": Rows(ACTIVATIONS, rows)}, text, caption)


def curvature(study: Study) -> Section:
    """Top eigenvalues over training."""
    rows = curvature_rows(study)
    title = "Curvature over training"
    if not rows:
        return Section(
            "curvature", title, (Text("Not measured: config.train.curvature_every was 0, or no rows are there."),)
        )
    matrix = Choice("matrix", "of the", tuple(_MATRICES), "Hessian")
    filters = scales.Filters(study, matrix, rates=True)
    scale = alt.Scale(type="symlog", constant=0.1, zero=False, nice=False)
    base = alt.Chart().encode(x=alt.X("step:Q", title="step", axis=scales.STEPS))
    tips = [
        *(alt.Tooltip(f"{name}:N") for name in ("activation", "rate", "step")),
        alt.Tooltip("value:Q", format=".4g"),
    ]
    # Vega's own ticks of a symlog scale are those of a linear one.
    values = [-100, -10, -1, 0, *(digit * 10**power for power in range(7) for digit in (1, 3))]
    ticks = alt.Axis(values=values, labelExpr="format(datum.value, ',')", labelOverlap=True)
    y = alt.Y("value:Q", title="largest eigenvalue", scale=scale, axis=ticks)
    line = base.mark_line(point=True).encode(y=y, tooltip=tips, strokeDash=scales.dashes(study.activations))
    line = line.encode(color=scales.colour(study.activations))
    band = scales.band(base, scale, study.activations)
    chart = scales.by_rate(study, alt.layer(band, line).properties(width=250, height=170))
    chart = chart.transform_filter(f"{filters.expression} && datum.matrix === matrix")
    ends = {(str(row[1]), str(row[2])): row for row in rows if row[4] == "Hessian"}
    said = "; ".join(f"{name} at {rate} {row[6]:.3g}" for (name, rate), row in list(ends.items())[:12])
    text = f"Lines over steps. The Hessian's largest eigenvalue at the end: {said}."
    caption = "On a validation batch: mean, least and most over seeds."
    figure = Figure(
        "curvature-figure", scales.spec(chart, filters.params), {"points": Rows(CURVATURE, rows)}, text, caption
    )
    return Section("curvature", title, (*filters.controls, figure))


def curvature_rows(study: Study) -> Table:
    """Rows of CURVATURE, over the seeds of a lane."""
    rows: Table = []
    for (condition, activation, rate), runs in study.lanes().items():
        for label, name in _MATRICES.items():
            found: dict[int, list[float]] = collections.defaultdict(list)
            for row in (row for run in runs for row in run.probes() if row.get(name) is not None):
                found[row["step"]].append(row[name])
            place: Sequence[str] = [condition, activation, scales.rate(rate), scales.panel(rate), label]
            rows += [[*place, step, float(np.mean(v)), min(v), max(v)] for step, v in sorted(found.items())]
    return rows
