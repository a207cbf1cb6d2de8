"""One entry for every command: `actlab COMMAND ...` is `python -m actlab COMMAND ...`.

actlab train --config=configs/tinystories_gelu.py:small
actlab sample --help
"""

import ast
import errno
import importlib
import os
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from actlab.errors import sentence, suggestion

COMMANDS = (
    "train",  # which is actlab.main, and goes by that name too
    "compare",
    "data",
    "sample",
    "verdict",
    "report",
    "claims",
    "validate",
    "replicate",
    "launch",
    "activations",
    "bench",
    "interop",
    "probe",
    "swap",
)
_WIDTH = max(map(len, COMMANDS))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command that the first word names, or lists the commands; returns the exit code."""
    name, *rest = (sys.argv[1:] if argv is None else argv) or ["--help"]
    name = "train" if name == "main" else name
    if name in ("--help", "-help", "-h", "help"):
        print(page())
        return 0
    if name == "--version":
        print(version())
        return 0
    if name not in COMMANDS:
        print(f"actlab: {sentence(f'unknown command {name!r}: {suggestion(name, COMMANDS)}')}", file=sys.stderr)
        return 2
    return importlib.import_module("actlab.main" if name == "train" else f"actlab.cli.{name}").main(rest)


def page() -> str:
    """The commands, a line each."""
    lines = [f"  {name:<{_WIDTH}}  {summary(name)}" for name in COMMANDS]
    return "\n".join(["actlab COMMAND [--flags]", "", *lines, "", "actlab COMMAND --help explains one."])


def summary(name: str) -> str:
    """The first line of a command's docstring; read, not imported, which would take a second."""
    folder = pathlib.Path(__file__).parent
    file = folder / "main.py" if name == "train" else folder / "cli" / f"{name}.py"
    first = (ast.get_docstring(ast.parse(file.read_text())) or "").splitlines()[0]
    return f"{first.partition(':')[0].rstrip('.')}."


def version() -> str:
    """The version of the package as it was installed."""
    import importlib.metadata

    try:
        return f"actlab {importlib.metadata.version('actlab')}"
    except importlib.metadata.PackageNotFoundError:
        return "actlab, not installed: run from a checkout"


def program(run: Callable[[], int] | None = None) -> NoReturn:
    """Runs a command and ends the process with its exit code, also if what it prints cannot be written."""
    sys.unraisablehook = _tell_unraisable
    try:
        code = (run or main)()
        if sys.stdout:  # None if it was closed, as by >&-
            sys.stdout.flush()
    except KeyboardInterrupt:  # before the command's own handling, while its module is imported
        print("actlab: interrupted.", file=sys.stderr)
        code = 130
    except OSError as error:
        if error.errno is None:
            raise  # not of the system
        code = 141  # as of a program that SIGPIPE ends
        if error.errno != errno.EPIPE:
            what = (
                f"{error.filename} cannot be read or written" if error.filename else "standard output cannot be written"
            )
            told = f"{what} ({error.strerror}): make room, or name another place."
            print(f"actlab: {told}", file=sys.stderr)
            code = 2
        # Python would try again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if "jax" in sys.modules and sys.modules["jax"].distributed.is_initialized():
            os._exit(code)  # JAX would wait for the other processes, which wait for this one
    if code == 130:
        os._exit(code)  # without waiting for threads, which a further Ctrl-C would interrupt with a traceback
    sys.exit(code)


def _tell_unraisable(found: "sys.UnraisableHookArgs") -> None:
    # When a checkpoint cannot be written, orbax raises, and its other writes still report to the loop that it closed.
    if str(found.exc_value) != "Event loop is closed":
        sys.__unraisablehook__(found)


if __name__ == "__main__":
    program()
