"""Results of the study: the loss right after a swap against k, and how training recovers it, with verdicts and figures.

  python experiments/activation_swap/summary.py [RUNS [FOLDER]]

RUNS holds the stages' workdirs, runs/activation_swap by default. FOLDER, the study's own by default, gets a row per run
and evaluation, evaluations.csv, and what follows from it: jumps.csv, epochs.csv, verdicts.json, the figures jumps and
epochs, and report.html, a page with all of them. If RUNS is FOLDER, all is made again from its evaluations.csv.
Differences are paired by seed, with 95% intervals of Student's t; Holm corrects over the comparisons of a stage at a
step.
"""

import csv
import json
import pathlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from actlab import config as config_lib
from actlab.__main__ import program
from actlab.analysis.effects import from_zero, judge, paired, t_interval
from actlab.cli import command
from actlab.config import Config, sweep
from actlab.errors import UserError
from actlab.files import write_atomically
from actlab.workdir.records import Workdir

try:
    import altair as alt

    from actlab.report import charts, page
    from actlab.report.page import Cell, Figure, Section, Swatch, Table, Text
    from actlab.report.page.render import export, render
except ModuleNotFoundError as error:
    sys.exit(command.missing(error))

FOLDER = pathlib.Path(__file__).parent
EVALUATIONS = "evaluations.csv"
STAGES = {  # and what their losses are of
    "pretrain": "masked tokens, pre-trained",
    "swap": "masked tokens, trained on",
    "finetune": "endings, fine-tuned right after the swap",
    "continued": "endings, fine-tuned after training on",
}
LEAD = (
    "What a trained encoder loses when the activation of k of its blocks is replaced, how much of that a changed "
    "bias recovers, and how fast training recovers the rest. Question, protocol and conclusion are in the README."
)
MARGIN = 0.005  # nats per masked token and per ending
VERDICTS = (
    "Is the loss of the first lower than that of the second? Paired by seed; Holm over the comparisons of a stage at "
    f"one step; equivalent: within {MARGIN:g} nats."
)
MEASURED = ("accuracy", "majority_accuracy", "dead_fraction")
_DIGITS = 9  # what a sum in another order could change is left out

Row = Mapping[str, Any]
Rows = list[dict[str, Any]]
Seeds = dict[int, Row]


class Arm(NamedTuple):
    """A run without its seed: pre-trained with `activation`, which `to` then replaces in the first `blocks` blocks."""

    activation: str
    to: str = ""
    blocks: int = 0
    fold: bool = False

    def __str__(self) -> str:
        if not self.blocks:
            return self.activation
        return f"{self.activation}, {self.to} in {self.blocks}" + (", mean folded" if self.fold else "")


Curves = dict[str, dict[Arm, dict[int, Seeds]]]  # stage -> arm -> step -> seed -> row


@command.entry
def main(argv: Sequence[str]) -> None:
    """Writes the table of runs and all that follows from it, and prints the verdicts."""
    given = command.parse(__doc__, argv, n_words=2)
    runs = pathlib.Path(given[0] if given else "runs/activation_swap")
    folder = pathlib.Path(given[1]) if len(given) > 1 else FOLDER
    if runs.resolve() != folder.resolve():
        _write(folder / EVALUATIONS, collect(runs))
    stages = curves(read(folder / EVALUATIONS))
    verdicts, jumped, by_epoch = compare(stages), jumps(stages), epochs(stages)
    _write(folder / "jumps.csv", _rounded(jumped))
    _write(folder / "epochs.csv", _rounded(by_epoch))
    # No claim waits for this study; actlab.claims reads the file of every study.
    content = {"claims": {}, "comparisons": _rounded(verdicts)}
    write_atomically(folder / "verdicts.json", json.dumps(content, indent=2, allow_nan=False) + "\n")
    write_page(folder, jumped, by_epoch, verdicts)
    print(*map(words, verdicts), sep="\n")


def collect(runs: pathlib.Path) -> Rows:
    """A row per run and evaluation, of every stage that was trained.

    Raises:
        UserError: no stage was trained, or a run diverged.
    """
    found = [row for stage in STAGES if (runs / stage / "config.json").is_file() for row in _stage(runs / stage)]
    if not found:
        raise UserError(f"{runs} has no stage that was trained: train one first, see README.md.")
    return found


