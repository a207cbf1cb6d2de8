"""What each follow-up arm does to the gap between GELU and ReLU, and to the losses themselves.

Command: python experiments/relu_vs_gelu/arms.py [FOLDER]
FOLDER, the study's own by default, holds the plain study's results.csv and a folder with one for every arm. Writes
arms.csv and the figure arms, and prints a table for the page. The gap is GELU's loss minus ReLU's, paired by seed, with
2% of warmup; its change is that from the plain study. 95% intervals of Student's t; Holm corrects over the arms at a
rate, the plain study among them.
"""

import csv
import pathlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from actlab.__main__ import program
from actlab.analysis import results
from actlab.analysis.conditions import MARGINS
from actlab.analysis.effects import Effect, Judgement, judge, nats, paired
from actlab.analysis.results import Result
from actlab.cli import command
from actlab.errors import UserError

try:
    import altair as alt

    from actlab.report import charts, page
    from actlab.report.page.render import export
except ModuleNotFoundError as error:
    sys.exit(command.missing(error))

FOLDER = pathlib.Path(__file__).parent
RESULTS, ARMS = "results.csv", "arms.csv"
PLAIN, WARMUP = "plain", "optimizer.warmup_steps"
NAMES = ("relu", "gelu")
GAP = ("gap", "gap_low", "gap_high")
LABELS = {
    PLAIN: "as it is",
    "gain": "initialisation by gain",
    "fan_in": "initialisation by fan-in",
    "twice": "twice the steps",
    "four_times": "four times the steps",
    "biases": "biases",
    "no_decay": "no weight decay",
}
HEADER = ("arm", "rate", "ReLU", "GELU", "gap (95%)", "p", "change of the gap (95%)", "p")

Losses = dict[str, dict[int, float]]  # activation -> seed -> nats/byte
Rows = list[dict[str, Any]]


@command.entry
def main(argv: Sequence[str]) -> None:
    """Writes the arms' table and figure, and prints the table."""
    words = command.parse(__doc__, argv, n_words=1)
    folder = pathlib.Path(words[0]) if words else FOLDER
    rows = compare(read(folder))
    with (folder / ARMS).open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    draw(folder, rows)
    print("\n".join(lines(rows)))


def read(folder: pathlib.Path) -> dict[str, dict[float, Losses]]:
    """Losses by arm, learning rate, activation and seed, at the rates at which all of an arm's runs have ended.

    Raises:
        UserError: the plain study, or every arm, is missing.
    """
    places = {PLAIN: folder, **{arm: folder / arm for arm in LABELS if arm != PLAIN}}
    found = {arm: _losses(results.read([path / RESULTS])) for arm, path in places.items() if (path / RESULTS).is_file()}
    if PLAIN not in found or len(found) == 1:
        raise UserError(f"{folder} has no {RESULTS} beside one in a folder of an arm: train both first, see README.md.")
    return found


def _losses(results: Sequence[Result]) -> dict[float, Losses]:
    longest = max(_warmup(result) for result in results)
    mine = [result for result in results if _warmup(result) == longest]  # the plain study was also run without
    whole = {result.learning_rate for result in mine} - {result.learning_rate for result in mine if not result.done}
    found: dict[float, Losses] = {}
    for result in mine:
        if result.learning_rate in whole:
            by_name = found.setdefault(result.learning_rate, {})
            by_name.setdefault(result.activation, {})[result.seed] = result.loss
    return found


def _warmup(result: Result) -> int:
    return int(dict(result.axes)[WARMUP])


def compare(arms: Mapping[str, Mapping[float, Losses]]) -> Rows:
    """A row per learning rate and arm, for the rates that an arm and the plain study have."""
    rates = sorted({rate for arm, by_rate in arms.items() if arm != PLAIN for rate in by_rate} & set(arms[PLAIN]))
    return [row for rate in rates for row in _at({arm: of[rate] for arm, of in arms.items() if rate in of}, rate)]


