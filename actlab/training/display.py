"""What a person sees while a run trains: a progress bar on a terminal, plain lines elsewhere."""

import types

import numpy as np
from jaxtyping import Float
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class Display:
    """A Watcher of one cohort; use it as a context manager around the training."""

    def __init__(self, console: Console, n_steps: int, step: int, floor: float | None):
        self._console, self._floor = console, floor
        self._progress = Progress(
            TextColumn("step"),
            MofNCompleteColumn(),
            BarColumn(bar_width=9),  # all of it in 80 columns
            TextColumn("loss {task.fields[loss]} val {task.fields[validation]} {task.fields[speed]} tokens/s"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task(
            "train", total=n_steps, completed=step, loss="-", validation="-", speed="-"
        )
        self._n_steps = n_steps
        self._speed = 0.0

    def __enter__(self) -> "Display":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self._progress.stop()

    def on_step(self, step: int, loss: Float[np.ndarray, "R"], tokens_per_second: float) -> None:
        """Moves the bar; losses in nats per token."""
        self._speed = tokens_per_second
        self._progress.update(self._task, completed=step, loss=_losses(loss), speed=f"{tokens_per_second:,.0f}")

    def on_evaluation(self, step: int, loss: Float[np.ndarray, "R"]) -> None:
        """Prints a line per evaluation, which stays above the bar."""
        self._progress.update(self._task, validation=_losses(loss))
        above = "" if self._floor is None else f"  ({_losses(loss - self._floor)} above the floor)"
        speed = f"  {self._speed:,.0f} tokens/s" if self._speed else ""
        self._console.print(
            f"step {step:>{len(str(self._n_steps))}}/{self._n_steps}  "
            f"validation loss {_losses(loss)} nats/token{above}{speed}"
        )


def _losses(loss: Float[np.ndarray, "R"]) -> str:
    return " ".join(f"{value:.4f}" for value in loss)
