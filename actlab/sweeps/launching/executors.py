"""Executors, which run jobs: processes of this machine, or tasks of a SLURM array.

`start` queues jobs, `active` polls them (number to state), `stop` ends or leaves them when the command must end.
"""

import hashlib
import math
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Sequence

from actlab.console import counted
from actlab.errors import UserError
from actlab.files import write_atomically
from actlab.sweeps.launching.jobs import Job

PREEMPTED = (128 + signal.SIGTERM, -signal.SIGTERM)  # exit codes of a job stopped after, or before, it could save


class Local:
    """At most `max_parallel` processes at once; each uses all devices that it sees."""

    name = "local"
    stopping = "its jobs save a checkpoint first"
    poll_seconds = 0.2

    def __init__(self, max_parallel: int = 1):
        self._max_parallel = max_parallel
        self._waiting: list[Job] = []
        self._running: dict[int, tuple[Job, subprocess.Popen[bytes]]] = {}
        self._found: dict[int, Job] = {}  # started by an earlier call, which ended before they did

    def start(self, jobs: Sequence[Job]) -> None:
        """Queues jobs. A job whose workdir is in use was started by an earlier call and still trains: it is awaited."""
        for job in jobs:
            if job.workdir.is_in_use():
                self._found[job.number] = job
            else:
                self._waiting.append(job)

    def active(self) -> dict[int, str]:
        """Collects processes that have ended and starts waiting jobs while there is room."""
        for job, process in list(self._running.values()):
            if process.poll() is not None:
                del self._running[job.number]
                if process.returncode in PREEMPTED:
                    self._waiting.append(job)
                elif job.workdir.is_in_use():  # an earlier call's process, which had not yet locked it, trains there
                    self._found[job.number] = job
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
            # In a session of its own, a Ctrl-C in the terminal does not reach the job: stop() sends one SIGTERM.
            process = subprocess.Popen(
                job.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._running[job.number] = (job, process)

    def stop(self) -> str:
        """Stops the processes and waits until they have saved."""
        # First all, then wait: they save side by side.
        for _, process in self._running.values():
            process.terminate()
        for _, process in self._running.values():
            process.wait()
        found = f"; left training: {counted(len(self._found), 'job')} of an earlier call" if self._found else ""
        return f"stopped after saving; the same command resumes{found}"


SECONDS_TO_SAVE = 120  # before SLURM's time limit
_LEAST_MINUTES = 5  # of a job: in less it would reach its limit, and be requeued, before it has trained a step

# SLURM's SIGTERM reaches all processes of a job: the training saves while the shell waits. SIGUSR1, sent before the
# time limit by --signal, reaches the shell alone. scancel sends SIGTERM too, after which a job must not come back:
# hence only a job that saw SIGUSR1 is requeued. It is named ARRAY_TASK, because the last task's own job id is the
# array's, and requeueing that would rerun tasks that are done.
SCRIPT = """#!/bin/sh
# Written by actlab launch.
trap : TERM
trap 'limit=reached; kill -TERM "$!"' USR1
case "$SLURM_ARRAY_TASK_ID" in
{cases}
esac
"$@" &
child=$!
while kill -0 "$child" 2>/dev/null; do
  wait "$child"
  code=$?
done
if [ -n "$limit" ] && [ "$code" -ge 128 ]; then
  scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"
fi
exit "$code"
"""

# Options of sbatch that are set here: by these the jobs are found, and stop in time.
_OURS = {"array", "a", "job-name", "J", "output", "o", "open-mode", "requeue", "no-requeue", "signal"}


def _minutes(limit: str) -> float:
    """SLURM's time limit: minutes, M:S, H:M:S, DAYS-H, D-H:M or D-H:M:S; infinite if it is 0, or none of these."""
    if not re.fullmatch(r"(\d+-)?\d+(:\d+){0,2}", limit):
        return math.inf
    days, _, rest = limit.rpartition("-")
    numbers = [int(number) for number in rest.split(":")]
    units = (60, 1, 1 / 60) if days or len(numbers) == 3 else (1, 1 / 60)
    return 24 * 60 * int(days or 0) + sum(map(math.prod, zip(numbers, units, strict=False))) or math.inf


class Slurm:
    """Tasks of a SLURM array, at most `max_parallel` at once (None: no limit). `options` are sbatch's, for each job.

    The queue itself remembers what was submitted: the array's name is a hash of the workdir's path, so that no file can
    contradict it, and accounting is not needed. SLURM requeues jobs that are preempted or lose their node; a job that
    reaches its time limit is requeued by its own script. All resume from their last checkpoint.
    """

    name = "slurm"
    stopping = "leaving the jobs in the queue"
    poll_seconds = 5.0

    def __init__(self, options: Sequence[str] = (), max_parallel: int | None = None):
        if shutil.which("sbatch") is None:
            raise UserError(
                "--executor=slurm: sbatch was not found on this machine: run the command where SLURM is installed (a "
                "login node), or use --executor=local."
            )
        names = {option.lstrip("-").partition("=")[0] for option in options}
        if taken := sorted(names & _OURS):
            raise UserError(f"--sbatch={taken[0]} is set by actlab launch, which relies on it: leave it out.")
        for name, _, value in (option.lstrip("-").partition("=") for option in options):
            if name in ("time", "t") and _minutes(value) < _LEAST_MINUTES:
                raise UserError(
                    f"--time={value} is less than {_LEAST_MINUTES} minutes: a job might be requeued before it gets any "
                    "further; give more, such as --time=8:00:00 for eight hours."
                )
        self._options, self._max_parallel = options, max_parallel
        self._name = ""
        self._last: dict[int, str] = {}

    def start(self, jobs: Sequence[Job]) -> None:
        """Submits the jobs that are not in the queue, as one array."""
        if not jobs:
            return
        self._name = f"actlab-{hashlib.sha256(str(jobs[0].root).encode()).hexdigest()[:12]}"
        queued = self._ask()
        new = [job for job in jobs if job.number not in queued]
        if new:
            self._submit(new)
        self._last = queued | {job.number: "waiting" for job in new}

    def _submit(self, jobs: Sequence[Job]) -> None:
        root = jobs[0].root
        cases = [f"{job.number}) set -- {shlex.join(job.command())} ;;" for job in jobs]
        script = root / "job.sh"
        write_atomically(script, SCRIPT.format(cases="\n".join(cases)))
        at_once = f"%{self._max_parallel}" if self._max_parallel else ""
        flags = [
            f"--array={','.join(str(job.number) for job in jobs)}{at_once}",
            f"--job-name={self._name}",
            f"--output={str(root).replace('%', '%%')}/%a.log",
            "--open-mode=append",
            "--requeue",
            f"--signal=B:USR1@{SECONDS_TO_SAVE}",
        ]
        _call(["sbatch", "--parsable", *flags, *self._options, str(script)])

    def active(self) -> dict[int, str]:
        """The queue's answer. While it does not answer, the jobs of its last answer count as active."""
        try:
            self._last = self._ask() if self._name else {}
        except UserError:
            self._last = dict.fromkeys(self._last, "the queue does not answer")
        return self._last

    def _ask(self) -> dict[int, str]:
        """The numbers of the jobs that have not ended, with their states."""
        answer = _call(["squeue", "--noheader", "--array", f"--name={self._name}", "--format=%K|%T|%r"])
        rows = [line.split("|") for line in answer.splitlines()]
        return {int(number): _state(state, reason) for number, state, reason in rows}

    def stop(self) -> str:
        """Leaves the jobs in the queue."""
        return (
            f"left in the queue: {counted(len(self._last), 'job')}; the same command waits for them again, and scancel "
            f"--name={self._name} removes them"
        )


def _state(state: str, reason: str) -> str:
    if state == "RUNNING":
        return "running"
    return f"{state.lower()} ({reason})" if reason not in ("", "None") else state.lower()


def _call(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        raise UserError(
            f"--executor=slurm: {command[0]} says {lines[-1]!r}: change the flags, or try again once SLURM answers."
        )
    return done.stdout
