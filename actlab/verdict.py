"""Compares the activations of a sweep, or of several, and says how sure one can be.

  python -m actlab.verdict runs/seed_study-1a2b3c4d --question='gelu<relu' --baseline=relu

Where the verdicts go into a study's folder, or into one in it, the runs' table goes there too, and the claims that the
study.py names are decided by it. A table of other runs than these is never replaced. The second command does it again
from what is committed.

  python -m actlab.verdict runs/NAME --verdicts=experiments/NAME/mine/verdicts.json
  python -m actlab.verdict experiments/NAME
"""

import contextlib
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags
from rich.console import Console

from actlab import command
from actlab.errors import UserError

_QUESTION = flags.DEFINE_multi_string(
    "question", [], "Is the first's loss lower? 'gelu<relu'; may be repeated. Without one all pairs are compared."
)
_BASELINE = flags.DEFINE_string("baseline", None, "Adds Dunnett's test of every other activation against this one.")
_MARGIN = flags.DEFINE_float("margin", 0.005, "Nats within which two losses count as equal.")
_VERDICTS = flags.DEFINE_string(
    "verdicts", None, "File for the verdicts; verdicts.json beside the results of a single table."
)
_WIDTH = 160  # where there is no terminal to ask


def main(arguments: list[str]) -> None:
    """Prints the comparisons and writes them."""
    if not arguments:
        raise UserError("no table is given: name a workdir or a results.csv, python -m actlab.verdict runs/NAME.")
    paths = [pathlib.Path(argument) for argument in arguments]
    if len(paths) > 1 and not _VERDICTS.value:
        raise UserError(f"--verdicts is missing: {len(paths)} tables have no one place for their verdicts.")

    from actlab.studies import comparison, deciding, table
    from actlab.studies.comparison import files

    folder = paths[0] if paths[0].is_dir() else paths[0].parent
    out = pathlib.Path(_VERDICTS.value) if _VERDICTS.value else folder / files.FILE
    study = deciding.find(out.parent)
    with contextlib.ExitStack() as stack:
        if study:
            _require_one_table(study, paths)
            paths = [stack.enter_context(deciding.table_of(study, folder))]
        results = table.read(paths)
        names = {result.activation for result in results}
        study = study.of(names) if study else None
        asked = _QUESTION.value or (study.questions if study else ())
        questions = [comparison.parse_question(text, names) for text in asked]
        baseline = _BASELINE.value or (study.baseline if study else None)
        try:
            compared = comparison.compare(results, questions, _MARGIN.value, baseline)
        except UserError as error:
            if _BASELINE.value or baseline is None:
                raise
            compared = comparison.compare(results, questions, _MARGIN.value)
            _console().print(f"warning     no Dunnett's test against {baseline} yet: {error}")
        decisions = deciding.decide(study.claims, results, _MARGIN.value) if study else None
        agreements = deciding.agreements(study.orders, compared) if study else []
        if study:
            out.parent.mkdir(exist_ok=True)  # of an arm, in the study's
        files.write(out, compared, decisions, agreements)
    _show(compared, agreements, decisions or {})
    _console().print(f"verdicts    {out}")


def _require_one_table(study: Any, paths: Sequence[pathlib.Path]) -> None:
    from actlab.studies import deciding

    if len(paths) > 1:
        raise UserError(f"{len(paths)} tables are given: the study in {study.folder} has one, name one workdir.")
    if paths[0].is_file() and paths[0].name != deciding.RESULTS:
        raise UserError(f"{paths[0]} is not the table of the study in {study.folder}: give a workdir or its folder.")


def _show(compared: Sequence[Any], agreements: Sequence[Mapping[str, Any]], decisions: Mapping[str, Any]) -> None:
    from actlab.studies.comparison import listing

    console = _console()
    for one in compared:
        console.print(listing.show(one))
    for one in agreements:
        console.print(
            f"order       tau {one['tau']:+.2f} (p {one['p']:.2g}) with {one['with']}, at this scale ({one['scale']})"
        )
    for id, decision in decisions.items():
        console.print(f"claim       {id} {decision.verdict} at this scale: {decision.deciding}")


def _console() -> Console:
    console = Console(highlight=False, soft_wrap=True)
    return console if console.is_terminal else Console(highlight=False, soft_wrap=True, width=_WIDTH)


if __name__ == "__main__":
    command.run(main)
