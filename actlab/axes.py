"""The axes of a sweep: fields and the values they take, {"seed": (1, 2), "optimizer.learning_rate": (1e-3, 3e-3)}.

Axes multiply. Fields that move together share one axis, its values rows:
{"train.n_steps, optimizer.warmup_steps": ((1600, 0), (1600, 32))}.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from actlab import checks
from actlab.errors import UserError, suggestion

Axis = tuple[str, tuple[Any, ...]]
Entries = Mapping[str, dataclasses.Field[Any]]
# The runs of a sweep read the same text, so that their losses can be compared; where it lies is no axis.
SHARED = (
    "data.name",
    "data.dir",
    "data.tokenizer",
    "data.packing",
    "data.mask_fraction",
    "data.n_stories",
    "finetune.task",
)


def paths(key: str) -> tuple[str, ...]:
    """The fields of an axis."""
    return tuple(path.strip() for path in key.split(","))


def rows(axis: Axis) -> tuple[tuple[Any, ...], ...]:
    """The values of an axis, each as one value per field of it."""
    key, values = axis
    return values if len(paths(key)) > 1 else tuple((value,) for value in values)


def parse(sweep: Any, entries: Entries) -> tuple[Axis, ...]:
    """The axes of `config.sweep`, a mapping or pairs, every value checked against the schema's `entries`.

    Raises:
        UserError: for an unknown field, one that a sweep must share or that is named twice, an axis without values,
            a row of another length than its fields, a value given twice or one that its field does not take.
    """
    if not isinstance(sweep, Mapping | Sequence) or isinstance(sweep, str):
        raise UserError(f"config.sweep={sweep!r} must map fields to lists of values, as {{'seed': (1, 2)}}.")
    pairs = sweep.items() if isinstance(sweep, Mapping) else sweep
    axes = tuple(_axis(key, values, entries) for key, values in pairs)
    seen: set[str] = set()
    for path in (path for key, _ in axes for path in paths(key)):
        if path in seen:
            raise UserError(f"config.sweep names {path!r} twice: give each field one axis.")
        seen.add(path)
    return axes


def _axis(key: Any, values: Any, entries: Entries) -> Axis:
    where = f"config.sweep[{key!r}]"
    if not isinstance(key, str):
        raise UserError(f"{where} names no field: give the path of one as text, as 'seed'.")
    for path in paths(key):
        if path not in entries:
            raise UserError(f"{where}: {path!r} is no field: {suggestion(path, entries)}")
        if path in SHARED or path.startswith(("devices.", "log.")):
            raise UserError(f"{where}: the runs of a sweep share {path}: run the sweep once for each value.")
    if not isinstance(values, list | tuple) or not values:
        raise UserError(f"{where}={values!r} must be a list of at least one value.")
    if len(paths(key)) > 1:
        checked = tuple(_row(key, row, entries) for row in values)
    else:
        checked = tuple(checks.checked(entries[key.strip()], value, where) for value in values)
    for index, value in enumerate(checked):
        if value in checked[:index]:
            raise UserError(f"{where} has {value!r} twice: give each value once.")
    return ", ".join(paths(key)), checked


def _row(key: str, row: Any, entries: Entries) -> tuple[Any, ...]:
    where, fields = f"config.sweep[{key!r}]", paths(key)
    if not isinstance(row, list | tuple) or len(row) != len(fields):
        raise UserError(f"{where}: {row!r} must hold {len(fields)} values, one for each field.")
    return tuple(
        checks.checked(entries[path], value, f"{where} ({path})") for path, value in zip(fields, row, strict=True)
    )
