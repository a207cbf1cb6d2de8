"""What runs jobs."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from actlab.studies.launching.job import Job


@runtime_checkable
class Executor(Protocol):
    """An engine that runs jobs, and runs again by itself those that were preempted."""

    name: str
    poll_seconds: float  # between two questions

    def start(self, jobs: Sequence[Job]) -> None:
        """Begins jobs, except those that an earlier call began and that have not ended.

        Raises:
            UserError: if the engine refuses them.
        """
        ...

    def active(self) -> dict[int, str]:
        """The jobs, by number, that wait or run, and in a word or two which of it."""
        ...

    def stop(self) -> str:
        """Does what is to be done with active jobs when the command must end; returns the sentence that tells it."""
        ...
