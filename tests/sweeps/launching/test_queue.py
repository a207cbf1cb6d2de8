"""What is said to SLURM and how its answers are read, with stand-ins for its commands; test_slurm has the real ones."""

import os
import re
import shlex
import subprocess
import time

import pytest

from actlab.config import Config
from actlab.errors import UserError
from actlab.sweeps import launching
from actlab.sweeps.launching.jobs import Job


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """A function that puts a shell script in the place of a command of SLURM."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def put(name, script):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    put("sbatch", f'printf "%s\\n" "$@" > {tmp_path}/told')
    return put


@pytest.fixture
def jobs(tmp_path):
    root = tmp_path / "it's 100% jobs"
    root.mkdir()
    return [Job(number, "relu", ("x",), Config(), root, "") for number in (0, 1, 2)]


def test_jobs_in_the_queue_are_found_there_and_the_others_submitted(tmp_path, commands, jobs):
    commands("squeue", 'echo "1|RUNNING|None"; echo "7|PENDING|Priority"')
    slurm = launching.Slurm(["--gpus=2"], max_parallel=4)
    slurm.start(jobs)
    told = (tmp_path / "told").read_text().splitlines()
    root = jobs[0].root
    assert told[1] == "--array=0,2%4" and told[-2:] == ["--gpus=2", str(root / "job.sh")]
    assert {"--requeue", "--open-mode=append", f"--output={tmp_path}/it's 100%% jobs/%a.log"} < set(told)
    cases = [line for line in (root / "job.sh").read_text().splitlines() if line.endswith(";;")]
    assert [shlex.split(case)[3:-1] for case in cases] == [jobs[0].command(), jobs[2].command()]
    assert slurm.active() == {1: "running", 7: "pending (Priority)"}
    commands("squeue", "echo no controller >&2; exit 1")
    assert slurm.active() == dict.fromkeys((1, 7), "the queue does not answer")
    assert slurm.stop().startswith("left in the queue: 2 jobs;")
    with pytest.raises(UserError, match="squeue says 'no controller'"):
        slurm.start(jobs)


@pytest.mark.parametrize("option", ["--job-name=mine", "--J=mine", "--array=0-3", "--signal=USR2"])
def test_options_by_which_jobs_are_found_are_not_the_users(commands, option):
    with pytest.raises(UserError, match="is set by actlab launch"):
        launching.Slurm(["--gpus=1", option])


@pytest.mark.parametrize("limit", ["4", "4:59", "0:04:59", "0-0:04", "0-0:04:59"])
def test_a_time_limit_in_which_no_job_would_get_further_is_refused(commands, limit):
    for option in (f"--time={limit}", f"--t={limit}"):
        with pytest.raises(UserError, match=re.escape(f"--time={limit} is less than 5 minutes")):
            launching.Slurm([option])


@pytest.mark.parametrize("limit", ["5", "8:00", "0:05:00", "1-0", "0-0:05", "0-0:05:00", "0", "UNLIMITED"])
def test_longer_time_limits_are_left_to_sbatch(tmp_path, commands, jobs, limit):
    commands("squeue", "")
    launching.Slurm([f"--time={limit}"]).start(jobs)
    assert f"--time={limit}" in (tmp_path / "told").read_text().splitlines()


def test_nothing_is_asked_or_said_without_jobs(tmp_path, commands):
    commands("squeue", "exit 9")
    slurm = launching.Slurm()
    slurm.start([])
    assert slurm.active() == {} and not (tmp_path / "told").exists()


@pytest.mark.parametrize(
    ("number", "requeued"), [("USR1", "5_1\n"), ("TERM", "")], ids=["time limit", "preempted or cancelled"]
)
def test_the_script_saves_and_comes_back_only_at_its_time_limit(
    tmp_path, commands, jobs, monkeypatch, number, requeued
):
    commands("squeue", "")
    commands("scontrol", f'echo "$2" > {tmp_path}/requeued')
    training = f"trap 'exit 143' TERM; touch {tmp_path}/begun; while :; do sleep 0.05; done"
    monkeypatch.setattr(Job, "command", lambda self: ["sh", "-c", training])
    launching.Slurm().start(jobs)
    environment = {**os.environ, "SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "1"}
    script = subprocess.Popen(["sh", jobs[0].root / "job.sh"], env=environment, start_new_session=True)
    while not (tmp_path / "begun").exists():
        assert script.poll() is None
        time.sleep(0.01)
    # SIGTERM reaches every process of a job, SIGUSR1 the shell alone.
    subprocess.run(["kill", f"-{number}", "--", f"{'-' if number == 'TERM' else ''}{script.pid}"], check=True)
    assert script.wait(timeout=60) == 143
    told = tmp_path / "requeued"
    assert (told.read_text() if told.exists() else "") == requeued
