"""Whoever looks on while a cohort trains: a display, a copy of its rows elsewhere."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from actlab.training.rows import Row
from actlab.training.traces import Steps


class Past(NamedTuple):
    """What earlier sessions left of a cohort: its rows of metrics.jsonl, and every step of each lane.

    The session goes on after the rows that are `kept`, and writes the `dropped` ones again.
    """

    kept: Sequence[Row]
    dropped: Sequence[Row]
    steps: Sequence[Steps]


class Watcher:
    """Hears what happens to a cohort, in this order; what is not overridden is not listened to."""

    def on_begin(self, past: Past) -> None:
        """A session begins."""

    def on_rows(self, rows: Sequence[Row]) -> None:
        """These rows were appended to metrics.jsonl."""

    def on_steps(self, step: int, taken: Mapping[int, Steps], tokens_per_second: float) -> None:
        """A call has ended at `step`, with these steps of each lane; one that diverged before is not among them."""

    def on_evaluation(self, step: int, loss_R: Float[np.ndarray, "R"]) -> None:
        """These are the validation losses at `step`, in nats per token."""

    def on_end(self) -> None:
        """The session is over, also by an error."""
