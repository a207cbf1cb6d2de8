"""The catalogue: activations by name. A name may carry fixed parameters: "gelu_scale(s=0.25)"."""

import dataclasses
import functools
import inspect
import math
import numbers
import os
import re
import traceback
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from actlab.activations.definition import Activation
from actlab.activations.records import RECORDS
from actlab.errors import UserError, shown, suggestion

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TEXT = re.compile(rf"\s*({_NAME.pattern})\s*(?:\((.*)\)\s*)?")
_ARGUMENT = re.compile(rf"\s*({_NAME.pattern})\s*=\s*([^\s=]+)\s*")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)

_records: dict[str, Activation] = {}
_aliases: dict[str, str] = {}


def names() -> tuple[str, ...]:
    """The names of all records, without aliases and without parameters."""
    return tuple(_records)


def register(record: Activation) -> Activation:
    """Adds an activation, for example from a config file, and returns it.

    A config file may be read twice, so the same function may be registered again under the same name; and a cell of a
    notebook may be edited and run again, so it replaces what it registered before.

    Raises:
        UserError: for a name that is not an identifier, or that another function has; for a record that contradicts its
            function; for a function that JAX cannot trace or differentiate, or whose result is no array of
            floating-point numbers of its input's shape.
    """
    if not isinstance(record, Activation):
        raise UserError(
            f"activations.register was given {shown(record)}: wrap a function in its record, "
            "activations.Activation(name, function, formula=..., source=...)."
        )
    _require_matching(record)
    require_usable(record)
    return _add(record)


def require_usable(record: Activation, width: int = 8) -> None:
    """Traces its functions with their slopes on rows of a width, so that a mistake is told before any work is done.

    Raises:
        UserError: if one fails, or returns another shape or no floating-point numbers.
    """
    keywords = {**record.parameters, **record.theta}
    functions = {"fn": functools.partial(record.fn, **keywords), "value_fn": record.value_fn}
    if (draw := record.draw) is not None:
        # Within the trace: nothing may be computed yet, where several processes are still to join.
        functions["draw"] = lambda x: draw(jax.random.key(0), x, **keywords)
    x = jax.ShapeDtypeStruct((2, width), jnp.float32)
    for field, function in functions.items():
        told = f"activation {record.name!r}: {field}"
        try:
            made = jax.eval_shape(function, x)
            if isinstance(made, jax.ShapeDtypeStruct) and jnp.issubdtype(made.dtype, jnp.floating):
                # Training goes backwards, and measurements of single units forwards.
                jax.eval_shape(lambda x, function=function: jax.vjp(function, x)[1](function(x)), x)
                forwards = jax.make_jaxpr(lambda x, function=function: jax.jvp(function, (x,), (x,)))(x)
                if "custom_lin" in str(forwards):  # which JAX refuses only where it is computed
                    raise TypeError("jax.custom_vjp has no derivative forwards, which jax.custom_jvp has")
        except Exception as error:
            file = getattr(getattr(_unwrapped(record.fn)[0], "__code__", None), "co_filename", None)
            lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
            where = f" in line {lines[-1]}" if lines else ""
            reason = str(error).partition("\n")[0].rstrip(".:")
            raise UserError(
                f"{told} fails{where} with {type(error).__name__}, {reason}: write a function of arrays in jax.numpy."
            ) from error
        if getattr(made, "shape", None) != x.shape:
            shape = f"shape {made.shape}" if hasattr(made, "shape") else type(made).__name__
            raise UserError(f"{told} returns {shape} for an array of shape {x.shape}: return one of the same shape.")
        if not jnp.issubdtype(made.dtype, jnp.floating):
            raise UserError(f"{told} returns {made.dtype} for an array of float32: return floating-point numbers.")


def _require_matching(record: Activation) -> None:
    """Refuses numbers that the record and the function state differently: either may be used."""
    told = f"activation {record.name!r}"
    try:
        known = inspect.signature(record.fn).parameters
    except (TypeError, ValueError):  # of a function that is not written in Python
        known = {}
    if isinstance(record.aliases, str):
        raise UserError(f"{told}: aliases={record.aliases!r} is a text: write a tuple, ({record.aliases!r},).")
    if both := record.parameters.keys() & record.theta.keys():
        raise UserError(f"{told}: {min(both)} is a parameter and trained too: keep it in one of parameters and theta.")
    if unknown := record.domain.keys() - record.parameters.keys():
        raise UserError(f"{told}: domain has {min(unknown)}, which is no parameter: correct the name.")
    for field in ("parameters", "theta"):
        for name, value in getattr(record, field).items():
            if not isinstance(value, numbers.Real) or not math.isfinite(value):
                raise UserError(f"{told}: {field} has {name}={value!r}: give a finite number.")
            if name not in known:
                continue  # the call fails, and is told
            default = known[name].default
            if default is inspect.Parameter.empty or float(default) != float(value):
                has = "no default" if default is inspect.Parameter.empty else f"the default {default:g}"
                raise UserError(
                    f"{told}: {field} has {name}={value:g}, for which fn has {has}: give it the same, {name}={value:g}."
                )
    for name, value in record.parameters.items():
        low, high = record.domain.get(name, (-math.inf, math.inf))
        if not low <= value <= high:
            raise UserError(f"{told}: {name}={value:g} is outside its own domain, {low:g} to {high:g}: correct one.")


