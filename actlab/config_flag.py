"""The flag --config and its overrides, which every command that trains has: a config file, or a run's config.json.

--config=configs/seed_study.py:small runs a file's get_config("small"). --config=runs/x/config.json reads values only.
Activations of one's own are code, which no JSON holds: name the file that registers them after a colon,
--config=runs/x/config.json:configs/mine.py. Overrides, --config.seed=2, come on top of either.
"""

import keyword
import pathlib
import re
import sys
from collections.abc import Sequence
from typing import Any

from absl import flags
from ml_collections import config_flags

from actlab import axes, config_faults
from actlab import config as config_lib
from actlab.config import Config
from actlab.errors import UserError

_JSON = re.compile(r"(.*?\.json)(?::(.*))?")
_OVERRIDE = re.compile(r"(?P<dashes>--?(?:no)?config\.)(?P<path>[^=]*)")


class _Parser(flags.ArgumentParser):
    """Reads JSON too, which ml_collections' parser would run as Python."""

    def __init__(self, of_files: flags.ArgumentParser):
        self._of_files = of_files

    def parse(self, argument: str) -> Any:
        match = _JSON.fullmatch(argument)
        if match is None:
            return self._run(argument)
        file, registering = match.groups()
        if registering is not None:
            _values(self._run(registering), registering)  # for what it registers
        return config_lib.to_config_dict(config_lib.load(pathlib.Path(file)))

    def _run(self, path: str) -> Any:
        try:
            return self._of_files.parse(path)
        except Exception as error:
            # ml_collections raises one of the same type with its traceback for a message: the file's own says it all.
            own = error.__context__ if isinstance(error.__context__, type(error)) else error
            raise config_faults.of_file(own) from None


def define() -> flags.FlagHolder:
    """Defines the flag; called once by a command, before flags are parsed."""
    holder = config_flags.DEFINE_config_file(
        "config",
        None,
        "Config file, with a preset after a colon, or a config.json. --config.FIELD=VALUE, as often as wanted, changes "
        "a field; actlab/schema.py has them all.",
    )
    flag = flags.FLAGS["config"]
    flag.parser = _Parser(flag.parser)
    return holder


def parse(argv: Sequence[str]) -> list[str]:
    """Parses flags; whatever a config file or an override does wrong becomes a UserError."""
    typed = sys.argv
    words = [argv[0], *map(_checked, argv[1:])]
    try:
        sys.argv = words  # where ml_collections looks for overrides
        return flags.FLAGS(words)
    except Exception as error:
        raise config_faults.of_flags(error) from error
    finally:
        sys.argv = typed


def _checked(argument: str) -> str:
    """An override of a field that there is, its path as ml_collections wants it; any other argument as it is."""
    match = _OVERRIDE.match(argument)
    if match is None:
        return argument
    path = match["path"]
    config_lib.require_path(path)
    if path == "sweep":
        raise UserError("config.sweep cannot be set on the command line: set it in a config file.")
    *parents, name = path.split(".")
    place = ".".join(parents) + f'["{name}"]' if keyword.iskeyword(name) else path
    return match["dashes"] + place + argument[match.end() :]


def read() -> tuple[Config, str]:
    """The validated config and the text of the flag.

    Raises:
        UserError: if the flag is missing, its file cannot be read or the config is not valid.
    """
    if flags.FLAGS.config is None:
        raise UserError("--config is missing: for example --config=configs/tinystories_gelu.py:small.")
    path = config_flags.get_config_filename(flags.FLAGS["config"])
    return config_lib.from_mapping(_values(flags.FLAGS.config, path)), path


def overrides() -> frozenset[str]:
    """The fields that the command line sets."""
    paths = config_flags.get_override_values(flags.FLAGS["config"])
    return frozenset(re.sub(r'\["(\w+)"\]', r".\1", path) for path in paths)


def require_effect(config: Config) -> None:
    """Raises UserError for an override of a field that the config sweeps, which would change nothing."""
    swept = {path for key, _ in config.sweep for path in axes.paths(key)}
    for path in sorted(overrides() & swept):
        raise UserError(
            f"--config.{path} changes nothing, because the config sweeps it: take one run, with --run=NAME, or change "
            "the sweep in its file."
        )


def _values(config: Any, path: str) -> dict[str, Any]:
    try:
        return config.to_dict()
    except OSError as error:
        raise UserError(f"--config={path} cannot be read: give the path of a config file.") from error
    except AttributeError as error:
        raise UserError(f"--config={path}: get_config must return a ConfigDict, such as config.default().") from error


def code(path: str) -> str:
    """The part of a --config that is code: the config file, or what registers activations beside a config.json."""
    match = _JSON.fullmatch(path)
    return path if match is None else match[2] or ""


def label(path: str) -> str:
    """The name of a config file, without preset: the fingerprint tells presets apart."""
    return pathlib.Path(path.partition(":")[0]).stem
