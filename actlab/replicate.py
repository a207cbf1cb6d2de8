"""Compares what was trained again, elsewhere or with other seeds, to a study: each loss should lie where it says.

  python -m actlab.main --config=experiments/NAME/study.py --run=gelu-lr0.001-seed1 --config.seed=7 --workdir=runs/again
  python -m actlab.replicate experiments/NAME runs/again

The first argument is the study, a workdir or a folder with a results.csv; the others are what was trained again. A run
is expected in the interval in which 95% of further seeds fall, by the study's runs of the same activation, learning
rate and further axes. Exit code 1 if one lies farther away than chance explains: a p of 1% or less, after Holm.
"""

import pathlib

from rich.console import Console
from rich.table import Table

from actlab import command
from actlab.errors import UserError

EXIT_OUTSIDE = 1
_WIDTH = 160  # where there is no terminal to ask


def main(arguments: list[str]) -> int:
    """Prints a row per run and what they come to; returns 0 if none is farther away than chance explains, else 1."""
    if len(arguments) < 2:
        raise UserError("two tables are needed: python -m actlab.replicate experiments/NAME runs/AGAIN.")

    from actlab.studies import replication, table
    from actlab.studies.statistics import nats

    study, *again = map(pathlib.Path, arguments)
    n_study = len(table.read([study]))
    results = table.read([study, *again])
    found = replication.compare(results[:n_study], results[n_study:])
    grid = Table("run", "loss", "expected", "of", "inside", "p", box=None, pad_edge=False)
    for one in found.repeats:
        expected = " to ".join(map(nats, one.expected))
        words = "yes" if one.inside else "NO"
        grid.add_row(one.run.run, nats(one.run.loss), expected, str(len(one.losses)), words, f"{one.p:.2g}")
    console = Console(highlight=False, soft_wrap=True)
    console = console if console.is_terminal else Console(highlight=False, soft_wrap=True, width=_WIDTH)
    console.print(grid)
    inside = f"{sum(one.inside for one in found.repeats)} of {len(found.repeats)} inside"
    word = "replicated" if found.holds else "not replicated"
    console.print(f"verdict     {word}: {inside}; the farthest has p {found.p:.2g} after Holm")
    return 0 if found.holds else EXIT_OUTSIDE


if __name__ == "__main__":
    command.run(main)
