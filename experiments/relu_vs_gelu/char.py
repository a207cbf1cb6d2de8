"""GELU beside ReLU at 10.8M parameters: test losses at the end, and what is known of trainings without a verdict.

Command: python experiments/relu_vs_gelu/char.py
Prints README.md's two tables. First mean and sd of the test loss over seeds, and GELU's less ReLU's where seeds are
paired; then GELU's validation loss less ReLU's, of four seeds. Both with 95% intervals of Student's t.
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

Losses = Mapping[tuple, Mapping[int, float]]  # (place, activation) -> seed -> nats/byte


@command.entry
def main(argv: Sequence[str]) -> None:
    """Prints the tables."""
    command.parse(__doc__, argv)
    header = ["initialisation", "rate", "ReLU", "GELU", "GELU less ReLU (95%)"]
    print("\n".join(_lines(header, _at_the_end())) + "\n")
    losses = collections.defaultdict(dict)
    for row in _rows("char.csv"):
        place = (row["arm"], row["learning_rate"], row["loan"])
        losses[(*place, int(row["step"])), row["activation"]][int(row["seed"])] = float(row["validation_loss"])
    places = list(dict.fromkeys(place[:3] for place, _ in losses))
    steps = sorted({place[3] for place, _ in losses} - {0})
    rows = ([LABELS[place[0]], *place[1:], *(_gap(losses, (*place, step)) for step in steps)] for place in places)
    print("\n".join(_lines(["initialisation", "rate", "loan", *(f"step {step:,}" for step in steps)], rows)))


def _rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(newline="") as file:
        return list(csv.DictReader(file))


def _lines(header: list[str], rows: Iterator[list[str]]) -> Iterator[str]:
    for cells in (header, ["---"] * len(header), *rows):
        yield f"| {' | '.join(cells)} |"


def _at_the_end() -> Iterator[list[str]]:
    for arm in LABELS:
        losses = collections.defaultdict(dict)
        for row in _rows(f"{arm}/results.csv"):
            losses[float(row["learning_rate"]), row["activation"]][int(row["seed"])] = float(row["test_loss"])
        for rate in sorted({rate for rate, _ in losses}):
            cells = [_told(list(losses[rate, name].values())) if (rate, name) in losses else "" for name in NAMES]
            yield [LABELS[arm], f"{rate:g}", *cells, _gap(losses, rate)]


def _told(losses: Sequence[float]) -> str:
    return f"{statistics.mean(losses):.4f} ({statistics.stdev(losses):.4f}), {len(losses)}"


def _gap(losses: Losses, place: object) -> str:
    if any((place, name) not in losses for name in NAMES):
        return ""
    effect = paired(losses[place, "gelu"], losses[place, "relu"])
    return "{:.4f} ({:.4f} to {:.4f})".format(effect.mean, *effect.interval or ())


if __name__ == "__main__":
    program(main)
