"""The tables of the page: numbers at a scale, properties, dead zones, formulas."""

import math
import sys
from collections.abc import Sequence

from actlab.activations import table
from actlab.activations.explorer.facts import Facts
from actlab.activations.explorer.figures import QUANTITIES, shown_quantities, swatch
from actlab.activations.explorer.latex import plain
from actlab.activations.extrema import Enclosure
from actlab.activations.record import Activation
from actlab.page import Cell, Table

_EXTREMA = ("inf f", "inf f′", "sup f′", "sup |f″|")


def numbers(known: Sequence[Facts]) -> Table:
    """Moments, gains and the share of negative slopes of each at each scale; the page shows those that are chosen."""
    rows = [
        [_name(facts), _number(moments.scale), *map(_number, shown_quantities(moments))]
        for facts in known
        for moments in facts.moments
    ]
    caption = "At the slider's s"
    return Table("numbers", ("activation", "s", *QUANTITIES), rows, caption, follows={"shown": 0, "scale": 1})


def properties(known: Sequence[Facts]) -> Table:
    """Extrema with where, limits and kinks."""
    headings = [text for heading in _EXTREMA for text in (heading, f"{heading} at")]
    columns = ("activation", *headings, "f(-∞)", "f(∞)", "kinks")
    return Table("properties-table", columns, [_properties(facts) for facts in known], filtered=True)


def _properties(facts: Facts) -> list[Cell | str]:
    known = facts.properties
    extrema = (
        (known.minimum, known.minimum_at),
        (known.slope_infimum, known.slope_infimum_at),
        (known.slope_supremum, known.slope_supremum_at),
        (known.curvature_supremum, known.curvature_supremum_at),
    )
    pairs = [cell for value, place in extrema for cell in (_certified(value), _place(place))]
    kinks = ", ".join(table.number(kink) for kink in known.kinks)
    limits = (_number(known.limit_left), _number(known.limit_right))
    return [_name(facts, link="formulas-table"), *pairs, *limits, Cell(kinks or "-", len(known.kinks) or None)]


def dead_zones(known: Sequence[Facts]) -> Table:
    """Where f and f' are exactly 0, by dtype; the page shows one dtype."""
    rows = []
    for facts in known:
        for dtype, zone in facts.properties.dead_zones.items():
            ends = (zone.value_below, zone.gradient_below, zone.gradient_above)
            rows.append([_name(facts), dtype, *(_number(_normal(end)) for end in ends)])
    columns = ("activation", "dtype", "f = 0 below", "f′ = 0 below", "f′ = 0 above")
    return Table("zones-table", columns, rows, follows={"dtype": 1})


def formulas(known: Sequence[Facts]) -> Table:
    """Formula, source, parameters and trained scalars with their defaults, and other names."""
    rows = [
        [
            _name(facts),
            plain(facts.record.formula),
            facts.record.source,
            _defaults(facts.record),
            ", ".join(facts.record.aliases),
        ]
        for facts in known
    ]
    columns = ("activation", "formula", "source", "numbers", "also called")
    return Table("formulas-table", columns, rows, filtered=True)


def _name(facts: Facts, link: str = "") -> Cell:
    words = f"={facts.name}" if link else ""
    return Cell(facts.name, link=link, words=words, swatch=swatch(facts.name))


def _defaults(record: Activation) -> str:
    given = [f"{name} = {value:.4g}" for name, value in record.parameters.items()]
    trained = [f"{name} = {value:.4g}" for name, value in record.theta.items()]
    return ", ".join([*given, *trained]) + (" at first, trained" if trained else "")


def _normal(end: float | None) -> float | None:
    """Numbers below the normal ones count as 0."""
    return 0.0 if end is not None and 0 < end < 2 * table.SUBNORMAL else end


def _number(value: float | None) -> Cell:
    return _cell(table.number(value), value)


def _certified(value: Enclosure) -> Cell:
    return _cell(table.certified(value), value.value)


def _place(place: Enclosure | None) -> Cell:
    if place is None:
        return _cell(table.NOTHING, None)
    return _cell(table.place(place), place.high if math.isfinite(place.high) else place.low)


def _cell(text: str, order: float | None) -> Cell:
    """A number sorts by six of its digits; infinities by the largest one."""
    if order is None or math.isnan(order):
        return Cell("-" if text == table.NOTHING else text)
    largest = sys.float_info.max
    return Cell(text, float(f"{order:.6g}") if math.isfinite(order) else math.copysign(largest, order))
