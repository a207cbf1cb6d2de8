"""What all figures of a report share: the colours of activations, the controls, a spec from an altair chart."""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from actlab.activations import colours
from actlab.errors import UserError
from actlab.page import Cell, Choice, Controls, Swatch, Toggles, ink
from actlab.report.study import Study
from actlab.studies.statistics import nats

_DASH = 2.0  # a style's dashes are in line widths
DATA = alt.NamedData("points")
STEPS = alt.Axis(format=",d", tickCount=5, tickMinStep=1, labelOverlap=True)


def style(name: str) -> colours.Style:
    """The style of an activation; of one that was registered elsewhere, a style drawn from its name."""
    try:
        return colours.style(name)
    except UserError:
        number = zlib.crc32(name.encode())
        return colours.Style(colours.PALETTE[number % len(colours.PALETTE)], colours.DASHED)


def swatch(name: str) -> Swatch:
    """How an activation's curves are drawn."""
    of = style(name)
    return Swatch(ink(of.colour), of.dashes)


def colour(activations: Sequence[str], legend: bool = False) -> alt.Color:
    """The channel of the activation's colour."""
    return alt.Color("activation:N", scale=_scale(activations), legend=alt.Legend(title=None) if legend else None)


def _scale(activations: Sequence[str]) -> alt.Scale:
    return alt.Scale(domain=list(activations), range=[swatch(name).colour for name in activations])


def dashes(activations: Sequence[str]) -> alt.StrokeDash:
    """The channel of the activation's dashes, so that colour is not all that tells two apart."""
    lengths = [[_DASH * length for length in style(name).dashes] or [1, 0] for name in activations]
    return alt.StrokeDash("activation:N", scale=alt.Scale(domain=list(activations), range=lengths), legend=None)


def spec(chart: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    """A chart as a page takes it, with parameters that controls set."""
    content = chart.to_dict()
    content.pop("config", None)
    return {**content, "params": [{"name": name, "value": value} for name, value in params.items()]}


def band(chart: alt.Chart, scale: alt.Scale, activations: Sequence[str], **mark: Any) -> alt.Chart:
    """The area between `low` and `high`; the chart has its x and no colour, which an area's filling excludes."""
    area = chart.mark_area(opacity=0.18, strokeWidth=0, clip=True, **mark)
    colours_of = alt.Fill("activation:N", scale=_scale(activations), legend=None)
    return area.encode(y=alt.Y("low:Q", scale=scale), y2="high:Q", fill=colours_of)


def by_rate(study: Study, chart: Any) -> Any:
    """Panels of a chart, one for each learning rate; the data need a column `panel`."""
    facet = alt.Facet("panel:N", title=None, sort=[panel(value) for value in study.rates])
    # The rows that panels fill are not known here: each has an axis of its own below it.
    return chart.facet(facet, data=DATA).resolve_axis(x="independent")


def panel(value: float) -> str:
    """What stands above the panel of a learning rate."""
    return f"learning rate {rate(value)}"


class Filters:
    """The controls that choose among runs: the condition, activations, learning rates, seeds."""

    def __init__(self, study: Study, *more: Choice, rates: bool = False, seeds: bool = False):
        self.params: dict[str, Any] = {"condition": study.conditions[0], "activations": list(study.activations)}
        items: list[Choice | Toggles] = []
        self.expression = "datum.condition === condition && indexof(activations, datum.activation) >= 0"
        if len(study.conditions) > 1:
            items.append(Choice("condition", "at", study.conditions, study.conditions[0]))
        items += more
        self.params |= {one.param: one.chosen for one in more}
        if len(study.activations) > 1:
            swatches = {name: swatch(name) for name in study.activations}
            items.append(Toggles("activations", "activations", study.activations, swatches=swatches))
        lists = {"rates": tuple(map(rate, study.rates))} if rates else {}
        lists |= {"seeds": tuple(map(str, study.seeds))} if seeds else {}
        for name, values in lists.items():
            self.params[name] = list(values)
            self.expression += f" && indexof({name}, datum.{name.removesuffix('s')}) >= 0"
            if len(values) > 1:
                items.append(Toggles(name, {"rates": "learning rates"}.get(name, name), values))
        self.controls = (Controls(tuple(items)),) if items else ()


def rate(value: float) -> str:
    """A learning rate as it is shown everywhere."""
    return f"{value:g}"


def least_positive(rates: Sequence[float]) -> float:
    """The least learning rate above 0, beside which 0 is drawn; 1 where there is none."""
    return min((rate for rate in rates if rate > 0), default=1.0)


def number(value: int | float | None, form: str = "", link: str = "", words: str = "") -> Cell:
    """A cell of a number, of nats where `form` is no more than a sign."""
    if value is None:
        return Cell("-")
    return Cell(nats(value, form) if form in ("", "+") else format(value, form), float(value), link, words)


def span(interval: Sequence[float] | None, sign: str = "") -> str:
    """An interval of nats in a cell."""
    return "-" if interval is None else f"{nats(interval[0], sign)} to {nats(interval[1], sign)}"


def words(*values: str) -> str:
    """What the run table is filtered by to show the runs with all of these values."""
    return " ".join(f"={value.replace(' ', '')}" for value in values if value)
