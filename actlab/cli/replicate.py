"""Compares runs that were trained again, elsewhere or with other seeds, with a study's.

  python -m actlab.main --config=experiments/NAME/study.py --run=gelu-lr0.001-seed1 --config.seed=7 --workdir=runs/again
  python -m actlab replicate experiments/NAME runs/again

The first argument is the study, a workdir or a folder with a results.csv; the others are the repeated runs. A run is
expected in the 95% prediction interval of one more seed, from the study's runs of the same activation, learning rate
and further axes. Exit code 1 if a run lies farther away than chance explains: p at most 1%, after Holm.
"""

import itertools
from collections.abc import Sequence

from rich.table import Table

from actlab.cli import command
from actlab.console import lines
from actlab.errors import UserError

EXIT_OUTSIDE = 1


@command.entry
def main(argv: Sequence[str]) -> int:
    """Prints a row per run and the verdict; returns 1 if a run is farther away than chance explains, else 0."""
    words = command.parse(__doc__, argv, n_words=None)
    if len(words) < 2:
        raise UserError("two tables are needed: python -m actlab replicate experiments/NAME runs/AGAIN.")

    paths = command.paths(words)
    first, *others = (path.resolve().parent if path.is_file() else path.resolve() for path in paths)
    if first in others:
        raise UserError(f"{paths[0]} would be compared with itself: name another training of it.")

    from actlab.analysis import replication, results
    from actlab.analysis.effects import nats

    study, *again = results.read_each(paths)
    found = replication.compare(study, (one for one in itertools.chain(*again) if one.status != results.WAITING))
    grid = Table("run", "validation loss", "expected", "of", "inside", "p", box=None, pad_edge=False)
    for one in found.repeats:
        expected = " to ".join(map(nats, one.expected))
        inside = "yes" if one.inside else "NO"
        grid.add_row(one.run.run, nats(one.run.loss), expected, str(len(one.losses)), inside, f"{one.p:.2g}")
    console = lines()
    console.print(grid)
    n_inside = f"{sum(one.inside for one in found.repeats)} of {len(found.repeats)} inside"
    word = "replicated" if found.holds else "not replicated"
    console.print(f"verdict     {word}: {n_inside}; the farthest has p {found.p:.2g} after Holm")
    return 0 if found.holds else EXIT_OUTSIDE
