"""How the rows of a benchmark are shown."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

Row = Mapping[str, Any]

_COLUMNS = {
    ("alone", "forward"): "alone,\nforward",
    ("alone", "forward_backward"): "alone, forward\nand backward",
    ("feed_forward", "forward"): "feed-forward,\nforward",
    ("feed_forward", "forward_backward"): "feed-forward,\nwith backward",
}


def plain(rows: Sequence[Row]) -> Table:
    """All fields of all rows."""
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*map(str, row.values()))
    return table


def relative(rows: Iterable[Row]) -> list[Table]:
    """A table per dtype and size: an activation per line, its time over ReLU's, and its counts when alone."""
    tables: dict[tuple[str, str], dict[str, dict[tuple[str, str], Row]]] = {}
    for row in rows:
        activations = tables.setdefault((row["dtype"], row["size"]), {})
        activations.setdefault(row["activation"], {})[row["setting"], row["pass"]] = row
    return [_relative(f"{dtype}, {size}", activations) for (dtype, size), activations in tables.items()]


def _relative(title: str, activations: Mapping[str, Mapping[tuple[str, str], Row]]) -> Table:
    first = next(itertools.chain.from_iterable(cells.values() for cells in activations.values()))
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        title=f"Time over ReLU's with 95% intervals, {title}; {first['repetitions']} repetitions on {first['device']}",
        caption="FLOPs and transcendentals per element: the compiler's counts, alone, forward / forward and backward",
    )
    table.add_column("activation", no_wrap=True)
    for heading in (*_COLUMNS.values(), "FLOPs", "transcen-\ndentals"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, cells in activations.items():
        alone = [cells["alone", passes] for passes in ("forward", "forward_backward")]
        counts = (
            " / ".join(f"{row[f'{kind}_per_element']:.0f}" for row in alone) for kind in ("flops", "transcendentals")
        )
        table.add_row(name, *(_ratio(cells[key]) for key in _COLUMNS), *counts)
    return table


def _ratio(row: Row) -> str:
    ratio, low, high = (f"{row[key]:.{2 if row[key] < 10 else 1}f}" for key in ("ratio", "ratio_low", "ratio_high"))
    return f"{ratio} ({low}-{high})"
