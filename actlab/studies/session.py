"""A session: one call of the command on one workdir, from a config to the results of its runs."""

import contextlib
import dataclasses
import itertools
import math
import pathlib
import shutil
import signal
from collections.abc import Mapping, Sequence
from typing import Any

import jax
from rich.console import Console

from actlab import config as config_lib
from actlab.bench import peak
from actlab.config import Config
from actlab.data import tokenizers
from actlab.data.cache import TokenCache
from actlab.errors import UserError
from actlab.studies import announce, functions, origin, plan, profiling, sweep
from actlab.studies.sweep import Run
from actlab.training import layout, manifest, memory, tracking
from actlab.training.checkpoint import Checkpoints, newest
from actlab.training.cohort import Cohort
from actlab.training.display import Display, flops
from actlab.training.loop import Loop
from actlab.training.processes import meet
from actlab.training.records import Row, Workdir
from actlab.training.results import result_row
from actlab.training.setting import Setting, model_of, open_data, prepare, resolve
from actlab.training.stopping import StopSignal
from actlab.training.traces import read_steps
from actlab.training.watcher import Watcher


def run(
    config: Config,
    label: str,
    workdir: pathlib.Path | None,
    command: list[str],
    dry_run: bool = False,
    profile: pathlib.Path | None = None,
) -> int:
    """Trains the runs of a config, or goes on with them, or says that they are done; returns the exit code.

    `label` names the default workdir, runs/LABEL-FINGERPRINT. A dry run prints what would be done, and writes nothing
    but prepared data. With `profile`, a folder, a few updates of the first cohort are traced into it instead.

    Raises:
        UserError: for whatever the user can mend.
    """
    console = Console(highlight=False, soft_wrap=True, quiet=jax.process_index() > 0)
    runs = sweep.expand(config)
    tracking.require(config)
    if workdir and not profile:
        # What can be known is told before any work is spent on the data.
        Workdir(workdir).check(config)
        if say_if_done(console, Workdir(workdir), len(runs)):
            return 0
        _refuse_launched(workdir)
    check(runs)
    if len(runs) == 1:  # a sweep's plan sees to its own devices
        batch_size = runs[0].config.data.batch_size
        layout.idle(layout.mesh(runs[0].config.devices, 1, batch_size), 1, batch_size)
    announce.name_of_data(console, config)
    tokens = open_data([run.config for run in runs])
    config, settings = settle(config, runs, tokens)
    announce.header(console, settings, tokens)
    if profile:
        profiling.run(console, settings[0].part(settings[0].names[: config.devices.max_lanes]), profile)
        return 0
    path = workdir or pathlib.Path("runs") / f"{label}-{config_lib.fingerprint(config)[:8]}"
    records = Workdir(path, writes=jax.process_index() == 0)
    records.check(config)
    if say_if_done(console, records, len(runs)):
        return 0
    _refuse_launched(path)
    if not dry_run and jax.process_index() == 0:
        tracking.require_login(config)
    manifest.require_same_data(records, tokens)
    computed = functions.values(config for setting in settings for config in setting.configs)
    functions.require_same(records, computed)
    plans = plan.make(settings) if len(runs) > 1 or dry_run else []
    if plans:
        plan.show(console, plans)
    if dry_run:
        return 0
    records.open(config)
    try:
        with contextlib.closing(records):
            lanes = [plan.lanes for plan in plans] or [(1,)]
            manifest.begin(records, tokens, command, _deal(settings, lanes), computed)
            meet("the manifest is written")
            return Session(settings, {run.name: run.axes for run in runs}, tokens, records, console).run()
    except OSError as error:
        raise UserError(
            f"--workdir={path} cannot be written any more ({error.strerror or error}): make room, then run the same "
            "command, which goes on from the last checkpoint."
        ) from error


def _refuse_launched(path: pathlib.Path) -> None:
    if (path / "jobs").is_dir():
        raise UserError(
            f"--workdir={path} was begun by actlab.launch, whose jobs hold what is trained: go on with that command, "
            "or take another workdir."
        )