def _at(arms: Mapping[str, Losses], rate: float) -> Iterator[dict[str, Any]]:
    gaps = {arm: _gap(losses) for arm, losses in arms.items()}
    level = {arm: paired(losses["gelu"], losses["relu"]) for arm, losses in arms.items()}
    changes = {arm: paired(gap, gaps[PLAIN]) for arm, gap in gaps.items() if arm != PLAIN}
    judged, changed = _judged(level), _judged(changes)
    for arm, losses in arms.items():
        place = {"arm": arm, "learning_rate": rate, "seeds": judged[arm].effect.n}
        means = {key: number for name in NAMES for key, number in _mean_and_sd(name, losses[name])}
        yield place | means | _numbers("gap", judged[arm]) | _numbers("change", changed.get(arm))


def _gap(losses: Losses) -> dict[int, float]:
    relu, gelu = (losses[name] for name in NAMES)
    return {seed: gelu[seed] - relu[seed] for seed in sorted(relu.keys() & gelu.keys())}


def _judged(effects: Mapping[str, Effect]) -> dict[str, Judgement]:
    return dict(zip(effects, judge(list(effects.values()), MARGINS["next_token"]), strict=True))


def _mean_and_sd(name: str, by_seed: Mapping[int, float]) -> Iterator[tuple[str, str]]:
    values = np.array(list(by_seed.values()))
    yield name, _digits(values.mean())
    yield f"{name}_sd", _digits(values.std(ddof=1))


def _numbers(name: str, judgement: Judgement | None) -> dict[str, Any]:
    keys = (name, f"{name}_low", f"{name}_high", f"{name}_p_holm", f"{name}_family")
    if judgement is None or judgement.effect.interval is None:
        return dict.fromkeys(keys, "")
    values = (judgement.effect.mean, *judgement.effect.interval, judgement.p, judgement.family)
    return dict(zip(keys, map(_digits, values), strict=True))


def _digits(value: float | None) -> str:
    return "" if value is None else f"{value:.9g}"


def lines(rows: Rows) -> Iterator[str]:
    """The table in Markdown."""
    yield _line(HEADER)
    yield _line(["---"] * len(HEADER))
    for row in rows:
        losses = [f"{float(row[name]):.3f} ({float(row[f'{name}_sd']):.3f})" for name in NAMES]
        effects = [cell for name in ("gap", "change") for cell in _cells(row, name)]
        yield _line([LABELS[row["arm"]], f"{row['learning_rate']:g}", *losses, *effects])


def _cells(row: Mapping[str, Any], name: str) -> tuple[str, str]:
    if row[name] == "":
        return "", ""
    mean, low, high = (nats(float(row[key])) for key in (name, f"{name}_low", f"{name}_high"))
    return f"{mean} ({low} to {high})", f"{float(row[f'{name}_p_holm']):.2g}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def draw(folder: pathlib.Path, rows: Rows) -> None:
    """Writes the gaps with their intervals, a panel for each rate, as SVG, PNG and PDF."""
    shown = [
        (f"learning rate {row['learning_rate']:g}", LABELS[row["arm"]], *(float(row[key]) for key in GAP))
        for row in rows
    ]
    labels, panels = list(dict.fromkeys(row[1] for row in shown)), list(dict.fromkeys(row[0] for row in shown))
    base = alt.Chart().encode(y=alt.Y("arm:N", sort=labels, title=None, axis=alt.Axis(labelLimit=200)))
    x = {"title": "GELU minus ReLU, nats/byte", "axis": alt.Axis(tickCount=5)}
    bars = base.mark_rule(strokeWidth=1.5).encode(x=alt.X("low:Q", **x), x2="high:Q")
    dots = base.mark_point(filled=True, size=40, opacity=1, color="var(--ink)").encode(x=alt.X("gap:Q", **x))
    zero = alt.Chart().mark_rule(strokeDash=[4, 3], color="var(--faint)").encode(x=alt.datum(0))
    chart = alt.layer(zero, bars, dots).properties(width=400 // len(panels), height=20 * len(labels))
    facet = alt.Facet("rate:N", title=None, sort=panels)
    chart = chart.facet(facet, data=alt.NamedData("gaps"), columns=len(panels))
    data = {"gaps": page.Rows(("rate", "arm", "gap", "low", "high"), shown)}
    export(page.Figure("arms", charts.spec(chart, {}), data, "The gap of each arm with its interval."), folder)


if __name__ == "__main__":
    program(main)
