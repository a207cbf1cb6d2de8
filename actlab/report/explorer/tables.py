"""The tables of the explorer: moments at a scale, properties, dead zones, formulas as plain text."""

import math
import re
import sys
from collections.abc import Mapping, Sequence

from actlab.activations.definition import Activation
from actlab.activations.proofs.bounds import Enclosure
from actlab.report import activation_table, charts
from actlab.report.explorer.facts import Facts
from actlab.report.explorer.figures import QUANTITIES
from actlab.report.page import Cell, Table

_WORDS = {
    r"\alpha": "α",
    r"\beta": "β",
    r"\lambda": "λ",
    r"\sigma": "σ",
    r"\pi": "π",
    r"\Phi": "Φ",
    r"\odot": "⊙",
    r"\sim": "∼",
    r"\sum": "∑",
    r"\max": "max",
    r"\min": "min",
    r"\tanh": "tanh",
    r"\log": "log",
}
_RAISED = str.maketrans("0123456789+-=()kx", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ᵏˣ")
_LOWERED = str.maketrans("0123456789+-=()knp", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₖₙₚ")
_RULES = (
    (r"\\(?:text|mathrm)\{([^{}]*)\}", r"\1"),
    (r"\\t?frac\{([^{}]*)\}\{([^{}]*)\}", r"\1/\2 "),
    (r"\\sqrt\{([^{}]*)\}", r"√(\1)"),
)
_EXTREMA = ("inf f", "inf f′", "sup f′", "sup |f″|")


def numbers(known: Sequence[Facts]) -> Table:
    """Moments, gains and the share of negative slopes at each scale; the page shows the chosen rows."""
    rows = [
        [
            name,
            _number(moments.scale),
            *(_number(float(of(moments)), not moments.sampled) for of in QUANTITIES.values()),
        ]
        for name, facts in zip(_names(known), known, strict=True)
        for moments in facts.moments
    ]
    caption = "At the slider's s"
    return Table("numbers", ("activation", "s", *QUANTITIES), rows, caption, follows={"shown": 0, "scale": 1})


def properties(known: Sequence[Facts]) -> Table:
    """Extrema and their places, limits and kinks."""
    headings = [text for heading in _EXTREMA for text in (heading, f"{heading} at")]
    columns = ("activation", *headings, "f(-∞)", "f(∞)", "kinks")
    links = [f"formulas-table activation={facts.name.replace(' ', '')}" for facts in known]
    rows = [[name, *_properties(facts)] for name, facts in zip(_names(known), known, strict=True)]
    return Table("properties-table", columns, rows, filtered=True, links=links)


def _properties(facts: Facts) -> list[Cell | str]:
    known = facts.properties
    extrema = (
        (known.minimum, known.minimum_at),
        (known.slope_infimum, known.slope_infimum_at),
        (known.slope_supremum, known.slope_supremum_at),
        (known.curvature_supremum, known.curvature_supremum_at),
    )
    pairs = [cell for value, place in extrema for cell in (_bound(value, known.proven), _place(place, known.proven))]
    kinks = ", ".join(activation_table.marked(activation_table.number(kink), known.proven) for kink in known.kinks)
    limits = (_number(known.limit_left, known.proven), _number(known.limit_right, known.proven))
    return [*pairs, *limits, Cell(kinks or "-", len(known.kinks) or None)]


def dead_zones(known: Sequence[Facts]) -> Table:
    """Where f and f' are exactly 0, by dtype; the page shows one dtype."""
    rows = []
    for name, facts in zip(_names(known), known, strict=True):
        for dtype, zone in facts.properties.dead_zones.items():
            ends = (zone.value_below, zone.gradient_below, zone.gradient_above)
            rows.append([name, dtype, *(_number(activation_table.flushed(end)) for end in ends)])
    columns = ("activation", "dtype", "f = 0 below", "f′ = 0 below", "f′ = 0 above")
    return Table("zones-table", columns, rows, follows={"dtype": 1})


def formulas(known: Sequence[Facts]) -> Table:
    """Formula, source, default parameters, initial values of trained scalars, and aliases."""
    rows = [
        [
            name,
            plain(facts.record.formula),
            facts.record.source,
            _defaults(facts.record),
            ", ".join(facts.record.aliases),
        ]
        for name, facts in zip(_names(known), known, strict=True)
    ]
    columns = ("activation", "formula", "source", "parameters", "aliases")
    return Table("formulas-table", columns, rows, filtered=True)


def _names(known: Sequence[Facts]) -> list[Cell]:
    styles = charts.styles([facts.name for facts in known])
    return [Cell(facts.name, swatch=styles[facts.name]) for facts in known]


def _defaults(record: Activation) -> str:
    given = [f"{name} = {value:.4g}" for name, value in record.parameters.items()]
    trained = [f"{name} = {value:.4g}" for name, value in record.theta.items()]
    return ", ".join([*given, *trained]) + (" initially, trained" if trained else "")


def _number(value: float | None, certain: bool = True) -> Cell:
    return _cell(activation_table.marked(activation_table.number(value), certain), value)


def _bound(value: Enclosure, proven: bool) -> Cell:
    return _cell(activation_table.bound(value, proven), value.value)


def _place(place: Enclosure | None, proven: bool) -> Cell:
    if place is None:
        return _cell(activation_table.NOTHING, None)
    return _cell(activation_table.place(place, proven), place.high if math.isfinite(place.high) else place.low)


def _cell(text: str, order: float | None) -> Cell:
    """A number sorts by six of its digits; an infinity sorts as the largest float."""
    if order is None or math.isnan(order):
        return Cell("-" if text == activation_table.NOTHING else text)
    largest = sys.float_info.max
    return Cell(text, float(f"{order:.6g}") if math.isfinite(order) else math.copysign(largest, order))


def plain(formula: str) -> str:
    r"""A formula in plain characters: \tfrac{x}{2}, x^2 and e^{-x} are x/2, x² and e⁻ˣ. Unknown commands stay."""
    text = formula.replace(r"\_", "_\0")  # an underscore in a name does not lower what follows
    for pattern, replacement in _RULES:
        text = re.sub(pattern, replacement, text)
    for word, character in _WORDS.items():
        text = re.sub(re.escape(word) + r"(?![A-Za-z])", character, text)
    text = re.sub(r"\^(?:\{([^{}]*)\}|(\w))", lambda found: _moved(found[1] or found[2], _RAISED, "^"), text)
    text = re.sub(r"_(?!\0)(?:\{([^{}]*)\}|(\w))", lambda found: _moved(found[1] or found[2], _LOWERED, "_"), text)
    return " ".join(text.replace("\0", "").split())


def _moved(text: str, table: Mapping[int, int], mark: str) -> str:
    moved = text.translate(table)
    return moved if all(character not in text for character in moved) else f"{mark}({text})"
