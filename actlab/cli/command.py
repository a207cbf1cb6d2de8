"""What the commands share: parsing, --help, errors as one sentence and an exit code, files, --activations.

A command is a function `main(argv)`, made by `entry`, with flags of its own, so that many commands can be imported
together and called from Python: `actlab.cli.sample.main(["--workdir=runs/mine"])` returns the exit code.
"""

import ast
import functools
import os
import pathlib
import re
import sys
import textwrap
import traceback
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from absl import flags, logging
from rich.console import Console
from rich.progress import track as rich_track

from actlab import config as config_lib
from actlab.cli import compilation_cache
from actlab.config import Config, overrides, presets, rules, schema, user_code
from actlab.errors import UnsharedError, UserError, sentence, suggestion
from actlab.files import at_colon, fault_of_path, reason_of

EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130
PYTHON = ("python", "-m")  # how the command lines in manifests begin
HELP = ("--help", "-help", "-h")
_HELP_WIDTH = 120
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
    standard error and exit code 2; so does a file that the system refuses, too little memory, or a device that JAX does
    not find. Ctrl-C gives exit code 130.
    """

    @functools.wraps(main)
    def command(argv: Sequence[str] | None = None) -> int:
        logging.set_verbosity(logging.ERROR)  # jax and orbax log through absl
        compilation_cache.keep_programs()
        try:
            return main(_texts(sys.argv[1:] if argv is None else argv)) or 0
        except Help as page:
            print(page)
            return 0
        except UnsharedError as error:
            _fail(error, EXIT_USER_ERROR)
            os._exit(EXIT_USER_ERROR)
        except UserError as error:
            return _fail(error, EXIT_USER_ERROR)
        except ModuleNotFoundError as error:
            return missing(error)
        except KeyboardInterrupt:
            return _fail("interrupted.", EXIT_INTERRUPTED)
        except OSError as error:
            if error.filename is None:
                raise  # of standard output: see actlab.__main__.program
            place = os.fsdecode(error.filename)
            told = f"{place} cannot be used ({reason_of(error)}): correct that, or name another path."
            return _fail(told, EXIT_USER_ERROR)
        except MemoryError as error:
            return _fail(f"memory is too small ({error}): ask for less.", EXIT_USER_ERROR)
        except RuntimeError as error:
            if "RESOURCE_EXHAUSTED" in str(error):  # of JAX, which may not be imported
                told = str(error).splitlines()[0]
                return _fail(f"the device has too little memory ({told}): ask for smaller batches.", EXIT_USER_ERROR)
            if "initialize backend" not in str(error):
                raise
            return _fail(_no_platform(error), EXIT_USER_ERROR)
        except AssertionError as error:
            # Of JAX, for cuda where there is no GPU.
            if "xla_bridge" not in traceback.extract_tb(error.__traceback__)[-1].filename:
                raise
            return _fail(_no_platform("no such device is here"), EXIT_USER_ERROR)
        except ValueError as error:
            # Of JAX, when it is imported and reads its settings from variables such as JAX_ENABLE_X64.
            if not re.search(r"environment '?JAX_", str(error)):
                raise
            return _fail(f"JAX refuses an environment variable ({error}): correct it, or unset it.", EXIT_USER_ERROR)

    return command


def _texts(words: Sequence[str]) -> list[str]:
    """The words; raises UserError for one that is no text, which neither a path nor a page can have."""
    for number, word in enumerate(words, start=1):
        if "\0" in word or not word.isascii() and any("\ud800" <= sign <= "\udfff" for sign in word):
            raise UserError(f"argument {number}, {word!r}, has a byte that is not UTF-8 text: write it without.")
    return list(words)


def missing(error: ModuleNotFoundError) -> int:
    """Says in a sentence that the extra `report` is not installed; the exit code. Raises any other error again."""
    if error.name not in _REPORT:
        raise error
    return _fail(f"{error.name} is not installed: pip install -c constraints.txt -e '.[report]'.", EXIT_USER_ERROR)


def _no_platform(reason: object) -> str:
    given = f"JAX_PLATFORMS={os.environ.get('JAX_PLATFORMS', '')}"
    return f"{given} cannot be used ({reason}): unset it, or name cpu, cuda or tpu."


def _fail(message: object, code: int) -> int:
    print(f"actlab: {sentence(message)}", file=sys.stderr)
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
        name = error.flagname.partition(".")[0]  # of --confg.seed, the flag that was meant is --config
        known = suggestion(name, values) if len(values) else "this command has no flags."
        raise UserError(f"unknown flag --{error.flagname}: {known}") from None
    except flags.IllegalFlagValueError as error:
        # absl writes "flag --NAME=VALUE: reason", where the reason may quote Python.
        name, _, told = str(error).removeprefix("flag --").partition("=")
        if isinstance(values[name].parser, _PathParser):
            given, _, fault = told.rpartition(": ")
            raise UserError(f"--{name}{'=' if given else ''}{given} {fault}: name a folder or a file.") from None
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


def parse_workdir(page: str | None, argv: Sequence[str], values: flags.FlagValues) -> pathlib.Path | None:
    """`parse` for a command on one workdir, which is a word or --workdir; returns it, if it is given.

    Raises:
        UserError: as `parse`, and for two.
    """
    words = parse(page, argv, values, n_words=1)
    if words and values.workdir:
        raise UserError(f"--workdir={values.workdir} and {words[0]!r} both name a workdir: leave one out.")
    named = words[0] if words else values.workdir
    return paths([named])[0] if named else None


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


def track(items: Iterable[Item], description: str, total: int) -> Iterable[Item]:
    """The items, with a progress bar on the terminal; no bar in a file or a pipe."""
    bar = Console(stderr=True)
    return rich_track(items, description, total, console=bar, transient=True, disable=not bar.is_terminal)


class _PathParser(flags.ArgumentParser):
    def parse(self, argument: str) -> str:
        if fault := fault_of_path(argument):
            raise ValueError(fault)
        return argument


def define_path(name: str, default: str | None, help: str, values: flags.FlagValues) -> None:
    """Defines a flag for a file or folder, which refuses what no path can be, an empty text first of all."""
    flags.DEFINE(_PathParser(), name, default, help, values, flags.ArgumentSerializer())


def paths(words: Sequence[str]) -> list[pathlib.Path]:
    """The words as paths; raises UserError for one that cannot be a path."""
    for word in words:
        if fault := fault_of_path(word):
            raise UserError(f"{word!r} {fault}: name a file or a folder.")
    return [pathlib.Path(word) for word in words]


def output_file(flag: str, name: str, ending: str) -> pathlib.Path:
    """The path of a file to write, which has the ending of such files. One that exists is replaced.

    Raises:
        UserError: for another ending; if it is a folder or a device, in a folder that does not exist, or cannot be
            written.
    """
    path = pathlib.Path(name)
    require_no_device(flag, path)
    if path.suffix != ending:
        raise UserError(f"--{flag}={path} does not end in {ending}: name a file that does.")
    if not path.parent.is_dir():
        raise UserError(f"--{flag}={path} is in a folder that does not exist: make {path.parent} first.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UserError(f"--{flag}={path} cannot be written: name another file.")
    return path


def require_no_device(flag: str, path: pathlib.Path) -> None:
    """Raises UserError for a path of anything that is there and is not a regular file."""
    if path.is_dir():
        raise UserError(f"--{flag}={path} is a folder: name a file in it.")
    if path.exists() and not path.is_file():
        raise UserError(f"--{flag}={path} is a device or a pipe, which is not replaced: name a regular file.")


def output_folder(flag: str, name: str) -> pathlib.Path:
    """The path of a folder for files to write, which need not exist yet.

    Raises:
        UserError: if it cannot be made.
    """
    path = pathlib.Path(name)
    place = next(one for one in (path, *path.absolute().parents) if one.exists())
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise UserError(
            f"--{flag}={path} cannot be created, since {place} is not a folder that you can write to: name another."
        )
    return path


def define_config(values: flags.FlagValues) -> None:
    """Defines --config for the help and for suggestions; actlab.config.overrides reads it, and the overrides."""
    flags.DEFINE_string(
        "config",
        None,
        "Config file, with a preset after a colon, or a config.json. --config.FIELD=VALUE, repeatable, changes a "
        "field, --config.sweep.FIELD=VALUE,VALUE trains each; train --fields lists them.",
        flag_values=values,
    )


def listed_fields() -> str:
    """Every field of a config with its default, unit and purpose."""
    lines = []
    for path, entry in schema.fields().items():
        if path == "sweep":
            continue
        unit = f" {entry.metadata['unit']}" if entry.metadata["unit"] else ""
        known = typing.get_args(entry.type) if typing.get_origin(entry.type) is typing.Literal else ()
        among = f" ({' | '.join(map(str, known))})" if known else ""
        text = f"{path} = {entry.default!r}{unit}{among}: {entry.metadata['why']}"
        lines.append(textwrap.fill(text, _HELP_WIDTH, subsequent_indent="    ", break_on_hyphens=False))
    return "\n".join(lines)


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


def require_activation(text: str, field: str = "") -> None:
    """Refuses an unknown activation before jax is imported, which takes seconds; the catalogue checks parameters.

    Raises:
        UserError: for a name that the catalogue of actlab lacks, given as `field`, or as a word of the command.
    """
    given = f"{field}={text!r}" if field else repr(text)
    name, known = text.partition("(")[0].strip(), built_in_activations()
    if name not in known:
        if {one.strip() for one in text.split(",")} <= known:
            path = field.removeprefix("config.")
            several = {"": "separate them by spaces", "--to": "name one"}
            fix = several.get(field, f"--config.sweep.{path}={text} trains each")
            raise UserError(f"{given} names several: {fix}.")
        fix = f"{suggestion(name, known)} --activations=FILE registers one of your own."
        raise UserError(f"unknown activation {given}: {fix}")


def activation_names(text: str, field: str) -> tuple[str, ...]:
    """The names of a list, "relu, celu(alpha=2)", each once, with aliases and parameters resolved by the catalogue.

    As in `require_known_activations`, the names are checked before the catalogue is imported, if it is not yet.

    Raises:
        UserError: for an unknown name, or parameters that are wrong.
    """
    given = [one.strip() for one in overrides.COMMAS.split(text)]
    if not text.strip():
        raise UserError(f"{field} is empty: name activations, separated by commas.")
    if not sys.modules.get("actlab.activations"):
        for one in given:
            require_activation(one, field)

    from actlab import activations

    return tuple(dict.fromkeys(activations.get(one, field).name for one in given))


@functools.cache
def built_in_activations() -> frozenset[str]:
    """The names and aliases of actlab's own activations, read from the source of the catalogue."""
    calls = [node for node in ast.walk(ast.parse(_CATALOGUE.read_text())) if isinstance(node, ast.Call)]
    records = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Activation"]
    aliases = [keyword.value for record in records for keyword in record.keywords if keyword.arg == "aliases"]
    return frozenset({ast.literal_eval(record.args[0]) for record in records}.union(*map(ast.literal_eval, aliases)))


