"""Conversions of a config: a ConfigDict, nested dicts, dotted paths and JSON, and its fingerprint."""

import dataclasses
import json
import pathlib
import typing
from collections.abc import Mapping
from typing import Any

from ml_collections import config_dict

from actlab.config import rules
from actlab.config.schema import Config, Role, fields, get, key_of, paths
from actlab.errors import UserError, shown
from actlab.files import digest, parse_json, read_json

_FIX = "restore it, or name another"


def default() -> config_dict.ConfigDict:
    """The schema's defaults, for a config file to change.

    Nothing is checked before from_mapping, which finds unknown fields and wrong types.
    """
    sections = {
        name: config_dict.ConfigDict(value, type_safe=False) if isinstance(value, dict) else value
        for name, value in nested(Config()).items()
    }
    # The fields of a sweep have dots, which a ConfigDict does not allow in keys: the sweep stays a plain dict.
    return config_dict.ConfigDict({**sections, "sweep": {}}, type_safe=False, convert_dict=False)


def from_mapping(values: Mapping[str, Any]) -> Config:
    """A validated Config from nested mappings that hold exactly the fields of the schema.

    Raises:
        UserError: for an unknown or missing field, a wrong type, a value out of bounds, or contradictory fields.
    """
    config = _build(Config, values, "")
    rules.check(config)
    return config


def _build(schema: type, values: Mapping[str, Any], prefix: str) -> Any:
    names = [key_of(entry) for entry in dataclasses.fields(schema)]
    for name in values:
        if name not in names:
            raise UserError(rules.unknown(f"{prefix}{name}", {*fields(), *(f"{prefix}{one}" for one in names)}))
    built = {}
    for entry in dataclasses.fields(schema):
        path = f"{prefix}{key_of(entry)}"
        if key_of(entry) not in values:
            is_section = dataclasses.is_dataclass(entry.type)
            example = "with its fields" if is_section else f"for example {entry.default!r}"
            raise UserError(f"config.{path} is missing: add it, {example}.")
        value = values[key_of(entry)]
        if dataclasses.is_dataclass(entry.type):
            if not isinstance(value, Mapping):
                raise UserError(f"config.{path}={shown(value)} must hold fields, not a single value.")
            built[entry.name] = _build(typing.cast(type, entry.type), value, f"{path}.")
        elif path == "sweep":
            built[entry.name] = rules.parse_sweep(value)
        else:
            built[entry.name] = rules.checked(entry, value, f"config.{path}")
    return schema(**built)


def nested(node: Any) -> dict[str, Any]:
    """Nested dicts of a config, or of a section."""
    values = {key_of(entry): getattr(node, entry.name) for entry in dataclasses.fields(node)}
    return {key: nested(value) if dataclasses.is_dataclass(value) else value for key, value in values.items()}


def flat(config: Config) -> dict[str, Any]:
    """Dotted path -> value, in the order of the schema."""
    return {path: get(config, path) for path in fields()}


def replace(config: Config, **changes: Any) -> Config:
    """A copy with some fields changed, and validated again: replace(config, **{"model.activation": "relu"}).

    Raises:
        UserError: as from_mapping.
    """
    return from_mapping(changed(nested(config), changes))


def changed(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of nested mappings with fields, named by dotted paths, changed.

    Raises:
        UserError: for an unknown field.
    """
    result = dict(values)
    for path, value in changes.items():
        rules.require_path(path)
        *sections, leaf = path.split(".")
        node = result
        for section in sections:
            if section not in node:
                raise UserError(f"config.{path} cannot be set, because the config has no {section}: add that section.")
            if not isinstance(node[section], Mapping):
                raise UserError(
                    f"config.{path} cannot be set, because {section}={shown(node[section])} holds no fields."
                )
            node[section] = dict(node[section])
            node = node[section]
        node[leaf] = value
    return result


def to_json(config: Config) -> str:
    """Every field, resolved, as indented JSON."""
    return json.dumps({**nested(config), "sweep": dict(config.sweep)}, indent=2) + "\n"


def from_json(text: str) -> Config:
    """The inverse of to_json; raises UserError as from_mapping, also for text that is not JSON.

    A workdir of an earlier version lacks the fields that were added later: each takes its default, which is what the
    earlier version did. Unknown fields are refused, and so is a file without the sections that every version had.
    """
    return _from_object(parse_json(text, "the file", _FIX))


def _from_object(values: Mapping[str, Any]) -> Config:
    defaults = {**nested(Config()), "sweep": {}}
    for entry in dataclasses.fields(Config):
        if entry.name not in values and "original" in entry.metadata["roles"]:
            del defaults[entry.name]
    return from_mapping(_completed(defaults, values))


def _completed(defaults: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """`values`, with `defaults` for what is missing, also in inner mappings but for the sweep's."""
    inner = {
        name: _completed(default, values[name])
        for name, default in defaults.items()
        if name in values and default and isinstance(default, Mapping) and isinstance(values[name], Mapping)
    }
    return {**defaults, **values, **inner}


def load(path: pathlib.Path) -> Config:
    """The config of a workdir's config.json; raises UserError as from_json, with the path."""
    values = read_json(path, _FIX)
    try:
        return _from_object(values)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def fingerprint(config: Config, *, but: tuple[Role, ...] = ("external",)) -> str:
    """SHA-256, in hex, of the fields that are not at their defaults, but for those of some roles.

    So a field that a later version adds, at the default that is what this version does, changes no fingerprint.
    """
    defaults = flat(Config())
    own = {path: value for path, value in flat(config).items() if not fields()[path].metadata["roles"] & set(but)}
    identity = {path: value for path, value in own.items() if value != defaults.get(path)}
    return digest(identity)


def first_difference(ours: Config, theirs: Config) -> str | None:
    """The first field, in the order of the schema, that differs; None if the two can be the same run.

    A field that ours leaves open, to be resolved once the data or the origin is known, does not differ.
    """
    for path, value in flat(ours).items():
        other = get(theirs, path)
        if path not in paths("external") and value != other and not _can_become(ours, path, other):
            return path
    return None


def _can_become(config: Config, path: str, value: Any) -> bool:
    """Whether a field that the config leaves open can be resolved to that value."""
    if path == "data.name":
        return config.data.name == "auto"
    if path == "model.vocab_size":
        return config.model.vocab_size is None
    if config.finetune.from_checkpoint and path.startswith("model.") and get(config, path) is None:
        return True  # its origin's
    return path == "model.d_ff" and config.model.d_ff is None and value == 4 * config.model.d_model
