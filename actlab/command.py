"""What every command does around its work: help, flags, a UserError turned into a sentence and exit code 2."""

import pathlib
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from absl import app, flags, logging
from rich.console import Console
from rich.progress import track as rich_track

from actlab.errors import UserError
from actlab.files import write_atomically

EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130
HELP = ("--help", "-help", "-h")  # absl's own page has the flags of every library that is imported
_WIDTH = 120

Item = TypeVar("Item")


def console() -> Console:
    """Where tables are printed: as wide as the terminal, 120 characters in a file or a pipe."""
    return Console(width=None if sys.stdout.isatty() else 120)


def track(items: Iterable[Item], description: str, total: int) -> Iterable[Item]:
    """The items, with a bar on the terminal that shows how many are done; none in a file or a pipe."""
    bar = Console(stderr=True)
    return rich_track(items, description, total, console=bar, transient=True, disable=not bar.is_terminal)


def fail(message: object) -> int:
    """Prints one sentence to standard error; returns the exit code that goes with it."""
    print(f"actlab: {' '.join(str(message).split())}", file=sys.stderr)
    return EXIT_USER_ERROR


def refuse(arguments: Sequence[str]) -> None:
    """Raises UserError for what is left after the flags: absl would ignore `config.seed=1` without a word."""
    if arguments:
        name = arguments[0].lstrip("-").partition("=")[0]
        known = name.partition(".")[0] in flags.FLAGS
        remedy = f"write --{arguments[0].lstrip('-')}, with two dashes" if known else "--help lists what there is"
        raise UserError(f"{arguments[0]!r} is no flag: {remedy}.")


def target(flag: str) -> pathlib.Path:
    """The file that a flag names.

    Raises:
        UserError: where it is a folder, or lies in one that does not exist.
    """
    path = pathlib.Path(str(flags.FLAGS[flag].value))
    if path.is_dir():
        raise UserError(f"--{flag}={path} is a folder: name a file in it.")
    if not path.parent.is_dir():
        raise UserError(f"--{flag}={path} is in a folder that does not exist: make {path.parent} first.")
    return path


def folder(flag: str) -> pathlib.Path:
    """The folder that a flag names, made where it is not there.

    Raises:
        UserError: where it cannot be one, or no name is given.
    """
    name = flags.FLAGS[flag].value
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
        UserError: where it cannot be written.
    """
    try:
        write_atomically(path, text)
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}): name another file.") from error


def page(command: Mapping[str, Any]) -> str:
    """What --help prints of a command, given its module's names: its docstring, then its flags with their defaults."""
    own = [value.name for value in command.values() if isinstance(value, flags.FlagHolder)]
    return "\n".join([command["__doc__"].rstrip(), "", "Flags:", *map(_entry, own)])


def _entry(name: str) -> str:
    flag = flags.FLAGS[name]
    default = "" if flag.default in (None, "", []) else f" By default {str(flag.default_as_str).strip(chr(39))}."
    head = f"  --{'[no]' if flag.boolean else ''}{name}".ljust(18)
    help = flag.help.partition(";\n")[0]  # after which absl explains what a repeated flag is
    return textwrap.fill(f"{help}{default}", _WIDTH, initial_indent=f"{head}  ", subsequent_indent=" " * 20)


def run(main: Callable[[list[str]], int | None], parse: Callable[[Sequence[str]], list[str]] = flags.FLAGS) -> None:
    """Runs `main(arguments)` with flags parsed by `parse` and exits with its code (None is 0)."""

    def parsed(argv: Sequence[str]) -> list[str]:
        try:
            return parse(argv)
        except (flags.Error, UserError) as error:
            sys.exit(fail(error))

    def guarded(argv: Sequence[str]) -> int | None:
        try:
            return main(list(argv[1:]))
        except UserError as error:
            return fail(error)
        except KeyboardInterrupt:
            fail("interrupted; the same command goes on.")
            return EXIT_INTERRUPTED

    if not set(HELP).isdisjoint(sys.argv[1:]):
        print(page(vars(sys.modules[main.__module__])))
        sys.exit(0)
    logging.set_verbosity(logging.ERROR)
    app.run(guarded, flags_parser=parsed)
