"""Launches with processes of this machine: the results of one machine, whatever happens to a job."""

import io
import json
import pathlib
import signal
import subprocess
import sys
import time

import event_files
import pytest
import signalled
from rich.console import Console

from actlab import config as config_lib
from actlab.config import Config, replace, sweep, to_json
from actlab.errors import UserError
from actlab.sweeps import launching, session, trained
from actlab.sweeps.launching import jobs
from actlab.sweeps.launching.jobs import Job
from actlab.sweeps.launching.launch import Board
from actlab.training import program_spec
from actlab.workdir import integrity, manifest
from actlab.workdir.records import Workdir


def launch(config, workdir, executor):
    return launching.run(config, (), "sweep", workdir, executor, ["test"])


def disturb(patch, signals):
    """The first process of each job sends itself a signal, given by the job's number, once step 100 is sealed."""
    whole, due = Job.command, dict(signals)

    def command(job):
        python, _, _, *flags = whole(job)
        number = due.pop(job.number, None)
        return [python, *signalled.code(number, 201), *flags] if number else whole(job)

    patch.setattr(Job, "command", command)


@pytest.fixture(scope="module")
def disturbed(long_sweep, tmp_path_factory, here_in_jobs):
    """A launch one of whose jobs was killed, the other preempted: workdir, exit code and what was printed."""
    workdir = tmp_path_factory.mktemp("disturbed") / "w"
    with pytest.MonkeyPatch.context() as patch:
        printed = {"stdout": io.StringIO(), "stderr": io.StringIO()}
        for name, stream in printed.items():
            patch.setattr(sys, name, stream)
        disturb(patch, {0: signal.SIGKILL, 1: signal.SIGTERM})
        code = launch(long_sweep, workdir, launching.Local())
    return workdir, code, printed["stdout"].getvalue(), printed["stderr"].getvalue()


def _event_files_are_gathered_too(workdir):
    rows = Workdir(workdir).metrics()
    folders = {folder.name: folder for folder in (workdir / "tensorboard").iterdir()}
    assert folders.keys() == {row["run"] for row in rows} and len(folders) == 4
    for name, folder in folders.items():
        assert event_files.found(folder) == event_files.expected(rows, name)


def restored(workdir, job):
    sessions = json.loads((workdir / "jobs" / str(job) / "manifest.json").read_text())["sessions"]
    return [row["step"] for session in sessions for row in session["restored"]]


@pytest.mark.slow
def test_whatever_happens_to_jobs_the_results_are_those_of_one_machine(
    disturbed, long_sweep, direct, outcome, tmp_path, capsys
):
    # One test, because its parts build on each other.
    _a_preempted_job_comes_back_by_itself_and_a_killed_one_is_reported(disturbed)
    _called_again_it_runs_what_failed(disturbed, long_sweep, direct, outcome, tmp_path)
    _event_files_are_gathered_too(disturbed[0])
    _what_is_done_is_not_run_again_by_either_command(disturbed, long_sweep, capsys)


def _a_preempted_job_comes_back_by_itself_and_a_killed_one_is_reported(disturbed):
    workdir, code, out, error = disturbed
    assert code == 1
    *_, failed, last = error.splitlines()
    assert failed.startswith(f"failed      job 0 (relu): {workdir}/jobs/0.log ends with: ")
    assert last == "actlab: 1 of 2 jobs failed; the same command runs them again."
    assert "job 1 (tanh)  finished, step 600/600" in out and "job 0 (relu)  failed" in out
    first, second = restored(workdir, 1)
    assert first == 0 and 200 <= second < 600
    assert "stopped; the same command resumes" in (workdir / "jobs" / "1.log").read_text()
    # What is done is there already.
    assert {row["activation"] for row in Workdir(workdir).results()} == {"tanh"}
    assert not (workdir / "manifest.json").exists()


