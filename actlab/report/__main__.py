"""Writes what some runs came to as one page of HTML, which needs no network.

  python -m actlab.report runs/NAME
  python -m actlab.report runs/NAME runs/OTHER --question='gelu<relu' --out=report.html --figures=figures

A folder is the workdir of a run or a sweep, in training or not, or a study's, with a results.csv. With --figures, each
figure is also drawn into a folder for papers, as PNG and SVG.
"""

import pathlib

from absl import flags

from actlab import command, registering
from actlab.errors import UserError

_ACTIVATIONS = registering.define()
_OUT = flags.DEFINE_string("out", "report.html", "File to write.")
_FIGURES = flags.DEFINE_string("figures", None, "Folder for figures as PNG and SVG.")
_QUESTION = flags.DEFINE_multi_string(
    "question", [], "Is the first's loss lower? 'gelu<relu'; may be repeated. Without one all pairs are compared."
)
_SAMPLES = flags.DEFINE_integer("samples", 4, "Activations whose best run writes a text.", lower_bound=0)


def main(arguments: list[str]) -> None:
    """Writes page and figures, and prints their paths."""
    if not arguments:
        raise UserError("no folder is given: name a workdir, python -m actlab.report runs/NAME.")
    # What can be known is told before any work.
    out = command.target(_OUT.name)
    folder = None if _FIGURES.value is None else command.folder("figures")

    try:
        from actlab.report import report, static
        from actlab.report.study import read
    except ModuleNotFoundError as error:
        raise UserError(f"{error.name} is not installed: pip install -c constraints.txt -e '.[report]'.") from error

    registering.run(_ACTIVATIONS.value)
    study = read([pathlib.Path(argument) for argument in arguments])
    page = report.of(study, _QUESTION.value, _SAMPLES.value)
    command.write(out, page)
    print(out)
    for path in static.draw(study, folder, _QUESTION.value) if folder else ():
        print(path)


if __name__ == "__main__":
    command.run(main)
