"""The figures of the explorer: curves, moments over the input scale, and where gradients are not zero."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from actlab.activations.proofs.dead_zones import DTYPES
from actlab.report import activation_table, charts
from actlab.report.explorer.facts import HOVER, SCALE, SCALES, Facts
from actlab.report.page import Figure, Rows

WIDTH = 4  # the first range of x, to each side
QUANTITIES = {
    "mean": activation_table.mean,
    "variance": lambda m: m.variance,
    "E f²": lambda m: m.second_moment,
    "forward gain": lambda m: m.forward_gain,
    "backward gain": lambda m: m.backward_gain,
    "P(f′ < 0)": lambda m: m.negative_slope_share,
}
_ORDERS = ("f", "f′", "f″")
_PANEL = 250  # least width in pixels
_LINE = 2.0
_DATA = alt.NamedData("points")
_NONE = ""  # a point at 0 that is always there, so that panels have axes when nothing is picked
_PICKED = f"(datum.activation === '{_NONE}' || indexof(shown, datum.activation) >= 0)"
_EDGE = 100.0  # the end of the axis of dead zones


def overlay(known: Sequence[Facts], chosen: Sequence[str]) -> Figure:
    """f, f' and f'' of the picked activations, from -reach to reach."""
    rows = [
        (facts.name, order, x, y)
        for facts in known
        for order, points in zip(_ORDERS, facts.curves, strict=True)
        for x, y in points
    ]
    rows += [(_NONE, order, 0, 0) for order in _ORDERS]
    x = alt.X("x:Q", title="x", scale=alt.Scale(domainMin=alt.expr("-reach"), domainMax=alt.expr("reach"), nice=False))
    base = (
        alt.Chart()
        .transform_filter(f"{_PICKED} && abs(datum.x) <= reach")
        .encode(
            x=x, y=alt.Y("y:Q", title=None, scale=alt.Scale(nice=False, padding=8), axis=_axis()), **_channels(known)
        )
    )
    tooltip = ["activation:N", "x:Q", alt.Tooltip("y:Q", title="value")]
    hover = base.transform_filter(f"datum.x % {HOVER} == 0").mark_point(opacity=0)
    hover = hover.encode(tooltip=tooltip, size=_size(90))
    panels = alt.layer(base.mark_line(strokeWidth=_LINE, clip=True), hover).properties(width=_PANEL, height=230)
    return Figure(
        "curves",
        _faceted(panels, "order", _ORDERS, {"shown": list(chosen), "reach": WIDTH}),
        {"points": Rows(("activation", "order", "x", "y"), rows)},
        alt=f"Panels of f, its slope f′ and its curvature f″ over x, a line for each picked activation. "
        f"{' '.join(_sentence(facts) for facts in known if facts.name in chosen)}",
        caption="A line is broken where f′ or f″ jumps; impulses of f″ at kinks are not drawn. Of a gated activation "
        "h = f(xW) ⊙ xV (drelu: ⊙ max(0, xV)), f is drawn. polynorm: one feature among many from N(0, 1). Trained "
        "scalars have their initial values.",
    )


def _sentence(facts: Facts) -> str:
    known = facts.properties
    bound = functools.partial(activation_table.bound, proven=known.proven)
    least = f" at {activation_table.place(known.minimum_at, known.proven)}" if known.minimum_at else ""
    return (
        f"{facts.name}: least f {bound(known.minimum)}{least}, f′ from {bound(known.slope_infimum)} to "
        f"{bound(known.slope_supremum)}, |f″| up to {bound(known.curvature_supremum)}."
    )