def define_training(values: flags.FlagValues) -> None:
    """Defines --workdir and --extend, for `training_workdir`, --text and --field."""
    define_path("workdir", None, "Folder to train in.", values)
    define_text(values)
    flags.DEFINE_bool(
        "extend",
        False,
        "Adds the runs that the sweep has now to a workdir begun with fewer values.",
        flag_values=values,
    )


def training_workdir(values: flags.FlagValues) -> pathlib.Path | None:
    """The folder that is named, if any.

    Raises:
        UserError: if it is to be extended and not named.
    """
    if values.extend and not values.workdir:
        raise UserError("--extend is given without --workdir: name the folder of the runs that are there.")
    return pathlib.Path(values.workdir) if values.workdir else None


def define_run(values: flags.FlagValues) -> None:
    """Defines --workdir and --run, and --activations: a user's own activations are code, which no workdir holds."""
    define_path("workdir", None, "Folder of a run, a sweep or a comparison.", values)
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


def define_questions(values: flags.FlagValues) -> None:
    """Defines --question, --baseline and --study."""
    define_path("study", None, "A study.py, which is run: its questions are asked.", values)
    flags.DEFINE_multi_string(
        "question",
        [],
        "Is the first's loss lower? 'gelu<relu'; may be repeated. By default each is compared with the baseline.",
        flag_values=values,
    )
    flags.DEFINE_string("baseline", "", "Activation to compare with; the table's first by default.", flag_values=values)