def settle(config: Config, runs: Sequence[Run], tokens: TokenCache) -> tuple[Config, list[Setting]]:
    """The config with what all its runs resolve alike filled in, and the cohorts."""
    resolved = [dataclasses.replace(run, config=_resolved(run.config, tokens)) for run in runs]
    alike = {"data.name": tokens.name}
    open_fields = [path for path, value in config_lib.flat(config).items() if value is None]
    for path in (path for path in open_fields if path.startswith("model.")):
        values = {config_lib.flat(run.config)[path] for run in resolved}
        if len(values) == 1 and not any(path in run.axes for run in runs):
            alike[path] = values.pop()
    cohorts = [
        prepare([run.name for run in cohort], [run.config for run in cohort], tokens)
        for cohort in sweep.cohorts(resolved)
    ]
    return config_lib.replace(config, **alike), cohorts


def check(runs: Sequence[Run]) -> None:
    """Raises UserError for what is wrong with models or origins of runs, whatever the data is."""
    for config in {
        (run.config.model, run.config.finetune, run.config.train.dtype): run.config for run in runs
    }.values():
        model_of(config)
        origin.of(config)


def _resolved(config: Config, tokens: TokenCache) -> Config:
    start = origin.of(config)
    config = resolve(origin.adopt(config, start), tokens.name, tokens.tokenizer)
    if start is not None:
        origin.require_fitting(config, start, tokens.tokenizer)
    return config


def _deal(settings: Sequence[Setting], lanes: Sequence[Sequence[int]]) -> dict[str, list[str]]:
    """The runs of each program: the first of every cohort, then the second, so that a sweep cut short is balanced."""
    hands = []
    for setting, numbers in zip(settings, lanes, strict=True):
        names = iter(setting.names)
        hands.append([list(itertools.islice(names, number)) for number in numbers])
    rounds = itertools.chain.from_iterable(itertools.zip_longest(*hands))
    return {str(number): runs for number, runs in enumerate(runs for runs in rounds if runs)}


def say_if_done(console: Console, records: Workdir, n_runs: int) -> bool:
    """Whether every run of a workdir has its result; prints them if so."""
    rows = records.results()
    done = len(rows) == n_runs and all(row["status"] != "stopped" for row in rows)
    if done:
        announce.results(console, rows, records.path, "was done before; nothing to do")
    return done


