"""What the probes saw in each layer: heat maps over training, distributions at its end, curvature."""

import collections
from collections.abc import Iterator, Mapping, Sequence

import altair as alt
import numpy as np

from actlab.page import Block, Choice, Figure, Rows, Section, Text
from actlab.report import deaths, scales
from actlab.report.study import Run, Study
from actlab.studies.survival import permanently_dead

# What it is called on the page, and in a probe row.
METRICS = {
    "D1 zero outputs": "zero_fraction",
    "D2 negative pre-activations": "negative_fraction",
    "D3 outputs below 0.01 rms": "tau_sparsity_0.01",
    "D3 outputs below 0.1 rms": "tau_sparsity_0.1",
    "D4 dead units": "dead_fraction",
    "D5 gradient-dead units": "gradient_dead_fraction",
    "D6 permanently dead units": "permanently_dead",
    "D7 removable units (CETT)": "cett_sparsity",
    "mean pre-activation": "pre_mean",
    "rms pre-activation": "pre_rms",
    "mean output": "post_mean",
    "rms output": "post_rms",
    "gradient norm, feed-forward": "feed_forward/grad_norm",
    "gradient norm, attention": "attention/grad_norm",
}
_VALUES = 90_000  # numbers of a page's heat maps together
_FEW = 3  # layers below which a heat map's cells are taller
Lane = tuple[str, str, float]
Cube = dict[int, dict[int, dict[str, float]]]  # by step, layer, metric


def section(study: Study) -> Section:
    """Heat maps, a panel for each activation and learning rate."""
    lanes = measured(study)
    if not lanes:
        words = "Not measured: config.train.probe_every was 0, or metrics.jsonl is not there."
        return Section("layers", "Layers over training", (Text(words),))
    present = [label for label in METRICS if any(label in cell for cube in lanes.values() for cell in _cells(cube))]
    metric = Choice("metric", "measure", tuple(present), present[min(1, len(present) - 1)])
    died = deaths.rows(study)
    filters = scales.Filters(study, metric, *deaths.choice(died), rates=True)
    blocks: list[Block] = [*filters.controls, _figure(study, filters, lanes, present)]
    words = (
        "Means over seeds, on a batch of the validation set; D4 and D6 over all of it. D6 is D4 at this census and all "
        "later ones. Half of all pre-activations are negative at initialisation whatever the activation."
    )
    blocks.append(Text(words, "note"))
    return Section("layers", "Layers over training", (*blocks, *deaths.blocks(study, filters, died)))


def measured(study: Study) -> dict[Lane, Cube]:
    """Means over the seeds of each lane; lanes without probes are left out."""
    found = {}
    for lane, runs in study.lanes().items():
        sums: dict[tuple[int, int, str], list[float]] = collections.defaultdict(list)
        for run in runs:
            for step, layer, label, value in _values(run):
                sums[step, layer, label].append(value)
        cube: Cube = {}
        for (step, layer, label), values in sorted(sums.items()):
            cube.setdefault(step, {}).setdefault(layer, {})[label] = float(np.mean(values))
        if cube:
            found[lane] = cube
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
                yield step, layer, "D6 permanently dead units", share


def _cells(cube: Cube) -> Iterator[Mapping[str, float]]:
    for layers in cube.values():
        yield from layers.values()


def _figure(study: Study, filters: scales.Filters, lanes: Mapping[Lane, Cube], present: Sequence[str]) -> Figure:
    n_cells = sum(len(layers) for cube in lanes.values() for layers in cube.values())
    stride = -(-n_cells * len(present) // _VALUES)
    rows = [
        [*_place(lane), step, layer, *(values.get(label) for label in present)]
        for lane, cube in lanes.items()
        for step in _thinned(sorted(cube), stride)
        for layer, values in cube[step].items()
    ]
    n_layers = 1 + max(layer for cube in lanes.values() for layers in cube.values() for layer in layers)
    columns = ("condition", "activation", "rate", "panel", "step", "layer", *present)
    tips = [alt.Tooltip(f"{name}:{kind}") for name, kind in (("panel", "N"), ("step", "Q"), ("layer", "Q"))]
    ticks = alt.Axis(labelOverlap=True, labelSeparation=6, labelAngle=0, ticks=False)
    bands = (
        alt.Chart()
        .mark_rect()
        .encode(
            x=alt.X("step:O", title="step", axis=ticks),
            y=alt.Y("layer:O", title="layer", sort="descending"),
            color=alt.Color(
                "value:Q",
                title=None,
                scale=alt.Scale(scheme="viridis"),
                legend=alt.Legend(format="~g", gradientLength=180),
            ),
            tooltip=[*tips, alt.Tooltip("value:Q", format=".4g")],
        )
    )
    bands = bands.properties(width=200, height=alt.Step(28 if n_layers <= _FEW else 14))
    panels = [_place(lane)[3] for lane in lanes]
    facet = alt.Facet("panel:N", title=None, sort=list(dict.fromkeys(panels)))
    chart = bands.facet(facet, data=scales.DATA).resolve_axis(x="independent")
    chart = chart.transform_calculate(value="datum[metric]").transform_filter(
        f"{filters.expression} && isValid(datum.value)"
    )
    last = {lane: cube[max(cube)] for lane, cube in lanes.items()}
    label = present[min(1, len(present) - 1)]
    said = "; ".join(
        f"{_place(lane)[3]} {np.mean([values.get(label, np.nan) for values in layers.values()]):.3g}"
        for lane, layers in list(last.items())[:12]
    )
    text = f"Heat maps of layer against step. {label}, mean over layers at the end: {said}."
    caption = "Colour: the measure chosen above, on one scale for all panels; the pointer tells values."
    return Figure("layers-figure", scales.spec(chart, filters.params), {"points": Rows(columns, rows)}, text, caption)


def _place(lane: Lane) -> list[str]:
    condition, activation, rate = lane
    return [condition, activation, scales.rate(rate), f"{activation}, {scales.rate(rate)}"]


def _thinned(steps: Sequence[int], stride: int) -> Sequence[int]:
    """Every so manieth step; of a stride that leaves few, first and last stay."""
    return steps if stride < 2 else sorted({*steps[::stride], steps[-1]})
