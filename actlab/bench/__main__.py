"""Measures speed on this machine.

  python -m actlab.bench training
  python -m actlab.bench training --shapes=1.3M,10.7M --repetitions=9 --out=speed.csv

With the `reference` extra installed, GPT-2 from transformers on PyTorch is measured beside, turn by turn.
"""

import csv
import pathlib

from absl import flags
from rich.console import Console
from rich.table import Table

from actlab import command
from actlab.errors import UserError, suggestion

_SHAPES = flags.DEFINE_list("shapes", ["1.3M", "10.7M", "30M"], "Model sizes to measure.")
_REPETITIONS = flags.DEFINE_integer("repetitions", 5, "Turns of each contender.", lower_bound=1)
_OUT = flags.DEFINE_string("out", None, "CSV file for the rows; none is written by default.")


def main(arguments: list[str]) -> None:
    """Runs the benchmark named by the one argument."""
    if arguments != ["training"]:
        raise UserError(f"{' '.join(arguments)!r} is no benchmark: write python -m actlab.bench training.")

    from actlab.bench import training

    for name in _SHAPES.value or [""]:
        if name not in training.SHAPES:
            raise UserError(f"--shapes={name} is not known: {suggestion(name, training.SHAPES)}")
    rows = list(training.measure(_SHAPES.value, _REPETITIONS.value))
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console().print(table)
    if _OUT.value:
        with pathlib.Path(_OUT.value).open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    command.run(main)
