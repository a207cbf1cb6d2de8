"""The figures of the page: curves, moments over the scale, and where gradients are not zero."""

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from actlab.activations import table
from actlab.activations.colours import style
from actlab.activations.dead_zones import DTYPES
from actlab.activations.explorer.curves import HOVER
from actlab.activations.explorer.facts import SCALE, SCALES, Facts
from actlab.activations.moments import Moments
from actlab.page import Figure, Rows, Swatch, ink

WIDTH = 4  # of x to each side, at first
QUANTITIES = {
    "mean": lambda m: m.mean if m.mean**2 > 1e-18 * m.second_moment else 0.0,  # as the printed table
    "variance": lambda m: m.variance,
    "E f²": lambda m: m.second_moment,
    "forward gain": lambda m: m.forward_gain,
    "backward gain": lambda m: m.backward_gain,
    "P(f′ < 0)": lambda m: m.negative_slope_share,
}
_ORDERS = ("f", "f′", "f″")
_PANEL = 250  # pixels wide at least
_LINE, _DASH = 2.0, 2.0  # pixels; a style's dashes are in line widths
_DATA = alt.NamedData("points")
_NONE = ""  # a point at 0 that is always there, so that panels have axes when nothing is picked
_PICKED = f"(datum.activation === '{_NONE}' || indexof(shown, datum.activation) >= 0)"
_EDGE = 100.0  # of the axis of dead zones


def swatch(name: str) -> Swatch:
    """How an activation's curves are drawn."""
    of = style(name)
    return Swatch(ink(of.colour), of.dashes)


def overlay(known: Sequence[Facts], chosen: Sequence[str]) -> Figure:
    """f, f' and f'' of those that are picked, from -reach to reach."""
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
        .encode(x=x, y=alt.Y("y:Q", title=None, axis=_axis()), **_channels(known))
    )
    tooltip = [alt.Tooltip("activation:N"), alt.Tooltip("x:Q"), alt.Tooltip("y:Q", title="value")]
    hover = base.transform_filter(f"datum.x % {HOVER} == 0").mark_point(opacity=0)
    hover = hover.encode(tooltip=tooltip, size=_size(90))
    panels = alt.layer(base.mark_line(strokeWidth=_LINE, clip=True), hover).properties(width=_PANEL, height=230)
    return Figure(
        "curves",
        _faceted(panels, "order", _ORDERS, {"shown": list(chosen), "reach": WIDTH}),
        {"points": Rows(("activation", "order", "x", "y"), rows)},
        alt=f"Panels of f, its slope f′ and its curvature f″ over x, a line for each activation picked. "
        f"{' '.join(_sentence(facts) for facts in known if facts.name in chosen)}",
        caption="A line is broken where f′ or f″ jumps; impulses of f″ at kinks are not drawn. Gated, h = f(xW) ⊙ xV "
        "(drelu: ⊙ max(0, xV)): f, the gate's function, is drawn. polynorm: one feature among many of N(0, 1). "
        "Trained scalars are at their start.",
    )


def _sentence(facts: Facts) -> str:
    known = facts.properties
    least = f" at {table.place(known.minimum_at)}" if known.minimum_at else ""
    slopes = f"{table.certified(known.slope_infimum)} to {table.certified(known.slope_supremum)}"
    return (
        f"{facts.name}: least f {table.certified(known.minimum)}{least}, f′ from {slopes}, "
        f"|f″| up to {table.certified(known.curvature_supremum)}."
    )


def over_scales(known: Sequence[Facts], chosen: Sequence[str]) -> Figure:
    """Moments, gains and the share of negative slopes against the scale, with a mark at the slider's."""
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
    tooltip = [alt.Tooltip("activation:N"), alt.Tooltip("s:Q"), alt.Tooltip("y:Q", title="value")]
    here = "abs(datum.s - scale) < 0.01"
    rule = alt.Chart().transform_filter(here).mark_rule(color="var(--faint)").encode(x="s:Q")
    points = base.transform_filter(f"{here} || datum.activation === '{_NONE}'").mark_point(filled=True, opacity=1)
    points = points.encode(tooltip=tooltip, size=_size(45))
    panels = alt.layer(rule, base.mark_line(strokeWidth=_LINE), points).properties(width=_PANEL, height=130)
    return Figure(
        "scales",
        _faceted(panels, "quantity", tuple(QUANTITIES), {"shown": list(chosen), "scale": SCALE}),
        {"points": Rows(("activation", "quantity", "s", "y"), rows)},
        alt=f"Panels of {', '.join(QUANTITIES)} against s from {SCALES[0]} to {SCALES[-1]}, a line for each activation "
        "picked and a mark at the slider's s. The table above has the numbers at the marks.",
        caption="Lines join the computed points at each tenth of s; the marks stand on computed points.",
    )


