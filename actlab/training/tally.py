"""Where the lanes of a cohort stand: losses, the best so far, spikes, who diverged."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from actlab.probes.gradients import SpikeCount
from actlab.training.traces import Steps
from actlab.training.watcher import Past, Watcher


class Tally(Watcher):
    """Counts over all sessions. Losses in nats per token, NaN where there is none yet or no more."""

    def __init__(self, names: Sequence[str]):
        self._names = list(names)
        self._spikes = [SpikeCount() for _ in names]
        self.loss_R = np.full(len(names), np.nan)
        self.validation_R = np.full(len(names), np.nan)
        self.diverged_R = np.zeros(len(names), bool)
        self.best = np.nan  # validation loss of any lane at any step

    @property
    def spikes(self) -> int:
        """Of all lanes together, as results.csv counts them: a lane that diverged has one."""
        return sum(count.n for count in self._spikes)

    def on_begin(self, past: Past) -> None:
        """Counts what earlier sessions left."""
        for row in past.kept:
            lane = self._names.index(row["run"])
            if row["split"] == "validation":
                self.validation_R[lane] = np.nan if row["loss"] is None else row["loss"]
                self.best = np.fmin(self.best, self.validation_R[lane])
            self.diverged_R[lane] |= "status" in row
        self.on_steps(0, dict(enumerate(past.steps)), 0.0)

    def on_steps(self, step: int, taken: Mapping[int, Steps], tokens_per_second: float) -> None:
        """Counts the steps."""
        for lane, steps in taken.items():
            self._spikes[lane].add(*steps)
            if len(steps.loss_S):
                self.loss_R[lane] = steps.loss_S[-1]
                self.diverged_R[lane] |= not np.isfinite(steps.loss_S[-1])
        self.loss_R[self.diverged_R] = np.nan

    def on_evaluation(self, step: int, loss_R: Float[np.ndarray, "R"]) -> None:
        """Takes the losses of the lanes that are still training."""
        self.diverged_R |= ~np.isfinite(loss_R)
        self.validation_R = np.where(self.diverged_R, np.nan, loss_R)
        self.best = np.fmin(self.best, np.fmin.reduce(self.validation_R))
