"""Compares the activations of a sweep, or of several, and says how sure one can be.

python -m actlab.verdict runs/seed_study-1a2b3c4d --question='gelu<relu' --baseline=relu
"""

import pathlib

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

    from actlab.studies import comparison, table
    from actlab.studies.comparison import files, listing

    results = table.read(paths)
    names = {result.activation for result in results}
    questions = [comparison.parse_question(text, names) for text in _QUESTION.value]
    compared = comparison.compare(results, questions, _MARGIN.value, _BASELINE.value)
    folder = paths[0] if paths[0].is_dir() else paths[0].parent
    out = pathlib.Path(_VERDICTS.value) if _VERDICTS.value else folder / files.FILE
    files.write(out, compared)
    console = Console(highlight=False, soft_wrap=True)
    console = console if console.is_terminal else Console(highlight=False, soft_wrap=True, width=_WIDTH)
    for one in compared:
        console.print(listing.show(one))
    console.print(f"verdicts    {out}")


if __name__ == "__main__":
    command.run(main)
