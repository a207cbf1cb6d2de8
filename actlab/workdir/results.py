"""The row of results.csv that summarises the metrics of a run."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from actlab.config import Config, schema
from actlab.models import Costs
from actlab.workdir.records import Row
from actlab.workdir.traces import Steps, summary

# The fields of the config that results.csv has under a short name; any other has its path.
COLUMNS = {
    "activation": "model.activation",
    "learning_rate": "optimizer.learning_rate",
    "weight_decay": "optimizer.weight_decay",
    "seed": "seed",
    "data": "data.name",
    "tokenizer": "data.tokenizer",
}
# Fields of probe rows, means over layers, that results.csv repeats.
PROBE_COLUMNS = ("negative_fraction", "zero_fraction", "post_mean", "dead_fraction")


def result_row(
    config: Config,
    name: str,
    metrics: Sequence[Row],
    steps_taken: Steps,
    costs: Costs,
    floors: tuple[float | None, float | None],
    step: int,
) -> Row:
    """Axes, losses in nats per prediction, their floors (validation, test), status (finished, diverged or stopped),
    cost and probes of a run at `step`.

    `seconds` is the wall time of the run's program, `tokens_per_second` the median training speed of all its lanes
    together. Probes are means over layers of the last probe row, NaN if there was none. `test_loss` is NaN before the
    last step.
    """
    mine = [row for row in metrics if row["run"] == name]
    losses = [(row["loss"], row["step"]) for row in mine if row["split"] == "validation" and row["loss"] is not None]
    best_loss, best_step = min(losses, default=(math.nan, 0))
    tested = [row["loss"] for row in mine if row["split"] == "test"]
    diverged = any("status" in row for row in mine)
    floor, test_floor = (math.nan if known is None else known for known in floors)
    steps = mine[-1]["step"] if diverged else step
    return {
        "run": name,
        **{column: schema.get(config, path) for column, path in COLUMNS.items()},
        "status": "diverged" if diverged else "finished" if step == config.train.n_steps else "stopped",
        # Only a row of step 0: if rows were lost, the first one left is of a later step.
        "initial_loss": next((loss for loss, at in losses if at == 0), math.nan),
        "final_loss": math.nan if diverged else losses[-1][0],
        "test_loss": math.nan if diverged or not tested else tested[-1],
        "best_loss": best_loss,
        "best_step": best_step,
        "floor": floor,
        "test_floor": test_floor,
        "steps": steps,
        "tokens": steps * config.data.batch_size * config.model.context,
        "seconds": mine[-1]["seconds"],
        "tokens_per_second": _speed(mine),
        "parameters": costs.parameters,
        "non_embedding_parameters": costs.non_embedding,
        "flops_per_token": costs.flops_per_token,
        **{column: _last(mine, column) for column in PROBE_COLUMNS},
        **summary(*steps_taken),
    }


def _speed(rows: Sequence[Row]) -> float:
    speeds = [row["tokens_per_second"] for row in rows if "tokens_per_second" in row]
    return statistics.median(speeds) if speeds else math.nan


def _last(rows: Sequence[Row], column: str) -> Any:
    """The last finite value that a probe found; rows hold null for the others."""
    found = [row[column] for row in rows if row["split"] == "probe" and row.get(column) is not None]
    return found[-1] if found else math.nan