def _called_again_it_runs_what_failed(disturbed, long_sweep, direct, outcome, tmp_path):
    workdir, *_ = disturbed
    assert launch(long_sweep, workdir, launching.Local()) == 0
    assert outcome(workdir) == direct
    assert len(restored(workdir, 0)) == 2 and restored(workdir, 0)[1] >= 100
    assert len(restored(workdir, 1)) == 2  # not run again
    manifest = json.loads((workdir / "manifest.json").read_text())
    assert list(manifest["parts"]) == ["0-0", "1-0"] and [row["job"] for row in manifest["sessions"]] == [0, 0, 1, 1]
    moved = workdir.rename(tmp_path / "moved")
    assert trained.load(moved, "tanh-lr0.001-seed2").step == 600
    moved.rename(workdir)


def _what_is_done_is_not_run_again_by_either_command(disturbed, long_sweep, capsys):
    workdir, *_ = disturbed
    capsys.readouterr()
    before = {path: path.stat().st_mtime_ns for path in workdir.rglob("*") if path.is_file()}
    assert launch(long_sweep, workdir, launching.Local()) == 0
    assert session.run(long_sweep, "sweep", workdir, ["test"]) == 0
    assert capsys.readouterr().out.count("4: already finished; nothing to do") == 2
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.slow
def test_told_to_stop_it_stops_its_jobs_and_waits_until_they_have_saved(long_sweep, tmp_path):
    config = replace(long_sweep, **{"train.n_steps": 10**6})
    (tmp_path / "sweep.json").write_text(to_json(config))
    line = [sys.executable, "-m", "actlab", "launch", "--config=sweep.json", "--executor=local", "--workdir=w"]
    process = subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    names = tuple(run.name for run in sweep.expand(config) if run.config.model.activation == "relu")
    job = Job(0, "relu", names, config, tmp_path / "w" / "jobs", "")
    while process.poll() is None and job.step() < 200:
        time.sleep(0.02)
    process.terminate()
    out, error = process.communicate(timeout=120)
    assert (process.returncode, error.strip()) == (143, "stopping    its jobs save a checkpoint first")
    assert out.endswith("stopped after saving; the same command resumes\n")
    assert "job 1 (tanh)  waiting" in out  # one at a time
    assert not job.workdir.is_in_use() and not (tmp_path / "w" / "jobs" / "1.log").exists()
    assert job.last_words() == "stopped; run the same command to resume"
    saved = [int(path.name) for path in (job.workdir.path / "checkpoints" / "0").iterdir() if path.name.isdigit()]
    assert max(saved) >= job.step() >= 200


@pytest.mark.slow
def test_a_launch_that_was_killed_takes_up_its_job_which_trained_on(long_sweep, direct, outcome, tmp_path):
    (tmp_path / "sweep.json").write_text(to_json(long_sweep))
    words = ["--config=sweep.json", "--executor=local", "--max_parallel=1", "--workdir=w"]
    begin = lambda: subprocess.Popen(
        [sys.executable, "-m", "actlab", "launch", *words], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    process, metrics = begin(), tmp_path / "w/jobs/0/metrics.jsonl"
    while process.poll() is None and not (metrics.is_file() and metrics.read_text().count("\n") > 10):
        time.sleep(0.02)
    process.kill()
    process.communicate()
    job = Workdir(tmp_path / "w/jobs/0")
    assert job.is_in_use(), "it trains on"
    out, _ = begin().communicate(timeout=300)
    assert not job.is_in_use() and out.count("job 0 (relu)  finished") == 1, out
    assert outcome(tmp_path / "w")[:-1] == direct[:-1] and len(restored(tmp_path / "w", 0)) == 1


def test_a_job_that_outlived_its_launch_is_waited_for_and_begun_again_if_it_did_not_finish(tmp_path, monkeypatch):
    monkeypatch.setattr(Job, "command", lambda self: [sys.executable, "-c", "print('begun')"])
    jobs = [Job(number, "relu", ("x",), Config(), tmp_path, "") for number in (0, 1)]
    outlived = jobs[0].workdir
    outlived.open(Config())
    executor = launching.Local()
    executor.start(jobs)
    assert executor.active() == {0: "running", 1: "waiting"}
    assert not jobs[0].log.exists() and not jobs[1].log.exists()
    outlived.close()
    while executor.active():
        time.sleep(0.02)
    assert (jobs[0].last_words(), jobs[1].last_words()) == ("begun", "begun")


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (lambda workdir, config: Workdir(workdir).open(replace(config, seed=5)), "seed is 5 there and 1337 here"),
        (lambda workdir, config: Workdir(workdir).write_manifest({"data": {}}), "begun by actlab.main"),
    ],
)
def test_a_workdir_of_something_else_is_refused(long_sweep, tmp_path, prepare, words):
    prepare(tmp_path, replace(long_sweep, sweep=()))
    with pytest.raises(UserError, match=words):
        launch(replace(long_sweep, sweep=()), tmp_path, launching.Local())


