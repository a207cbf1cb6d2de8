"""What other viewers show of a row of metrics.jsonl: names and numbers."""

import math

from actlab.training.rows import Row

_NO_SCALARS = ("run", "step", "split", "status", "seconds")


def scalars(row: Row) -> dict[str, float]:
    """SPLIT/FIELD -> value, NaN for what is not finite, which the file has as null."""
    return {f"{row['split']}/{name}": _number(value) for name, value in row.items() if name not in _NO_SCALARS}


def _number(value: float | None) -> float:
    return math.nan if value is None or not math.isfinite(value) else float(value)
