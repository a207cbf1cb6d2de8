"""What all figures share: styles of activations, channels made of them, the controls of the bar, panels, cells.

The theme of every figure (fonts, axes, legends) is THEME in page/render.py; a chart here says only what is its own.
"""

import math
import statistics
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import altair as alt

from actlab.activations.catalogue import get
from actlab.analysis.effects import nats
from actlab.errors import UserError
from actlab.report.page import Cell, Choice, Controls, Swatch, Table, Toggles, Value
from actlab.report.page.render import DASH, LEGEND
from actlab.report.study import Study

DATA = alt.NamedData("points")
_OF_STEPS = alt.Axis(format=",d", tickCount=5, tickMinStep=1, labelOverlap=True)
STEPS = alt.X("step:Q", title="step", axis=_OF_STEPS)
CHOSEN = "indexof(activations, datum.activation) >= 0"
FEW = "length(activations) <= 8"  # intervals and single runs are drawn while at most 8 activations are chosen
_COLOURED = 8  # a study of more activations opens with a few in colour, the others in grey
_TOLD = 12  # rows that the words for a figure have
_DIGITS = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)  # of the ticks of a log axis
_PANELS = 30  # a study with more activations in colour times rates opens at one learning rate

# Variables of the page, so that each colour is legible on light and dark paper; page/render.py has those of print.
BLACK, GREY, ORANGE, SKY = "var(--ink)", "var(--grey)", "var(--orange)", "var(--sky)"
GREEN, BLUE, VERMILLION, PURPLE = "var(--green)", "var(--blue)", "var(--vermillion)", "var(--purple)"
PALETTE = (BLACK, GREY, ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE)

SOLID, DASHED, DOTTED, DASH_DOT = (), (4.0, 1.5), (1.0, 1.3), (5.0, 1.5, 1.0, 1.5)
LONG, DASH_DOT_DOT = (8.0, 2.0), (5.0, 1.5, 1.0, 1.5, 1.0, 1.5)
DASHES = (SOLID, DASHED, DOTTED, DASH_DOT, LONG, DASH_DOT_DOT)

# Colours and dashes differ within a family and among the activations compared most often, so that both lines are seen
# where two meet. A gated activation has the colour of its gate, except drelu, which shares reglu's gate.
STYLES = {
    "identity": Swatch(GREY, SOLID),
    "relu": Swatch(VERMILLION, LONG),
    "leaky_relu": Swatch(ORANGE, DASHED),
    "prelu": Swatch(SKY, DASH_DOT),
    "relu6": Swatch(GREEN, DOTTED),
    "relu2": Swatch(BLACK, SOLID),
    "leaky_relu2": Swatch(SKY, DASHED),
    "hard_tanh": Swatch(VERMILLION, DOTTED),
    "hard_sigmoid": Swatch(SKY, DOTTED),
    "hard_swish": Swatch(GREY, LONG),
    "tanh": Swatch(PURPLE, DASHED),
    "penalized_tanh": Swatch(ORANGE, DASH_DOT),
    "sigmoid": Swatch(BLACK, DASH_DOT),
    "softplus": Swatch(GREEN, LONG),
    "softsign": Swatch(GREY, DASH_DOT),
    "elu": Swatch(ORANGE, DOTTED),
    "celu": Swatch(BLUE, LONG),
    "selu": Swatch(PURPLE, DASH_DOT),
    "xielu": Swatch(BLACK, LONG),
    "gelu": Swatch(BLUE, SOLID),
    "gelu_scale": Swatch(BLUE, DASH_DOT),
    "gelu_tanh": Swatch(PURPLE, LONG),
    "gelu_tanh_jax": Swatch(GREY, DOTTED),
    "quick_gelu": Swatch(VERMILLION, DASH_DOT),
    "gelu2": Swatch(BLACK, DOTTED),
    "gelu_centred": Swatch(VERMILLION, DASH_DOT_DOT),
    "stochastic_gelu": Swatch(GREEN, DASH_DOT_DOT),
    "silu": Swatch(GREEN, DASH_DOT),
    "swish": Swatch(BLACK, DASH_DOT_DOT),
    "mish": Swatch(SKY, LONG),
    "polynorm": Swatch(PURPLE, DOTTED),
    "glu": Swatch(BLACK, DASHED),
    "bilinear": Swatch(GREY, DASHED),
    "reglu": Swatch(VERMILLION, DASHED),
    "geglu": Swatch(BLUE, DASHED),
    "geglu_tanh": Swatch(PURPLE, DASH_DOT_DOT),
    "swiglu": Swatch(GREEN, DASHED),
    "drelu": Swatch(ORANGE, DASH_DOT_DOT),
}


