"""GELU beside ReLU at 10.8M parameters: test losses at the end of training.

Command: python experiments/relu_vs_gelu/char.py
Prints char.md's table: mean and sd of the test loss over seeds, and GELU's less ReLU's, paired by seed, with a 95%
interval of Student's t.
"""

import collections
import csv
import pathlib
import statistics
from collections.abc import Iterator, Mapping, Sequence

from actlab.__main__ import program
from actlab.analysis.effects import paired
from actlab.cli import command

FOLDER = pathlib.Path(__file__).parent
LABELS = {"char-gain": "by gain", "char": "0.02"}
NAMES = ("relu", "gelu")


@command.entry
def main(argv: Sequence[str]) -> None:
    """Prints the table."""
    command.parse(__doc__, argv)
    header = ["initialisation", "rate", "ReLU", "GELU", "GELU less ReLU (95%)"]
    for cells in (header, ["---"] * len(header), *_rows()):
        print(f"| {' | '.join(cells)} |")


def _rows() -> Iterator[list[str]]:
    for arm, label in LABELS.items():
        losses: dict[float, dict[str, dict[int, float]]] = collections.defaultdict(lambda: {name: {} for name in NAMES})
        with (FOLDER / arm / "results.csv").open(newline="") as file:
            for row in csv.DictReader(file):
                losses[float(row["learning_rate"])][row["activation"]][int(row["seed"])] = float(row["test_loss"])
        for rate, by_name in sorted(losses.items()):
            yield [label, f"{rate:g}", *(_told(list(by_name[name].values())) for name in NAMES), _gap(by_name)]


def _told(losses: Sequence[float]) -> str:
    return f"{statistics.mean(losses):.4f} ({statistics.stdev(losses):.4f}), {len(losses)}"


def _gap(losses: Mapping[str, Mapping[int, float]]) -> str:
    effect = paired(losses["gelu"], losses["relu"])
    return "{:.4f} ({:.4f} to {:.4f})".format(effect.mean, *effect.interval or ())


if __name__ == "__main__":
    program(main)