def test_a_workdir_is_launched_by_one_command_at_a_time(small_sweep, tmp_path):
    holder = Workdir(tmp_path)
    holder.open(replace(small_sweep, **{"model.d_ff": 32, "model.vocab_size": 320}))
    with pytest.raises(UserError, match="in use by another process"):
        launch(small_sweep, tmp_path, launching.Local())
    holder.close()


class Here:
    """Trains each job in this process, as its command says."""

    name, stopping, poll_seconds = "here", "", 0.0

    def __init__(self, only=None):
        self.commands, self._only = {}, only

    def start(self, jobs):
        """Trains them."""
        for job in jobs if self._only is None else [job for job in jobs if job.number == self._only]:
            words = self.commands[job.number] = job.command()
            session.run(job.config, "job", job.workdir.path, words, extend="--extend" in words)

    def active(self):
        """None: they are done."""
        return {}

    def stop(self):
        """Nothing to do."""
        return ""


def test_a_launched_sweep_grows_by_seeds_rates_and_activations(small_sweep, tmp_path):
    first = replace(small_sweep, sweep={"model.activation": ("relu",), "seed": (1, 2)})
    axes = {"model.activation": ("tanh", "relu"), "seed": (1, 2, 3, 4)}
    grown = replace(first, sweep=axes)
    assert launch(first, tmp_path, Here()) == 0
    held = Workdir(tmp_path / "jobs/0")
    held.open(config_lib.load(tmp_path / "jobs/0/config.json"))
    with pytest.raises(UserError, match="job 0 in .* is training: wait for it"):
        launching.run(grown, (), "sweep", tmp_path, Here(), ["test"], extend=True)
    held.close()
    before = Workdir(tmp_path).results()
    with pytest.raises(UserError, match="has 2 of the 8 runs of config.sweep: add --extend"):
        launch(grown, tmp_path, Here())
    # A job that is not trained takes no finished run from the table.
    assert launching.run(grown, (), "sweep", tmp_path, Here(only=1), ["test"], extend=True) == 1
    assert Workdir(tmp_path).results() == before and len(manifest.extensions(Workdir(tmp_path))) == 1
    here = Here()
    assert launching.run(grown, (), "sweep", tmp_path, here, ["test"], extend=True) == 0
    # Job 0 trains ReLU as before, whose new seeds come to its workdir; tanh is a job of its own.
    assert here.commands.keys() == {0}
    rows = {row["run"]: row for row in Workdir(tmp_path).results()}
    assert rows.keys() == {run.name for run in sweep.expand(grown)}
    assert [rows[row["run"]] for row in before] == before
    (found,) = manifest.extensions(Workdir(tmp_path))
    assert (found["runs"], found["added"]) == (2, 6)
    assert launch(grown, tmp_path, Here()) == 0


def test_while_a_grown_sweep_trains_what_is_done_can_be_read(small_sweep, tmp_path):
    first = replace(small_sweep, sweep={"model.activation": ("relu",), "seed": (1, 2)})
    grown = replace(first, sweep={"model.activation": ("relu", "tanh", "elu"), "seed": (1, 2)})
    assert launch(first, tmp_path, Here()) == 0
    assert launching.run(grown, (), "sweep", tmp_path, Here(only=1), ["test"], extend=True) == 1
    integrity.require_sound(tmp_path)
    assert [row["activation"] for row in Workdir(tmp_path).results()] == ["relu", "relu", "tanh", "tanh"]


