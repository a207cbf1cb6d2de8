"""The flag --config and its overrides, parsed against the schema.

--config=configs/seed_study.py:small runs a file's get_config("small"). --config=runs/x/config.json reads values only.
Overrides, --config.seed=2, come on top of either, in any order. --config.sweep.seed=1,2,3 sets an axis of the sweep,
which other axes of the file join.
"""

import dataclasses
import math
import pathlib
import re
import types
from collections.abc import Callable, Sequence
from typing import Any

from ml_collections import config_dict

from actlab.config import convert, rules, sweep, user_code
from actlab.config.schema import Config, fields, types_of
from actlab.errors import UserError
from actlab.files import at_colon

_FLAG = re.compile(r"--?(?P<no>no)?config(?:\.(?P<path>[^=]*))?(?P<given>=(?P<value>.*))?", re.DOTALL)
_SWEEP = "sweep."  # begins the path of an axis on the command line
COMMAS = re.compile(r",(?![^()]*\))")  # between values; those within parentheses separate an activation's parameters
_BOOLEANS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


@dataclasses.dataclass(frozen=True)
class Request:
    """What a command line asks for: the config, the text of --config, and the fields that overrides set."""

    config: Config
    source: str
    overridden: frozenset[str]

    @property
    def label(self) -> str:
        """The name of the config file without its preset, which the fingerprint of a default workdir tells apart."""
        return pathlib.Path(at_colon(self.source)[0]).stem

    @property
    def code(self) -> str:
        """The config file with its preset, if it is Python and not JSON; else empty."""
        return "" if _is_json(self.source) else self.source


def split(words: Sequence[str]) -> tuple[str | None, list[tuple[str, str | None]], list[str]]:
    """(the value of --config, the overrides as written, all other words) of a command line.

    Flags have one or two dashes, and `=` or the next word for their value. A bare boolean has the value None,
    `--noconfig.FIELD` the value "false". The words from a bare `--` on are others.

    Raises:
        UserError: for --config without a value, and --noconfig with a field that is not boolean.
    """
    source: str | None = None
    overrides: list[tuple[str, str | None]] = []
    others: list[str] = []
    rest = list(words)
    while rest and rest[0] != "--":
        word = rest.pop(0)
        match = _FLAG.fullmatch(word)
        if match is None or (match["path"] is None and match["no"]):
            others.append(word)
            continue
        path, value = match["path"], match["value"]
        boolean = path in fields() and bool in types_of(fields()[path])
        if match["no"]:
            if path and path.startswith(_SWEEP):
                raise UserError(f"{word}: an axis has values: write --config.{path}=true,false.")
            if path in fields() and not (boolean and value is None):
                raise UserError(
                    f"{word}: --noconfig is for boolean fields, without a value: write --config.{path}=VALUE."
                )
            value = "false"
        elif value is None and not boolean and rest and (path is None or path.removeprefix(_SWEEP) in fields()):
            # As in absl, a boolean never takes the next word. A misspelt field takes none: it is refused by its name.
            if rest[0].startswith("--"):
                raise UserError(f"{word} needs a value, and {rest[0]} is a flag: write {word}=VALUE.")
            value = rest.pop(0)
        if path is not None:
            overrides.append((path, value))
        elif value is None:
            raise UserError("--config needs a value: for example --config=configs/tinystories_gelu.py:small.")
        else:
            source = value
    return source, overrides, others + rest