def _stage(workdir: pathlib.Path) -> Rows:
    records = Workdir(workdir, writes=False)
    config = config_lib.from_json((workdir / "config.json").read_text())
    of = {run.name: run.config for run in sweep.expand(config)}
    data = records.manifest()["data"]
    epoch = _epochs_per_step(config, data)
    majority = {row["run"]: row.get("majority_accuracy", "") for row in records.results()}
    metrics = records.metrics()
    dead = {(row["run"], row["step"]): row["dead_fraction"] for row in metrics if row.get("dead_fraction") is not None}
    rows: Rows = []
    for row in metrics:
        if row["split"] != "validation":
            continue
        name, step = row["run"], row["step"]
        if row["loss"] is None:
            raise UserError(f"{workdir}: {name} diverged by step {step}: train the stage at a lower rate.")
        place = {"stage": workdir.name, "run": name, **_arm_of(of[name])._asdict(), "seed": of[name].seed, "step": step}
        scores = {"epoch": round(step * epoch, 3), "loss": row["loss"], "accuracy": row.get("accuracy", "")}
        more = {"majority_accuracy": majority.get(name, ""), "dead_fraction": dead.get((name, step), "")}
        rows.append({**place, **scores, **more, "data_fingerprint": data["fingerprint"][:12]})
    return rows


def _arm_of(config: Config) -> Arm:
    swap, plain = config.finetune.swap, Arm(config.model.activation)
    return plain._replace(to=swap.to, blocks=swap.blocks, fold=config.finetune.fold) if swap.blocks else plain


def _epochs_per_step(config: Config, data: Row) -> float:
    """Share of the training rows, documents or windows, in a batch."""
    windows = data["tokens"]["train"] // config.model.context
    return config.data.batch_size / (data["documents"]["train"] if config.finetune.task else windows)


def read(path: pathlib.Path) -> Rows:
    """The table of runs.

    Raises:
        UserError: the file is missing.
    """
    if not path.is_file():
        raise UserError(f"{path} is missing: give a folder of stages, or one with that table.")
    return list(csv.DictReader(path.read_text().splitlines()))


def curves(rows: Iterable[Row]) -> Curves:
    """The rows by stage, arm, step and seed.

    Raises:
        UserError: an arm has a single seed.
    """
    found: Curves = {}
    for row in rows:
        steps = found.setdefault(row["stage"], {}).setdefault(_arm(row), {})
        steps.setdefault(int(row["step"]), {})[int(row["seed"])] = row
    for stage, arms in found.items():
        for arm, steps in arms.items():
            if any(len(seeds) < 2 for seeds in steps.values()):
                raise UserError(f"{stage}: {arm} has one seed, and an interval takes two: train more.")
    return found


def jumps(stages: Curves) -> Rows:
    """A row per arm: the mean loss before the first step, and by how much it exceeds that of the same seeds unswapped.

    Raises:
        UserError: the stage swap was not trained.
    """
    if "swap" not in stages:
        raise UserError("the stage swap is not trained: train it first, see README.md.")
    arms = stages["swap"]
    rows: Rows = []
    for arm, steps in arms.items():
        effect = paired(_losses(steps[0]), _losses(arms[Arm(arm.activation)][0]))
        low, high = effect.interval or (None, None)
        loss = _mean(steps[0], "loss")
        rows.append({**arm._asdict(), "seeds": effect.n, "loss": loss, "jump": effect.mean, "low": low, "high": high})
    return rows


def epochs(stages: Curves) -> Rows:
    """A row per stage, arm and evaluation: the mean loss and its interval; means of the rest where it was measured."""
    rows: Rows = []
    for stage, arms in stages.items():
        for arm, steps in arms.items():
            for step, seeds in sorted(steps.items()):
                first = next(iter(seeds.values()))
                place = {"stage": stage, **arm._asdict(), "step": step, "epoch": float(first["epoch"])}
                low, high = from_zero(t_interval(np.array(list(_losses(seeds).values()))))
                scores = {"loss": _mean(seeds, "loss"), "low": low, "high": high}
                more = {name: _mean(seeds, name) for name in MEASURED}
                rows.append({**place, "seeds": len(seeds), **scores, **more})
    return rows


