"""The study's report, one page of HTML, from the tables and verdicts in its folder.

  python experiments/activation_swap/page.py [FOLDER]

FOLDER, the study's own by default, holds what summary.py wrote; report.html is added.
"""

import csv
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from actlab import command
from actlab.activations import colours
from actlab.errors import UserError
from actlab.files import write_atomically
from actlab.page import Cell, Choice, Controls, Figure, Rows, Section, Table, Text, ink, render

FOLDER = pathlib.Path(__file__).parent
STAGES = {
    "swap": "masked tokens, trained on",
    "finetune": "endings, fine-tuned right after the swap",
    "continued": "endings, fine-tuned after training on",
}
LEAD = (
    "What a trained encoder loses when the activation of k of its blocks is replaced, how much of that a change of the "
    "next bias takes back, and how fast training does. Question, protocol and conclusion: README.md beside this page."
)
SOLID, DASHED, DOTTED = [1, 0], [6, 3], [2, 2]
Row = Mapping[str, str]
Shown = Sequence[Sequence[str | float]]


def main(arguments: list[str]) -> None:
    """Writes the page."""
    command.refuse(arguments[1:])
    folder = pathlib.Path(arguments[0]) if arguments else FOLDER
    jumped, by_epoch = _table(folder / "jumps.csv"), _table(folder / "epochs.csv")
    verdicts = json.loads((folder / "verdicts.json").read_text())["comparisons"]
    sections = [_jumps(jumped), _epochs(by_epoch), _verdicts(verdicts)]
    write_atomically(folder / "report.html", render("Activation swap", LEAD, sections))
    print(folder / "report.html")


def _table(path: pathlib.Path) -> list[Row]:
    if not path.is_file():
        raise UserError(f"{path} is not there: run summary.py first, see README.md.")
    return list(csv.DictReader(path.read_text().splitlines()))


def _jumps(rows: Sequence[Row]) -> Section:
    shown = [[_to(row), int(row["blocks"]), *_numbers(row, "jump", "low", "high")] for row in rows if _swapped(row)]
    data = {"jumps": Rows(("arm", "blocks", "jump", "low", "high"), shown)}
    base = alt.Chart(alt.NamedData("jumps")).encode(
        x=alt.X("blocks:Q", title="blocks that were swapped", axis=alt.Axis(tickMinStep=1)),
        y=alt.Y("jump:Q", title="loss above no swap, nats/masked token"),
        **_ink([str(row[0]) for row in shown]),
    )
    bars = base.mark_rule().encode(y="low:Q", y2="high:Q")
    tips = ["arm:N", "blocks:Q", "jump:Q", "low:Q", "high:Q"]
    chart = alt.layer(base.mark_line(), bars, base.mark_point(filled=True, size=60).encode(tooltip=tips))
    said = "; ".join(f"{arm} in {k}: {jump:.4f}" for arm, k, jump, *_ in shown)
    caption = "Mean over the seeds with its 95% interval; every seed beside itself without a swap."
    figure = Figure("jumps-figure", _spec(chart), data, said, caption)
    return Section("jumps", "The loss right after a swap", (figure, _table_of("jumps-table", rows)))


def _swapped(row: Row) -> bool:
    return row["blocks"] != "0"


