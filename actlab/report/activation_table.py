"""The table of properties, a line for each activation."""

import math
from collections.abc import Callable, Iterable

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from actlab.activations.proofs.bounds import Enclosure
from actlab.activations.properties import Properties, properties

NOTHING, INFINITY = "–", "∞"
DECIMALS = 5
DEAD_DTYPE = "bfloat16"
SUBNORMAL = 2.0**-126  # smaller numbers count as 0 where the hardware flushes them

COLUMNS: dict[str, Callable[[Properties], str]] = {
    "name": lambda row: row.name,
    "inf f": lambda row: certified(row.minimum),
    "at": lambda row: place(row.minimum_at),
    "inf f'": lambda row: certified(row.slope_infimum),
    "sup f'": lambda row: certified(row.slope_supremum),
    "sup\n|f''|": lambda row: certified(row.curvature_supremum),
    "limits": lambda row: f"{number(row.limit_left, 3)}, {number(row.limit_right, 3)}",
    "mean": lambda row: number(row.mean if row.mean**2 > 1e-18 * row.second_moment else 0.0),
    "var": lambda row: number(row.variance),
    "kurt": lambda row: number(row.kurtosis),
    "gain\nfwd": lambda row: number(row.forward_gain),
    "gain\nbwd": lambda row: number(row.backward_gain),
    "f' < 0": lambda row: f"{100 * row.negative_slope_share:.1f}%",
    "dead\nbelow": lambda row: _dead(row),
}
LEGEND = (
    "inf f, at, inf f', sup f', sup |f''|: over all x, certified; only certain digits are shown, exact numbers without "
    "trailing zeros; – under at means a limit at ±∞; impulses of f'' at kinks are excluded. limits: f at -∞ and +∞. "
    "mean, var(iance), kurt(osis): of f(z) for z from N(0, {scale:g}²). gain fwd g: weights of variance g²/fan_in "
    "after f preserve the second moment of z; gain bwd: the same for gradients. f' < 0: the share of z. dead below: "
    "in {dtype} the gradient is exactly 0 from here down, as measured. Gated h = f(z) v: bounds, f' < 0 and dead below "
    "of f, the rest of h. Trained scalars have their initial values."
)


def of(names: Iterable[str], scale: float) -> Group:
    """The table of these activations for inputs of N(0, scale^2), with its legend; it fits 120 characters.

    Raises:
        UserError: a name is unknown, the scale is out of range, or an activation has no exact formula.
    """
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    for heading in COLUMNS:
        left = heading == "name"
        table.add_column(heading, justify="left" if left else "right", overflow="fold", no_wrap=not left)
    for name in names:
        row = properties(name, scale)
        table.add_row(*(cell(row) for cell in COLUMNS.values()))
    return Group(table, Text("\n" + LEGEND.format(scale=scale, dtype=DEAD_DTYPE)))


def certified(enclosure: Enclosure) -> str:
    """The digits on which both ends agree, at most 5 decimals: [-0.1699713, -0.1699711] is -0.16997, [2, 2] is 2."""
    low, high = enclosure.low, enclosure.high
    if low == high:
        return number(low, DECIMALS)
    if math.isinf(low) or math.isinf(high):
        return f"{number(low)}…{number(high)}"
    near_one = low <= 0 <= high or 1e-3 <= abs(low) < 1e4
    for digits in range(DECIMALS, -1, -1):
        kind = f".{digits}f" if near_one else f".{max(1, digits)}g"
        texts = {f"{end:{kind}}" for end in (low, high)}
        if len({float(text) for text in texts}) == 1:  # -0.0 is 0.0
            return max(texts, key=lambda text: not text.startswith("-")) if near_one else texts.pop()
    return f"{number(low)}…{number(high)}"


def place(enclosure: Enclosure | None) -> str:
    """Where an extremum is attained: a point, all points on one side of it, or – for nowhere."""
    if enclosure is None:
        return NOTHING
    low, high = enclosure.low, enclosure.high
    if low == -math.inf and high == math.inf:
        return "all"
    if low == -math.inf:
        return f"≤ {number(high)}"
    return f"≥ {number(low)}" if high == math.inf else certified(enclosure)


def number(value: float | None, digits: int = 4) -> str:
    """A number with `digits` digits, fewer if it is very large or small; – for None and NaN, ∞ for infinity."""
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return INFINITY if value > 0 else f"-{INFINITY}"
    text = f"{value + 0.0:.{digits}g}"  # adding 0 turns -0.0 into 0.0
    return text if len(text) <= digits + 4 else f"{value:.2g}"


def _dead(row: Properties) -> str:
    zone = row.dead_zones.get(DEAD_DTYPE)
    end = None if zone is None else zone.gradient_below
    return number(0.0 if end is not None and 0 < end < SUBNORMAL else end)
