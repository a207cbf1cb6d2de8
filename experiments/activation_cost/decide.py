"""Decides the claims on cost from costs.csv, which python -m actlab bench activations writes; see README.md.

Command: python experiments/activation_cost/decide.py
"""

import csv
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence

from actlab.__main__ import program
from actlab.cli import command
from actlab.errors import UserError

FOLDER = pathlib.Path(__file__).parent
COSTS, VERDICTS = "costs.csv", "verdicts.json"
Row = Mapping[str, str]
# Claim: activation, setting, pass, the quantity, and between which bounds it says that lies.
# A10, "expensive": GELU alone takes twice ReLU's time or more. A50: 3 to 4 times the FLOPs. B20: ReLU is a little
# faster, so a feed-forward layer with GELU takes longer, by less than a quarter. Times are divided by the null ratio,
# that of ReLU measured against itself as if it were another activation, which is not 1 everywhere.
CLAIMS = {
    "A10": ("gelu", "alone", "forward", "time", (2.0, float("inf"))),
    "A50": ("gelu", "alone", "forward", "flops", (3.0, 4.0)),
    "B20": ("gelu", "feed_forward", "forward_backward", "time", (1.0, 1.25)),
}


def decide(rows: Iterable[Row]) -> dict[str, dict[str, str]]:
    """{claim: {"verdict", "evidence"}}: supported where it holds in every row, that is, at every size and dtype."""
    rows = list(rows)
    return {id: _decide(rows, *rule) for id, rule in CLAIMS.items()}


def _decide(
    rows: list[Row], activation: str, setting: str, passes: str, of: str, bounds: tuple[float, float]
) -> dict[str, str]:
    place = {"activation": activation, "setting": setting, "pass": passes}
    mine = [row for row in rows if all(row[name] == value for name, value in place.items())]
    found = [(row, *_ratio(row, rows, of)) for row in mine]
    words = {_word(low, high, bounds) for _, _, low, high in found}
    verdict = words.pop() if len(words) == 1 else "refuted" if "refuted" in words else "undecided"
    listed = "; ".join(f"{row['size']} {row['dtype']} on {row['device']}: {_said(row, rows, of)}" for row in mine)
    what = f"{of} of {activation}, the catalogue's program, over ReLU's, {setting}, {passes}"
    said = f"said is {bounds[0]:g} to {bounds[1]:g}"
    return {"verdict": verdict, "evidence": f"{what} ({said}), at this scale: {listed or 'no row'}."}


def _said(row: Row, rows: list[Row], of: str) -> str:
    ratio, low, high = _ratio(row, rows, of)
    if of == "flops":
        return f"{ratio:.3g}"
    measured, null = float(row["ratio"]), float(_relu(row, rows)["ratio"])
    interval = f"by the ends of both 95% intervals {low:.3g} to {high:.3g}, {row['repetitions']} repetitions"
    return f"{measured:.3g} over ReLU's own {null:.3g} is {ratio:.3g} ({interval})"


def _ratio(row: Row, rows: list[Row], of: str) -> tuple[float, float, float]:
    """A row's quantity over ReLU's with its least and greatest value: for a time, over the ends of both intervals."""
    relu = _relu(row, rows)
    if of == "time":
        (ratio, low, high), (null, null_low, null_high) = _interval(row), _interval(relu)
        return ratio / null, low / null_high, high / null_low
    ratio = float(row["flops_per_element"]) / float(relu["flops_per_element"])
    return ratio, ratio, ratio


def _interval(row: Row) -> tuple[float, float, float]:
    return float(row["ratio"]), float(row["ratio_low"]), float(row["ratio_high"])


def _relu(row: Row, rows: list[Row]) -> Row:
    same = ("setting", "pass", "dtype", "size", "device")
    found = [one for one in rows if one["activation"] == "relu" and all(one[name] == row[name] for name in same)]
    if not found:
        place = ", ".join(row[name] for name in same)
        raise UserError(
            f"{COSTS} has no row of relu at {place}: measure relu there too, every ratio is divided by its."
        )
    return found[0]


def _word(low: float, high: float, bounds: tuple[float, float]) -> str:
    if bounds[0] <= low and high <= bounds[1]:
        return "supported"
    return "refuted" if high < bounds[0] or low > bounds[1] else "undecided"


@command.entry
def main(argv: Sequence[str]) -> None:
    """Reads the table, writes verdicts.json, prints it."""
    command.parse(__doc__, argv)
    if not (FOLDER / COSTS).is_file():
        raise UserError(f"{FOLDER / COSTS} is missing: measure first, see README.md.")
    rows = list(csv.DictReader((FOLDER / COSTS).read_text().splitlines()))
    text = json.dumps({"claims": decide(rows)}, indent=2) + "\n"
    (FOLDER / VERDICTS).write_text(text)
    print(text, end="")


if __name__ == "__main__":
    program(main)
