"""Jobs as tasks of a SLURM array.

The queue itself remembers what was submitted: jobs bear a name made of their workdir's path, so that no file can be at
odds with it. Accounting is not needed. A job that is preempted, requeued by hand or lost with its node is requeued by
SLURM, one that comes to its time limit by its own script; all go on from their last checkpoint.
"""

import hashlib
import pathlib
import shlex
import shutil
import subprocess
from collections.abc import Sequence

from actlab.errors import UserError
from actlab.files import write_atomically
from actlab.studies.launching.job import Job

SECONDS_TO_SAVE = 120  # before the time limit

# The shell waits on while SLURM's SIGTERM, which reaches all processes of a job, makes the training save. SIGUSR1 comes
# from --signal, to the shell alone. scancel sends SIGTERM too: after that alone a job must not come back.
# The last task's own job id is the whole array's: requeueing that would bring back tasks that are done.
SCRIPT = """#!/bin/sh
# Written by actlab.launch.
trap : TERM
trap 'limit=reached; kill -TERM "$child"' USR1
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


class Slurm:
    """The queue of a cluster. `options` are sbatch's, for each job; at most `max_parallel` run at once, None is all."""

    name = "slurm"
    poll_seconds = 5.0

    def __init__(self, options: Sequence[str] = (), max_parallel: int | None = None):
        if shutil.which("sbatch") is None:
            raise UserError(
                "--executor=slurm: there is no sbatch on this machine: run the command where SLURM is (a login node), "
                "or take --executor=local."
            )
        self._options, self._max_parallel = options, max_parallel
        self._name = ""
        self._last: dict[int, str] = {}

    def start(self, jobs: Sequence[Job]) -> None:
        """Submits the jobs that are not in the queue, as one array."""
        if not jobs:
            return
        self._name = _queue_name(jobs[0].root)
        there = self._ask()
        new = [job for job in jobs if job.number not in there]
        if new:
            self._submit(new)
        self._last = there | {job.number: "waiting" for job in new}

    def _submit(self, jobs: Sequence[Job]) -> None:
        root = jobs[0].root
        cases = [f"{job.number}) set -- {shlex.join(job.command())} ;;" for job in jobs]
        script = root / "job.sh"
        write_atomically(script, SCRIPT.format(cases="\n".join(cases)))
        at_once = f"%{self._max_parallel}" if self._max_parallel else ""
        flags = [
            f"--array={','.join(str(job.number) for job in jobs)}{at_once}",
            f"--job-name={self._name}",
            f"--output={root}/%a.log",
            "--open-mode=append",
            "--requeue",
            f"--signal=B:USR1@{SECONDS_TO_SAVE}",
        ]
        _call(["sbatch", "--parsable", *flags, *self._options, str(script)])

    def active(self) -> dict[int, str]:
        """What the queue says; when it does not answer, the jobs that it named last are taken to be there still."""
        try:
            self._last = self._ask() if self._name else {}
        except UserError:
            self._last = dict.fromkeys(self._last, "the queue does not answer")
        return self._last

    def _ask(self) -> dict[int, str]:
        """Jobs that have not ended: their numbers, and their state in a few words."""
        answer = _call(["squeue", "--noheader", "--array", f"--name={self._name}", "--format=%K|%T|%r"])
        rows = [line.split("|") for line in answer.splitlines()]
        return {int(number): _words(state, reason) for number, state, reason in rows}

    def stop(self) -> str:
        """Leaves the jobs in the queue."""
        return (
            f"{len(self._last)} jobs stay in the queue; the same command waits for them again, "
            f"and scancel --name={self._name} takes them out"
        )


def _queue_name(root: pathlib.Path) -> str:
    return f"actlab-{hashlib.sha256(str(root).encode()).hexdigest()[:12]}"


def _words(state: str, reason: str) -> str:
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
