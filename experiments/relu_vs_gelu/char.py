"""GELU's loss less ReLU's at 10.7M parameters, of the validations before the runs of char.csv were cut off.

Command: python experiments/relu_vs_gelu/char.py
Prints README.md's table: mean and 95% interval of Student's t over seeds, paired; at the last step also p, Holm over
the four differences.
"""

import collections
import csv
import pathlib
from collections.abc import Sequence

from actlab.__main__ import program
from actlab.analysis.effects import judge, paired
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
    judged = {
        step: judge([paired(*(losses[at, step, f] for f in ("gelu", "relu"))) for at in places]) for step in steps
    }
    cells = [
        ["initialisation", "rate", *(f"step {step}" for step in steps), f"p at {steps[-1]}"],
        ["---"] * (3 + len(steps)),
    ]
    for index, (rate, arm) in enumerate(places):
        effects = [judged[step][index].effect for step in steps]
        gaps = ["{:.4f} ({:.4f} to {:.4f})".format(effect.mean, *effect.interval or ()) for effect in effects]
        cells.append([LABELS[arm], f"{rate:g}", *gaps, f"{judged[steps[-1]][index].p:.2g}"])
    print("\n".join(f"| {' | '.join(line)} |" for line in cells))


if __name__ == "__main__":
    program(main)
