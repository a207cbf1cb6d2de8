"""Jobs as processes of this machine."""

import signal
import subprocess
from collections.abc import Sequence

from actlab.studies.launching.job import Job

PREEMPTED = (128 + signal.SIGTERM, -signal.SIGTERM)  # after saving, and before it could have


class Local:
    """At most `max_parallel` processes at once; each takes all devices that it sees."""

    name = "local"
    poll_seconds = 0.2

    def __init__(self, max_parallel: int = 1):
        self._max_parallel = max_parallel
        self._waiting: list[Job] = []
        self._running: dict[int, tuple[Job, subprocess.Popen[bytes]]] = {}
        self._found: dict[int, Job] = {}

    def start(self, jobs: Sequence[Job]) -> None:
        """Puts jobs in line. One whose workdir is in use outlived the call that began it: it is waited for."""
        for job in jobs:
            if job.workdir.is_in_use():
                self._found[job.number] = job
            else:
                self._waiting.append(job)

    def active(self) -> dict[int, str]:
        """Looks after the processes, begins what there is room for."""
        for job, process in list(self._running.values()):
            if process.poll() is not None:
                del self._running[job.number]
                if process.returncode in PREEMPTED:
                    self._waiting.append(job)
        for job in list(self._found.values()):
            if not job.workdir.is_in_use():
                del self._found[job.number]
                if job.results() is None:
                    self._waiting.append(job)
        while self._waiting and len(self._running) + len(self._found) < self._max_parallel:
            self._begin(self._waiting.pop(0))
        waiting = {job.number: "waiting" for job in self._waiting}
        return waiting | dict.fromkeys([*self._running, *self._found], "running")

    def _begin(self, job: Job) -> None:
        with job.log.open("ab") as log:
            # In a session of its own a Ctrl-C in the terminal does not reach it: `stop` tells it, once.
            process = subprocess.Popen(
                job.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._running[job.number] = (job, process)

    def stop(self) -> str:
        """Stops the processes and waits until they have saved."""
        for _, process in self._running.values():
            process.terminate()
        for _, process in self._running.values():
            process.wait()
        found = f"; {len(self._found)} jobs that an earlier call began train on" if self._found else ""
        return f"stopped after saving; the same command goes on from there{found}"
