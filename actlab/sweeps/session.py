"""A session: one call of the training command on one workdir, from a config to the results of its runs.

`run` prepares (runs, data, programs, workdir) and then trains program after program, each by a `training.loop.Loop`.
"""

import contextlib
import dataclasses
import functools
import itertools
import math
import pathlib
import shutil
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import jax
from rich.console import Console

from actlab import activations, callbacks, config as config_lib
from actlab.callbacks import Callback
from actlab.callbacks.terminal import Display, Shown
from actlab.config import Config, sweep
from actlab.config.sweep import Run
from actlab.console import lines
from actlab.data import tokenizers
from actlab.data.cache import TokenCache
from actlab.errors import UnsharedError, UserError
from actlab.files import digest
from actlab.sweeps import announce, functions, origin, plan, profiling
from actlab.training import devices, program_spec, programs
from actlab.training.checkpoint import Checkpoints, newest
from actlab.training.loop import Loop
from actlab.training.program_spec import ProgramSpec
from actlab.training.signals import StopSignal
from actlab.training.targets import Target
from actlab.workdir import documents, integrity, manifest
from actlab.workdir.records import METRICS, RESULTS, TRACES, Row, Workdir, table
from actlab.workdir.results import COLUMNS, result_row
from actlab.workdir.traces import read_steps


class Prepared(NamedTuple):
    """All that a config amounts to before a workdir is opened.

    `config` has the fields that all runs resolve alike filled in; a run's place in the sweep is in `runs`.
    """

    config: Config
    runs: tuple[Run, ...]
    tokens: TokenCache
    specs: list[ProgramSpec]

    def require_same(self, *workdirs: Workdir) -> tuple[functions.Values, dict[str, str]]:
        """Refuses workdirs of other data, functions or initial weights; gives functions and origins for the manifest.

        Raises:
            UserError: naming what differs.
        """
        configs = [config for spec in self.specs for config in spec.configs]
        computed, origins = functions.values(configs), origin.digests(configs)
        for records in workdirs:
            manifest.require_same_data(records, self.tokens.name, self.tokens.fingerprint)
            functions.require_same(records, computed)
            manifest.require_same_origins(records, origins)
        return computed, origins


def run(
    config: Config,
    label: str,
    workdir: pathlib.Path | None,
    command: Sequence[str],
    *,
    dry_run: bool = False,
    extend: bool = False,
    target: Target | None = None,
    quiet: bool = False,
) -> int:
    """Trains the runs of a config, resumes them, or says that they are done; returns the exit code.

    `label` names the default workdir, runs/LABEL-FINGERPRINT. A dry run prints the plan and writes nothing but prepared
    data; with a `target` it plans for those devices. With `extend` the workdir may have been begun with fewer runs of
    the same design, and is given the others. `quiet` prints nothing but the preparation of data, on standard error.

    Raises:
        UserError: for whatever the user can fix.
    """
    with StopSignal(later=True) as stop:
        console = lines(quiet=quiet or jax.process_index() > 0)
        # A given workdir is checked before any work is spent on the data; the default's name depends on the data.
        if workdir and not needs_training(console, Workdir(workdir), config, extend=extend):
            return 0
        only, *others = sweep.expand(config)
        if not target and not others:  # the plan of several runs checks its own devices
            batch_size = only.config.data.batch_size
            devices.idle_devices(devices.make_mesh(only.config.devices, 1, batch_size), 1, batch_size)
        config, runs, tokens, specs = prepared = prepare(console, config)
        records = Workdir(workdir or default_workdir(label, config), writes=jax.process_index() == 0)
        if not needs_training(console, records, config, extend=extend):
            return 0
        if not dry_run and jax.process_index() == 0:
            with _own_errors(records):
                callbacks.require_login(config)
        manifest.require_same_config(records, config)
        computed, origins = prepared.require_same(records)
        known = begun(records)
        # A part once made stays as it is: only the runs that have none are planned.
        fresh = [spec.part(names) for spec in specs if (names := [name for name in spec.names if name not in known])]
        plans = plan.make(fresh or specs, target) if dry_run or (fresh and len(runs) > 1) else []
        if plans:
            plan.show(console, plans, target)
        if dry_run:
            return 0
        with _own_errors(records):
            records.open(config, extend)
            with records.writing(), contextlib.closing(records):
                if jax.process_index() == 0 and begun(records) != known:
                    raise UserError(
                        f"--workdir={records.path} was begun by another command meanwhile: run the same command again, "
                        "which goes on from there."
                    )
                lanes = [plan.lanes for plan in plans] or [(len(spec.names),) for spec in fresh]
                parts = _deal(fresh, lanes)
                manifest.begin(records, config, description(tokens), command, parts, computed, origins)
                # All processes read from it which parts there are, and one writes it.
                devices.wait_for_processes("the manifest is written")
                return Session(prepared, records, console).run(stop)


