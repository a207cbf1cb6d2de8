"""Shows what is known of the activations.

  python -m actlab.activations
  python -m actlab.activations --names='gelu,gelu_scale(s=0.25)' --scale=0.5
  python -m actlab.activations --plot=figures

The first prints a table of properties; --plot draws f, f' and f'' of all into a folder, as PNG and SVG, and prints the
paths.
"""

import pathlib

from absl import flags

from actlab import command
from actlab.errors import UserError

_NAMES = flags.DEFINE_string("names", None, "Names separated by commas, all by default.")
_SCALE = flags.DEFINE_float("scale", 1.0, "Standard deviation of the Gaussian input of the moments and gains.")
_PLOT = flags.DEFINE_string("plot", None, "Folder for the figures; draws them instead of printing the table.")


def main(arguments: list[str]) -> None:
    """Prints the table, or draws the figures."""
    command.refuse(arguments)
    if _PLOT.value is None:
        _print()
    else:
        _draw(_PLOT.value)


def _print() -> None:
    from actlab import activations
    from actlab.activations import table

    names = activations.names()
    if _NAMES.value is not None:
        names = tuple(activations.get(text, "--names").name for text in activations.split(_NAMES.value))
    command.console().print(table.of(command.track(names, "computing", len(names)), _SCALE.value))


def _draw(folder: str) -> None:
    for flag in ("names", "scale"):
        if flags.FLAGS[flag].present:
            raise UserError(f"--{flag} belongs to the table: leave it out, or leave out --plot.")
    try:
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--plot={folder} cannot be a folder ({error.strerror}): name another.") from error

    from actlab.activations import figures

    for path in figures.draw(pathlib.Path(folder)):
        print(path)


if __name__ == "__main__":
    command.run(main)