class Session:
    """Trains the parts of a workdir one after the other; `run` is called once."""

    def __init__(
        self,
        settings: Sequence[Setting],
        axes: Mapping[str, Row],
        tokens: TokenCache,
        records: Workdir,
        console: Console,
    ):
        self._settings, self._tokens, self._records, self._console = settings, tokens, records, console
        self._of = {name: setting for setting in settings for name in setting.names}
        self._labels = dict(zip(map(id, settings), plan.labels(settings), strict=True))
        self._axes = axes
        self._rows: dict[str, Any] = {row["run"]: row for row in records.results()}

    def run(self) -> int:
        """Trains what is not done; returns the exit code."""
        total = math.fsum(map(flops, self._settings))
        state, stopped = None, False
        self._console.print(f"workdir     {self._records.path}")
        if jax.process_index() == 0:
            tokenizers.keep(self._tokens.tokenizer, self._records.path / "tokenizer")
        with StopSignal() as stop, Display(self._console, total, len(self._of) > 1) as display:
            done = filter(self._is_done, self._of)
            display.skip(math.fsum(flops(self._of[name]) / len(self._of[name].names) for name in done))
            while (part := self._next()) and not stopped:
                try:
                    state, stopped = self._train(*part, stop, display)
                except jax.errors.JaxRuntimeError as error:
                    self._divide(*part, error)
        if stopped:
            self._console.print("stopped; the same command goes on from there")
            return 128 + (stop.received or signal.SIGTERM)
        rows = [self._rows[name] for name in self._of]
        if (
            state is not None
            and len(rows) == 1
            and rows[0]["status"] == "finished"
            and self._of[rows[0]["run"]].model.spec.kind == "decoder"
        ):
            announce.sample(self._console, self._settings[0], self._tokens, state)
        announce.results(self._console, rows, self._records.path)
        return 0

    def _next(self) -> tuple[str, Setting] | None:
        """The first part that is not done."""
        for name, runs in manifest.parts(self._records).items():
            if not all(map(self._is_done, runs)):
                return name, self._of[runs[0]].part(runs)
        return None

    def _is_done(self, run: str) -> bool:
        return run in self._rows and self._rows[run]["status"] != "stopped"

    def _train(self, part: str, setting: Setting, stop: StopSignal, display: Display) -> tuple[Any, bool]:
        config, console = setting.config, self._console
        cohort = Cohort(setting.model, config, setting.lanes, setting.objective)
        idle = layout.idle(cohort.mesh, cohort.n_lanes, config.data.batch_size)
        if idle:
            console.print(f"warning     {idle}")
        folder = self._records.path / "checkpoints" / part
        checkpoints = Checkpoints(folder, config.train.keep_checkpoints)
        state, step, notes = checkpoints.restore_latest(cohort.abstract_state())
        for note in notes:
            console.print(f"warning     {note}")
        if step:
            console.print(f"            {part}: going on from step {step}")
        if state is None:
            state, words = self._start(cohort, setting)
            notes += words
        manifest.note(self._records, part, step, notes)
        label = self._labels[id(self._of[setting.names[0]])]
        cohort.compile()
        watchers: list[Watcher] = []
        if jax.process_index() == 0:
            most = peak.of_devices(config, cohort.mesh.size)
            configs = dict(zip(setting.names, setting.configs, strict=True))
            watchers = [
                display.cohort(label, setting, step, most),
                *tracking.watchers(config, self._records.path, configs),
            ]
        loop = Loop(config, cohort, setting.names, setting.feed, self._records, watchers)
        state, step, stopped = loop.run(checkpoints, (state, step), stop)
        self._write_results(setting, step)
        return state, stopped

    def _start(self, cohort: Cohort, setting: Setting) -> tuple[Any, list[str]]:
        """The state at step 0, and where it comes from; (None, []) where all of it is drawn from the seeds."""
        given = origin.given(setting)
        if given is None:
            return None, []
        params, words = given
        for one in words:
            self._console.print(f"start       {one}")
        return cohort.init(params), [f"started from {one}" for one in words]

    def _write_results(self, setting: Setting, step: int) -> None:
        metrics, traces = self._records.metrics(), self._records.traces()
        for name, config in zip(setting.names, setting.configs, strict=True):
            row = result_row(config, name, metrics, read_steps(traces, name), setting.costs, setting.floor, step)
            own = {"objective": setting.objective.name, "lanes": len(setting.names)}
            self._rows[name] = {**row, **own} | _scores(setting, name, metrics) | _columns(self._axes[name])
        self._records.write_results([self._rows[name] for name in self._of if name in self._rows])

    def _divide(self, part: str, setting: Setting, error: Exception) -> None:
        """Makes two parts of one that does not fit into memory; raises what it cannot mend."""
        if not memory.is_exhausted(error):
            raise error
        folder = self._records.path / "checkpoints" / part
        if step := newest(folder):
            raise memory.too_small_now(part, step) from error
        n_lanes, n_devices = len(setting.names), setting.config.devices.lane or 1
        if n_lanes == n_devices:
            raise memory.too_small(setting.config.data.batch_size) from error
        self._console.print(f"warning     {len(setting.names)} lanes do not fit into memory: halved")
        if jax.process_index() == 0:
            shutil.rmtree(folder, ignore_errors=True)
        manifest.divide(self._records, part, memory.divided(n_lanes, n_lanes - 1, n_devices)[0])
        meet(f"{part} is divided")


def _scores(setting: Setting, name: str, metrics: Sequence[Row]) -> Row:
    """What a classifier's last evaluation found, beside the majority's scores."""
    if setting.majority is None:
        return {}
    last = [row for row in metrics if row["run"] == name and row["split"] == "validation"][-1]
    known = setting.majority
    own = {"task": setting.config.finetune.task, "accuracy": last["accuracy"], "macro_f1": last["macro_f1"]}
    return {**own, "majority_accuracy": known.accuracy, "majority_macro_f1": known.macro_f1}


def _columns(place: Row) -> Row:
    """The fields of a run's place on the axes that results.csv does not have anyway."""
    own = ("model.activation", "optimizer.learning_rate", "optimizer.weight_decay", "seed")
    return {path: value for path, value in place.items() if path not in own}
