"""One word for every command: `actlab COMMAND ...` is `python -m actlab.COMMAND ...`.

actlab main --config=configs/tinystories_gelu.py:small
actlab sample --help
"""

import ast
import pathlib
import runpy
import sys

from actlab.errors import UserError, suggestion

COMMANDS = (
    "main",
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
)
_WIDTH = max(map(len, COMMANDS))


def main() -> None:
    """Runs the command that the first word names; without one, lists them."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name in ("--help", "-help", "-h"):
        print(page())
    elif name == "--version":
        print(version())
    else:
        run(name)


def run(name: str) -> None:
    """Runs a command as the interpreter would with `-m`, on what is left of the command line."""
    if name not in COMMANDS:
        from actlab import command

        sys.exit(command.fail(UserError(f"command {name!r} is not known: {suggestion(name, COMMANDS)}")))
    del sys.argv[1]
    runpy.run_module(f"actlab.{name}", run_name="__main__", alter_sys=True)


def page() -> str:
    """The commands, a line each."""
    lines = [f"  {name:<{_WIDTH}}  {summary(name)}" for name in COMMANDS]
    return "\n".join(["actlab COMMAND [--flags]", "", *lines, "", "actlab COMMAND --help says more of one."])


def summary(name: str) -> str:
    """What a command's docstring begins with; read, not imported, which would take a second."""
    folder = pathlib.Path(__file__).parent
    file = next(path for path in (folder / f"{name}.py", folder / name / "__main__.py") if path.is_file())
    first = (ast.get_docstring(ast.parse(file.read_text())) or "").splitlines()[0]
    return f"{first.partition(':')[0].rstrip('.')}."


def version() -> str:
    """Of the package, as it was installed."""
    import importlib.metadata

    try:
        return f"actlab {importlib.metadata.version('actlab')}"
    except importlib.metadata.PackageNotFoundError:
        return "actlab, not installed: run from a checkout"


if __name__ == "__main__":
    main()
