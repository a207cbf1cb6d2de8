"""Shows the properties of the activations.

  python -m actlab activations
  python -m actlab activations --names='gelu,gelu_scale(s=0.25)' --scale=0.5
  python -m actlab activations --plot=figures
  python -m actlab activations --html=activations.html

The first prints a table of properties; --plot writes figures of f, f' and f'', one for each family, into a folder as
SVG, PNG and PDF; --html writes a page to explore all activations, which needs no network.
"""

from collections.abc import Sequence

from absl import flags

from actlab.cli import command


@command.entry
def main(argv: Sequence[str]) -> None:
    """Prints the table, draws the figures, or writes the page."""
    given = flags.FlagValues()
    flags.DEFINE_string("names", None, "Names separated by commas, all by default.", flag_values=given)
    flags.DEFINE_float(
        "scale", 1.0, "Standard deviation of the Gaussian input of the moments and gains.", flag_values=given
    )
    flags.DEFINE_string(
        "plot", None, "Folder for the figures; draws them instead of printing the table.", flag_values=given
    )
    flags.DEFINE_string("html", None, "File for the page; writes it instead of printing the table.", flag_values=given)
    command.parse(__doc__, argv, given)
    if given.html is not None:
        command.refuse(given, ("names", "scale", "plot"), "cannot be combined with --html")
        _write_page(given.html)
    elif given.plot is not None:
        command.refuse(given, ("names", "scale"), "cannot be combined with --plot")
        _draw(given.plot)
    else:
        _print_table(given.names, given.scale)


def _print_table(wanted: str | None, scale: float) -> None:
    names = None if wanted is None else command.activation_names(wanted, "--names")

    from actlab import activations
    from actlab.report import activation_table

    names = names or activations.names()
    command.console(soft_wrap=False).print(activation_table.of(command.track(names, "computing", len(names)), scale))


def _write_page(name: str) -> None:
    path = command.output_file("html", name)

    from actlab import activations
    from actlab.report import explorer

    names = activations.names()
    known = [explorer.facts(name) for name in command.track(names, "computing", len(names))]
    command.write(path, explorer.page(known))
    print(path)


def _draw(name: str) -> None:
    folder = command.output_folder("plot", name)

    from actlab import activations
    from actlab.report import explorer

    for path in explorer.plot(activations.names(), folder):
        print(path)
