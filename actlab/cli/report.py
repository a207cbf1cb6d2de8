"""Writes the results of runs as one HTML page, which needs no network.

  python -m actlab report runs/NAME
  python -m actlab report runs/NAME runs/OTHER --question='gelu<relu' --out=report.html --figures=figures

A folder is the workdir of a run or a sweep, in training or not, or the folder of a study with a results.csv. With
--figures, the figures of the page are also written as SVG, PNG and PDF, for papers.
"""

import pathlib
from collections.abc import Sequence

from absl import flags

from actlab.cli import command
from actlab.errors import UserError
from actlab.files import write_atomically


@command.entry
def main(argv: Sequence[str]) -> None:
    """Writes page and figures, and prints their paths."""
    given = flags.FlagValues()
    command.define_activations(given)
    command.define_path("out", "report.html", "File to write.", given)
    command.define_path("figures", None, "Folder for the figures as SVG, PNG and PDF.", given)
    command.define_questions(given)
    flags.DEFINE_integer(
        "samples", 4, "Number of activations whose best run writes a sample of text.", lower_bound=0, flag_values=given
    )
    words = command.parse(__doc__, argv, given, n_words=None)
    if not words:
        raise UserError("no folder is given: name a workdir, python -m actlab report runs/NAME.")
    # Errors that can be found before any work are.
    paths, out = command.paths(words), command.output_file("out", given.out, ".html")
    if given.study and (given.question or given.baseline):
        raise UserError(
            f"--study={given.study} asks its own questions: leave out --study, or --question and --baseline."
        )
    folder = None if given.figures is None else command.output_folder("figures", given.figures)

    from actlab.analysis import study as studies
    from actlab.report import report
    from actlab.report.study import read

    command.register_activations(given.activations)
    study = read(paths)
    asked = given.question
    if given.study:
        asked = studies.load(pathlib.Path(given.study)).of(study.activations).questions
    built = report.build(study, asked, given.samples, given.baseline)
    write_atomically(out, built.html())
    print(out)
    for path in report.draw(built, folder) if folder else ():
        print(path)
