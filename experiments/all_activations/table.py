"""The ranking of all activations as a table in Markdown: loss, best rate, sensitivity, GELU's distance, cost.

Command: python experiments/all_activations/table.py [FOLDER]
FOLDER, the study's own by default, holds verdicts.json. Costs are those of experiments/activation_cost.
A star marks a difference from GELU that is shown, = one within the margin, both after Holm over the questions.
"""

import csv
import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from actlab.__main__ import program
from actlab.cli import command
from actlab.errors import UserError

FOLDER = pathlib.Path(__file__).parent
COSTS = FOLDER.parent / "activation_cost" / "costs.csv"
BASELINE = "gelu"
HEADER = (
    "activation",
    "loss, nats/byte (95%)",
    "best rate",
    f"minus {BASELINE}",
    "LR sensitivity (95%)",
    "failed",
    "time of a layer over ReLU's (95%)",
)

Cost = Mapping[str, tuple[float, float, float]]


@command.entry
def main(argv: Sequence[str]) -> None:
    """Prints the table."""
    words = command.parse(__doc__, argv, n_words=1)
    path = (pathlib.Path(words[0]) if words else FOLDER) / "verdicts.json"
    if not path.is_file():
        raise UserError(f"{path} is missing: python -m actlab verdict writes it.")
    comparison = json.loads(path.read_text())["comparisons"][0]
    with COSTS.open(newline="") as file:
        cost = costs(csv.DictReader(file))
    print("\n".join(lines(comparison, cost)))


def costs(rows: Iterable[Mapping[str, str]]) -> dict[str, tuple[float, float, float]]:
    """Time of a feed-forward layer over that with ReLU, forward and backward, float32: ratio and 95% interval."""
    place = {"setting": "feed_forward", "pass": "forward_backward", "dtype": "float32"}
    return {
        row["activation"]: (float(row["ratio"]), float(row["ratio_low"]), float(row["ratio_high"]))
        for row in rows
        if all(row[name] == value for name, value in place.items())
    }


def lines(comparison: Mapping[str, Any], cost: Cost) -> Iterator[str]:
    """The table's lines, the lowest loss first."""
    view = comparison["views"]["parameters"]
    pairs = {pair["question"]: pair["own_best"] for pair in view["pairs"]}
    yield _line(HEADER)
    yield "|" + "---|" * len(HEADER)
    for one in view["ranking"]:
        yield _line(_cells(one, pairs.get(f"{one['activation']} < {BASELINE}"), cost))


def _cells(one: Mapping[str, Any], pair: Mapping[str, Any] | None, cost: Cost) -> Iterator[str]:
    name = one["activation"]
    yield name
    yield f"{one['loss']:.3f} ({_range(one['interval'])})"
    yield f"{one['best_rate']:g}"
    yield _difference(pair) if pair else ""
    yield f"{one['sensitivity']:.3f} ({_range(one['sensitivity_interval'])})" if one["sensitivity_interval"] else ""
    yield f"{sum(one['failed'].values())} of {one['runs']}"
    yield f"{cost[name][0]:.2f} ({_range(cost[name][1:], 2)})" if name in cost else "not measured"


def _difference(pair: Mapping[str, Any]) -> str:
    star = "*" if pair["verdict"] in ("supported", "refuted") else " =" if pair["verdict"] == "equivalent" else ""
    spread = _range(pair["interval"]) if pair["interval"] else f"sd {pair['sd']:.3f}"
    return f"{pair['mean_difference']:+.3f} ({spread}){star}"


def _range(interval: Iterable[float], digits: int = 3) -> str:
    return " to ".join(f"{value:.{digits}f}" for value in interval)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    program(main)
