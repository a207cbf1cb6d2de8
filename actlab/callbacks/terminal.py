"""The terminal: a live table with a row per program, and a line per evaluation, which is printed to files too.

Tally counts what they show: losses, the best so far, spikes, divergence. StatusLine is the short form of comparisons.
"""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from rich.console import Console
from rich.progress import Progress, Task, TaskID
from rich.status import Status
from rich.table import Table

from actlab.callbacks import Callback, ResumeContext
from actlab.workdir.traces import SpikeCount, Steps

HEADINGS = ("step", "loss", "best", "spikes", "diverged", "tokens/s", "peak")
SHOWN = 12  # programs in the table, the newest
_SPEED_SECONDS = 120.0  # window of the speed that the time left comes from
LANES_SHOWN = 6  # up to this many seeds' losses are written out, of more the smallest and the largest


class ShownLane(NamedTuple):
    """A lane's seed, and in words what it differs in besides."""

    place: str
    seed: int


class Shown(NamedTuple):
    """What the display needs to know about a program; `flops` is what its runs take from step 0 to the end."""

    label: str
    names: tuple[str, ...]
    n_steps: int
    flops: float
    flops_per_token: float
    unit: str  # of the loss
    floor: float | None  # the exact Bayes loss of the validation set, if it is known
    lanes: tuple[ShownLane, ...] = ()


class Display:
    """The display of a session: a context manager around its training. `total` is the FLOPs of all its programs."""

    def __init__(self, console: Console, total: float, many: bool):
        self._console, self._many = console, many
        self._table = LiveTable(console)
        self._all = self._table.add_task("all", total=total, cells=(), visible=many)
        self._total, self._done = total, 0.0

    def __enter__(self) -> "Display":
        self._table.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._table.stop()

    def skip(self, amount: float) -> None:
        """Takes FLOPs off the total: done in an earlier session, or no longer needed."""
        self._done += amount
        # The total shrinks; counted as progress they would inflate the speed that the time left comes from.
        self._table.update(self._all, total=(self._table.tasks[self._all].total or 0) - amount)

    def program(self, shown: Shown, step: int, peak: float | None) -> "ProgramDisplay":
        """The callback for a program that begins at `step`; `peak` is the devices' FLOP/s, None if unknown."""
        self.skip(shown.flops * step / shown.n_steps)
        task = self._table.add_task(shown.label, total=shown.n_steps - step, cells=())
        return ProgramDisplay(self, task, shown, step, peak)

    def advance(self, task: TaskID, n_steps: int, amount: float, cells: Iterable[str]) -> None:
        """Adds steps of a program, and the FLOPs they took."""
        self._done += amount
        self._table.update(task, advance=n_steps, cells=tuple(cells))
        self._table.update(self._all, advance=amount, cells=(f"{self._done / self._total:.0%}",))

    def line(self, task: TaskID, words: str) -> None:
        """Prints a line, which stays above the table, with the time left for all programs."""
        prefix = f"{self._table.tasks[task].description}  " if self._many else ""
        time_left = left(self._table.tasks[self._all])
        self._console.print(f"{prefix}{words}{f'  {time_left} left' if time_left else ''}")

    def more(self, parts: Iterable[str]) -> None:
        """Prints lines that belong to the one before."""
        for words in parts:
            self._console.print(f"            {words}")


class Tally(Callback):
    """Statistics of lanes over all sessions. Losses are in nats per prediction, NaN at first and after divergence."""

    def __init__(self, names: Sequence[str]):
        self._names = list(names)
        self._spikes = [SpikeCount() for _ in names]
        self.loss_R = np.full(len(names), np.nan)
        self.validation_R = np.full(len(names), np.nan)
        self.diverged_R = np.zeros(len(names), bool)
        self.best = np.nan  # validation loss of any lane at any step

    @property
    def spikes(self) -> int:
        """Spikes of all lanes together, counted as in results.csv: divergence is one."""
        return sum(count.n for count in self._spikes)

    def on_begin(self, resumed: ResumeContext) -> None:
        """Counts what earlier sessions left."""
        for row in resumed.kept:
            lane = self._names.index(row["run"])
            if row["split"] == "validation":
                self.validation_R[lane] = np.nan if row["loss"] is None else row["loss"]
                self.best = np.fmin(self.best, self.validation_R[lane])
            self.diverged_R[lane] |= "status" in row
        self.on_steps(0, dict(enumerate(resumed.steps)), 0.0)

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
        # A frozen lane is evaluated with the others, and its loss may still be finite.
        self.diverged_R |= ~np.isfinite(loss_R)
        self.validation_R = np.where(self.diverged_R, np.nan, loss_R)
        self.best = np.fmin(self.best, np.fmin.reduce(self.validation_R))