def over_scales(known: Sequence[Facts], chosen: Sequence[str]) -> Figure:
    """Moments, gains and the share of negative slopes against the input scale, with a mark at the slider's."""
    rows = [
        (facts.name, quantity, moments.scale, float(of(moments)))
        for facts in known
        for quantity, of in QUANTITIES.items()
        for moments in facts.moments
    ]
    rows += [(_NONE, quantity, 0, 0) for quantity in QUANTITIES]
    base = (
        alt.Chart()
        .transform_filter(_PICKED)
        .encode(
            x=alt.X("s:Q", title="s", scale=alt.Scale(domain=[0, SCALES[-1]])),
            y=alt.Y("y:Q", title=None, axis=_axis()),
            **_channels(known),
        )
    )
    tooltip = ["activation:N", "s:Q", alt.Tooltip("y:Q", title="value")]
    here = "abs(datum.s - scale) < 0.01"
    rule = alt.Chart().transform_filter(here).mark_rule(color="var(--faint)").encode(x="s:Q")
    points = base.transform_filter(f"{here} || datum.activation === '{_NONE}'").mark_point(filled=True, opacity=1)
    points = points.encode(tooltip=tooltip, size=_size(45))
    panels = alt.layer(rule, base.mark_line(strokeWidth=_LINE), points).properties(width=_PANEL, height=130)
    return Figure(
        "scales",
        _faceted(panels, "quantity", tuple(QUANTITIES), {"shown": list(chosen), "scale": SCALE}),
        {"points": Rows(("activation", "quantity", "s", "y"), rows)},
        alt=f"Panels of {', '.join(QUANTITIES)} against s from {SCALES[0]} to {SCALES[-1]}, a line for each picked "
        "activation and a mark at the slider's s. The table above lists the values at the marks.",
        caption="Lines join the values computed at each tenth of s; the marks are computed values.",
    )


def alive(known: Sequence[Facts]) -> Figure:
    """The range of inputs with a nonzero gradient, by dtype, for each activation that has a dead zone."""
    rows = []
    for facts in known:
        for dtype, zone in facts.properties.dead_zones.items():
            low, high = zone.gradient_below, zone.gradient_above
            if low is not None or high is not None:
                ends = (-_EDGE if low is None else low, _EDGE if high is None else high)
                rows.append((facts.name, dtype, *ends, _span(low, high)))
    names = list(dict.fromkeys(row[0] for row in rows))
    scale = alt.Scale(type="symlog", constant=1, domain=[-_EDGE, _EDGE], nice=False)
    axis = alt.Axis(values=[-100, -30, -10, -3, -1, 0, 1, 3, 10, 30, 100], labelOverlap=True)
    chart = (
        alt.Chart(_DATA)
        .transform_filter("datum.dtype === dtype")
        .mark_bar(height=6, clip=True)
        .encode(
            x=alt.X("low:Q", title="z", scale=scale, axis=axis),
            x2="high:Q",
            y=alt.Y("activation:N", sort=names, title=None, scale=alt.Scale(domain=names)),
            fill=charts.colour([facts.name for facts in known], alt.Fill),
            tooltip=["activation:N", "dtype:N", alt.Tooltip("span:N", title="f′ ≠ 0")],
        )
        .properties(width="container", height=16 * len(names))
    )
    return Figure(
        "alive",
        charts.spec(chart, {"dtype": DTYPES[1]}),
        {"points": Rows(("activation", "dtype", "low", "high", "span"), rows)},
        alt="A bar for each activation, from the end of its lower to the start of its upper dead zone of the gradient, "
        "by dtype. The table below lists the values.",
        caption="Inputs at which the gradient is not exactly 0; a bar that reaches the edge continues beyond it. "
        "Activations without a dead zone are omitted.",
    )


def _span(low: float | None, high: float | None) -> str:
    ends = (-math.inf if low is None else low, math.inf if high is None else high)
    return " to ".join(map(activation_table.number, ends))


def _size(area: int) -> Any:
    """The size of points; the point that is always there has none."""
    return alt.condition(f"datum.activation === '{_NONE}'", alt.value(0), alt.value(area))


def _axis() -> alt.Axis:
    return alt.Axis(
        tickCount=5, gridColor=alt.condition("datum.value === 0", alt.value("var(--faint)"), alt.value("var(--line)"))
    )


def _channels(known: Sequence[Facts]) -> dict[str, Any]:
    """Colour and dashes of each activation; the legend lists the picked ones."""
    legend = {
        "values": alt.expr(f"length(shown) ? shown : ['{_NONE}']"),  # a legend without entries would have no size
        "columns": alt.expr("windowSize()[0] < 700 ? 3 : 8"),
    }
    return charts.lines([facts.name for facts in known], legend)


def _faceted(panels: Any, field: str, order: Sequence[str], params: dict[str, Any]) -> dict[str, Any]:
    facet = alt.Facet(f"{field}:N", title=None, sort=list(order))
    chart = panels.facet(facet, data=_DATA).resolve_scale(y="independent").resolve_axis(x="independent")
    # The legend takes more rows as more activations are picked.
    return {**charts.spec(chart, params), "autosize": {"type": "pad", "resize": True}}
