"""What values a field of the schema takes: its default, unit and bounds, and the check of one value."""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal

from actlab.errors import UserError, suggestion


def field(
    default: Any,
    why: str,
    *,
    unit: str = "",
    low: int | float | None = None,
    above: int | float | None = None,
    high: int | float = math.inf,
) -> Any:
    """A schema field: its default, what it is for, its unit, the bounds it must keep (`above` excludes its bound)."""
    return dataclasses.field(
        default=default, metadata={"why": why, "unit": unit, "low": low, "above": above, "high": high}
    )


def types_of(entry: dataclasses.Field[Any]) -> tuple[type, ...]:
    """Concrete types a field takes, NoneType last where it is optional; a Literal is a str."""
    if isinstance(entry.type, types.UnionType):
        return typing.get_args(entry.type)
    return (str,) if typing.get_origin(entry.type) is Literal else (typing.cast(type, entry.type),)


def checked(entry: dataclasses.Field[Any], value: Any, path: str) -> Any:
    """The value of a field, an int made a float where the field is one.

    Raises:
        UserError: for a wrong type, a value that is no choice, is not finite or is out of bounds.
    """
    allowed = types_of(entry)
    if float in allowed and type(value) is int:
        value = float(value)
    if type(value) not in allowed:
        names = " or ".join("None" if kind is types.NoneType else kind.__name__ for kind in allowed)
        raise UserError(f"{path}={value!r} has type {type(value).__name__}, but the field takes {names}.")
    choices = typing.get_args(entry.type) if typing.get_origin(entry.type) is Literal else ()
    if choices and value not in choices:
        raise UserError(f"{path}={value!r} is not one of its choices: {suggestion(value, choices)}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        _check_bounds(entry.metadata, value, path)
    return value


def _check_bounds(bounds: Mapping[str, Any], value: int | float, path: str) -> None:
    if not math.isfinite(value):
        raise UserError(f"{path}={value!r} is not a finite number: give one.")
    if bounds["low"] is not None and value < bounds["low"]:
        raise UserError(f"{path}={value!r} is too small: the least it takes is {bounds['low']:g}.")
    if bounds["above"] is not None and value <= bounds["above"]:
        raise UserError(f"{path}={value!r} must be greater than {bounds['above']:g}.")
    high = min(bounds["high"], 2**31 - 1) if isinstance(value, int) else bounds["high"]  # int32 in the program
    if value > high:
        raise UserError(f"{path}={value!r} is too large: the most it takes is {high:g}.")
