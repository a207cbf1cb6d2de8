"""Launches on a real SLURM of one node: tests/slurm/cluster.sh starts it, where Debian's packages are installed."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import pytest

from actlab.config import replace, to_json
from actlab.errors import UserError
from actlab.sweeps import launching
from actlab.workdir.records import Workdir

CLUSTER = pathlib.Path(__file__).parents[2] / "slurm" / "cluster.sh"
NEEDED = ("sbatch", "slurmctld", "slurmd", "munged")
MISSING = [name for name in NEEDED if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(
        bool(MISSING), reason=f"no {', '.join(MISSING)}: apt-get install slurmctld slurmd slurm-client munge"
    ),
]


@pytest.fixture(scope="module")
def cluster():
    """A SLURM of this test's own, for its duration."""
    folder = tempfile.mkdtemp(prefix="slurm")  # short: a socket lies in it
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1] - 1
    subprocess.run([CLUSTER, "start", folder, str(port)], check=True, timeout=60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", f"{folder}/slurm.conf")
        yield
    subprocess.run([CLUSTER, "stop", folder], check=True, timeout=60)
    shutil.rmtree(folder, ignore_errors=True)


def slurm(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def queue():
    """Task -> (id, state) of jobs of an array that have not ended."""
    rows = [line.split() for line in slurm("squeue", "-h", "--array", "--format=%K %i %T").splitlines()]
    return {task: (name, state) for task, name, state in rows if task.isdigit()}


def wait(reached, timeout=180):
    end = time.monotonic() + timeout
    while not (found := reached()):
        assert time.monotonic() < end, f"not reached; the queue: {slurm('squeue')}"
        time.sleep(0.2)
    return found


def command(folder, *words):
    line = [sys.executable, "-m", "actlab", "launch", "--config=sweep.json", "--executor=slurm", "--workdir=w", *words]
    return subprocess.Popen(line, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def sessions(job):
    return json.loads((job / "manifest.json").read_text())["sessions"]


def last_step(job):
    rows = Workdir(job).metrics()
    return rows[-1]["step"] if rows else 0


def in_the_middle(job, session):
    """Whether a job's session of that number, from 0, has trained on and saved for a while."""
    if not (job / "manifest.json").is_file() or len(sessions(job)) <= session:
        return False
    restored = sessions(job)[session]["restored"]
    return bool(restored) and last_step(job) > restored[0]["step"] + 2000


def test_jobs_that_are_preempted_requeued_and_at_their_limit_end_as_on_one_machine(
    cluster, long_sweep, outcome, tmp_path
):
    config = replace(
        long_sweep,
        **{"train.n_steps": 20_000, "train.steps_per_call": 5, "train.log_every": 500},
        **{"train.eval_every": 1000, "train.checkpoint_every": 1000},
    )
    (tmp_path / "sweep.json").write_text(to_json(config))
    jobs = [tmp_path / "w" / "jobs" / str(number) for number in (0, 1)]
    begun = command(tmp_path, "--max_parallel=1", "--partition=main", "--sbatch=comment=actlab")

    wait(lambda: in_the_middle(jobs[0], 0))
    assert [state for _, state in queue().values()].count("RUNNING") == 1
    slurm("sbatch", "--partition=urgent", "--exclusive", "--wrap=sleep 1", "--output=urgent.log", f"--chdir={tmp_path}")
    wait(lambda: in_the_middle(jobs[0], 1) or in_the_middle(jobs[1], 0))

    # The command may go: the jobs stay, and it finds them again.
    begun.terminate()
    out, error = begun.communicate(timeout=60)
    assert begun.returncode == 143 and "left in the queue: " in out
    before = {name for name, _ in queue().values()}
    again = command(tmp_path, "--max_parallel=1")

    wait(lambda: in_the_middle(jobs[1], 0))
    slurm("scontrol", "requeue", queue()["1"][0])
    wait(lambda: len(sessions(jobs[1])) == 2 or len(sessions(jobs[0])) == 2)
    wait(lambda: in_the_middle(jobs[1], 1))
    assert {name for name, _ in queue().values()} <= before
    slurm("scancel", "--batch", "--signal=USR1", queue()["1"][0])  # what SLURM sends before the time limit

    out, error = again.communicate(timeout=400)
    assert (again.returncode, error) == (0, ""), error
    line = [sys.executable, "-m", "actlab.main", "--config=sweep.json", "--workdir=direct"]
    subprocess.run(line, cwd=tmp_path, check=True, capture_output=True)
    assert outcome(tmp_path / "w") == outcome(tmp_path / "direct")
    for job, at_least in zip(jobs, (2, 3), strict=True):
        steps = [row["restored"][0]["step"] for row in sessions(job)]
        assert len(steps) == at_least and steps == sorted(set(steps)), steps
        log = job.with_suffix(".log").read_text()
        assert "nothing to do" not in log  # requeued alone
        assert log.count("stopped; run the same command to resume") == at_least - 1


def test_a_cancelled_job_does_not_come_back_and_is_reported(cluster, long_sweep, tmp_path):
    config = replace(long_sweep, sweep=(), **{"train.n_steps": 10**6})
    (tmp_path / "sweep.json").write_text(to_json(config))
    process = command(tmp_path)
    wait(lambda: last_step(tmp_path / "w" / "jobs" / "0") > 500)
    slurm("scancel", queue()["0"][0])
    out, error = process.communicate(timeout=120)
    assert process.returncode == 1 and "actlab: 1 of 1 jobs failed" in error
    assert queue() == {}


def test_what_sbatch_refuses_is_told(cluster, small_sweep, tmp_path):
    with pytest.raises(UserError, match="sbatch says .*Invalid partition"):
        launching.run(small_sweep, (), "sweep", tmp_path / "w", launching.Slurm(["--partition=nowhere"]), ["test"])