def read(
    source: str | None,
    overrides: Sequence[tuple[str, str | None]],
    default: Callable[[], config_dict.ConfigDict] | None = None,
) -> Request:
    """The config that a --config names, or the default, with overrides on top, validated.

    Overrides are checked before the file is read. Running a file registers its activations.

    Raises:
        UserError: if --config is missing, its file cannot be read or fails, or the config is not valid.
    """
    if source is None and default is None:
        raise UserError("--config is missing: for example --config=configs/tinystories_gelu.py:small.")
    changes = dict(_parsed(path, text) for path, text in overrides if not path.startswith(_SWEEP))
    axes = dict(_axis(path, text) for path, text in overrides if path.startswith(_SWEEP))
    if source is None:
        assert default is not None
        source, values = "", default().to_dict()
    elif _is_json(source):
        file, colon, preset = at_colon(source)
        if colon:
            raise UserError(
                f"--config={source}: a JSON file has no presets: leave :{preset} out. A file that registers an "
                "activation is named by --activations=FILE."
            )
        values = convert.nested(convert.load(pathlib.Path(file)))
    else:
        values = _run(source)
    values = convert.changed(values, changes)
    if axes:
        values["sweep"] = {**dict(rules.parse_sweep(values.get("sweep", {}))), **axes}
    return Request(convert.from_mapping(values), source, frozenset(changes))


def require_effect(request: Request) -> None:
    """Raises UserError for an override of a field that the config sweeps, which would change nothing."""
    for path in sorted(request.overridden & sweep.swept(request.config)):
        raise UserError(
            f"--config.{path} changes nothing, because the config sweeps it: take one run with --run=NAME, or change "
            "the sweep."
        )


def _is_json(source: str) -> bool:
    return at_colon(source)[0].endswith(".json")


def _parsed(path: str, text: str | None, within: str = "") -> tuple[str, Any]:
    """The field and value of an override, or of one value of an axis: `within` is then `sweep.`."""
    rules.require_path(path)
    if path == "sweep":
        raise UserError("config.sweep is set an axis at a time: write --config.sweep.seed=1,2,3, for example.")
    entry = fields()[path]
    allowed = types_of(entry)
    if text is None and bool not in allowed:
        raise UserError(f"--config.{within}{path} needs a value: write --config.{within}{path}=VALUE.")
    try:
        value = True if text is None else _value(text, allowed)
    except (ValueError, KeyError, OverflowError) as error:
        wanted = "true or false" if bool in allowed else "a whole number" if int in allowed else "a number"
        more = " or None" if types.NoneType in allowed else ""
        each = f", or train each with --config.{_SWEEP}{path}={text}" if "," in str(text) and not within else ""
        raise UserError(f"--config.{within}{path}={text} has the wrong type: give {wanted}{more}{each}.") from error
    return path, rules.checked(entry, value, f"config.{path}")


def _axis(path: str, text: str | None) -> tuple[str, tuple[Any, ...]]:
    """The field of an axis and its values, of --config.sweep.FIELD=VALUE,VALUE."""
    name = path.removeprefix(_SWEEP)
    rules.require_path(name)
    if not text:
        raise UserError(f"--config.{path} needs values, separated by commas: write --config.{path}=VALUE,VALUE.")
    given = [one.strip() for one in COMMAS.split(text)]
    if "" in given:
        raise UserError(f"--config.{path}={text} has an empty value: remove the extra comma.")
    return name, tuple(_parsed(name, one, _SWEEP)[1] for one in given)


def _value(text: str, allowed: tuple[type, ...]) -> Any:
    if types.NoneType in allowed and text.lower() == "none":
        return None
    if bool in allowed:
        return _BOOLEANS[text.lower()]
    if int in allowed:
        return _whole(text)
    return float(text) if float in allowed else text


def _whole(text: str) -> int:
    """An int in decimals, in hexadecimal after 0x, or as a float that is exact, such as 1e3."""
    if text.lower().startswith("0x"):
        return int(text, 16)
    try:
        return int(text)
    except ValueError:
        value = float(text)
        if not math.isfinite(value) or value != int(value):
            raise
        return int(value)


def _run(source: str) -> dict[str, Any]:
    values = user_code.get_config(source, f"--config={source}")
    if not isinstance(values, config_dict.ConfigDict):
        raise UserError(f"--config={source}: get_config must return a ConfigDict, such as config.default().")
    return values.to_dict()
