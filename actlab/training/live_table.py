"""A table that moves on a terminal, with a row per cohort; nothing where there is none."""

import datetime
from collections.abc import Iterable

from rich.console import Console
from rich.progress import Progress, Task
from rich.table import Table

HEADINGS = ("step", "loss", "best", "spikes", "diverged", "tokens/s", "peak")
SHOWN = 12  # cohorts, the newest
_SPEED_SECONDS = 120.0  # over which the speed is taken that the time left comes from


class LiveTable(Progress):
    """Tasks of a Progress, which has no headings of its own. The first is the whole and comes last.

    A task's field `cells` has what stands beneath the first of the HEADINGS.
    """

    def __init__(self, console: Console):
        super().__init__(
            console=console,
            disable=not console.is_terminal,
            refresh_per_second=4,
            speed_estimate_period=_SPEED_SECONDS,
        )

    def make_tasks_table(self, tasks: Iterable[Task]) -> Table:
        """What is shown at this moment."""
        all_tasks = list(tasks)
        cohorts = all_tasks[1:]
        rows = [*cohorts[-SHOWN:], *(task for task in all_tasks[:1] if task.visible)]
        n_cells = max((len(task.fields["cells"]) for task in rows), default=0)
        table = Table(box=None, pad_edge=False)
        table.add_column("cohort", no_wrap=True, overflow="ellipsis")
        for heading in (*HEADINGS[:n_cells], "left"):
            table.add_column(heading, justify="right", no_wrap=True)
        for task in rows:
            cells = [*task.fields["cells"], *[""] * n_cells][:n_cells]
            table.add_row(task.description, *cells, left(task), style="dim" if task in cohorts[:-1] else "")
        return table


def left(task: Task) -> str:
    """The time a task will still take, as h:mm:ss; nothing before its speed is known and after its end."""
    seconds = None if task.finished else task.time_remaining
    return "" if seconds is None else str(datetime.timedelta(seconds=round(seconds)))