def style(name: str) -> Swatch:
    """The style of an activation or alias; its parameters do not matter.

    A name outside the catalogue's own gets a style derived from the name, which may coincide with another's.
    """
    try:
        base = get(name).name.partition("(")[0]
    except UserError:  # a table may name an activation that is not registered here
        base = name
    number = zlib.crc32(base.encode())
    return STYLES.get(base) or Swatch(PALETTE[number % len(PALETTE)], DASHES[number // 8 % len(DASHES)])


def styles(names: Sequence[str]) -> dict[str, Swatch]:
    """The style of each, whatever their order; where two would look the same, one has other dashes, or another colour.

    A name in STYLES keeps its style.
    """
    found: dict[str, Swatch] = {}
    for name in sorted(names, key=lambda name: (name not in STYLES, name)):
        own = style(name)
        free = (Swatch(colour, dashes) for colour in (own.colour, *PALETTE) for dashes in (own.dashes, *DASHES))
        found[name] = next((one for one in free if one not in found.values()), own)
    return found


def colour(names: Sequence[str], channel: Any = alt.Color) -> Any:
    """The channel of colour, or fill, of the field `activation`; the controls of the page are its legend."""
    known = styles(names)
    scale = alt.Scale(domain=list(names), range=[known[name].colour for name in names])
    return channel("activation:N", scale=scale, legend=None)


def lines(
    names: Sequence[str],
    legend: Mapping[str, Any] | None = None,
    field: str = "activation",
    own: Sequence[Swatch] | None = None,
) -> dict[str, Any]:
    """The channels of lines: colour and dashes by a field, so that lines stay distinct without colour.

    `legend` adds one, with what differs from LEGEND; `own` are the styles of `names` where these are no activations.
    """
    known = {} if own else styles(names)
    drawn = own or [known[name] for name in names]
    shown = None if legend is None else alt.Legend(**{**LEGEND, **legend})
    dashes = [[DASH * length for length in one.dashes] or [1, 0] for one in drawn]
    ranges = {"color": [one.colour for one in drawn], "strokeDash": dashes}
    channels = {"color": alt.Color, "strokeDash": alt.StrokeDash}
    return {
        name: channel(f"{field}:N", scale=alt.Scale(domain=list(names), range=ranges[name]), legend=shown)
        for name, channel in channels.items()
    }


def spec(chart: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    """A chart as a page takes it: a dict with the params that controls set, without altair's own theme."""
    content = chart.to_dict()
    content.pop("config", None)
    return {**content, "params": [{"name": name, "value": value} for name, value in params.items()]}


class Shown:
    """What the bar chooses: condition, activations, learning rates, seeds.

    Of more than eight activations those of `first` open in colour and the others in grey. `params` are the variables of
    the figures with their first values.
    """

    def __init__(self, study: Study, first: Sequence[str] = ()):
        self.names = names = study.activations
        self.many = len(names) > _COLOURED
        chosen = tuple(name for name in names if name in first) if self.many and first else names
        rates, seeds = tuple(map(rate, study.rates)), tuple(map(str, study.seeds))
        self.params: dict[str, Any] = {
            "condition": study.conditions[0],
            "activations": list(chosen),
            "others": "grey" if self.many else "hidden",
            "rates": list(_first_rates(study) or rates),
            "seeds": list(seeds),
        }
        items: list[Choice | Toggles] = []
        if len(study.conditions) > 1:
            items.append(Choice("condition", "at", study.conditions, study.conditions[0]))
        if len(names) > 1:
            swatches = styles(names)
            items.append(Toggles("activations", "in colour" if self.many else "activations", names, chosen, swatches))
        if self.many:
            items.append(Choice("others", "others", ("grey", "hidden"), "grey"))
        if len(rates) > 1:
            items.append(Toggles("rates", "learning rates", rates, tuple(self.params["rates"])))
        if len(seeds) > 1:
            items.append(Toggles("seeds", "seeds", seeds))
        self.bar = Controls(tuple(items))

    def filter(self, *more: str) -> str:
        """The Vega expression of the data to draw, with further conditions."""
        return " && ".join(["datum.condition === condition", f"({CHOSEN} || others === 'grey')", *more])

    def with_grey(self, chart: alt.Chart, *coloured: alt.Chart, detail: str = "activation:N", **mark: Any) -> list[Any]:
        """Layers: the lines of a chart that are not in colour, grey and behind; then those in colour."""
        grey = chart.transform_filter(f"!({CHOSEN})").mark_line(strokeWidth=1, opacity=0.45, clip=True, **mark)
        grey = grey.encode(color=alt.value(GREY), detail=detail)
        return [*([grey] if self.many else []), *(layer.transform_filter(CHOSEN) for layer in coloured)]


RATES = "indexof(rates, datum.rate) >= 0"


def in_order(rows: Iterable[Sequence[Value]], names: Sequence[str]) -> list[Sequence[Value]]:
    """Rows of a figure, those of dashed lines last: where two lines meet, the solid one shows between the dashes.

    The activation is in a row's second column.
    """
    known = styles(names)
    return sorted(rows, key=lambda row: bool(known[str(row[1])].dashes))


def told(
    study: Study, lead: str, rows: Sequence[Sequence[Any]], each: Callable[[Sequence[Any]], str]
) -> dict[str, str]:
    """What a figure shows of each condition: a lead, and the words for its first rows. Column 0 is the condition."""
    found = {name: [each(row) for row in rows if row[0] == name] for name in study.conditions}
    more = {name: [f"{len(words) - _TOLD} more"] if len(words) > _TOLD else [] for name, words in found.items()}
    return {name: f"{lead}: {'; '.join([*words[:_TOLD], *more[name]])}." for name, words in found.items() if words}


def _first_rates(study: Study) -> tuple[str, ...] | None:
    """In a study of many activations and rates, the one rate to show: of the lowest median loss; else None: all."""
    losses = {
        value: [run.result.loss for run in study.runs if run.result and run.learning_rate == value]
        for value in study.rates
    }
    known = {value: statistics.median(found) for value, found in losses.items() if found}
    if min(len(study.activations), _COLOURED) * len(study.rates) <= _PANELS or not known:
        return None
    return (rate(min(known, key=known.__getitem__)),)


def band(chart: alt.Chart, scale: alt.Scale, activations: Sequence[str], **mark: Any) -> alt.Chart:
    """The area between `low` and `high`; the chart has its x and no colour, for an area takes its own."""
    area = chart.transform_filter(FEW).mark_area(opacity=0.18, strokeWidth=0, clip=True, **mark)
    fill = colour(activations, alt.Fill)
    return area.encode(y=alt.Y("low:Q", scale=scale), y2="high:Q", fill=fill)


def log_ticks(values: Iterable[float]) -> list[float]:
    """What a reader expects on a log axis: round numbers, or powers of ten where those would be many.

    Within a factor of 2 they are evenly spaced. There are none for values of 0 and below.
    """
    found = [value for value in values if 0 < value < math.inf]
    if not found:
        return []
    low, high = min(found), max(found)
    if low < high < 2 * low:
        power = 10.0 ** math.floor(math.log10(high - low))
        step = power / next(parts for parts in (1, 2, 5) if parts * (high - low) / power >= 4)
        return [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [digit * 10.0**power for power in powers for digit in (_DIGITS if len(powers) < 5 else (1,))]


def by_rate(study: Study, chart: Any) -> Any:
    """Panels of a chart, one for each learning rate; the data need a column `panel`."""
    facet = alt.Facet("panel:N", title=None, sort=[panel(value) for value in study.rates])
    # The number of panels in a row is not known here, so each has an x axis of its own.
    return chart.facet(facet, data=DATA).resolve_axis(x="independent")


def place(cell: tuple[str, str, float]) -> list[Value]:
    """A cell as columns of a figure's rows: condition, activation, rate, panel."""
    return [*cell[:2], rate(cell[2]), panel(cell[2])]


def panel(value: float) -> str:
    """The title of the panel of a learning rate."""
    return f"learning rate {rate(value)}"


def rate(value: float) -> str:
    """A learning rate as it is written everywhere."""
    return f"{value:g}"


def number(value: int | float | None, form: str = "") -> Cell:
    """A cell of a number; with no format, or a sign alone, the number is in nats."""
    if value is None:
        return Cell("-")
    return Cell(nats(value, form) if form in ("", "+") else format(value, form), float(value))


def table(
    study: Study, name: str, columns: Sequence[str], rows: Sequence[Sequence[Cell | str]], caption: str, **more: Any
) -> Table:
    """A table that shows the rows of the chosen condition, which is the last cell of each and the column "at".

    A study of one condition has no such column. `more` is as in Table.
    """
    if len(study.conditions) == 1:
        return Table(name, tuple(columns), [row[:-1] for row in rows], caption, **more)
    return Table(name, (*columns, "at"), rows, caption, follows={"condition": len(columns)}, **more)


def runs_with(activation: str, condition: str, rate: str = "") -> str:
    """The link to the run table that shows the runs of an activation in a condition, at one rate or all."""
    wanted = {"activation": activation, "learningrate": rate, "at": condition}
    return " ".join(["runs-table", *(f"{name}={value.replace(' ', '')}" for name, value in wanted.items() if value)])
