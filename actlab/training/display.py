"""What a person sees while cohorts train: a bar for each and one for all on a terminal, plain lines elsewhere."""

import types

import numpy as np
from jaxtyping import Float
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

SHOWN = 6  # lanes whose losses are written out; of more, the least and the greatest


class Display:
    """Of a session; use it as a context manager around the training. `n_steps` are those of all lanes together."""

    def __init__(self, console: Console, n_steps: int, many: bool):
        self._console, self._many = console, many
        self._progress = Progress(
            TextColumn("{task.description}"),
            MofNCompleteColumn(),
            BarColumn(bar_width=9),  # all of it in 80 columns
            TextColumn("{task.fields[words]}"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console,
            disable=not console.is_terminal,
        )
        self._all = self._progress.add_task("all", total=n_steps, words="", visible=many)

    def __enter__(self) -> "Display":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self._progress.stop()

    def skip(self, n_steps: int) -> None:
        """Steps that were taken before, or that nobody needs to take any more."""
        self._progress.advance(self._all, n_steps)

    def cohort(self, label: str, n_steps: int, n_lanes: int, step: int, floor: float | None) -> "CohortDisplay":
        """A Watcher of one cohort, which begins at `step`."""
        task = self._progress.add_task(label if self._many else "step", total=n_steps, completed=step, words="")
        self.skip(step * n_lanes)
        return CohortDisplay(self._console, self._progress, (task, self._all), label if self._many else "", floor)


class CohortDisplay:
    """A Watcher of one cohort."""

    def __init__(
        self, console: Console, progress: Progress, tasks: tuple[TaskID, TaskID], label: str, floor: float | None
    ):
        self._console, self._progress, self._floor = console, progress, floor
        self._task, self._all = tasks
        self._prefix = f"{label}  " if label else ""
        self._loss, self._validation, self._speed = "-", "-", 0.0

    def on_step(self, step: int, loss: Float[np.ndarray, "R"], tokens_per_second: float) -> None:
        """Moves the bar; losses in nats per token."""
        self._speed, self._loss = tokens_per_second, _losses(loss)
        self._progress.advance(self._all, (step - self._progress.tasks[self._task].completed) * len(loss))
        self._progress.update(self._task, completed=step, words=self._words())

    def on_evaluation(self, step: int, loss: Float[np.ndarray, "R"]) -> None:
        """Prints a line per evaluation, which stays above the bars."""
        self._validation = _losses(loss)
        self._progress.update(self._task, words=self._words())
        above = "" if self._floor is None else f"  ({_losses(loss - self._floor)} above the floor)"
        speed = f"  {self._speed:,.0f} tokens/s" if self._speed else ""
        n_steps = int(self._progress.tasks[self._task].total or 0)
        self._console.print(
            f"{self._prefix}step {step:>{len(str(n_steps))}}/{n_steps}  "
            f"validation loss {self._validation} nats/token{above}{speed}"
        )

    def _words(self) -> str:
        return f"loss {self._loss} val {self._validation} {self._speed:,.0f} tokens/s"


def _losses(loss: Float[np.ndarray, "R"]) -> str:
    if len(loss) <= SHOWN:
        return " ".join(f"{value:.4f}" for value in loss)
    return f"{np.nanmin(loss):.4f} to {np.nanmax(loss):.4f}" if np.isfinite(loss).any() else "nan"
