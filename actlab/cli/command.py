"""What the commands share: parsing, --help, errors as one sentence and an exit code, tables, files, --activations.

A command is a function `main(argv)`, made by `entry`, with flags of its own, so that many commands can be imported
together and called from Python: `actlab.cli.sample.main(["--workdir=runs/mine"])` returns the exit code.
"""

import ast
import functools
import pathlib
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from absl import flags, logging
from rich.console import Console
from rich.progress import track as rich_track

from actlab.config import Config, overrides, presets, rules, schema, user_code
from actlab.console import lines
from actlab.errors import UserError, suggestion
from actlab.files import write_atomically

EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130
PYTHON = ("python", "-m")  # how the command lines in manifests begin
HELP = ("--help", "-help", "-h")
_HELP_WIDTH = 120
_TABLE_WIDTH = 160  # where there is no terminal to ask
_REPORT = ("altair", "jinja2", "vl_convert")  # the packages of the extra
_CATALOGUE = pathlib.Path(__file__).parents[1] / "activations/records.py"
_ACTIVATION_FIELDS = (
    "model.activation",
    "model.head_activation",
    "model.pooler_activation",
    "finetune.swap.from",
    "finetune.swap.to",
)

Item = TypeVar("Item")


class Help(Exception):
    """--help was given; the message is the page to print."""


def entry(main: Callable[[Sequence[str]], int | None]) -> Callable[..., int]:
    """A command, `main(argv=None) -> exit code`, from a function of its words that returns an exit code (None is 0).

    `argv` has the words after the program's name; by default those of this process. A UserError becomes one sentence on
    standard error and exit code 2, Ctrl-C exit code 130.
    """

    @functools.wraps(main)
    def command(argv: Sequence[str] | None = None) -> int:
        logging.set_verbosity(logging.ERROR)  # jax and orbax log through absl
        try:
            return main(sys.argv[1:] if argv is None else list(argv)) or 0
        except Help as page:
            print(page)
            return 0
        except UserError as error:
            return _fail(error, EXIT_USER_ERROR)
        except ModuleNotFoundError as error:
            return missing(error)
        except KeyboardInterrupt:
            return _fail("interrupted; the same command continues.", EXIT_INTERRUPTED)

    return command


def missing(error: ModuleNotFoundError) -> int:
    """Says in a sentence that the extra `report` is not installed; the exit code. Raises any other error again."""
    if error.name not in _REPORT:
        raise error
    return _fail(f"{error.name} is not installed: pip install -c constraints.txt -e '.[report]'.", EXIT_USER_ERROR)


def _fail(message: object, code: int) -> int:
    print(f"actlab: {' '.join(str(message).split())}", file=sys.stderr)
    return code


def parse(
    page: str | None, argv: Sequence[str], values: flags.FlagValues | None = None, n_words: int | None = 0
) -> list[str]:
    """Sets the flags that are defined in `values` and returns the words that are not flags.

    `page` is what --help prints above the flags: the docstring of the command's module.

    Raises:
        UserError: for an unknown flag, a bad value, or more than `n_words` words (None: any number).
    """
    values = flags.FlagValues() if values is None else values
    if not set(HELP).isdisjoint(argv):
        listed = ["", "Flags:", *(_line(values[name]) for name in values)] if len(values) else []
        raise Help("\n".join([(page or "").rstrip(), *listed]))
    try:
        words = values(["actlab", *argv])[1:]  # absl skips the first word, the program's name
    except flags.UnrecognizedFlagError as error:
        known = suggestion(error.flagname, values) if len(values) else "this command has no flags."
        raise UserError(f"unknown flag --{error.flagname}: {known}") from None
    except flags.IllegalFlagValueError as error:
        # absl writes "flag --NAME=VALUE: reason", where the reason may quote Python.
        name, _, told = str(error).removeprefix("flag --").partition("=")
        wanted = "true or false" if values[name].boolean else values[name].parser.syntactic_help
        raise UserError(
            f"--{name}={told.partition(': ')[0]} is not valid: give {wanted}." if wanted else told
        ) from None
    except flags.Error as error:
        raise UserError(f"{error}.") from None
    if n_words is not None and len(words) > n_words:
        word = words[n_words]
        known = word.lstrip("-").partition("=")[0].partition(".")[0] in values
        raise UserError(
            f"unexpected argument {word!r}: {f'write --{word}' if known else '--help lists what this command takes'}."
        )
    return words


