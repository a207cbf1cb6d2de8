"""When the probes run, on which part of the validation set, and what a probe row holds."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Int32

from actlab import activations
from actlab.config import Config, TrainConfig
from actlab.probes.activity import firing_rate_bound
from actlab.training.cohort import Cohort

COLUMNS = ("negative_fraction", "zero_fraction", "post_mean", "dead_fraction")  # of results.csv


class Found(NamedTuple):
    """What the probes found: values of a row per lane, empty where none was due; which units a census found dead."""

    values: list[dict[str, float]]
    dead_RUF: Bool[np.ndarray, "R layers F"] | None


def spans(train: TrainConfig) -> tuple[int, ...]:
    """At whose multiples something is probed."""
    return tuple(every for every in (train.probe_every, train.census_every) if every)


def is_due(train: TrainConfig, every: int, step: int) -> bool:
    """Whether a probe of that cadence, in steps, runs at `step`: at its multiples, 0 among them, and at the end."""
    return every > 0 and (step % every == 0 or step == train.n_steps)


class Prober:
    """Probes of one cohort, on the validation set [N, B, L]: its first batch, or all of it for the census."""

    def __init__(
        self,
        config: Config,
        cohort: Cohort,
        windows_NBL: Int32[np.ndarray, "N B L1"],
        weights_NBL: Float32[np.ndarray, "N B L"],
    ):
        self._train, self._cohort = config.train, cohort
        self._windows_NBL, self._weights_NBL = windows_NBL, weights_NBL
        # D4 asks for the slope of a unit by itself.
        self._counts_dead = activations.get(config.model.activation).elementwise

    def measure(self, state: Any, step: int) -> Found:
        """Runs what is due at `step`."""
        values: list[dict[str, float]] = []
        if is_due(self._train, self._train.probe_every, step):
            found = self._cohort.probe(state, self._windows_NBL[0], self._weights_NBL[0])
            values = [{name: float(array[lane]) for name, array in found.items()} for lane in self._lanes()]
        dead_RUF = None
        if self._counts_dead and is_due(self._train, self._train.census_every, step):
            dead_RUF = self._cohort.census(state, self._windows_NBL, self._weights_NBL)
            counted = [self._counted(dead_RUF[lane]) for lane in self._lanes()]
            values = [{**one, **more} for one, more in zip(values or [{}] * len(counted), counted, strict=True)]
        return Found(values, dead_RUF)

    def _lanes(self) -> range:
        return range(self._cohort.n_lanes)

    def _counted(self, dead_UF: Bool[np.ndarray, "layers F"]) -> dict[str, float]:
        """Shares of dead units, and how often a unit may fire that did not on the tokens looked at."""
        shares = dead_UF.mean(axis=1).tolist()
        n_tokens = int(self._weights_NBL.sum(dtype=np.float64))
        return {
            "dead_fraction": float(np.mean(shares)),
            "dead_rate_bound": firing_rate_bound(0, n_tokens),
            **{f"layer_{index}/dead_fraction": share for index, share in enumerate(shares)},
        }