def compare(stages: Curves) -> Rows:
    """Verdicts: the unchanged encoder against every other arm, and the mean folded into the bias against not.

    At step 0 of the stage swap, and in every stage at the last step that all arms have reached.
    """
    found: Rows = []
    for stage, arms in stages.items():
        last = max(set.intersection(*(set(steps) for steps in arms.values())))
        for step in sorted({0, last} if stage == "swap" else {last}):
            losses = {arm: _losses(steps[step]) for arm, steps in arms.items()}
            pairs = _pairs(losses)
            judgements = judge([paired(losses[first], losses[second]) for first, second in pairs], MARGIN)
            for (first, second), judgement in zip(pairs, judgements, strict=True):
                place = {"stage": stage, "step": step, "first": str(first), "second": str(second)}
                found.append({**place, **judgement.as_dict()})
    return found


def _pairs(arms: Iterable[Arm]) -> list[tuple[Arm, Arm]]:
    """(first, second): is the loss of the first lower?"""
    kept = Arm("gelu")
    folded = [(arm, arm._replace(fold=False)) for arm in arms if arm.fold]
    return [*((kept, arm) for arm in arms if arm != kept), *folded]


def words(verdict: Row) -> str:
    """A verdict as a sentence."""
    question = f"({verdict['first']}) < ({verdict['second']})"
    (low, high), seeds = verdict["interval"], f"{verdict['seeds']} seeds"
    numbers = f"{verdict['mean_difference']:+.3g} nats, 95% interval {low:+.3g} to {high:+.3g}, {seeds}"
    reason = f"; {verdict['reason']}" if verdict["reason"] else ""
    title = f"{STAGES[verdict['stage']]}, step {verdict['step']}"
    return f"{title}: loss of {question} {verdict['verdict']} at this scale ({numbers}{reason})"


def write_page(folder: pathlib.Path, jumped: Rows, by_epoch: Rows, verdicts: Rows) -> None:
    """Writes the figures as SVG, PNG and PDF, and with the tables as one HTML page, report.html."""
    figures = _jumps_figure(jumped), _epochs_figure(by_epoch)
    for figure in figures:
        export(figure, folder)
    sections = [
        Section("jumps-section", "The loss right after a swap", (figures[0], _table("jumps-table", jumped))),
        Section("epochs-section", "During training", (figures[1], _table("epochs-table", by_epoch))),
        Section("verdicts", "Verdicts", (Text(VERDICTS), _table("verdicts-table", list(map(_verdict, verdicts))))),
    ]
    write_atomically(folder / "report.html", render("Activation swap", LEAD, sections))