def refuse(values: flags.FlagValues, names: Iterable[str], why: str) -> None:
    """Raises UserError, which says why, if one of these flags is given."""
    for name in names:
        if values[name].present:
            raise UserError(f"{values[name].serialize()} {why}: leave it out.")


def _line(flag: flags.Flag) -> str:
    default = "" if flag.default in (None, "", []) else f" By default {str(flag.default_as_str).strip(chr(39))}."
    head = f"  --{'[no]' if flag.boolean else ''}{flag.name}".ljust(18)
    help = (flag.help or "").partition(";\n")[0]  # after which absl explains what a repeated flag is
    return textwrap.fill(f"{help}{default}", _HELP_WIDTH, initial_indent=f"{head}  ", subsequent_indent=" " * 20)


def console(soft_wrap: bool = True) -> Console:
    """Where tables are printed: as wide as the terminal, 160 characters in a file or a pipe."""
    if soft_wrap:
        return lines(width=_TABLE_WIDTH)
    return Console(highlight=False, width=None if sys.stdout.isatty() else _TABLE_WIDTH)


def track(items: Iterable[Item], description: str, total: int) -> Iterable[Item]:
    """The items, with a progress bar on the terminal; no bar in a file or a pipe."""
    bar = Console(stderr=True)
    return rich_track(items, description, total, console=bar, transient=True, disable=not bar.is_terminal)


def output_file(flag: str, name: str) -> pathlib.Path:
    """The path of a file to write.

    Raises:
        UserError: if it is a folder, or in a folder that does not exist.
    """
    path = pathlib.Path(name)
    if path.is_dir():
        raise UserError(f"--{flag}={path} is a folder: name a file in it.")
    if not path.parent.is_dir():
        raise UserError(f"--{flag}={path} is in a folder that does not exist: make {path.parent} first.")
    return path


def output_folder(flag: str, name: str) -> pathlib.Path:
    """The path of a folder for files to write, which is made if it does not exist.

    Raises:
        UserError: if it cannot be made, or the name is empty.
    """
    if not name:
        raise UserError(f"--{flag} is empty: name a folder.")
    try:
        pathlib.Path(name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--{flag}={name} cannot be a folder ({error.strerror}): name another place.") from error
    return pathlib.Path(name)


def write(path: pathlib.Path, text: str) -> None:
    """Writes a file whole or not at all.

    Raises:
        UserError: if it cannot be written.
    """
    try:
        write_atomically(path, text)
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}): name another file.") from error


def define_config(values: flags.FlagValues) -> None:
    """Defines --config for the help and for suggestions; actlab.config.overrides reads it, and the overrides."""
    flags.DEFINE_string(
        "config",
        None,
        "Config file, with a preset after a colon, or a config.json. --config.FIELD=VALUE, repeatable, changes a "
        "field; actlab/config/schema.py lists them all.",
        flag_values=values,
    )


def require_known_activations(config: Config) -> None:
    """Refuses an unknown activation in a field or axis, as `require_activation`.

    If the catalogue is imported already, nothing is checked: a config file may have registered activations.
    """
    if "actlab.activations" in sys.modules:
        return
    given = [(path, schema.get(config, path)) for path in _ACTIVATION_FIELDS]
    for axis in config.sweep:
        for row in rules.axis_rows(axis):
            given += zip(rules.axis_fields(axis[0]), row, strict=True)
    for path, text in given:
        if path in _ACTIVATION_FIELDS and text:
            require_activation(text, f"config.{path}")


