"""When the probes run, on which part of the validation set, and what a probe row holds."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float

from actlab import activations
from actlab.config import Config, TrainConfig
from actlab.probes import curvature
from actlab.probes.activity import firing_rate_bound
from actlab.training.cohort import Cohort
from actlab.training.losses import Examples

COLUMNS = ("negative_fraction", "zero_fraction", "post_mean", "dead_fraction")  # of results.csv


class Found(NamedTuple):
    """What the probes found: values of a row per lane, empty where none was due; which units a census found dead."""

    values: list[dict[str, float]]
    dead_RUF: Bool[np.ndarray, "R layers F"] | None


def spans(train: TrainConfig) -> tuple[int, ...]:
    """At whose multiples something is probed."""
    return tuple(every for every in (train.probe_every, train.census_every, train.curvature_every) if every)


def is_due(train: TrainConfig, every: int, step: int) -> bool:
    """Whether a probe of that cadence, in steps, runs at `step`: at its multiples, 0 among them, and at the end."""
    return every > 0 and (step % every == 0 or step == train.n_steps)


def work(train: TrainConfig, n_batches: int) -> float:
    """What all probes of a run take, in updates; `n_batches` is the size of the validation set.

    A probe is a gradient; a census a forward pass, a third of one, over every batch, which is the most it can be; a
    curvature an iteration's two products with a matrix, each of them about two gradients.
    """
    each = {"probe_every": 1, "census_every": n_batches / 3, "curvature_every": 4 * curvature.ITERATIONS}
    times = {name: _times(train, getattr(train, name)) for name in each}
    return sum(cost * times[name] for name, cost in each.items())


def _times(train: TrainConfig, every: int) -> int:
    return 1 + -(-train.n_steps // every) if every else 0


class Prober:
    """Probes of one cohort, on the validation set, batches [N, B]: the first, or all of them for the census."""

    def __init__(self, config: Config, cohort: Cohort, validation: Examples):
        self._train, self._cohort = config.train, cohort
        self._validation = validation
        # D4 asks for the slope of a unit by itself.
        self._counts_dead = activations.get(config.model.activation).elementwise

    def measure(self, state: Any, step: int) -> Found:
        """Runs what is due at `step`."""
        found: list[dict[str, Any]] = []
        first_batch = (state, jax.tree.map(lambda batches: batches[0], self._validation))
        if is_due(self._train, self._train.probe_every, step):
            found.append(self._cohort.probe(*first_batch))
        if is_due(self._train, self._train.curvature_every, step):
            found.append(self._cohort.curvature(*first_batch))
        dead_RUF = None
        if self._counts_dead and is_due(self._train, self._train.census_every, step):
            dead_RUF = self._cohort.census(state, self._validation)
            found.append(self._counted(dead_RUF))
        columns = {name: array for part in found for name, array in part.items()}
        lanes = range(self._cohort.n_lanes) if found else ()
        return Found([{name: float(array[lane]) for name, array in columns.items()} for lane in lanes], dead_RUF)

    def _counted(self, dead_RUF: Bool[np.ndarray, "R layers F"]) -> dict[str, Float[np.ndarray, "R"]]:
        """Shares of dead units, and how often a unit may fire that did not on the tokens looked at."""
        shares_RU = dead_RUF.mean(axis=2)
        n_tokens = int(self._validation.counted.sum(dtype=np.float64))
        return {
            "dead_fraction": shares_RU.mean(axis=1),
            "dead_rate_bound": np.full(len(shares_RU), firing_rate_bound(0, n_tokens)),
            **{f"layer_{index}/dead_fraction": shares_R for index, shares_R in enumerate(shares_RU.T)},
        }