def _epochs(rows: Sequence[Row]) -> Section:
    most = max(int(row["blocks"]) for row in rows)
    kept = [row for row in rows if row["stage"] in STAGES and int(row["blocks"]) in (0, most)]
    shown = [[_stage(row), _arm(row), *_numbers(row, "epoch", "loss", "low", "high")] for row in kept]
    data = {"epochs": Rows(("stage", "arm", "epoch", "loss", "low", "high"), shown)}
    stages = tuple(dict.fromkeys(str(row[0]) for row in shown))
    plain = alt.Chart(alt.NamedData("epochs")).transform_filter("datum.stage === stage").encode(x=alt.X("epoch:Q"))
    arms = list(dict.fromkeys(str(row[1]) for row in shown))
    y = alt.Y("loss:Q", title="validation loss, nats", scale=alt.Scale(zero=False))
    fill = alt.Fill("arm:N", scale=_colours(arms), legend=None)
    band = plain.mark_area(opacity=0.12, strokeWidth=0).encode(y=alt.Y("low:Q"), y2="high:Q", fill=fill)
    tips = ["arm:N", "epoch:Q", "loss:Q", "low:Q", "high:Q"]
    line = plain.mark_line(point=True).encode(y=y, tooltip=tips, **_ink(arms))
    controls = Controls((Choice("stage", "stage", stages, stages[0]),))
    caption = "Mean over the seeds; the band is its 95% interval."
    said = f"Validation loss against epoch of {len(arms)} arms; the table below has the numbers."
    figure = Figure("epochs-figure", _spec(alt.layer(line, band), stage=stages[0]), data, said, caption)
    return Section("epochs", "As training goes on", (controls, figure, _table_of("epochs-table", rows, filtered=True)))


def _verdicts(verdicts: Sequence[Mapping[str, Any]]) -> Section:
    columns = ("stage", "step", "is the loss lower of", "than of", "difference, nats", "95% interval", "p, Holm", "so")
    words = Text("Paired by seed; Holm over the comparisons of a stage at a step; equivalent: within 0.005 nats.")
    return Section("verdicts", "Verdicts", (words, Table("verdicts-table", columns, list(map(_verdict, verdicts)))))


def _verdict(one: Mapping[str, Any]) -> list[Cell | str]:
    low, high = one["t_interval"]
    place: list[Cell | str] = [one["stage"], Cell(str(one["step"]), one["step"]), one["first"], one["second"]]
    mean = Cell(f"{one['mean_difference']:+.3g}", one["mean_difference"])
    return [*place, mean, f"{low:+.3g} to {high:+.3g}", Cell(f"{one['p_holm']:.2g}", one["p_holm"]), one["verdict"]]


def _table_of(name: str, rows: Sequence[Row], filtered: bool = False) -> Table:
    return Table(name, tuple(rows[0]), [[_cell(value) for value in row.values()] for row in rows], filtered=filtered)


def _cell(value: str) -> Cell | str:
    try:
        number = float(value)
    except ValueError:
        return value
    return Cell(f"{number:.4g}", number)


def _stage(row: Row) -> str:
    return STAGES[row["stage"]]


def _to(row: Row) -> str:
    return row["to"] + (", mean folded" if row["fold"] == "True" else "")


def _arm(row: Row) -> str:
    return f"{row['activation']}, {_to(row)} in {row['blocks']}" if _swapped(row) else row["activation"]


def _numbers(row: Row, *names: str) -> list[float]:
    return [float(row[name]) for name in names]


def _ink(arms: Sequence[str]) -> dict[str, Any]:
    """Colour by the activation that an arm ends with; dashes for a folded mean, dots for what had it from the start."""
    names = list(dict.fromkeys(arms))
    dashes = [DASHED if "folded" in name else DOTTED if name == "relu" and "gelu" in names else SOLID for name in names]
    legend = alt.Legend(title=None, orient="bottom", columns=3, labelLimit=300)
    return {
        "color": alt.Color("arm:N", scale=_colours(names), legend=legend),
        "strokeDash": alt.StrokeDash("arm:N", scale=alt.Scale(domain=names, range=dashes), legend=legend),
    }


def _colours(arms: Sequence[str]) -> alt.Scale:
    last = [name.removeprefix("gelu, ").split(",")[0].split(" in ")[0] for name in arms]
    return alt.Scale(domain=list(arms), range=[ink(colours.style(one).colour) for one in last])


def _spec(chart: alt.LayerChart, **params: str) -> dict[str, Any]:
    content = chart.properties(width="container", height=320).to_dict()
    content.pop("config", None)
    return {**content, "params": [{"name": name, "value": value} for name, value in params.items()]}


if __name__ == "__main__":
    command.run(main)
