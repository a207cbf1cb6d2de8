"""The table of properties, a line for each activation."""

import math
from collections.abc import Callable, Iterable

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from actlab.activations.proofs.bounds import Enclosure
from actlab.activations.proofs.moments import Moments
from actlab.activations.properties import Properties, properties

NOTHING, INFINITY = "–", "∞"
DECIMALS = 5
DEAD_DTYPE = "bfloat16"
_SMALLEST_NORMAL = 2.0**-126

COLUMNS: dict[str, Callable[[Properties], str]] = {
    "name": lambda row: row.name,
    "inf f": lambda row: bound(row.minimum, row.proven),
    "at": lambda row: place(row.minimum_at, row.proven),
    "inf f'": lambda row: bound(row.slope_infimum, row.proven),
    "sup f'": lambda row: bound(row.slope_supremum, row.proven),
    "sup\n|f''|": lambda row: bound(row.curvature_supremum, row.proven),
    "limits": lambda row: ", ".join(marked(number(end, 3), row.proven) for end in (row.limit_left, row.limit_right)),
    "mean": lambda row: moment(row, mean(row)),
    "var": lambda row: moment(row, row.variance),
    "kurt": lambda row: moment(row, row.kurtosis),
    "gain\nfwd": lambda row: moment(row, row.forward_gain),
    "gain\nbwd": lambda row: moment(row, row.backward_gain),
    "f' < 0": lambda row: marked(f"{100 * row.negative_slope_share:.1f}%", not row.sampled),
    "dead\nbelow": lambda row: _dead(row),
}
LEGEND = (
    "inf f, at, inf f', sup f', sup |f''|: over all x, certified but for ≈; only certain digits are shown, exact "
    "numbers without trailing zeros; – under at means a limit at ±∞; impulses of f'' at kinks are excluded. limits: "
    "f at -∞ and +∞. mean, var(iance), kurt(osis): of f(z) for z from N(0, {scale:g}²). gain fwd g: weights of "
    "variance g²/fan_in after f preserve the second moment of z; gain bwd: the same for gradients. f' < 0: the share "
    "of z. dead below: in {dtype} the gradient is exactly 0 from here down, as measured. Gated h = f(z) v: bounds, "
    "f' < 0 and dead below of f, the rest of h. Trained scalars have their initial values."
)
MEASURED = (
    "measured and not proven, because the activation has no exact formula. Bounds and limits were read on a grid of "
    "float32 numbers, 2,048 per unit from -32 to 32 and 64 per doubling up to 131,072; moments and gains are sums over "
    "262,144 float32 values, good to about 4 digits."
)


def of(names: Iterable[str], scale: float) -> Group:
    """The table of these activations for inputs of N(0, scale^2), with its legend; it fits 120 characters.

    Raises:
        UserError: a name is unknown, or the scale is out of range.
    """
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    for heading in COLUMNS:
        left = heading == "name"
        table.add_column(heading, justify="left" if left else "right", overflow="fold", no_wrap=not left)
    legend = "\n" + LEGEND.format(scale=scale, dtype=DEAD_DTYPE)
    for name in names:
        row = properties(name, scale)
        table.add_row(*(cell(row) for cell in COLUMNS.values()))
        if not (row.proven or legend.endswith(MEASURED)):
            legend = f"{legend} ≈: {MEASURED}"
    return Group(table, Text(legend))


def marked(text: str, certain: bool) -> str:
    """A number that was measured and not proven has the mark ≈; – stays –."""
    return text if certain or text == NOTHING else f"≈{text}"


def bound(enclosure: Enclosure, proven: bool = True) -> str:
    """A bound: its certain digits where it is proven, else what was found, with its mark."""
    if proven:
        return certified(enclosure)
    ends = dict.fromkeys(number(end) for end in (enclosure.low, enclosure.high))
    return marked("…".join(ends), proven)


def mean(of: Moments) -> float:
    """The mean, 0 where it is the rounding of one."""
    return of.mean if of.mean**2 > 1e-18 * of.second_moment else 0.0


def moment(row: Moments, value: float) -> str:
    """A moment or gain of the row, with a mark if it was sampled."""
    return marked(number(value), not row.sampled)


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


def place(enclosure: Enclosure | None, proven: bool = True) -> str:
    """Where an extremum is attained: a point, all points on one side of it, or – for nowhere."""
    if enclosure is None:
        return NOTHING
    low, high = enclosure.low, enclosure.high
    if low == -math.inf and high == math.inf:
        return "all"
    if low == -math.inf:
        return f"≤ {marked(number(high), proven)}"
    return f"≥ {marked(number(low), proven)}" if high == math.inf else bound(enclosure, proven)


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
    return number(None if zone is None else flushed(zone.gradient_below))


def flushed(end: float | None) -> float | None:
    """The end of a dead zone; 0 where all that is not dead is too small for hardware that flushes to 0."""
    return 0.0 if end is not None and 0 < end < 2 * _SMALLEST_NORMAL else end
