"""Compares the activations of one or more sweeps: intervals, tests, verdicts.

  python -m actlab verdict runs/seed_study-1a2b3c4d --question='gelu<relu'

Verdicts are printed, and written to verdicts.json in the workdir; those on a study's own table are printed only. With
--study=FILE, a study.py, which is executed, the questions and the claims that they decide are those of the study.
Verdicts and a copy of the table then go into its folder, or into one in it that --verdicts names. A table of other runs
is never replaced. A study that was trained in parts has several workdirs, which differ in their sweep only.

  python -m actlab verdict runs/NAME --study=experiments/NAME/study.py
  python -m actlab verdict runs/EARLY runs/LATE --study=experiments/NAME/study.py
  python -m actlab verdict runs/MINE --study=experiments/NAME/study.py --verdicts=experiments/NAME/mine/verdicts.json
  python -m actlab verdict --study=experiments/NAME/study.py         the verdicts again, from the committed table

With --latex=FILE the verdicts at own best learning rates are also written as a table for a paper, which needs booktabs.
"""

import contextlib
import pathlib
from collections.abc import Sequence

from absl import flags

from actlab.cli import command
from actlab.console import lines
from actlab.errors import UserError
from actlab.files import write_atomically


@command.entry
def main(argv: Sequence[str]) -> None:
    """Prints the comparisons and writes verdicts.json."""
    given = flags.FlagValues()
    command.define_questions(given)
    flags.DEFINE_float(
        "margin",
        None,
        "Margin of equivalence, in the table's unit; by default 0.0025 nats per byte of text, 0.005 nats per masked "
        "token or document.",
        flag_values=given,
    )
    command.define_path(
        "verdicts", None, "File for the verdicts; verdicts.json beside the study or a single table.", given
    )
    command.define_path("latex", None, "File for a LaTeX table of the verdicts.", given)
    paths = _tables(command.parse(__doc__, argv, given, n_words=None), given)
    latex_file = None if given.latex is None else command.output_file("latex", given.latex, ".tex")

    from actlab.analysis import comparison, printing, protocol, results as results_lib, study as studies, verdicts
    from actlab.report import latex
    from actlab.workdir import manifest, records

    console = lines()
    folders = [path if path.is_dir() else path.parent for path in paths]
    for one in folders:
        # A search ends most of its runs early, and which seeds are fresh is for the comparison to say.
        results_lib.refuse_comparison(one.absolute().parent)
    out = pathlib.Path(given.verdicts) if given.verdicts else _place(folders, given.study) / verdicts.FILE
    study = studies.load(pathlib.Path(given.study), out.parent) if given.study else None
    owner = None if study else studies.owner(out.parent)
    if owner and given.verdicts:
        raise UserError(f"--verdicts={out} is a file of the study {owner}: add --study={owner}, or write elsewhere.")
    with contextlib.ExitStack() as stack:
        tables = [stack.enter_context(studies.table_of(study, paths))] if study else paths
        results = results_lib.read(tables)
        names = {result.activation for result in results}
        for text in () if study is None or given.question or given.baseline else study.questions:
            if lacking := sorted(set(protocol.names_in(text)) - names):
                console.print(f"left out    the study's question {text!r}: the table has no run of {lacking[0]}")
        study = study.of(names) if study else None
        asked = given.question or (study.questions if study and not given.baseline else ())
        questions = [protocol.parse_question(text, names) for text in asked]
        workdirs = [records.Workdir(one, writes=False) for one in folders]
        looks = [look for workdir in workdirs for look in manifest.looks(workdir)]
        compared = comparison.compare(results, questions, given.margin, given.baseline, looks)
        decisions = verdicts.decide(study.claims, results, given.margin) if study else None
        agreements = verdicts.agreements(study.orders, compared) if study else []
        mixed = manifest.mixture(workdir.manifest() for workdir in workdirs)
        if study:
            out.parent.mkdir(exist_ok=True)  # of an arm, in the study's, which takes its table when the context ends
    for one in compared:
        console.print(printing.show(one))
    for sentence in mixed:
        console.print(f"warning     {sentence}")
    for one in agreements:
        place = f"with {one['with']}, at this scale ({one['scale']})"
        console.print(f"order       tau {one['tau']:+.2f} (p {one['p']:.2g}) {place}")
    for id, decision in (decisions or {}).items():
        console.print(f"claim       {id} {decision.verdict} at this scale: {decision.deciding}")
    # The claims of a study are in its verdicts too, and its study.py is not run unless it is named.
    if not owner:
        verdicts.write(out, compared, decisions, agreements)
    console.print(f"verdicts    {f'printed only; --study={owner} writes them' if owner else out}")
    if latex_file:
        write_atomically(latex_file, latex.table(compared))
        console.print(f"table       {latex_file}")


def _tables(words: Sequence[str], given: flags.FlagValues) -> list[pathlib.Path]:
    """The tables to read: those that are named, or the study's own."""
    if not words and not given.study:
        raise UserError("no table is given: name a workdir or a results.csv, python -m actlab verdict runs/NAME.")
    paths = command.paths(words) or [pathlib.Path(given.study).parent]
    if len({path.resolve() for path in paths}) < len(paths):
        raise UserError(f"{' '.join(words)} names a folder twice: name each once.")
    if len(paths) > 1 and not given.verdicts and not given.study:
        raise UserError(
            f"--verdicts is missing: {len(paths)} tables have no common folder for their verdicts: name a file."
        )
    if given.verdicts:
        command.require_no_device("verdicts", pathlib.Path(given.verdicts))
        if not given.study:  # which makes the folder of an arm
            command.output_file("verdicts", given.verdicts, ".json")
    return paths


def _place(folders: Sequence[pathlib.Path], study: str | None) -> pathlib.Path:
    """The folder of the verdicts: the study's, or that of the one table, which may be an arm within the study's."""
    if not study:
        return folders[0]
    home = pathlib.Path(study).parent
    one = folders[0].resolve()
    return folders[0] if len(folders) == 1 and home.resolve() in (one, *one.parents) else home
