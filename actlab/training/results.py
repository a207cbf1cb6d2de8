"""The result of a run: the row of results.csv that its metrics amount to."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from actlab.config import Config
from actlab.models import Costs
from actlab.probes import gradients
from actlab.training.prober import COLUMNS
from actlab.training.rows import Row
from actlab.training.traces import Steps


def result_row(
    config: Config, name: str, metrics: Sequence[Row], steps_taken: Steps, costs: Costs, floor: float | None, step: int
) -> Row:
    """Axes, losses in nats per token, status (finished, diverged or stopped), cost and probes of a run at `step`.

    `seconds` is all of the program's time, `tokens_per_second` the median speed of its lanes together while they train.

    Probes are means over layers at the last one there was, NaN where there was none.
    """
    mine = [row for row in metrics if row["run"] == name]
    losses = [(row["loss"], row["step"]) for row in mine if row["split"] == "validation" and row["loss"] is not None]
    best_loss, best_step = min(losses, default=(math.nan, 0))
    diverged = any("status" in row for row in mine)
    steps = mine[-1]["step"] if diverged else step
    return {
        "run": name,
        "activation": config.model.activation,
        "learning_rate": config.optimizer.learning_rate,
        "weight_decay": config.optimizer.weight_decay,
        "seed": config.seed,
        "data": config.data.name,
        "tokenizer": config.data.tokenizer,
        "status": "diverged" if diverged else "finished" if step == config.train.n_steps else "stopped",
        "initial_loss": losses[0][0] if losses else math.nan,
        "final_loss": math.nan if diverged else losses[-1][0],
        "best_loss": best_loss,
        "best_step": best_step,
        "floor": math.nan if floor is None else floor,
        "steps": steps,
        "tokens": steps * config.data.batch_size * config.model.context,
        "seconds": mine[-1]["seconds"],
        "tokens_per_second": _speed(mine),
        "parameters": costs.parameters,
        "non_embedding_parameters": costs.non_embedding,
        "flops_per_token": costs.flops_per_token,
        **{column: _last(mine, column) for column in COLUMNS},
        **gradients.summary(*steps_taken),
    }


def _speed(rows: Sequence[Row]) -> float:
    speeds = [row["tokens_per_second"] for row in rows if "tokens_per_second" in row]
    return statistics.median(speeds) if speeds else math.nan


def _last(rows: Sequence[Row], column: str) -> Any:
    """The last probe's value; a value that was not finite is null in a row."""
    found = [row[column] for row in rows if row["split"] == "probe" and row.get(column) is not None]
    return found[-1] if found else math.nan
