"""What the study came to: the loss right after a swap against k, and how it is regained, with verdicts and figures.

  python experiments/activation_swap/summary.py [RUNS [FOLDER]]

RUNS holds the stages' workdirs, runs/activation_swap by default. FOLDER, the study's own by default, gets a row per run
and evaluation, evaluations.csv, and what follows from it: jumps.csv, epochs.csv, verdicts.json, the figures jumps and
epochs. Where RUNS is FOLDER, all is made again from the evaluations.csv there. Differences are paired by seed, with 95%
intervals of Student's t; Holm corrects over the comparisons of a stage at a step.
"""

import csv
import json
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from actlab import command
from actlab import config as config_lib
from actlab.activations import colours, figures
from actlab.config import Config
from actlab.errors import UserError
from actlab.files import write_atomically
from actlab.studies import sweep
from actlab.studies.statistics import judge, paired, t_interval
from actlab.training.records import Workdir

FOLDER = pathlib.Path(__file__).parent
EVALUATIONS = "evaluations.csv"
STAGES = {  # and what their losses are of
    "pretrain": "masked tokens, pre-trained",
    "swap": "masked tokens, trained on",
    "finetune": "endings, fine-tuned right after the swap",
    "continued": "endings, fine-tuned after training on",
}
MEASURED = ("accuracy", "majority_accuracy", "dead_fraction")
_DIGITS = 9  # what a sum in another order could change is left out

Row = Mapping[str, Any]
Rows = list[dict[str, Any]]
Seeds = dict[int, Row]


class Arm(NamedTuple):
    """What a run is but for its seed: pre-trained with an activation, then `to` in the first `blocks` blocks."""

    activation: str
    to: str = ""
    blocks: int = 0
    fold: bool = False

    def __str__(self) -> str:
        if not self.blocks:
            return self.activation
        return f"{self.activation}, {self.to} in {self.blocks}" + (", mean folded" if self.fold else "")


Curves = dict[str, dict[Arm, dict[int, Seeds]]]  # stage -> arm -> step -> seed -> row


def main(arguments: list[str]) -> None:
    """Writes the table of runs and all that follows from it, and prints the verdicts."""
    command.refuse(arguments[2:])
    runs = pathlib.Path(arguments[0] if arguments else "runs/activation_swap")
    folder = pathlib.Path(arguments[1]) if len(arguments) > 1 else FOLDER
    if runs.resolve() != folder.resolve():
        _write(folder / EVALUATIONS, collect(runs))
    stages = curves(read(folder / EVALUATIONS))
    verdicts, jumped, by_epoch = compare(stages), jumps(stages), epochs(stages)
    _write(folder / "jumps.csv", _rounded(jumped))
    _write(folder / "epochs.csv", _rounded(by_epoch))
    # No claim waits for this study; actlab.claims reads the file of every study.
    content = {"claims": {}, "comparisons": _rounded(verdicts)}
    write_atomically(folder / "verdicts.json", json.dumps(content, indent=2, allow_nan=False) + "\n")
    draw(folder, jumped, by_epoch)
    print(*map(words, verdicts), sep="\n")


def collect(runs: pathlib.Path) -> Rows:
    """A row per run and evaluation of the stages that there are.

    Raises:
        UserError: for a folder without a stage, or a run that diverged.
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
        UserError: where there is none.
    """
    if not path.is_file():
        raise UserError(f"{path} is not there: give a folder of stages, or one with that table.")
    return list(csv.DictReader(path.read_text().splitlines()))


def curves(rows: Iterable[Row]) -> Curves:
    """The rows by stage, arm, step and seed.

    Raises:
        UserError: for an arm with a single seed.
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
    """A row per arm: the mean loss before any step, and how far it lies above the same seeds' without a swap.

    Raises:
        UserError: where the stage swap is not trained.
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
                low, high = t_interval(np.array(list(_losses(seeds).values())))
                scores = {"loss": _mean(seeds, "loss"), "low": low, "high": high}
                more = {name: _mean(seeds, name) for name in MEASURED}
                rows.append({**place, "seeds": len(seeds), **scores, **more})
    return rows


