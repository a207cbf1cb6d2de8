"""Trainings that send themselves a signal after a step: none comes too late, however busy the machine is."""

import signal

PROGRAM = """
import os
from actlab import __main__, main
from actlab.workdir.records import Workdir

def append(self, rows, whole=Workdir.append_metrics):
    rows = list(rows)
    whole(self, rows)
    if any(row["step"] >= {step} for row in rows):
        Workdir.append_metrics = whole
        os.kill(os.getpid(), {number})

Workdir.append_metrics = append
__main__.program(main.main)
"""


def code(number: signal.Signals, step: int) -> list[str]:
    """The words after the interpreter's name, in the place of -m actlab.main."""
    return ["-c", PROGRAM.format(number=int(number), step=step)]
