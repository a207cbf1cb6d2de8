"""The bridge between what users edit, a ConfigDict, and what the package reads, a frozen Config of the one schema."""

import dataclasses
import hashlib
import json
import keyword
import pathlib
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from ml_collections import config_dict

from actlab import axes, checks, relations
from actlab.errors import UserError, suggestion
from actlab.schema import (
    CLASSES,
    Config,
    DataConfig,
    DevicesConfig,
    FinetuneConfig,
    LogConfig,
    ModelConfig,
    OptimizerConfig,
    SwapConfig,
    TrainConfig,
)

__all__ = [
    "CLASSES",
    "Config",
    "DataConfig",
    "DevicesConfig",
    "FinetuneConfig",
    "LogConfig",
    "ModelConfig",
    "OptimizerConfig",
    "SwapConfig",
    "TrainConfig",
    "default",
    "fields",
    "fingerprint",
    "first_difference",
    "flat",
    "from_json",
    "from_mapping",
    "replace",
    "require_path",
    "to_config_dict",
    "to_json",
]

OLDEST = ("seed", "model", "optimizer", "data", "train")  # what config.json has had from the first version on

# Where the data lies, where the program runs and who looks on change nothing of what is computed, but for the order of
# its sums.
NOT_IDENTITY = (
    "data.dir",
    *(f"devices.{entry.name}" for entry in dataclasses.fields(DevicesConfig)),
    *(f"log.{entry.name}" for entry in dataclasses.fields(LogConfig)),
)


def fields(schema: type = Config, prefix: str = "") -> Iterator[tuple[str, dataclasses.Field[Any]]]:
    """All leaf fields with their dotted paths, in the order of the schema."""
    for entry in dataclasses.fields(schema):
        if dataclasses.is_dataclass(entry.type):
            yield from fields(typing.cast(type, entry.type), f"{prefix}{_key(entry)}.")
        else:
            yield prefix + _key(entry), entry


def default() -> config_dict.ConfigDict:
    """The schema's defaults as a locked ConfigDict, for a config file to override."""
    return to_config_dict(Config())


def to_config_dict(config: Config) -> config_dict.ConfigDict:
    """A config as a locked ConfigDict, the inverse of from_mapping."""
    return _to_config_dict(config).lock()


def from_mapping(values: Mapping[str, Any]) -> Config:
    """A validated Config from nested mappings that hold exactly the schema's fields.

    Raises:
        UserError: for an unknown or missing field, a wrong type, a value out of bounds or fields at odds.
    """
    config = _build(Config, values, "")
    relations.check(config)
    return config


def flat(config: Config) -> dict[str, Any]:
    """Dotted path -> value, in the order of the schema."""
    return {path: _get(config, path) for path, _ in fields()}


def replace(config: Config, **changes: Any) -> Config:
    """A copy with dotted fields changed: replace(c, **{"model.activation": "relu"}); validated again.

    Raises:
        UserError: as from_mapping.
    """
    values = _nested(config)
    for path, value in changes.items():
        require_path(path)
        *parents, leaf = path.split(".")
        node = values
        for parent in parents:
            node = node[parent]
        node[leaf] = value
    return from_mapping(values)


def require_path(path: str) -> None:
    """Raises UserError, with the nearest valid path, unless `path` names a field."""
    valid = [known for known, _ in fields()]
    if path not in valid:
        raise UserError(f"config.{path} is no field: {suggestion(path, valid)}")


def to_json(config: Config) -> str:
    """Every field, resolved, as indented JSON."""
    return json.dumps({**_nested(config), "sweep": dict(config.sweep)}, indent=2) + "\n"


def from_json(text: str) -> Config:
    """The inverse of to_json; raises UserError as from_mapping, also for text that is not JSON.

    A workdir of an earlier version lacks the fields that came later: each takes its default, which is what was done
    before it came. Fields that are known no more are refused, and so is a file without the sections every version had.
    """
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"the file is not JSON ({error}): restore it or take another workdir.") from error
    if not isinstance(values, Mapping):
        raise UserError("the file must be an object of fields: restore it or take another workdir.")
    defaults = {**_nested(Config()), "sweep": {}}
    later = {name: default for name, default in defaults.items() if name in values or name not in OLDEST}
    return from_mapping(_completed(later, values))


