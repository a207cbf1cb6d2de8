"""Shows the properties of the activations.

  python -m actlab activations
  python -m actlab activations --names='gelu,gelu_scale(s=0.25)' --scale=0.5
  python -m actlab activations --plot=figures
  python -m actlab activations --html=activations.html
  python -m actlab activations --activations=examples/my_activation.py --names=mine,relu,gelu --html=mine.html

The first prints a table of properties; --plot writes figures of f, f' and f'', one for each family, into a folder as
SVG, PNG and PDF; --html writes a page to explore all activations, which needs no network.
The last has an activation of yours; what is measured of it and not proven is marked ≈.
"""

import pathlib
from collections.abc import Sequence

from absl import flags

from actlab.cli import command
from actlab.console import tables
from actlab.files import write_atomically


@command.entry
def main(argv: Sequence[str]) -> None:
    """Prints the table, draws the figures, or writes the page."""
    given = flags.FlagValues()
    command.define_activations(given)
    flags.DEFINE_string("names", None, "Comma-separated names; all by default.", flag_values=given)
    flags.DEFINE_float(
        "scale", 1.0, "Standard deviation of the Gaussian input of the moments and gains.", flag_values=given
    )
    command.define_path("plot", None, "Folder for the figures; draws them instead of printing the table.", given)
    command.define_path("html", None, "File for the page; writes it instead of printing the table.", given)
    command.parse(__doc__, argv, given)
    if given.html is not None:
        command.refuse(given, ("scale", "plot"), "cannot be combined with --html")
        path = command.output_file("html", given.html, ".html")
        _write_page(path, _names(given))
    elif given.plot is not None:
        command.refuse(given, ("scale",), "cannot be combined with --plot")
        folder = command.output_folder("plot", given.plot)
        _draw(folder, _names(given))
    else:
        _print_table(_names(given), given.scale)


def _names(given: flags.FlagValues) -> tuple[str, ...]:
    """The names that are asked for, by default all, with those of the files of --activations."""
    command.register_activations(given.activations)
    named = None if given.names is None else command.activation_names(given.names, "--names")

    from actlab import activations

    return named or activations.names()


def _print_table(names: Sequence[str], scale: float) -> None:
    from actlab.report import activation_table

    tables().print(activation_table.of(command.track(names, "computing", len(names)), scale))


def _write_page(path: pathlib.Path, names: Sequence[str]) -> None:
    from actlab.report import explorer

    known = [explorer.facts(name) for name in command.track(names, "computing", len(names))]
    write_atomically(path, explorer.page(known))
    print(path)


def _draw(folder: pathlib.Path, names: Sequence[str]) -> None:
    from actlab.report import explorer

    for path in explorer.plot(names, folder):
        print(path)