def _add(record: Activation) -> Activation:
    for name in (record.name, *record.aliases):
        if not _NAME.fullmatch(name):
            raise UserError(f"activation name {name!r} is malformed: use letters, digits and underscores.")
        taken = _records.get(_aliases.get(name, name))
        if taken is not None and _place(taken) != _place(record):
            raise UserError(f"activation name {name!r} is taken by {taken.source}: choose another.")
    _records[record.name] = record
    _aliases.update(dict.fromkeys(record.aliases, record.name))
    _get.cache_clear()
    return record


def is_built_in(text: str) -> bool:
    """Whether a name, with or without parameters, comes with actlab; raises UserError like `get`."""
    record = get(text.partition("(")[0])
    return any(record is known for known in RECORDS)


def _place(record: Activation) -> Any:
    """What tells two functions apart: file, line, bound arguments, and numbers and texts of the function around it.

    A file that is read again makes new objects.
    """
    fn, arguments = _unwrapped(record.fn)
    code = getattr(fn, "__code__", None)
    if code is None:
        return (record.name, record.fn)
    if not os.path.isfile(code.co_filename):
        return (record.name, "a cell of a notebook")  # which has another name each time that it is run or edited
    around = inspect.getclosurevars(fn).nonlocals if fn.__closure__ else {}
    set_there = sorted((name, value) for name, value in around.items() if isinstance(value, (numbers.Real, str)))
    return (record.name, os.path.realpath(code.co_filename), code.co_firstlineno, arguments, set_there)


def _unwrapped(fn: Any) -> tuple[Any, tuple[Any, ...]]:
    """The function that a user wrote, and the arguments that were bound to it."""
    fn = inspect.unwrap(fn)
    if not isinstance(fn, functools.partial):
        return fn, ()
    return inspect.unwrap(fn.func), (fn.args, *sorted(fn.keywords.items()))


def get(text: str, field: str = "config.model.activation") -> Activation:
    """The record of a name, of an alias, or of a name with parameters: get("celu(alpha=2)").

    Parameters are set in the record's `fn`, `draw`, `parameters` and `name`. Errors name `field`.

    Raises:
        UserError: for an unknown name, with the nearest, and for parameters that are malformed, missing, unknown,
            given twice or out of their domain.
    """
    if not isinstance(text, str):
        raise UserError(f"{field or 'activation'}={shown(text)} is not a text: write a name, such as 'gelu'.")
    return _get(text, field)


@functools.cache
def _get(text: str, field: str) -> Activation:
    field = f"{field}={text!r}" if field else repr(text)
    match = _TEXT.fullmatch(text)
    if match is None:
        raise UserError(f"{field} is malformed: write a name, or a name with parameters like 'gelu_scale(s=0.25)'.")
    name, arguments = match.groups()
    record = _records.get(_aliases.get(name, name))
    if record is None:
        near = suggestion(name, [*_records, *_aliases])
        raise UserError(f"unknown activation {field}: {near} actlab.activations.register adds one of your own.")
    return record if arguments is None else _with(record, _parse(arguments, record, field), field)


def _parse(arguments: str, record: Activation, field: str) -> dict[str, float]:
    if not record.parameters:
        raise UserError(f"{field} has parameters, but {record.name} takes none: write {record.name!r}.")
    example = f"{record.name}({', '.join(f'{name}={value:g}' for name, value in record.parameters.items())})"
    values: dict[str, float] = {}
    for argument in arguments.split(","):
        match = _ARGUMENT.fullmatch(argument)
        if match is None:
            raise UserError(f"{field} is malformed at {argument.strip()!r}: write it like {example!r}.")
        name, value = match.groups()
        if name not in record.parameters:
            raise UserError(f"{field}: unknown parameter {name!r}: {suggestion(name, record.parameters)}")
        if name in values:
            raise UserError(f"{field} gives {name!r} twice: give it once.")
        values[name] = _number(value, f"{field}: {name}={value}")
    return values


def _number(text: str, field: str) -> float:
    if _NUMBER.fullmatch(text) is None and _NOT_FINITE.fullmatch(text) is None:
        raise UserError(f"{field} is not a number: give one like 0.25.")
    value = float(text)
    if not math.isfinite(value):
        raise UserError(f"{field} is not a finite number: give one.")
    return value


def _with(record: Activation, values: Mapping[str, float], field: str) -> Activation:
    parameters = {**record.parameters, **values}
    arguments = ", ".join(f"{name}={value!r}" for name, value in parameters.items())
    for name, value in values.items():
        low, high = record.domain.get(name, (-math.inf, math.inf))
        if not low <= value <= high:
            raise UserError(
                f"{field}: {name}={value:g} of {record.name} is out of range: give one from {low:g} to {high:g}."
            )
    return dataclasses.replace(
        record,
        name=f"{record.name}({arguments})",
        fn=functools.partial(record.fn, **parameters),
        draw=record.draw and functools.partial(record.draw, **parameters),
        parameters=parameters,
        aliases=(),
    )


for _record in RECORDS:
    _add(_record)
