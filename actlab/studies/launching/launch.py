"""A launch: one call of the command, from a config to the gathered results of its jobs."""

import pathlib
import signal
import time
from collections.abc import Collection, Sequence

from rich.console import Console

from actlab import config as config_lib
from actlab.config import Config
from actlab.data.cache import TokenCache
from actlab.errors import UserError
from actlab.studies import announce, functions, session, sweep
from actlab.studies.launching import gathering, job
from actlab.studies.launching.board import Board
from actlab.studies.launching.executor import Executor
from actlab.studies.launching.job import Job
from actlab.training import manifest, tracking
from actlab.training.records import Row, Workdir
from actlab.training.setting import Setting, open_data
from actlab.training.stopping import StopSignal

EXIT_JOB_FAILED = 1


def run(
    config: Config, code: str, label: str, workdir: pathlib.Path | None, executor: Executor, command: list[str]
) -> int:
    """Trains the cohorts of a config as jobs, or goes on with them, or says that they are done; returns the exit code.

    `code` is the file that activations may be from, see config_flag.code; `label` names the default workdir,
    runs/LABEL-FINGERPRINT.
    Data is prepared here, once: jobs that start together would all wait for the first, on machines paid for.

    Raises:
        UserError: for whatever the user can mend.
    """
    console = Console(highlight=False, soft_wrap=True)
    runs = sweep.expand(config)
    tracking.require(config)
    if workdir:
        Workdir(workdir).check(config)
    session.check(runs)
    announce.name_of_data(console, config)
    tokens = open_data([run.config for run in runs])
    config, settings = session.settle(config, runs, tokens)
    announce.header(console, settings, tokens)
    path = (workdir or pathlib.Path("runs") / f"{label}-{config_lib.fingerprint(config)[:8]}").absolute()
    records = Workdir(path)
    records.check(config)
    if session.say_if_done(console, records, len(runs)):
        return 0
    if records.manifest() and not (path / "jobs").is_dir():
        raise UserError(f"--workdir={path} was begun by actlab.main: go on with that command, or take another workdir.")
    tracking.require_login(config)
    records.open(config)
    try:
        jobs = _prepare(config, settings, path / "jobs", code, tokens)
        console.print(f"workdir     {path}")
        console.print(
            f"jobs        {len(jobs)} of {len(runs)} runs, by {executor.name}; each prints to jobs/N.log there"
        )
        return Launch(jobs, executor, records, console).run(command)
    except OSError as error:
        raise UserError(
            f"--workdir={path} cannot be written any more ({error.strerror or error}): make room, then run the same "
            "command."
        ) from error
    finally:
        records.close()


def _prepare(
    config: Config, settings: Sequence[Setting], root: pathlib.Path, code: str, tokens: TokenCache
) -> list[Job]:
    jobs = job.make(config, settings, root, code)
    computed = functions.values(config for setting in settings for config in setting.configs)
    for one in jobs:
        manifest.require_same_data(one.workdir, tokens)
        functions.require_same(one.workdir, computed)
        one.write()
    return jobs


class Launch:
    """Jobs on their way through an executor; `run` is called once."""

    def __init__(self, jobs: Sequence[Job], executor: Executor, records: Workdir, console: Console):
        self._jobs, self._executor = jobs, executor
        self._records, self._console = records, console
        self._rows: dict[str, Row] = {}
        self._n_gathered = 0

    def run(self, command: Sequence[str]) -> int:
        """Begins what is not done, waits, gathers; returns the exit code."""
        self._collect({})
        with StopSignal() as stop, Board(self._console, self._jobs) as board:
            self._executor.start(self._open())
            while (active := self._look(board, command)) and not stop.received:
                _sleep(self._executor.poll_seconds, stop)
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
        """Asks how the jobs are, shows it, gathers what is new; returns whether any is active."""
        # The queue is asked first: a job that has left it has written its results.
        active = self._executor.active()
        self._collect(active)
        still_open = self._open()
        for one in self._jobs:
            ended = "failed" if one in still_open else "finished"
            board.show(one, active.get(one.number, ended), one.step() if one in still_open else one.n_steps)
        if len(self._rows) > self._n_gathered:
            gathering.gather(self._records, self._jobs, self._rows, command)
            self._n_gathered = len(self._rows)
        return any(one.number in active for one in self._jobs)

    def _collect(self, active: Collection[int]) -> None:
        for one in self._open():
            if one.number not in active:
                self._rows |= one.results() or {}

    def _report(self) -> int:
        """Says what failed."""
        errors = Console(highlight=False, soft_wrap=True, stderr=True, markup=False)
        failed = self._open()
        for one in failed:
            errors.print(f"failed      job {one.number} ({one.label}): {one.log} ends with: {one.last_words()}")
        errors.print(f"actlab: {len(failed)} of {len(self._jobs)} jobs failed; the same command runs them again.")
        return EXIT_JOB_FAILED


def _sleep(seconds: float, stop: StopSignal) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not stop.received:
        time.sleep(0.1)
