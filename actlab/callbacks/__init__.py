"""Callbacks: what follows a program while it trains, such as a table on the terminal or a copy of its rows elsewhere.

A new tracker is a file with a Callback and a line in `trackers`; `require` names the package it needs.
"""

import importlib.util
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from actlab.config import Config
from actlab.errors import UserError
from actlab.workdir.records import Row
from actlab.workdir.traces import Steps

_NOT_SCALARS = ("run", "step", "split", "status", "seconds")


class ResumeContext(NamedTuple):
    """What earlier sessions left of a program: its rows of metrics.jsonl, and every step of each lane.

    The session continues after the rows that are `kept`, and writes the `dropped` ones again.
    """

    kept: Sequence[Row]
    dropped: Sequence[Row]
    steps: Sequence[Steps]


class Callback:
    """Methods that the loop calls while a program trains, in this order; by default they do nothing."""

    def on_begin(self, resumed: ResumeContext) -> None:
        """A session begins."""

    def on_rows(self, rows: Sequence[Row]) -> None:
        """These rows were appended to metrics.jsonl."""

    def on_steps(self, step: int, taken: Mapping[int, Steps], tokens_per_second: float) -> None:
        """A call has ended at `step`, with these steps of each lane; lanes that diverged before are left out."""

    def on_evaluation(self, step: int, loss_R: Float[np.ndarray, "R"]) -> None:
        """These are the validation losses at `step`, in nats per prediction."""

    def on_end(self) -> None:
        """The session is over, normally or by an error."""


def require(config: Config) -> None:
    """Raises UserError if the config asks for a tracker whose package is not installed."""
    wanted = {
        "log.tensorboard": (config.log.tensorboard, "tensorboardX", "tensorboard"),
        "log.wandb_project": (config.log.wandb_project, "wandb", "wandb"),
    }
    for path, (value, package, extra) in wanted.items():
        # A folder of that name, as W&B itself leaves one beside a run, has a spec without an origin.
        spec = importlib.util.find_spec(package) if value else None
        if value and (spec is None or spec.origin is None):
            raise UserError(
                f"config.{path}={value!r} needs the package {package}: pip install -c constraints.txt "
                f"-e '.[{extra}]', or leave the field out."
            )


def require_login(config: Config) -> None:
    """Raises UserError if rows would be sent to a service without a login; only the process that sends them asks."""
    if config.log.wandb_project:
        from actlab.callbacks import weights_and_biases

        weights_and_biases.require_login(config.log.wandb_project)


def trackers(config: Config, workdir: pathlib.Path, configs: Mapping[str, Config]) -> list[Callback]:
    """The callbacks that copy a program's rows elsewhere, as the config asks; `configs` maps run names to configs."""
    found: list[Callback] = []
    # Imported here because each module needs an optional package.
    if config.log.tensorboard:
        from actlab.callbacks.tensorboard import EventFiles

        found.append(EventFiles(workdir / "tensorboard", tuple(configs)))
    if config.log.wandb_project:
        from actlab.callbacks.weights_and_biases import WandbRuns

        found.append(WandbRuns(config.log.wandb_project, workdir, configs))
    return found


def scalars(row: Row) -> dict[str, float]:
    """The numbers of a row of metrics.jsonl as SPLIT/FIELD -> value; NaN where the file has null."""
    return {f"{row['split']}/{name}": _number(value) for name, value in row.items() if name not in _NOT_SCALARS}


def _number(value: float | None) -> float:
    return math.nan if value is None or not math.isfinite(value) else float(value)