def compare(stages: Curves) -> Rows:
    """Verdicts: of the encoder whose activation stayed against each other arm, and of the mean folded or not.

    Right after the swap and at the end of every stage, as far as all arms have come.
    """
    found: Rows = []
    for stage, arms in stages.items():
        last = max(set.intersection(*(set(steps) for steps in arms.values())))
        for step in sorted({0, last} if stage == "swap" else {last}):
            losses = {arm: _losses(steps[step]) for arm, steps in arms.items()}
            pairs = _pairs(losses)
            judgements = judge([paired(losses[first], losses[second]) for first, second in pairs])
            for (first, second), judgement in zip(pairs, judgements, strict=True):
                place = {"stage": stage, "step": step, "first": str(first), "second": str(second)}
                found.append({**place, **judgement.as_dict()})
    return found


def _pairs(arms: Iterable[Arm]) -> list[tuple[Arm, Arm]]:
    """(first, second), of which the first is asked to have the lower loss."""
    kept = Arm("gelu")
    folded = [(arm, arm._replace(fold=False)) for arm in arms if arm.fold]
    return [*((kept, arm) for arm in arms if arm != kept), *folded]


def words(verdict: Row) -> str:
    """A verdict as a sentence."""
    question = f"({verdict['first']}) < ({verdict['second']})"
    (low, high), seeds = verdict["t_interval"], f"{verdict['seeds']} seeds"
    numbers = f"{verdict['mean_difference']:+.3g} nats, 95% interval {low:+.3g} to {high:+.3g}, {seeds}"
    reason = f"; {verdict['reason']}" if verdict["reason"] else ""
    title = f"{STAGES[verdict['stage']]}, step {verdict['step']}"
    return f"{title}: loss of {question} {verdict['verdict']} at this scale ({numbers}{reason})"


@matplotlib.rc_context(figures.SETTINGS)
def draw(folder: pathlib.Path, jumped: Rows, by_epoch: Rows) -> None:
    """Writes both figures as PNG and SVG."""
    figures.save(_jumps(jumped), folder / "jumps")
    figures.save(_epochs(by_epoch), folder / "epochs")


def _jumps(rows: Rows) -> Figure:
    figure = Figure(figsize=(4, 3), layout="constrained")
    axes = figure.subplots()
    lines: dict[tuple[str, bool], Rows] = {}
    for row in rows:
        if row["blocks"]:
            lines.setdefault((row["to"], row["fold"]), []).append(row)
    for (to, fold), mine in lines.items():
        k, jump, low, high = np.array([[row[name] for name in ("blocks", "jump", "low", "high")] for row in mine]).T
        label = {"label": f"{to}, mean folded" if fold else to}
        axes.errorbar(k, jump, (jump - low, high - jump), marker="o", ms=3, capsize=2, **_style(to, fold), **label)
    axes.set(xlabel="blocks that were swapped", ylabel="loss above no swap, nats/masked token")
    axes.set_xticks(sorted({row["blocks"] for row in rows}))
    axes.legend()
    return figure


def _epochs(rows: Rows) -> Figure:
    stages = [stage for stage in STAGES if stage != "pretrain" and any(row["stage"] == stage for row in rows)]
    most = max(row["blocks"] for row in rows)
    figure = Figure(figsize=(2.6 * len(stages), 3), layout="constrained")
    panels = figure.subplots(1, len(stages), squeeze=False)[0]
    for panel, stage in zip(panels, stages, strict=True):
        mine = [row for row in rows if row["stage"] == stage and row["blocks"] in (0, most)]
        for arm in dict.fromkeys(_arm(row) for row in mine):
            points = [[row[name] for name in ("epoch", "loss", "low", "high")] for row in mine if _arm(row) == arm]
            epoch, loss, low, high = np.array(points).T
            style = _style(arm.to or arm.activation, arm.fold, started=not arm.blocks and arm.activation != "gelu")
            panel.plot(epoch, loss, marker="o", ms=3, **style, label=str(arm))
            panel.fill_between(epoch, low, high, color=style["color"], alpha=0.18, lw=0)
        panel.set_title(STAGES[stage], fontsize=8)
        panel.set(xlabel="epoch", ylabel="validation loss, nats")
    found = {name: line for panel in panels for line, name in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(list(found.values()), list(found), loc="outside lower center", ncols=3)
    return figure


def _style(name: str, fold: bool, started: bool = False) -> dict[str, Any]:
    """The activation's colour and dashes; others for a folded mean, dots for what had it from the start."""
    style = colours.style(name)
    dashes = (0, style.dashes) if style.dashes else "-"
    return {"color": style.colour, "linestyle": "--" if fold else ":" if started else dashes}


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
    command.run(main)
