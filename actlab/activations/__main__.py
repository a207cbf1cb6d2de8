"""Shows what is known of the activations.

  python -m actlab.activations
  python -m actlab.activations --names='gelu,gelu_scale(s=0.25)' --scale=0.5
  python -m actlab.activations --plot=figures
  python -m actlab.activations --html=activations.html

The first prints a table of properties; --plot draws f, f' and f'' of all into a folder, as PNG and SVG, and prints the
paths; --html writes a page to explore them all, which needs no network.
"""

import pathlib

from absl import flags

from actlab import command
from actlab.errors import UserError

_NAMES = flags.DEFINE_string("names", None, "Names separated by commas, all by default.")
_SCALE = flags.DEFINE_float("scale", 1.0, "Standard deviation of the Gaussian input of the moments and gains.")
_PLOT = flags.DEFINE_string("plot", None, "Folder for the figures; draws them instead of printing the table.")
_HTML = flags.DEFINE_string("html", None, "File for the page; writes it instead of printing the table.")


def main(arguments: list[str]) -> None:
    """Prints the table, draws the figures, or writes the page."""
    command.refuse(arguments)
    if _HTML.value is not None:
        _refuse("html", "names", "scale", "plot")
        _write(command.target("html"))
    elif _PLOT.value is not None:
        _refuse("plot", "names", "scale")
        _draw()
    else:
        _print()


def _refuse(chosen: str, *others: str) -> None:
    for flag in others:
        if flags.FLAGS[flag].present:
            belongs = "stands alone" if flag == "plot" else "belongs to the table"
            raise UserError(f"--{flag} {belongs}: leave it out, or leave out --{chosen}.")


def _print() -> None:
    from actlab import activations
    from actlab.activations import table

    names = activations.names()
    if _NAMES.value is not None:
        names = tuple(activations.get(text, "--names").name for text in activations.split(_NAMES.value))
    command.console().print(table.of(command.track(names, "computing", len(names)), _SCALE.value))


def _write(path: pathlib.Path) -> None:
    from actlab import activations

    try:
        from actlab.activations import explorer
    except ModuleNotFoundError as error:
        raise UserError(f"{error.name} is not installed: pip install -c constraints.txt -e '.[report]'.") from error

    names = activations.names()
    known = [explorer.facts(name) for name in command.track(names, "computing", len(names))]
    command.write(path, explorer.page(known))
    print(path)


def _draw() -> None:
    place = command.folder("plot")

    from actlab.activations import figures

    for path in figures.draw(place):
        print(path)


if __name__ == "__main__":
    command.run(main)