def define_model(values: flags.FlagValues) -> None:
    """Defines the flags of a command on a trained model: --run, --text, --field and --activations."""
    define_activations(values)
    flags.DEFINE_string("run", None, "Name of one run of a sweep.", flag_values=values)
    define_text(values)


def define_text(values: flags.FlagValues) -> None:
    """Defines --text and --field, for `require_one_text`."""
    define_path("text", None, "File or folder of texts.", values)
    flags.DEFINE_string("field", "text", "Name of the text field of JSON Lines and Parquet.", flag_values=values)


def parse_model(page: str | None, argv: Sequence[str], values: flags.FlagValues) -> tuple[str, overrides.Request]:
    """The model that is named, with its run, and what --config.FIELD asks for; sets the flags in `values`.

    Raises:
        UserError: as `parse` and `overrides.read`; for a --config.
    """
    source, changes, words = overrides.split(argv)
    words = parse(page, words, values, n_words=1)
    if not words:
        raise UserError("no model is given: name a workdir, or a directory of Hugging Face transformers.")
    model = words[0]
    paths([at_colon(model)[0]])
    if source is not None:
        raise UserError("--config has no place here: the model's fields are those of its directory; leave it out.")
    # Before the fields are read: one of these alone may be refused for what the others are.
    if taken := [path for path, _ in changes if path in presets.CONTINUED_STEPS]:
        more = "; the number of updates is --steps" if "steps" in values else ""
        raise UserError(f"--config.{taken[0]} is set by the command: leave it out{more}.")
    name = f"{model}:{values.run}" if values.run else model
    request = overrides.read(None, changes, presets.continued)
    if request.config.sweep:
        raise UserError("--config.sweep has no place here: this command reads one model; leave it out.")
    require_one_text(values, request)
    return name, request


def require_one_text(values: flags.FlagValues, request: overrides.Request) -> None:
    """Refuses --text beside --config.data.name, and --field without --text.

    Raises:
        UserError: for either.
    """
    if values.text is not None and "data.name" in request.overridden:
        raise UserError(f"--text={values.text} and --config.data.name both name a text: leave one out.")
    if values.text is None:
        refuse(values, ["field"], "has no effect without --text")


def with_text(values: flags.FlagValues, config: Config) -> Config:
    """The config on the text of --text, which is prepared; as it is without one.

    Raises:
        UserError: for a text that cannot be read or is too short.
    """
    if values.text is None:
        return config

    from actlab import data

    name = data.prepare_text(values.text, config.data.dir, field=values.field)
    return config_lib.replace(config, **{"data.name": name})


def register_activations(files: Sequence[str]) -> None:
    """Runs each file of --activations, and its get_config if it has one, for the activations that it registers.

    Raises:
        UserError: for a file that cannot be read, or that fails.
    """
    for text in files:
        user_code.get_config(text, f"--activations={text}", required=False)
