"""What a person sees while jobs wait and run: a bar for each that runs on a terminal, lines elsewhere."""

import types
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from actlab.studies.launching.job import Job

TENTHS = 10  # lines of a running job, where there is no terminal


class Board:
    """Of a launch; use it as a context manager around the waiting."""

    def __init__(self, console: Console, jobs: Sequence[Job]):
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"),
            MofNCompleteColumn(),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[words]}"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console,
            disable=not console.is_terminal,
        )
        n_steps = sum(job.n_steps * len(job.names) for job in jobs)
        self._all = self._progress.add_task("all", total=n_steps, words="")
        self._tasks = {
            job.number: self._progress.add_task(_name(job), total=job.n_steps, words="", visible=False) for job in jobs
        }
        self._lanes = {job.number: len(job.names) for job in jobs}
        self._shown: dict[int, tuple[str, int]] = {}

    def __enter__(self) -> "Board":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, job: Job, words: str, step: int) -> None:
        """A job's state and step; a line wherever the state is another, or the step has passed a tenth of all."""
        task = self._progress.tasks[self._tasks[job.number]]
        self._progress.advance(self._all, (step - task.completed) * self._lanes[job.number])
        self._progress.update(task.id, completed=step, words=words, visible=words == "running")
        shown = (words, step * TENTHS // job.n_steps)
        if self._shown.get(job.number) == shown:
            return
        if not self._console.is_terminal or self._shown.get(job.number, ("", 0))[0] != words:
            self._console.print(f"{_name(job)}  {words}, step {step}/{job.n_steps}")
        self._shown[job.number] = shown


def _name(job: Job) -> str:
    return f"job {job.number} ({job.label})"