def profile(config: Config, folder: pathlib.Path) -> None:
    """Traces a few updates of a config's first program into a folder, and prints the slowest operations.

    Raises:
        UserError: as `run`.
    """
    with StopSignal(later=True):
        console = lines(quiet=jax.process_index() > 0)
        first, n_lane = prepare(console, config).specs[0], config.devices.lane or 1
        most = config.devices.max_lanes and max(1, config.devices.max_lanes // n_lane) * n_lane
        profiling.run(console, first.part(first.names[:most]), folder)


def begun(records: Workdir) -> set[str]:
    """The runs that have a part in the manifest."""
    return set(itertools.chain.from_iterable(manifest.parts(records).values()))


@contextlib.contextmanager
def _own_errors(records: Workdir) -> Iterator[None]:
    """Where several processes train: an error of this one alone must not wait for the others, which wait for it."""
    try:
        yield
    except UserError as error:
        if jax.process_count() == 1:
            raise
        raise UnsharedError(str(error)) from error
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        if not devices.is_lost_process(error):
            raise
        raise UnsharedError(
            f"--workdir={records.path}: another process of this training has ended: start all of them again with the "
            "same command, which resumes from the last checkpoint."
        ) from error


def prepare(console: Console, config: Config, tokens: TokenCache | None = None, *, trains: bool = True) -> Prepared:
    """Expands the sweep, checks every model and origin, prepares the data and groups the runs into programs.

    `tokens` are the config's data, if they are open already. `trains` is whether the runs will be trained, or only
    measured.

    Raises:
        UserError: for whatever is wrong with the fields, the models, their origins, the devices or the data.
    """
    runs = sweep.expand(config)
    callbacks.require(config)
    for path in ("model.activation", "model.head_activation", "model.pooler_activation", "finetune.swap.to"):
        _require_distinct(path, (config_lib.flat(run.config)[path] for run in runs))
    for one in {(run.config.model, run.config.finetune, run.config.train.dtype): run.config for run in runs}.values():
        program_spec.model_of(one)
    for one in {origin.name_of(run.config): run.config for run in runs}.values():
        origin.of(one)
    announce.name_of_data(console, config)
    tokens = tokens or program_spec.open_data([run.config for run in runs])
    config, specs = settle(config, runs, tokens)
    announce.header(console, specs, tokens, trains)
    return Prepared(config, runs, tokens, specs)


def _require_distinct(path: str, names: Iterable[str]) -> None:
    known: dict[str, str] = {}
    for name in filter(None, dict.fromkeys(names)):
        first = known.setdefault(activations.get(name).name, name)
        if first != name:
            raise UserError(f"config.sweep.{path} lists {first!r} and {name!r}, two names of one function: list one.")


def settle(config: Config, runs: Sequence[Run], tokens: TokenCache) -> tuple[Config, list[ProgramSpec]]:
    """The config with the open model fields filled in that all its runs resolve alike, and the programs of the runs."""
    resolved = [dataclasses.replace(run, config=_resolved(run.config, tokens)) for run in runs]
    first: dict[Config, str] = {}
    for run in resolved:
        if (name := first.setdefault(run.config, run.name)) != run.name:
            raise UserError(f"config.sweep has one run twice, {name} and {run.name}: leave out one of the two values.")
    specs = [
        program_spec.prepare([run.name for run in program], [run.config for run in program], tokens)
        for program in sweep.programs(resolved)
    ]
    alike: dict[str, Any] = {"data.name": tokens.name}
    swept = {path for run in runs for path in run.axes}
    if "model.d_model" in swept:
        swept.add("model.d_ff")  # which follows from it
    for path, value in config_lib.flat(config).items():
        if value is None and path.startswith("model.") and path not in swept:
            values = {config_lib.flat(run.config)[path] for run in resolved}
            if len(values) == 1:
                alike[path] = values.pop()
    # A reader of the workdir has config.json alone: it must give the same model as the run's origin did here.
    for run, known in zip(runs, resolved, strict=True):
        if run.config.finetune.from_checkpoint:
            kept = {path: value for path, value in alike.items() if path not in run.axes}
            read = program_spec.resolve(config_lib.replace(run.config, **kept), tokens.name, tokens.tokenizer)
            ours, theirs = (dataclasses.asdict(program_spec.model_of(one).spec) for one in (read, known.config))
            if name := next((name for name, value in ours.items() if value != theirs[name]), ""):
                raise UserError(
                    f"config.model.{name} is left open, and the origins of the runs do not all have {theirs[name]}: "
                    "add it to the axis of the sweep that names the origins."
                )
    return config_lib.replace(config, **alike), specs


def default_workdir(label: str, config: Config) -> pathlib.Path:
    """The workdir of a config that names none."""
    return pathlib.Path("runs") / f"{label}-{config_lib.fingerprint(config)[:8]}"


def needs_training(
    console: Console, records: Workdir, config: Config, launched: bool = False, extend: bool = False
) -> bool:
    """Whether runs are left to train; prints the results if none is. `launched` is whether jobs train them.

    Raises:
        UserError: if the workdir cannot be used: another config's, not writable, or begun by the other command.
    """
    records.check(config, extend)
    runs = sweep.expand(config)
    checked, names = integrity.check(records), [run.name for run in runs]
    is_done = checked.rows.keys() == set(names) and all(row["status"] != "stopped" for row in checked.rows.values())
    if is_done and not checked.problems:
        functions.require_same_own(records, (run.config for run in runs))
        manifest.require_same_origins(records, origin.digests((run.config for run in runs), done=True))
        rows = [checked.rows[name] for name in names]
        announce.results(console, rows, records.path, "already finished; nothing to do")
        return False
    known = records.manifest()
    has_jobs = "launched" in known or (records.path / "jobs").is_dir()
    if has_jobs and not launched:
        raise UserError(
            f"--workdir={records.path} was begun by actlab launch, and its jobs hold what has been trained: resume "
            "with that command, or choose another workdir."
        )
    if launched and known and not has_jobs:
        raise UserError(
            f"--workdir={records.path} was begun by actlab.main: resume with that command, or choose another workdir."
        )
    return True


def _resolved(config: Config, tokens: TokenCache) -> Config:
    start = origin.of(config)
    config = program_spec.resolve(origin.adopt(config, start), tokens.name, tokens.tokenizer)
    if start is not None:
        origin.require_fitting(config, start, tokens.tokenizer)
    return config


def _deal(specs: Sequence[ProgramSpec], lanes: Sequence[Sequence[int]]) -> list[list[str]]:
    """The runs of each part: the first of every program, then the second, so that a sweep cut short is balanced."""
    parts = []
    for spec, sizes in zip(specs, lanes, strict=True):
        names = iter(spec.names)
        parts.append([list(itertools.islice(names, size)) for size in sizes])
    rounds = itertools.chain.from_iterable(itertools.zip_longest(*parts))
    return [runs for runs in rounds if runs]


class Displayed(Protocol):
    """What shows the training of programs: Display, or a quieter one."""

    def program(self, shown: Shown, step: int, peak: float | None) -> Callback:
        """The callback for a program that begins at `step`; `peak` is the devices' FLOP/s, None if unknown."""
        ...


class Session:
    """Trains the parts of a workdir one after the other.

    A part is a program, or the share of its lanes that fits into memory. `compiled` programs are used and added to: a
    caller with several sessions of one model compiles it once.
    """

    def __init__(
        self,
        prepared: Prepared,
        records: Workdir,
        console: Console,
        compiled: dict[Any, programs.Program] | None = None,
    ):
        _, runs, self._tokens, self._specs = prepared
        self._records, self._console = records, console
        self._axes = {run.name: run.axes for run in runs}
        self._spec_of = {name: spec for spec in self._specs for name in spec.names}
        labelled = zip(self._specs, plan.labels(self._specs), strict=True)
        self._labels = {name: label for spec, label in labelled for name in spec.names}
        self._rows, self._ended = self._mended()
        self._is_mixed = False  # whether it was said that sessions of several versions made the rows
        self._programs = {} if compiled is None else compiled  # by static fields and number of lanes

    def _mended(self) -> tuple[dict[str, Any], dict[str, int]]:
        """The rows of results.csv and the steps of parts that can be relied upon.

        What differs from what was written is set aside, and made again by `train`.
        """
        checked = integrity.check(self._records)
        for problem in checked.problems:
            self._console.print(f"warning     {problem}: repaired from intact files; the old ones are in set_aside/")
        if checked.problems:
            self._records.set_aside(METRICS, TRACES, RESULTS, documents.FILE)
            self._records.keep_only(begun(self._records))
        return dict(checked.rows), checked.ended

    def run(self, stop: StopSignal) -> int:
        """Trains all runs to their end, or until `stop`, and prints the results; returns the exit code."""
        self._console.print(f"workdir     {self._records.path}")
        settings: Any = jax.config
        if settings.jax_enable_compilation_cache and settings.jax_compilation_cache_dir:
            self._console.print(f"compiled    programs are cached in {settings.jax_compilation_cache_dir}")
        total = math.fsum(spec.flops for spec in self._specs)
        ends = {name: spec.config.train.n_steps for name, spec in self._spec_of.items()}
        stop.hold()
        with Display(self._console, total, len(self._spec_of) > 1) as display:
            done = [self._spec_of[name] for name in self._spec_of if self._has_reached(name, ends[name])]
            display.skip(math.fsum(spec.flops / len(spec.names) for spec in done))
            state, stopped = self.train(ends, stop, display)
        if stopped:
            self._console.print("stopped; run the same command to resume")
            return 128 + (stop.received or signal.SIGTERM)
        rows = [self._rows[name] for name in self._spec_of]
        is_decoder = self._specs[0].model.spec.kind == "decoder"
        if state is not None and len(rows) == 1 and rows[0]["status"] == "finished" and is_decoder:
            announce.sample(self._console, self._specs[0], self._tokens, state)
        announce.results(self._console, rows, self._records.path)
        return 0

    def train(self, goals: Mapping[str, int], stop: StopSignal, display: Displayed) -> tuple[Any, bool]:
        """Trains these runs up to their steps; returns (state of the part trained last, whether `stop` ended it)."""
        if jax.process_index() == 0:
            tokenizers.keep(self._tokens.tokenizer, self._records.path / "tokenizer")
        state, stopped = None, False
        while (part := self._next(goals)) and not stopped:
            state = None  # that of the part before would take memory from this one
            try:
                state, stopped = self._train(*part, stop, display, max(goals.get(name, 0) for name in part[1].names))
            except jax.errors.JaxRuntimeError as error:
                self._divide(*part, error)
        return state, stopped

    def _next(self, goals: Mapping[str, int]) -> tuple[str, ProgramSpec] | None:
        """The first part with steps left to train. The manifest is read each time, since a part may have been split."""
        for part, names in manifest.parts(self._records).items():
            if not all(self._has_reached(name, goals.get(name, 0)) for name in names):
                return part, self._spec_of[names[0]].part(names)
        return None

    def _has_reached(self, name: str, step: int) -> bool:
        row = self._rows.get(name)
        return step == 0 or (row is not None and (row["status"] != "stopped" or int(row["steps"]) >= step))

    def _train(
        self, part: str, spec: ProgramSpec, stop: StopSignal, display: Displayed, until: int
    ) -> tuple[Any, bool]:
        """Trains a part from its newest sound checkpoint; returns (state, whether `stop` ended it)."""
        config, console = spec.config, self._console
        if (ended := self._ended.pop(part, 0)) >= until:
            self._write_results(spec, ended)  # its rows are sound, but not what was made from them
            return None, False
        label = self._labels[spec.names[0]]
        # Parts of one program with as many lanes each are compiled once.
        key = (*sweep.static(config), len(spec.names))
        known = self._programs.get(key)
        program = (
            known.with_lanes(spec.lanes) if known else programs.build(spec.model, config, spec.lanes, spec.objective)
        )
        if idle := devices.idle_devices(program.mesh, program.n_lanes, config.data.batch_size):
            console.print(f"warning     {idle}")
        folder, about = self._records.path / "checkpoints" / part, self._about(spec)
        checkpoints = Checkpoints(folder, config.train.keep_checkpoints, about=about)
        differing = functools.partial(integrity.differing, self._records, spec.names)
        state, step, notes = checkpoints.restore_latest(program.abstract_state, differing)
        for note in notes:
            console.print(f"warning     {note}")
        if step:
            first, last = spec.names[0], spec.names[-1]
            which = first if first == last else f"{first} to {last}"
            console.print(f"start       {which}: resuming from step {step}")
        if state is None and (start := origin.given(spec)) is not None:
            params, sources = start
            for source in sources:
                console.print(f"start       {source}")
            notes += [f"started from {source}" for source in sources]
            state = program.init(params)
        manifest.note(self._records, part, step, notes)
        mixed = manifest.mixture([self._records.manifest()])
        for sentence in mixed if not self._is_mixed else ():
            console.print(f"warning     {sentence}")
        self._is_mixed = bool(mixed)
        # After the checkpoint was read: one of another model is refused before anything is compiled.
        if not known:
            program = self._programs[key] = program.compile()
        if step == 0 and stop():  # before losses and probes of step 0, which may take minutes, and are not kept alone
            checkpoints.close()
            return None, True
        follow: list[Callback] = []
        if jax.process_index() == 0:
            peak = devices.peak_flops(config, program.mesh.size)
            configs = dict(zip(spec.names, spec.configs, strict=True))
            n_steps, per_token, unit = config.train.n_steps, spec.costs.flops_per_token, spec.unit
            shown = Shown(label, spec.names, n_steps, spec.flops, per_token, unit, spec.floor, plan.lanes(spec))
            trackers = callbacks.trackers(config, self._records.path, configs)
            follow = [display.program(shown, step, peak), *trackers]
        loop = Loop(config, program, spec.names, spec.feed, self._records, follow)
        state, step, stopped = loop.run(checkpoints, (state, step), stop, until)
        # All processes read from them which lanes diverged, and one writes them.
        devices.wait_for_processes(f"the rows of {part} are written")
        manifest.end(self._records, part, step, self._records.sealed())
        self._write_results(spec, step)
        return state, stopped and step < until

    def _about(self, spec: ProgramSpec) -> str:
        """What the checkpoints of a part belong to: its runs in their order, with their configs, and the data."""
        runs = [[name, config_lib.fingerprint(one)] for name, one in zip(spec.names, spec.configs, strict=True)]
        return digest([self._tokens.fingerprint, runs])

    def _write_results(self, spec: ProgramSpec, step: int) -> None:
        metrics, traces = self._records.metrics(), self._records.traces()
        for name, config in zip(spec.names, spec.configs, strict=True):
            floors = spec.floor, spec.test_floor
            row = result_row(config, name, metrics, read_steps(traces, name), spec.costs, floors, step)
            trivial = math.nan if spec.trivial is None else spec.trivial
            row |= {"objective": spec.objective.name, "lanes": len(spec.names)}
            row |= {"trivial_loss": trivial, "bytes_per_token": spec.bytes_per_token}
            row |= {"test_bytes_per_token": spec.test_bytes_per_token}
            further = {path: value for path, value in self._axes[name].items() if path not in COLUMNS.values()}
            self._rows[name] = row | _scores(spec, name, metrics) | further
        names = [name for name in self._spec_of if name in self._rows]
        rows = [self._rows[name] for name in names]
        self._records.write_made({**documents.made(traces, names), RESULTS: table(rows)})

    def _divide(self, part: str, spec: ProgramSpec, error: Exception) -> None:
        """Splits a part that does not fit into memory in two; raises `error` if that is not the reason."""
        if not devices.is_out_of_memory(error):
            raise error
        folder = self._records.path / "checkpoints" / part
        if step := newest(folder):
            # It did before: split in two, it would start again at step 0.
            raise UserError(
                f"part {part}, trained to step {step}, does not fit into the device's memory: stop other programs that "
                "use it, or use a device as large as before; then run the same command, which resumes from the "
                "checkpoint."
            ) from error
        n_lanes, n_devices = len(spec.names), spec.config.devices.lane or 1
        if n_lanes == n_devices:
            raise devices.one_lane_too_large(spec.config.data.batch_size) from error
        self._console.print(f"warning     {n_lanes} lanes do not fit into memory: split in two")
        if jax.process_index() == 0:
            shutil.rmtree(folder, ignore_errors=True)
        # At most one lane less than did not fit: as few parts as possible are two halves.
        manifest.divide(self._records, part, devices.split_lanes(n_lanes, n_lanes - 1, n_devices)[0])
        devices.wait_for_processes(f"{part} is divided")


def description(tokens: TokenCache) -> Row:
    """The data, for manifest.json."""
    meta = tokens.meta
    return {
        "name": tokens.name,
        "fingerprint": tokens.fingerprint,
        "tokenizer": meta.tokenizer,
        "documents": dict(meta.n_documents),
        "tokens": dict(meta.n_tokens),
        "licence": meta.licence,
    }


def _scores(spec: ProgramSpec, name: str, metrics: Sequence[Row]) -> Row:
    """A classifier's last scores, and those of always choosing the majority class."""
    if spec.majority is None or spec.test_majority is None:
        return {}
    mine = [row for row in metrics if row["run"] == name]
    last = [row for row in mine if row["split"] == "validation"][-1]
    test: Row = next((row for row in mine if row["split"] == "test"), {})
    own = {"task": spec.config.finetune.task, "accuracy": last["accuracy"], "macro_f1": last["macro_f1"]}
    own |= {f"test_{score}": test.get(score, math.nan) for score in ("accuracy", "macro_f1")}
    for prefix, known in (("", spec.majority), ("test_", spec.test_majority)):
        own |= {f"{prefix}majority_accuracy": known.accuracy, f"{prefix}majority_macro_f1": known.macro_f1}
    return own
