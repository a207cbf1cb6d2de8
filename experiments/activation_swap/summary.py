"""Tables of the study: jumps.csv, the loss right after a swap against k; epochs.csv, the losses of training after it.

  python experiments/activation_swap/summary.py [RUNS [FOLDER]]

RUNS holds the stages' workdirs, runs/activation_swap by default; the tables go to FOLDER, the study's own by default.
Differences are paired by seed, with 95% intervals of Student's t.
"""

import csv
import pathlib

import numpy as np

from actlab import command
from actlab import config as config_lib
from actlab.config import Config
from actlab.errors import UserError
from actlab.studies import sweep
from actlab.studies.statistics import t_interval
from actlab.training.records import Workdir

Rows = list[dict[str, object]]
Curves = dict[str, dict[int, dict[int, dict[str, float]]]]  # arm -> seed -> step -> scores


def main(arguments: list[str]) -> None:
    """Writes both tables, of the stages that there are."""
    command.refuse(arguments[2:])
    runs = pathlib.Path(arguments[0] if arguments else "runs/activation_swap")
    folder = pathlib.Path(arguments[1]) if len(arguments) > 1 else pathlib.Path(__file__).parent
    write(folder / "jumps.csv", jumps(runs / "swap"))
    stages = [runs / name for name in ("swap", "finetune", "continued")]
    write(folder / "epochs.csv", [row for stage in stages if stage.is_dir() for row in epochs(stage)])


def jumps(workdir: pathlib.Path) -> Rows:
    """A row per arm: the mean loss before any step, and how far it lies above the same seeds' without a swap."""
    arms = curves(workdir)
    plain = next(by_seed for name, by_seed in arms.items() if name.endswith("-blocks0-foldFalse"))
    rows: Rows = []
    for name, by_seed in arms.items():
        first = {seed: steps[0]["loss"] for seed, steps in by_seed.items()}
        jump = np.array([loss - plain[seed][0]["loss"] for seed, loss in first.items()])
        low, high = t_interval(jump)
        loss = float(np.mean(list(first.values())))
        rows.append({"arm": name, "seeds": len(first), "loss": loss, "jump": jump.mean(), "low": low, "high": high})
    return rows


def epochs(workdir: pathlib.Path) -> Rows:
    """A row per arm and evaluation: mean loss, its interval, mean accuracy."""
    epoch = epochs_per_step(workdir)
    rows: Rows = []
    for name, by_seed in curves(workdir).items():
        for step in sorted(set.intersection(*(set(steps) for steps in by_seed.values()))):
            scores = [steps[step] for steps in by_seed.values()]
            loss, accuracy = (np.array([score[key] for score in scores]) for key in ("loss", "accuracy"))
            low, high = t_interval(loss)
            place = {
                "stage": workdir.name,
                "arm": name,
                "step": step,
                "epoch": round(step * epoch, 3),
                "seeds": len(loss),
            }
            rows.append({**place, "loss": loss.mean(), "low": low, "high": high, "accuracy": accuracy.mean()})
    return rows


def curves(workdir: pathlib.Path) -> Curves:
    """The validation rows of every run, by arm: what its name says but for rate and seed.

    Raises:
        UserError: for a stage that is not trained, or an arm with a single seed.
    """
    arms: Curves = {}
    of = {run.name: run.config for run in sweep.expand(config_of(workdir))}
    for row in Workdir(workdir).metrics():
        if row["split"] == "validation":
            config = of[row["run"]]
            name = row["run"].replace(f"-lr{config.optimizer.learning_rate!r}-seed{config.seed}", "")
            arms.setdefault(name, {}).setdefault(config.seed, {})[row["step"]] = row
    for name, by_seed in arms.items():
        if len(by_seed) < 2:
            raise UserError(f"{workdir}: {name} has one seed, and an interval takes two: train more.")
    return arms


def epochs_per_step(workdir: pathlib.Path) -> float:
    """Share of the training rows, documents or windows, in a batch."""
    config, data = config_of(workdir), Workdir(workdir).manifest()["data"]
    windows = data["tokens"]["train"] // config.model.context
    return config.data.batch_size / (data["documents"]["train"] if config.finetune.task else windows)


def config_of(workdir: pathlib.Path) -> Config:
    """The config of a stage."""
    path = workdir / "config.json"
    if not path.is_file():
        raise UserError(f"{workdir} has no config.json: train that stage first, see README.md.")
    return config_lib.from_json(path.read_text())


def write(path: pathlib.Path, rows: Rows) -> None:
    """Writes rows as csv."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    command.run(main)
