"""Question: how often does `actlab compare` call a difference between GELU and GELU, in runs that are really trained?

Command: python experiments/compare_itself/trial.py --workdir=DIR [--repeats=40]
Each repetition is a whole comparison of GELU with minus GELU, on seeds of its own, to 16 judged seeds or a decision.
The minus is absorbed by the second projection, whose initial weights are as likely as their negatives: the two have the
same distribution of losses, but not the same runs. Appends a row per repetition to trials.csv beside this file; what is
there is not trained again. Expected time: about 1 hour of one CPU core for 40.
"""

import csv
import pathlib
import shutil
import signal
import sys
from collections.abc import Sequence

from absl import flags
from jax import Array
from rich.console import Console

from actlab import activations, config as config_lib
from actlab.adaptive.answer import Answer
from actlab.adaptive.comparison import SequentialComparison
from actlab.cli import command
from actlab.config import Config, presets
from actlab.training.signals import StopSignal

FILE = pathlib.Path(__file__).parent / "trials.csv"
SEEDS = 16
APART = 1000  # seeds from one repetition to the next


@activations.elementwise
def minus_gelu(x: Array) -> Array:
    """-x Phi(x)."""
    return -activations.get("gelu").fn(x)


activations.register(activations.Activation("minus_gelu", minus_gelu, r"-x \Phi(x)", "GELU, negated"))


def config_of(repetition: int) -> Config:
    """0.02M parameters that beat predicting from the byte before after 500 steps, in about a second."""
    values = presets.compared()
    changes = {
        "seed": 1 + APART * repetition,
        "model.n_layers": 1,
        "model.d_model": 32,
        "model.n_heads": 1,
        "model.context": 32,
        "model.position": "rotary",
        "data.name": "story_grammar",
        "optimizer.learning_rate": 1.5e-2,
        "optimizer.warmup_steps": 20,
        "train.n_steps": 500,
        "data.batch_size": 8,
        "train.eval_tokens": 2**15,
    }
    values.update_from_flattened_dict(changes)
    return config_lib.from_mapping(values.to_dict())


def trial(repetition: int, workdir: pathlib.Path) -> dict[str, object]:
    """Compares, and gives the row."""
    stop = StopSignal()

    def look(answer: Answer, width: int) -> None:
        if answer.pairs and answer.pairs[0].seeds >= SEEDS:
            stop.received = signal.SIGINT

    names = ("gelu", "minus_gelu")
    quiet = Console(quiet=True)
    comparison = SequentialComparison(config_of(repetition), names, workdir, 1e9, [sys.argv[0]], quiet, look)
    answer = comparison.run(stop)
    (pair,) = answer.verdicts
    rates = {f"rate_{one.name}": one.rate for one in answer.activations}
    failed = sum(one.failed for one in answer.activations)
    found = {name: pair[name] for name in ("verdict", "difference", "low", "high", "seeds", "decided_at")}
    return {"repetition": repetition, **rates, **found, "failed": failed}


@command.entry
def main(argv: Sequence[str]) -> None:
    """Trains what is missing of trials.csv and counts."""
    given = flags.FlagValues()
    flags.DEFINE_integer("repeats", 40, "Comparisons.", 1, flag_values=given)
    flags.DEFINE_string(
        "workdir", None, "Folder of the comparisons; each is removed when it is over.", flag_values=given
    )
    command.parse(__doc__, argv, given, n_words=0)
    rows = list(csv.DictReader(FILE.read_text().splitlines())) if FILE.is_file() else []
    for repetition in range(len(rows), given.repeats):
        folder = pathlib.Path(given.workdir or "runs/compare_itself") / str(repetition)
        row = trial(repetition, folder)
        with FILE.open("a", newline="") as file:
            writer = csv.DictWriter(file, row, lineterminator="\n")
            if repetition == 0:
                writer.writeheader()
            writer.writerow(row)
        rows.append({name: str(value) for name, value in row.items()})
        print(f"{repetition:>3}  {row['verdict']} after {row['seeds']} seeds")
        shutil.rmtree(folder)
    count = {
        verdict: sum(row["verdict"] == verdict for row in rows) for verdict in sorted({r["verdict"] for r in rows})
    }
    print(f"{len(rows)} comparisons of GELU with itself: {count}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
