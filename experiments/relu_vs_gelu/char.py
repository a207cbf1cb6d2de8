"""GELU's loss less ReLU's on validation at 10.7M parameters, where four seeds were trained and there is no verdict.

Command: python experiments/relu_vs_gelu/char.py
Prints README.md's table: mean and 95% interval of Student's t over seeds, paired.
"""

import collections
import csv
import pathlib
from collections.abc import Mapping, Sequence

from actlab.__main__ import program
from actlab.analysis.effects import paired
from actlab.cli import command

LABELS = {"char": "0.02", "char-gain": "by gain"}


@command.entry
def main(argv: Sequence[str]) -> None:
    """Prints the table."""
    command.parse(__doc__, argv)
    losses: dict[tuple, dict[int, float]] = collections.defaultdict(dict)
    with (pathlib.Path(__file__).parent / "char.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            place = (float(row["learning_rate"]), row["arm"])
            losses[place, int(row["step"]), row["activation"]][int(row["seed"])] = float(row["validation_loss"])
    places = sorted({place for place, *_ in losses})
    steps = sorted({step for _, step, _ in losses} - {0})
    cells = [["initialisation", "rate", *(f"step {step:,}" for step in steps)], ["---"] * (2 + len(steps))]
    for place in places:
        cells.append([LABELS[place[1]], f"{place[0]:g}", *(_gap(losses, place, step) for step in steps)])
    print("\n".join(f"| {' | '.join(line)} |" for line in cells))


def _gap(losses: Mapping[tuple, Mapping[int, float]], place: tuple[float, str], step: int) -> str:
    if (place, step, "gelu") not in losses:
        return ""
    effect = paired(*(losses[place, step, name] for name in ("gelu", "relu")))
    return "{:.4f} ({:.4f} to {:.4f})".format(effect.mean, *effect.interval or ())


if __name__ == "__main__":
    program(main)
