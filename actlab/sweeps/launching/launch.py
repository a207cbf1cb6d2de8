"""A launch: one call of the launch command, from a config to the gathered results of its jobs."""

import contextlib
import pathlib
import signal
import time
from collections.abc import Collection, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from actlab import callbacks, config as config_lib
from actlab.config import Config, sweep
from actlab.console import lines
from actlab.errors import UserError
from actlab.sweeps import announce, session
from actlab.sweeps.launching import jobs as jobs_lib
from actlab.sweeps.launching.executors import Local, Slurm
from actlab.sweeps.launching.jobs import Job
from actlab.training.signals import StopSignal
from actlab.workdir import integrity, manifest
from actlab.workdir.records import Row, Workdir

EXIT_JOB_FAILED = 1
TENTHS = 10  # lines that a running job prints where there is no terminal


def run(
    config: Config,
    files: tuple[str, ...],
    label: str,
    workdir: pathlib.Path | None,
    executor: Local | Slurm,
    command: Sequence[str],
    extend: bool = False,
) -> int:
    """Trains the programs of a config as jobs, resumes them, or says that they are done; returns the exit code.

    `files` may register the user's own activations; `label` names the default workdir,
    runs/LABEL-FINGERPRINT. With `extend` the sweep may have more runs than the one that began the workdir. The data is
    prepared here, once: jobs that start together would all wait for the first one.

    Raises:
        UserError: for whatever the user can fix.
    """
    console = lines()
    if workdir and not session.needs_training(console, Workdir(workdir), config, launched=True, extend=extend):
        return 0
    prepared = session.prepare(console, config)
    # SLURM knows the jobs by this path: it must not depend on how it is written.
    path = (workdir or session.default_workdir(label, prepared.config)).resolve()
    records = Workdir(path)
    if not session.needs_training(console, records, prepared.config, launched=True, extend=extend):
        return 0
    callbacks.require_login(config)
    manifest.require_same_config(records, prepared.config)
    n_before = _require_at_rest(records) if extend else None
    records.open(prepared.config, extend)
    with records.writing(), contextlib.closing(records):
        if n_before is not None:
            manifest.note_extension(records, n_before, len(prepared.runs))
        jobs = jobs_lib.make(prepared.config, prepared.specs, path / "jobs", files)
        prepared.require_same(*(job.workdir for job in jobs))
        for job in jobs:
            job.write()
        console.print(f"workdir     {path}")
        of = f"{len(jobs)} for {len(prepared.runs)} runs"
        console.print(f"jobs        {of}, by {executor.name}; each prints to jobs/N.log there")
        return Launch(jobs, executor, records, console).run(command)


def _require_at_rest(records: Workdir) -> int | None:
    """The number of runs of the sweep that is to grow, if there is one; raises UserError while a job of it trains."""
    file = records.path / "config.json"
    for folder in sorted((records.path / "jobs").glob("*/")):
        if Workdir(folder, writes=False).is_in_use():
            raise UserError(
                f"--extend: job {folder.name} in {records.path} is training: "
                "wait for it to end, then run the same command again."
            )
    return len(sweep.expand(config_lib.load(file))) if file.is_file() else None


class Board:
    """What a launch shows while it waits: a bar per running job on a terminal, lines elsewhere.

    Use it as a context manager around the waiting.
    """

    def __init__(self, console: Console, jobs: Sequence[Job]):
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"),
            MofNCompleteColumn(),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[words]}"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console,
            disable=not console.is_terminal,
        )
        n_steps = sum(job.n_steps * len(job.names) for job in jobs)
        self._all = self._progress.add_task("all", total=n_steps, words="")
        self._tasks = {
            job.number: self._progress.add_task(_name(job), total=job.n_steps, words="", visible=False) for job in jobs
        }
        self._lanes = {job.number: len(job.names) for job in jobs}
        self._shown: dict[int, tuple[str, int]] = {}

    def __enter__(self) -> "Board":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, job: Job, words: str, step: int) -> None:
        """Shows a job's state and step; prints a line when the state changes or another tenth of the steps is done."""
        task = self._progress.tasks[self._tasks[job.number]]
        self._progress.advance(self._all, (step - task.completed) * self._lanes[job.number])
        self._progress.update(task.id, completed=step, words=words, visible=words == "running")
        shown = (words, step * TENTHS // job.n_steps)
        if self._shown.get(job.number) == shown:
            return
        if not self._console.is_terminal or self._shown.get(job.number, ("", 0))[0] != words:
            self._console.print(f"{_name(job)}  {words}, step {step}/{job.n_steps}")
        self._shown[job.number] = shown


def _name(job: Job) -> str:
    return f"job {job.number} ({job.label})"


class Launch:
    """The jobs of a workdir, from the first start to the gathered results; `run` is called once."""

    def __init__(self, jobs: Sequence[Job], executor: Local | Slurm, records: Workdir, console: Console):
        self._jobs, self._executor = jobs, executor
        self._records, self._console = records, console
        self._rows: dict[str, Row] = {}
        self._n_gathered = 0

    def run(self, command: Sequence[str]) -> int:
        """Starts the jobs that are not done, waits, and gathers; returns the exit code."""
        self._collect({})
        with StopSignal(told=self._executor.stopping) as stop, Board(self._console, self._jobs) as board:
            self._executor.start(self._open())
            try:
                while (active := self._look(board, command)) and not stop.received:
                    _sleep(self._executor.poll_seconds, stop)
            except BaseException:
                self._console.print(self._executor.stop())
                raise
            if active:
                self._console.print(self._executor.stop())
                return 128 + (stop.received or signal.SIGTERM)
        if self._open():
            return self._report()
        announce.results(
            self._console, [self._rows[name] for one in self._jobs for name in one.names], self._records.path
        )
        return 0

    def _open(self) -> list[Job]:
        """The jobs that have no results yet."""
        return [one for one in self._jobs if not self._rows.keys() >= set(one.names)]

    def _look(self, board: Board, command: Sequence[str]) -> bool:
        """Polls the executor, shows the jobs, gathers new results; returns whether a job is active."""
        # The executor is asked before the workdirs are read: a job that is not active has written its results.
        active = self._executor.active()
        self._collect(active)
        still_open = self._open()
        for one in self._jobs:
            ended = "failed" if one in still_open else "finished"
            board.show(one, active.get(one.number, ended), one.step() if one in still_open else one.n_steps)
        # While jobs of a sweep that grew train again, the tables keep the runs that they have.
        if len(self._rows) > self._n_gathered and integrity.check(self._records).rows.keys() <= self._rows.keys():
            jobs_lib.gather(self._records, self._jobs, self._rows, command)
            self._n_gathered = len(self._rows)
        return any(one.number in active for one in self._jobs)

    def _collect(self, active: Collection[int]) -> None:
        for one in self._open():
            if one.number not in active:
                self._rows |= one.results() or {}

    def _report(self) -> int:
        """Prints which jobs failed."""
        errors = lines(stderr=True)
        failed = self._open()
        for one in failed:
            errors.print(f"failed      {_name(one)}: {one.log} ends with: {one.last_words()}")
        errors.print(f"actlab: {len(failed)} of {len(self._jobs)} jobs failed; the same command runs them again.")
        return EXIT_JOB_FAILED


def _sleep(seconds: float, stop: StopSignal) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not stop.received:
        time.sleep(0.1)