def load(path: pathlib.Path) -> Config:
    """The config of a workdir's config.json; raises UserError as from_json, with the path."""
    try:
        return from_json(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: give the path of a config file.") from error
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def _completed(defaults: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """`values`, with `defaults` for what is not there."""
    inner = {
        name: _completed(default, values[name])
        for name, default in defaults.items()
        if default and isinstance(default, Mapping) and isinstance(values.get(name), Mapping)
    }
    return {**defaults, **values, **inner}


def fingerprint(config: Config) -> str:
    """SHA-256, in hex, over all fields that are part of a run's identity."""
    identity = {path: value for path, value in flat(config).items() if path not in NOT_IDENTITY}
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def first_difference(ours: Config, theirs: Config) -> str | None:
    """The first field, in the order of the schema, that differs; None if the two can be the same run.

    A field that ours leaves open, to be resolved once the data or the origin is known, does not differ.
    """
    for path, value in flat(ours).items():
        if path not in NOT_IDENTITY and value != _get(theirs, path) and not _can_become(ours, path, _get(theirs, path)):
            return path
    return None


def _can_become(config: Config, path: str, value: Any) -> bool:
    """Whether a field that the config leaves open can be resolved to that value."""
    if path == "data.name":
        return config.data.name == "auto"
    if path == "model.vocab_size":
        return config.model.vocab_size is None
    if path in ("model.d_ff", "model.d_hidden") and config.finetune.from_checkpoint:
        return _get(config, path) is None
    return path == "model.d_ff" and config.model.d_ff is None and value == 4 * config.model.d_model


def _get(config: Any, path: str) -> Any:
    for name in path.split("."):
        config = getattr(config, f"{name}_" if keyword.iskeyword(name) else name)
    return config


def _key(entry: dataclasses.Field[Any]) -> str:
    """A field's name for the user: from_ is `from`, a word that Python keeps for itself."""
    return entry.name.removesuffix("_")


def _nested(node: Any) -> dict[str, Any]:
    values = {_key(entry): getattr(node, entry.name) for entry in dataclasses.fields(node)}
    return {key: _nested(value) if dataclasses.is_dataclass(value) else value for key, value in values.items()}


def _to_config_dict(node: Any) -> config_dict.ConfigDict:
    # A sweep's fields have dots, which a ConfigDict refuses; finetune.swap may be set to a dictionary.
    result = config_dict.ConfigDict(convert_dict=not isinstance(node, Config))
    for entry in dataclasses.fields(node):
        value = getattr(node, entry.name)
        if dataclasses.is_dataclass(value):
            result[_key(entry)] = _to_config_dict(value)
        elif entry.name == "sweep":
            result[entry.name] = dict(value)
        elif value is None:
            # A plain None could not be overridden from the command line.
            result[_key(entry)] = config_dict.placeholder(checks.types_of(entry)[0])
        else:
            result[_key(entry)] = value
    return result


def _build(schema: type, values: Mapping[str, Any], prefix: str) -> Any:
    names = [_key(entry) for entry in dataclasses.fields(schema)]
    for name in values:
        if name not in names:
            raise UserError(f"config.{prefix}{name} is no field: {suggestion(name, names)}")
    built = {}
    for entry in dataclasses.fields(schema):
        key = _key(entry)
        if key not in values:
            raise UserError(f"config.{prefix}{key} is missing: add it, for example {entry.default!r}.")
        value = values[key]
        if dataclasses.is_dataclass(entry.type):
            if not isinstance(value, Mapping):
                raise UserError(f"config.{prefix}{key}={value!r} must hold fields, not a single value.")
            built[entry.name] = _build(typing.cast(type, entry.type), value, f"{prefix}{key}.")
        elif entry.name == "sweep":
            built[entry.name] = axes.parse(value, {path: known for path, known in fields() if path != "sweep"})
        else:
            built[entry.name] = checks.checked(entry, value, f"config.{prefix}{key}")
    return schema(**built)