def require_activation(text: str, field: str, more: str = "") -> None:
    """Refuses an unknown activation before jax is imported, which takes seconds; the catalogue checks parameters.

    Raises:
        UserError: for a name that the catalogue of actlab lacks; the sentence ends with `more`.
    """
    name, known = text.partition("(")[0].strip(), built_in_activations()
    if name not in known:
        raise UserError(f"unknown activation {field}={text!r}: {suggestion(name, known)}{more}")


def activation_names(text: str, field: str, more: str = "") -> tuple[str, ...]:
    """The names of a list, "relu, celu(alpha=2)", with aliases and parameters resolved by the catalogue.

    As in `require_known_activations`, the names are checked before the catalogue is imported, if it is not yet.

    Raises:
        UserError: for an unknown name, or parameters that are wrong.
    """
    # Commas within parentheses separate parameters, not names.
    given = [one.strip() for one in re.split(r",(?![^()]*\))", text)]
    if not text.strip():
        raise UserError(f"{field} is empty: name activations, separated by commas.")
    if not sys.modules.get("actlab.activations"):
        for one in given:
            require_activation(one, field, more)

    from actlab import activations

    return tuple(activations.get(one, field).name for one in given)


@functools.cache
def built_in_activations() -> frozenset[str]:
    """The names and aliases of actlab's own activations, read from the source of the catalogue."""
    calls = [node for node in ast.walk(ast.parse(_CATALOGUE.read_text())) if isinstance(node, ast.Call)]
    records = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Activation"]
    aliases = [keyword.value for record in records for keyword in record.keywords if keyword.arg == "aliases"]
    return frozenset({ast.literal_eval(record.args[0]) for record in records}.union(*map(ast.literal_eval, aliases)))


def define_run(values: flags.FlagValues) -> None:
    """Defines --workdir and --run, and --activations: a user's own activations are code, which no workdir holds."""
    flags.DEFINE_string("workdir", None, "Folder of a run, a sweep or a comparison.", flag_values=values)
    flags.DEFINE_string("run", None, "Name of one run of a sweep.", flag_values=values)
    define_activations(values)


def define_activations(values: flags.FlagValues) -> None:
    """Defines --activations, for `register_activations`."""
    flags.DEFINE_multi_string(
        "activations",
        [],
        "Python file that registers an activation of yours, its preset after a colon; repeatable.",
        flag_values=values,
    )


def define_model(values: flags.FlagValues) -> None:
    """Defines the flags of a command on a trained model: --run, --text, --field and --activations."""
    define_activations(values)
    flags.DEFINE_string("run", None, "Name of one run of a sweep.", flag_values=values)
    flags.DEFINE_string("text", None, "File or folder of texts to train on and to judge by.", flag_values=values)
    flags.DEFINE_string("field", "text", "Field of JSON lines and Parquet that has the text.", flag_values=values)


def parse_model(page: str | None, argv: Sequence[str], values: flags.FlagValues) -> tuple[str, overrides.Request]:
    """The model that is named, with its run, and what --config.FIELD asks for; sets the flags in `values`.

    Raises:
        UserError: as `parse` and `overrides.read`; for a --config.
    """
    source, changes, words = overrides.split(argv)
    (model,) = parse(page, words, values, n_words=1)
    if source is not None:
        raise UserError("--config has no place here: the model's fields are those of its directory; leave it out.")
    name = f"{model}:{values.run}" if values.run else model
    return name, overrides.read(None, changes, presets.continued)


def register_activations(files: Sequence[str]) -> None:
    """Runs each file of --activations, and its get_config if it has one, for the activations that it registers.

    Raises:
        UserError: for a file that cannot be read, or that fails.
    """
    for text in files:
        user_code.get_config(text, f"--activations={text}", required=False)
