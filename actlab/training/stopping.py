"""Being asked to stop: SIGTERM and SIGINT become a question that the loop asks between calls."""

import signal
import types
from typing import Any

import jax
from jax.experimental import multihost_utils


class StopSignal:
    """Turns SIGTERM and SIGINT into a question, while the context is open.

    Of many processes all stop at the same step, whichever received the signal; there JAX's own notifier listens.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._asked = 0
        self._before: dict[int, Any] = {}

    def __call__(self) -> bool:
        """Whether to stop; of many processes all must ask equally often."""
        self._asked += 1
        # JAX names the number of a question at which all stop, and waits for that very number.
        if jax.process_count() > 1 and multihost_utils.reached_preemption_sync_point(self._asked):
            self.received = signal.SIGTERM
        return self.received is not None

    def __enter__(self) -> "StopSignal":
        # Ours would take SIGTERM away from JAX's notifier, which many processes need.
        ours = (signal.SIGTERM, signal.SIGINT) if jax.process_count() == 1 else ()
        for number in ours:
            self._before[number] = signal.signal(number, self._receive)
        return self

    def _receive(self, number: int, frame: types.FrameType | None) -> None:
        self.received = number
        # A second one is not waited for.
        signal.signal(number, self._before[number])

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
