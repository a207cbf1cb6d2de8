"""What the stages of a comparison have found so far, read from the tables of their workdirs."""

import itertools
import math
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64

from actlab.adaptive import search
from actlab.adaptive.search import Progress
from actlab.analysis import results
from actlab.analysis.conditions import MARGINS, scale_of
from actlab.analysis.results import Result
from actlab.config import LOSS_UNITS
from actlab.workdir.records import RESULTS


class Judged(NamedTuple):
    """The first n fresh seeds, of which every activation is trained to its end.

    `losses` are test losses in `unit` by activation; a run that failed, which `failed` says, carries its trivial loss.
    Both are empty before the first seed.
    """

    seeds: int
    losses: dict[str, Float64[np.ndarray, "n"]]
    failed: dict[str, Bool[np.ndarray, "n"]]
    unit: str
    margin: float  # the largest difference that counts as none
    scale: str  # parameters and bytes, in words

    @property
    def unlucky(self) -> list[str]:
        """Activations of which a run failed."""
        return [name for name, failed in self.failed.items() if failed.any()]

    def sd(self, first: str, second: str) -> float | None:
        """Standard deviation of the differences paired by seed; None for fewer than two seeds."""
        return float((self.losses[first] - self.losses[second]).std(ddof=1)) if self.seeds > 1 else None


def unit_of(objective: str) -> str:
    """The unit of the answer; losses per token are converted to nats per byte."""
    return "nats/byte" if objective == "next_token" else LOSS_UNITS[objective]


def judged(path: pathlib.Path, activations: Sequence[str], first_seed: int, objective: str) -> Judged:
    """The runs in the judgement's workdir, which need not exist yet."""
    runs = [run for run in _results(path) if run.done]
    of = {(run.activation, run.seed): run for run in runs}
    whole = lambda seed: all((name, seed) in of for name in activations)
    seeds = list(itertools.takewhile(whole, itertools.count(first_seed)))
    rows = {name: [of[name, seed] for seed in seeds] for name in activations} if seeds else {}
    return Judged(
        seeds=len(seeds),
        losses={name: np.array([_loss(run) for run in row]) for name, row in rows.items()},
        failed={name: np.array([bool(run.failed) for run in row]) for name, row in rows.items()},
        unit=unit_of(objective),
        margin=MARGINS[objective],
        scale=scale_of(runs, ()) if runs else "",
    )


def searched(path: pathlib.Path, activations: Sequence[str], quarter: int) -> dict[str, dict[float, Progress]]:
    """By activation and rate, what the search seeds have done; without a rate that not every seed has taken to a rung.

    Losses are in the unit of the answer, as are the allowances that follow from them. `quarter` is the number of steps
    of a rung.
    """
    found: dict[str, dict[float, Progress]] = {name: {} for name in activations}
    groups: dict[tuple[str, float], list[Result]] = {}
    for run in _results(path):
        groups.setdefault((run.activation, run.learning_rate), []).append(run)
    for (name, rate), runs in groups.items():
        if len(runs) < search.SEEDS:
            continue
        # Evaluated at the end of each quarter, so that the last loss is that of the last whole one.
        rung = min(search.RUNGS if run.done else run.steps // quarter for run in runs)
        if rung == 0:
            continue
        losses = tuple(
            math.nan if run.status == "diverged" else _in_unit(run, run.final_loss, run.bytes_per_token) for run in runs
        )
        # Before the end a loss above the trivial one may yet fall.
        failed = tuple(bool(run.failed) if rung == search.RUNGS else not run.learned for run in runs)
        found[name][rate] = Progress(rung, losses, failed)
    return found


def _results(path: pathlib.Path) -> list[Result]:
    found = results.read([path]) if (path / RESULTS).is_file() else []
    return [run for run in found if run.status != results.WAITING]


def _loss(run: Result) -> float:
    """The test loss in the unit of the answer; a failed run's trivial one, or without it the loss it began with."""
    if run.failed:  # losses on the validation text
        loss = run.initial_loss if run.trivial_loss is None else run.trivial_loss
        return _in_unit(run, loss, run.bytes_per_token)
    assert run.test_loss is not None
    return _in_unit(run, run.test_loss, run.test_bytes_per_token or run.bytes_per_token)


def _in_unit(run: Result, loss: float, length: float | None) -> float:
    """A loss per token of that mean length becomes one per byte of text; of bytes the mark of the end is a byte too."""
    if run.objective != "next_token" or run.tokenizer == "bytes":
        return loss
    assert length is not None
    return loss / length