@pytest.mark.parametrize("written", ["w", "w/../w", "link/w"])
def test_a_workdir_has_one_name_however_it_is_written(small_sweep, tmp_path, written):
    (tmp_path / "link").symlink_to(tmp_path)
    roots = []

    class Asked(Here):
        def start(self, jobs):
            roots.extend(job.root for job in jobs)

    assert launching.run(small_sweep, (), "sweep", tmp_path / written, Asked(), ["test"]) == 1
    assert {*roots} == {tmp_path.resolve() / "w/jobs"}


def test_a_sweep_that_grew_before_all_its_jobs_were_done_says_so_too(small_sweep, tmp_path):
    first = replace(small_sweep, sweep={"model.activation": ("relu", "tanh"), "seed": (1,)})
    grown = replace(first, sweep={"model.activation": ("relu", "tanh"), "seed": (1, 2)})
    assert launch(first, tmp_path, Here(only=0)) == 1 and Workdir(tmp_path).results()
    assert launching.run(grown, (), "sweep", tmp_path, Here(), ["test"], extend=True) == 0
    assert manifest.looks(Workdir(tmp_path)), "what it had could be read"


def test_jobs_of_other_data_are_refused(long_sweep, tmp_path):
    folder = tmp_path / "jobs" / "1"
    folder.mkdir(parents=True)
    Workdir(folder).write_manifest({"data": {"name": "mine", "fingerprint": "0123456789abcdef"}})
    with pytest.raises(UserError, match="fingerprint 0123456789ab"):
        launch(long_sweep, tmp_path, launching.Local())


def test_jobs_of_another_activation_are_refused(long_sweep, tmp_path):
    folder = tmp_path / "jobs" / "1"
    folder.mkdir(parents=True)
    tokens = program_spec.open_data([long_sweep])
    known = {"data": {"fingerprint": tokens.fingerprint}, "activations": {"relu": {"fn": [7.0] * 27}}}
    Workdir(folder).write_manifest(known)
    with pytest.raises(UserError, match="jobs/1 was begun with another 'relu', whose fn at -20 was 7.0 and now is 0.0"):
        launch(long_sweep, tmp_path, launching.Local())


def test_jobs_that_were_trained_with_two_functions_of_a_name_are_not_gathered(tmp_path):
    one, other = ({"activations": {name: {"fn": [value] * 27}}} for name, value in (("bent", 1.0), ("relu", 0.0)))
    assert jobs._computed(tmp_path, [one, {}, other, one]) == one["activations"] | other["activations"]
    with pytest.raises(UserError, match="'bent'"):
        jobs._computed(tmp_path, [one, {"activations": {"bent": {"fn": [2.0] * 27}}}])


def test_a_line_is_printed_where_the_state_changes_and_every_tenth(capsys):
    job = Job(2, "relu", ("a", "b"), replace(Config(), **{"train.n_steps": 200}), pathlib.Path(), "")
    with Board(Console(), [job]) as board:
        for words, step in [("waiting", 0), ("waiting", 0), ("running", 0), ("running", 19), ("running", 20)]:
            board.show(job, words, step)
    assert capsys.readouterr().out.splitlines() == [
        "job 2 (relu)  waiting, step 0/200",
        "job 2 (relu)  running, step 0/200",
        "job 2 (relu)  running, step 20/200",
    ]


def test_on_a_terminal_running_jobs_have_a_bar_and_all_have_one():
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    job = Job(2, "relu", ("a", "b"), replace(Config(), **{"train.n_steps": 200}), pathlib.Path(), "")
    with Board(terminal, [job]) as board:
        board.show(job, "running", 50)
    shown = terminal.file.getvalue()
    assert "100/400" in shown and "50/200" in shown


def test_a_launch_that_fails_stops_its_jobs(small_sweep, tmp_path):
    stopped = []

    class Failing:
        name, stopping, poll_seconds = "failing", "", 0.0

        def start(self, jobs):
            pass

        def active(self):
            raise UserError("the disk is full.")

        def stop(self):
            stopped.append(True)
            return "stopped"

    with pytest.raises(UserError, match="the disk is full"):
        launch(small_sweep, tmp_path / "w", Failing())
    assert stopped