def alive(known: Sequence[Facts]) -> Figure:
    """Where the gradient is not 0, for each activation that has a dead zone, by dtype."""
    rows = [
        (facts.name, dtype, -_EDGE if low is None else low, _EDGE if high is None else high, _span(low, high))
        for facts in known
        for dtype in DTYPES
        if (ends := gradient_ends(facts, dtype)) != (None, None)
        for low, high in [ends]
    ]
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
            fill=alt.Fill("activation:N", scale=_colours(known), legend=None),
            tooltip=[alt.Tooltip("activation:N"), alt.Tooltip("dtype:N"), alt.Tooltip("span:N", title="f′ ≠ 0")],
        )
        .properties(width="container", height=16 * len(names))
    )
    return Figure(
        "alive",
        _spec(chart, {"dtype": DTYPES[1]}),
        {"points": Rows(("activation", "dtype", "low", "high", "span"), rows)},
        alt="A bar for each activation from the end of the lower to that of the upper dead zone of its gradient, by "
        "dtype. The table below has the numbers.",
        caption="Where the gradient is not exactly 0; a bar that reaches the edge goes on. "
        "Activations without a dead zone are left out.",
    )


def gradient_ends(facts: Facts, dtype: str) -> tuple[float | None, float | None]:
    """Where the lower dead zone of the gradient ends and the upper one begins; a vector-valued one has none."""
    zone = facts.properties.dead_zones.get(dtype)
    return (None, None) if zone is None else (zone.gradient_below, zone.gradient_above)


def _span(low: float | None, high: float | None) -> str:
    ends = (-math.inf if low is None else low, math.inf if high is None else high)
    return " to ".join(map(table.number, ends))


def _size(area: int) -> Any:
    """The size of points, the one that is always there left out."""
    return alt.condition(f"datum.activation === '{_NONE}'", alt.value(0), alt.value(area))


def _axis() -> alt.Axis:
    return alt.Axis(
        tickCount=5, gridColor=alt.condition("datum.value === 0", alt.value("var(--faint)"), alt.value("var(--line)"))
    )


def _colours(known: Sequence[Facts]) -> alt.Scale:
    names = [facts.name for facts in known]
    return alt.Scale(domain=names, range=[ink(style(name).colour) for name in names])


def _channels(known: Sequence[Facts]) -> dict[str, Any]:
    """Colour and dashes of each activation; the legend names those that are picked."""
    names = [facts.name for facts in known]
    lengths = [[_DASH * length for length in style(name).dashes] or [1, 0] for name in names]
    legend = alt.Legend(
        title=None,
        values=alt.expr(f"length(shown) ? shown : ['{_NONE}']"),  # one without entries has no size
        columns=alt.expr("windowSize()[0] < 700 ? 3 : 8"),
        symbolType="stroke",
        symbolSize=700,
        symbolStrokeWidth=_LINE,
        symbolLimit=1000,
    )
    return {
        "color": alt.Color("activation:N", scale=_colours(known), legend=legend),
        "strokeDash": alt.StrokeDash("activation:N", scale=alt.Scale(domain=names, range=lengths), legend=legend),
    }


def _faceted(panels: Any, field: str, order: Sequence[str], params: dict[str, Any]) -> dict[str, Any]:
    facet = alt.Facet(f"{field}:N", title=None, sort=list(order))
    chart = panels.facet(facet, data=_DATA).resolve_scale(y="independent").resolve_axis(x="independent")
    # The legend takes more rows as more are picked.
    return {**_spec(chart, params), "autosize": {"type": "pad", "resize": True}}


def _spec(chart: Any, params: dict[str, Any]) -> dict[str, Any]:
    """The chart as the page takes it: with parameters that controls set."""
    content = chart.to_dict()
    content.pop("config", None)
    return {**content, "params": [{"name": name, "value": value} for name, value in params.items()]}


def shown_quantities(moments: Moments) -> list[float]:
    """The quantities that move with the scale, in the order of the panels."""
    return [float(of(moments)) for of in QUANTITIES.values()]