class ProgramDisplay(Callback):
    """A program's row of the table, and its line for each evaluation."""

    def __init__(self, display: Display, task: TaskID, shown: Shown, step: int, peak: float | None):
        self._display, self._task, self._shown, self._peak = display, task, shown, peak
        self._tally = Tally(shown.names)
        self._step, self._speed = step, 0.0

    def on_begin(self, resumed: ResumeContext) -> None:
        """Shows where earlier sessions left it."""
        self._tally.on_begin(resumed)
        self._move(self._step)

    def on_steps(self, step: int, taken: Mapping[int, Steps], tokens_per_second: float) -> None:
        """Updates the row."""
        self._tally.on_steps(step, taken, tokens_per_second)
        self._speed = tokens_per_second
        self._move(step)

    def on_evaluation(self, step: int, loss_R: Float[np.ndarray, "R"]) -> None:
        """Prints a line."""
        self._tally.on_evaluation(step, loss_R)
        self._move(step)
        tally, floor, n_steps = self._tally, self._shown.floor, self._shown.n_steps
        if len(loss_R) == 1:
            above = "" if floor is None or tally.diverged_R[0] else f"  ({loss_R[0] - floor:.4f} above the floor)"
            loss = f"validation loss {loss_R[0]:.4f} {self._shown.unit}{above}"
        else:
            loss = f"validation loss in {self._shown.unit}" + ("" if floor is None else f", floor {floor:.4f}")
        words = [f"step {step:>{len(str(n_steps))}}/{n_steps}", loss]
        if tally.spikes:
            words.append(f"{tally.spikes} spike{'s' * (tally.spikes > 1)}")
        if tally.diverged_R.any():
            words.append(f"{tally.diverged_R.sum()} of {len(loss_R)} diverged")
        if self._speed:
            share = self._share()
            words.append(f"{self._speed:,.0f} tokens/s" + (f" ({share} of peak)" if share else ""))
        self._display.line(self._task, "  ".join(words))
        if len(loss_R) > 1:
            self._display.more(by_place(self._shown.lanes, tally.validation_R))

    def on_end(self) -> None:
        """Takes the remaining FLOPs off the total if every lane has diverged."""
        if self._tally.diverged_R.all():
            self._display.skip(self._flops(self._shown.n_steps - self._step))

    def _move(self, step: int) -> None:
        n_steps, self._step = step - self._step, step
        self._display.advance(self._task, n_steps, self._flops(n_steps), self._cells())

    def _flops(self, n_steps: int) -> float:
        return self._shown.flops * n_steps / self._shown.n_steps

    def _cells(self) -> list[str]:
        tally = self._tally
        counts = [str(tally.spikes), f"{tally.diverged_R.sum()}/{len(tally.diverged_R)}"]
        steps = f"{self._step}/{self._shown.n_steps}"
        speed = [f"{self._speed:,.0f}", *([self._share() or "-"] if self._peak else [])]
        return [steps, _range(tally.loss_R), _range(np.array([tally.best])), *counts, *speed]

    def _share(self) -> str:
        share = self._speed * self._shown.flops_per_token / (self._peak or np.nan)
        # Above 100% the peak is wrong: something else ran while it was measured.
        return f"{share:.0%}" if share <= 1 else ""


def _range(loss: Float[np.ndarray, "R"]) -> str:
    finite = loss[np.isfinite(loss)]
    if not len(finite):
        return "-"
    low, high = f"{finite.min():.3f}", f"{finite.max():.3f}"
    return low if low == high else f"{low}-{high}"


def by_place(lanes: Sequence[ShownLane], loss_R: Float[np.ndarray, "R"]) -> list[str]:
    """The losses of lanes, a line for all seeds of a place: "lr 0.001: seed 1 4.5332, seed 2 4.5287"."""
    places: dict[str, list[tuple[int, float]]] = {}
    for lane, loss in zip(lanes, loss_R.tolist(), strict=True):
        places.setdefault(lane.place, []).append((lane.seed, loss))
    lines = []
    for place, losses in places.items():
        known = [loss for _, loss in losses if np.isfinite(loss)]
        if len(losses) <= LANES_SHOWN:
            words = ", ".join(f"seed {seed} {loss:.4f}" for seed, loss in losses)
        elif known:
            words = f"{min(known):.4f} to {max(known):.4f}, {len(losses)} seeds"
        else:
            words = f"nan, {len(losses)} seeds"
        lines.append(f"{place}: {words}" if place else words)
    return lines


class LiveTable(Progress):
    """A Progress with column headings, shown on a terminal only.

    Its first task is the whole session, and comes last. The field `cells` of a task fills the columns of HEADINGS.
    """

    def __init__(self, console: Console):
        super().__init__(
            console=console,
            disable=not console.is_terminal,
            refresh_per_second=4,
            speed_estimate_period=_SPEED_SECONDS,
        )

    def make_tasks_table(self, tasks: Iterable[Task]) -> Table:
        """The table as it is shown now."""
        all_tasks = list(tasks)
        programs = all_tasks[1:]
        rows = [*programs[-SHOWN:], *(task for task in all_tasks[:1] if task.visible)]
        n_cells = max((len(task.fields["cells"]) for task in rows), default=0)
        table = Table(box=None, pad_edge=False)
        table.add_column("program", no_wrap=True, overflow="ellipsis")
        for heading in (*HEADINGS[:n_cells], "left"):
            table.add_column(heading, justify="right", no_wrap=True)
        for task in rows:
            cells = [*task.fields["cells"], *[""] * n_cells][:n_cells]
            table.add_row(task.description, *cells, left(task), style="dim" if task in programs[:-1] else "")
        return table


def left(task: Task) -> str:
    """The time a task will still take, as h:mm:ss; empty until its speed is known, and after its end."""
    seconds = None if task.finished else task.time_remaining
    return "" if seconds is None else str(datetime.timedelta(seconds=round(seconds)))


class StatusLine:
    """A line on the terminal that says what is training; nothing in a file."""

    def __init__(self, console: Console):
        self._status = console.status("") if console.is_terminal else None

    def __enter__(self) -> "StatusLine":
        if self._status:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status:
            self._status.stop()

    def program(self, shown: Shown, step: int, peak: float | None) -> Callback:
        """See session.Displayed."""
        return _StatusSteps(self._status, shown)


class _StatusSteps(Callback):
    def __init__(self, status: Status | None, shown: Shown):
        self._status, self._shown = status, shown

    def on_steps(self, step: int, taken: Mapping[int, Steps], tokens_per_second: float) -> None:
        """Updates the line."""
        if self._status:
            names = ", ".join(self._shown.names)
            self._status.update(f"training {names}: step {step}/{self._shown.n_steps}")
