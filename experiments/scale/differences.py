"""Differences between activations and between rates at widths 96 to 160, as the tables of README.md.

Command: python experiments/scale/differences.py
Reads results.csv of these widths and lower_rates.csv; prints Markdown. An excess is the test loss less the entropy of
the test stories, in nats/token. Differences are paired by seed, with 95% t intervals over the seeds.
"""

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

from actlab.__main__ import program
from actlab.analysis import results
from actlab.cli import command

FOLDER = pathlib.Path(__file__).parent
WIDTHS = (96, 128, 160)
NAMES = {"relu": "ReLU", "gelu": "GELU", "swiglu": "SwiGLU", "relu2": "ReLU²"}

Excess = Mapping[tuple[int, float], Mapping[str, Mapping[int, float]]]  # (width, rate) -> activation -> seed


@command.entry
def main(argv: Sequence[str]) -> None:
    """Prints the three tables."""
    command.parse(__doc__, argv, n_words=0)
    print("\n\n".join(tables(measured())))


def measured() -> Excess:
    """The excess of every run of these widths."""
    found: dict[tuple[int, float], dict[str, dict[int, float]]] = {}
    for path, width in ((FOLDER / "lower_rates.csv", None), *((FOLDER / f"{one}/results.csv", one) for one in WIDTHS)):
        for run in results.read([path]):
            assert run.done and run.test_loss is not None and run.test_floor is not None, run.run
            place = (width or int(dict(run.axes)["model.d_model"]), run.learning_rate)
            of_name = found.setdefault(place, {}).setdefault(run.activation, {})
            assert run.seed not in of_name, run.run
            of_name[run.seed] = run.test_loss - run.test_floor
    return dict(sorted(found.items()))


def tables(excess: Excess) -> list[str]:
    """Means with numbers of seeds; differences from GELU at the same rate; differences from the next higher rate."""
    means, from_gelu, from_higher = [], [], []
    for (width, rate), of in excess.items():
        place = (str(width), rate_text(rate))
        means.append(
            [*place, *(f"{np.mean([*of[one].values()]):.3f}, {len(of[one])}" if one in of else "" for one in NAMES)]
        )
        others = [name for name in NAMES if name != "gelu"]
        from_gelu.append([*place, *(difference(of.get(name, {}), of.get("gelu", {})) for name in others)])
        higher = next((one for one in excess if one[0] == width and one[1] > rate), None)
        if higher:
            step = [str(width), f"{place[1]} less {rate_text(higher[1])}"]
            from_higher.append([*step, *(difference(of.get(name, {}), excess[higher].get(name, {})) for name in NAMES)])
    every = list(NAMES.values())
    return [
        table(["width", "rate", *every], means),
        table(["width", "rate", *(f"{name} less GELU" for name in every if name != "GELU")], from_gelu),
        table(["width", "rates", *every], from_higher),
    ]


def rate_text(rate: float) -> str:
    """0.0056 as 5.6e-3."""
    digits, power = f"{rate:.1e}".split("e")
    return f"{float(digits):g}e{int(power)}"


def difference(one: Mapping[int, float], other: Mapping[int, float]) -> str:
    """Mean difference over the seeds of both, its interval, and the number of seeds if it is not five."""
    seeds = sorted(one.keys() & other.keys())
    if not seeds:
        return ""
    values = np.array([one[seed] - other[seed] for seed in seeds])
    if len(seeds) == 1:
        return f"{values[0]:z.4f}, 1"
    half = stats.t.ppf(0.975, len(seeds) - 1) * stats.sem(values)
    ends = f"{values.mean():z.4f} ({values.mean() - half:z.4f} to {values.mean() + half:z.4f})"
    return ends if len(seeds) == 5 else f"{ends}, {len(seeds)}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, without rows that hold no number."""
    lines = [head, ["---"] * len(head), *(row for row in rows if any(row[2:]))]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    program(main)
