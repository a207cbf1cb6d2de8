"""What a person sees while cohorts train: a table that moves on a terminal, a line per evaluation elsewhere too."""

import types
from collections.abc import Iterable, Mapping

import numpy as np
from jaxtyping import Float
from rich.console import Console
from rich.progress import TaskID

from actlab.training.live_table import LiveTable, left
from actlab.training.setting import Setting
from actlab.training.tally import Tally
from actlab.training.traces import Steps
from actlab.training.watcher import Past, Watcher

LANES_SHOWN = 6  # lanes whose losses are written out; of more, the least and the greatest


def flops(setting: Setting) -> float:
    """All that the runs of a cohort take: by it cohorts of different models are measured alike."""
    config = setting.config
    n_tokens = config.train.n_steps * config.data.batch_size * config.model.context
    return float(n_tokens * len(setting.names) * setting.costs.flops_per_token)


class Display:
    """Of a session; use it as a context manager around the training. `total` is the FLOPs of all its cohorts."""

    def __init__(self, console: Console, total: float, many: bool):
        self._console, self._many = console, many
        self._table = LiveTable(console)
        self._all = self._table.add_task("all", total=total, cells=(), visible=many)
        self._total, self._done = total, 0.0

    def __enter__(self) -> "Display":
        self._table.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self._table.stop()

    def skip(self, amount: float) -> None:
        """FLOPs that nobody needs to take in this session: done before, or not to be done any more."""
        self._done += amount
        # Less to do, not more done: that would pass for speed.
        self._table.update(self._all, total=(self._table.tasks[self._all].total or 0) - amount)

    def cohort(self, label: str, setting: Setting, step: int, peak: float | None) -> "CohortDisplay":
        """Watches a cohort, which begins at `step`; `peak` is the machine's FLOP/s, left out where it is unknown."""
        n_steps = setting.config.train.n_steps
        self.skip(flops(setting) * step / n_steps)
        task = self._table.add_task(label, total=n_steps - step, cells=())
        return CohortDisplay(self, task, setting, step, peak)

    def advance(self, task: TaskID, n_steps: int, amount: float, cells: Iterable[str]) -> None:
        """Steps of a cohort, and the FLOPs they took."""
        self._done += amount
        self._table.update(task, advance=n_steps, cells=tuple(cells))
        self._table.update(self._all, advance=amount, cells=(f"{self._done / self._total:.0%}",))

    def line(self, task: TaskID, words: str) -> None:
        """Prints a line, which stays above the table, with the time left for all."""
        prefix = f"{self._table.tasks[task].description}  " if self._many else ""
        time_left = left(self._table.tasks[self._all])
        self._console.print(f"{prefix}{words}{f'  {time_left} left' if time_left else ''}")


class CohortDisplay(Watcher):
    """A row of the table, and lines."""

    def __init__(self, display: Display, task: TaskID, setting: Setting, step: int, peak: float | None):
        self._display, self._task, self._setting, self._peak = display, task, setting, peak
        self._tally = Tally(setting.names)
        self._step, self._speed = step, 0.0

    def on_begin(self, past: Past) -> None:
        """Shows where earlier sessions left it."""
        self._tally.on_begin(past)
        self._move(self._step)

    def on_steps(self, step: int, taken: Mapping[int, Steps], tokens_per_second: float) -> None:
        """Moves the row."""
        self._tally.on_steps(step, taken, tokens_per_second)
        self._speed = tokens_per_second
        self._move(step)

    def on_evaluation(self, step: int, loss_R: Float[np.ndarray, "R"]) -> None:
        """Prints a line."""
        self._tally.on_evaluation(step, loss_R)
        self._move(step)
        n_steps = self._setting.config.train.n_steps
        floor = self._setting.floor
        above = "" if floor is None else f"  ({_losses(loss_R - floor)} above the floor)"
        tally = self._tally
        unit = self._setting.objective.unit
        words = [f"step {step:>{len(str(n_steps))}}/{n_steps}", f"validation loss {_losses(loss_R)} {unit}{above}"]
        if tally.spikes:
            words.append(f"{tally.spikes} spike{'s' * (tally.spikes > 1)}")
        if tally.diverged_R.any():
            words.append(f"{tally.diverged_R.sum()} of {len(loss_R)} diverged")
        if self._speed:
            share = self._share()
            words.append(f"{self._speed:,.0f} tokens/s" + (f" ({share} of peak)" if share else ""))
        self._display.line(self._task, "  ".join(words))

    def on_end(self) -> None:
        """What lanes that all diverged leave undone is done for the whole."""
        if self._tally.diverged_R.all():
            self._display.skip(self._flops(self._setting.config.train.n_steps - self._step))

    def _move(self, step: int) -> None:
        n_steps, self._step = step - self._step, step
        self._display.advance(self._task, n_steps, self._flops(n_steps), self._cells())

    def _flops(self, n_steps: int) -> float:
        return flops(self._setting) * n_steps / self._setting.config.train.n_steps

    def _cells(self) -> list[str]:
        tally = self._tally
        counts = [str(tally.spikes), f"{tally.diverged_R.sum()}/{len(tally.diverged_R)}"]
        steps = f"{self._step}/{self._setting.config.train.n_steps}"
        speed = [f"{self._speed:,.0f}", *([self._share() or "-"] if self._peak else [])]
        return [steps, _range(tally.loss_R), _range(np.array([tally.best])), *counts, *speed]

    def _share(self) -> str:
        share = self._speed * self._setting.costs.flops_per_token / (self._peak or np.nan)
        # Above it the peak is none: something else ran while it was measured.
        return f"{share:.0%}" if share <= 1 else ""


def _range(loss: Float[np.ndarray, "R"]) -> str:
    finite = loss[np.isfinite(loss)]
    if not len(finite):
        return "-"
    low, high = f"{finite.min():.3f}", f"{finite.max():.3f}"
    return low if low == high else f"{low}-{high}"


def _losses(loss: Float[np.ndarray, "R"]) -> str:
    if len(loss) <= LANES_SHOWN:
        return " ".join(f"{value:.4f}" for value in loss)
    return f"{np.nanmin(loss):.4f} to {np.nanmax(loss):.4f}" if np.isfinite(loss).any() else "nan"