def _jumps_figure(rows: Rows) -> Figure:
    shown = [
        (_swap(row), row["blocks"], *(row[name] for name in ("jump", "low", "high"))) for row in rows if row["blocks"]
    ]
    base = alt.Chart(alt.NamedData("jumps")).encode(
        x=alt.X("blocks:O", title="swapped blocks", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("jump:Q", title="loss minus that without a swap, nats/masked token"),
        **_channels([row[0] for row in shown]),
    )
    tips = ["arm:N", "blocks:Q", "jump:Q", "low:Q", "high:Q"]
    # Solid: the end of a dashed one may lie in a gap.
    bars = base.mark_rule().encode(y="low:Q", y2="high:Q", strokeDash=alt.value([1, 0]))
    chart = alt.layer(base.mark_line(), bars, base.mark_point(filled=True, size=50, opacity=1).encode(tooltip=tips))
    said = "; ".join(f"{arm} in {k}: {jump:.4f}" for arm, k, jump, *_ in shown)
    data = {"jumps": page.Rows(("arm", "blocks", "jump", "low", "high"), shown)}
    caption = "Mean over seeds with its 95% interval; each seed is compared with itself without a swap."
    return Figure("jumps", charts.spec(chart.properties(width="container", height=280), {}), data, said, caption)


def _epochs_figure(rows: Rows) -> Figure:
    most = max(row["blocks"] for row in rows)
    kept = [row for row in rows if row["stage"] != "pretrain" and row["blocks"] in (0, most)]
    shown = [
        (STAGES[row["stage"]], str(_arm(row)), *(row[name] for name in ("epoch", "loss", "low", "high")))
        for row in kept
    ]
    arms, stages = (list(dict.fromkeys(row[index] for row in shown)) for index in (1, 0))
    plain = alt.Chart().encode(x=alt.X("epoch:Q", axis=alt.Axis(tickCount=5)))
    channels = _channels(arms)
    fill = alt.Fill("arm:N", scale=channels["color"]["scale"], legend=channels["color"]["legend"])
    y = {"title": "validation loss, nats", "scale": alt.Scale(zero=False)}
    band = plain.mark_area(opacity=0.12, strokeWidth=0).encode(y=alt.Y("low:Q", **y), y2="high:Q", fill=fill)
    tips = ["arm:N", "epoch:Q", "loss:Q", "low:Q", "high:Q"]
    line = plain.mark_line(point=True).encode(y=alt.Y("loss:Q", **y), tooltip=tips, **channels)
    panels = alt.layer(band, line).properties(width=200, height=200)
    facet = alt.Facet("stage:N", title=None, sort=stages, header=alt.Header(labelFontSize=10))
    chart = panels.facet(facet, data=alt.NamedData("epochs"))
    chart = chart.resolve_scale(y="independent", x="independent").resolve_axis(x="independent")
    data = {"epochs": page.Rows(("stage", "arm", "epoch", "loss", "low", "high"), shown)}
    said = f"Validation loss against epoch of {len(arms)} arms; the table below lists the values."
    caption = "Mean over seeds; the band is its 95% interval."
    return Figure("epochs", charts.spec(chart, {}), data, said, caption)


def _channels(arms: Sequence[str]) -> dict[str, Any]:
    """Colour and dashes by the activation with which an arm ends; dashed if folded, dotted if trained from scratch."""
    names = list(dict.fromkeys(arms))
    last = [name.removeprefix("gelu, ").split(",")[0].split(" in ")[0] for name in names]
    styles = [charts.style(one) for one in last]
    for index, name in enumerate(names):
        scratch = name == "relu" and "gelu" in names
        dashes = charts.DASHED if "folded" in name else charts.DOTTED if scratch else styles[index].dashes
        styles[index] = Swatch(styles[index].colour, dashes)
    return charts.lines(names, {"columns": 3, "labelLimit": 300}, "arm", styles)


def _swap(row: Row) -> str:
    return row["to"] + (", mean folded" if row["fold"] else "")


def _verdict(one: Row) -> dict[str, Any]:
    low, high = one["interval"]
    place = {name: one[name] for name in ("stage", "step", "first", "second")}
    numbers = {"difference, nats": one["mean_difference"], "95% interval": f"{low:+.3g} to {high:+.3g}"}
    return place | numbers | {"p, Holm": one["p_holm"], "verdict": one["verdict"]}


def _table(name: str, rows: Rows) -> Table:
    cells = [
        [Cell(f"{value:.4g}", value) if isinstance(value, int | float) else str(value) for value in row.values()]
        for row in rows
    ]
    return Table(name, tuple(rows[0]), cells, filtered=True)


def _arm(row: Row) -> Arm:
    return Arm(row["activation"], row["to"], int(row["blocks"]), str(row["fold"]) == "True")


def _losses(seeds: Seeds) -> dict[int, float]:
    return {seed: float(row["loss"]) for seed, row in seeds.items()}


def _mean(seeds: Seeds, name: str) -> float | str:
    """Empty where it was not measured."""
    values = [float(row[name]) for row in seeds.values() if row[name] != ""]
    return float(np.mean(values)) if values else ""


def _rounded(value: Any) -> Any:
    return json.loads(json.dumps(value), parse_float=lambda text: float(f"{float(text):.{_DIGITS}g}"))


def _write(path: pathlib.Path, rows: Rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    program(main)
