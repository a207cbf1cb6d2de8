"""The plan of a sweep: the memory and time of each program, and the parts into which its lanes are split."""

import contextlib
import dataclasses
import functools
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
from rich.console import Console
from rich.table import Column, Table

from actlab import activations, config as config_lib, probes
from actlab.callbacks.terminal import ShownLane
from actlab.console import counted, duration
from actlab.training import devices, programs, targets
from actlab.training.program_spec import ProgramSpec
from actlab.training.targets import Target

# Fields of the model on which neither its shape nor, to speak of, its speed depends.
NO_SHAPE = ("model.activation", "model.init", "model.parametrization", "model.base_width")
_MOST_UPDATES, _ENOUGH_SECONDS = 9, 2.0  # that are timed


class Calibration(NamedTuple):
    """The cost of one lane: memory on each of its devices, and device-seconds per update."""

    need: devices.MemoryNeed
    seconds_per_step: float  # as measured, or at least


@dataclasses.dataclass(frozen=True)
class Plan:
    """A program's share of the plan. Bytes are those of its largest part on a device."""

    spec: ProgramSpec
    lanes: tuple[int, ...]  # of each part
    n_devices: int
    bytes: int
    free: int  # of those that a device has
    seconds: float


def calibrate(spec: ProgramSpec, n_data: int = 1) -> Calibration:
    """Compiles a program of one lane, over `n_data` devices of which a batch is split, and times a few updates.

    Their median counts, because a single one may wait for whatever else the machine does.

    Raises:
        UserError: if it does not fit into memory.
    """
    alone = config_lib.replace(spec.config, **{"devices.lane": 1, "devices.data": n_data})
    one = spec.part(spec.names[:1])
    with _fitting(spec):
        # At a rate that changes nothing: a lane that diverges is frozen, and costs no more time.
        still = [lane._replace(learning_rate=0.0) for lane in one.lanes]
        program = programs.build(spec.model, alone, still, spec.objective).compile()
        need = _with_curvature(devices.memory_need(program.functions.train), program, spec)
        rows = program.rows(functools.partial(one.feed.train, range(program.rows_shape[1])))
        # The first call is slower: it loads the program and touches its memory.
        state, _ = jax.block_until_ready(program.train(program.init(), rows, 1))
        taken: list[float] = []
        while len(taken) < _MOST_UPDATES and sum(taken) < _ENOUGH_SECONDS:
            begin = time.perf_counter()
            state, _ = jax.block_until_ready(program.train(state, rows, 1))
            taken.append(time.perf_counter() - begin)
    return Calibration(need, statistics.median(taken) * program.mesh.size)


def calibrate_for(spec: ProgramSpec, target: Target, available: Sequence[Any], n_data: int) -> Calibration:
    """The same for devices that are not here, over `n_data` of which a batch is split.

    It is what their compiler says, and the least time that they allow.

    Raises:
        UserError: if the compiler finds no way to fit it into memory.
    """
    alone = config_lib.replace(spec.config, **{"devices.lane": 1, "devices.data": n_data})
    lanes = spec.part(spec.names[:1]).lanes
    program = programs.build(spec.model, alone, lanes, spec.objective, target=available)
    with _fitting(spec):
        facts = targets.compiled_facts(program.lower("train"))
        need = devices.MemoryNeed(facts.arguments + facts.outputs, facts.temporaries + facts.code)
        need = _with_curvature(need, program, spec)
    work = spec.costs.flops_per_token * alone.data.batch_size * alone.model.context
    seconds = target.roofline(alone.train.dtype, work / program.mesh.size, facts)
    return Calibration(need, seconds * program.mesh.size)


@contextlib.contextmanager
def _fitting(spec: ProgramSpec) -> Iterator[None]:
    """Raises UserError if what is done within does not fit into memory."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if not devices.is_out_of_memory(error):
            raise
        raise devices.one_lane_too_large(spec.config.data.batch_size) from error


def _with_curvature(training: devices.MemoryNeed, program: programs.Program, spec: ProgramSpec) -> devices.MemoryNeed:
    """The need of training, or of curvature where it is measured, which takes 4 to 14 times a step's memory.

    Evaluation and census take no more than training. Probes take up to 1.4 times as much (experiments/targets), for
    which there is the reserve; compiling them too would double the time of a plan.
    """
    if not spec.config.train.curvature_every:
        return training
    batch = jax.tree.map(lambda batches: batches[0], spec.feed.validation)
    facts = targets.compiled_facts(program.lower("curvature", batch))
    return training._replace(work=max(training.work, facts.temporaries + facts.code))


def make(specs: Sequence[ProgramSpec], target: Target | None = None) -> list[Plan]:
    """The plan of programs; each shape of model is calibrated once, with the first activation that has it.

    It is for this process's devices, or for those of a `target`.

    Raises:
        UserError: if there are too few devices, they do not divide the lanes or rows, or a process has none of them.
    """
    known: dict[tuple[object, ...], Calibration] = {}
    plans = []
    available = target.devices() if target else jax.devices()
    for spec in specs:
        config = spec.config
        size = (len(spec.names), config.data.batch_size)
        mesh = devices.make_mesh(config.devices, *size, available)  # raises before anything is compiled
        if not target:
            devices.idle_devices(mesh, *size)
        train = config.train
        # Gated layers have a matrix more, and as many parameters only if the number of units follows from d_ff.
        gated = config.model.d_hidden is not None and activations.get(config.model.activation).gated
        shape = (config.data.batch_size, train.steps_per_call, train.dtype, train.curvature_every > 0, gated)
        key = (*shape, mesh.shape["data"], *(value for path, value in config_lib.flat(config).items() if _shapes(path)))
        if key not in known:
            n_data = mesh.shape["data"]
            known[key] = calibrate_for(spec, target, available, n_data) if target else calibrate(spec, n_data)
        plans.append(_plan(spec, known[key], mesh, target.usable if target else devices.free_memory()))
    return plans


def _shapes(path: str) -> bool:
    return path.startswith("model.") and path not in NO_SHAPE


def _plan(spec: ProgramSpec, calibration: Calibration, mesh: jax.sharding.Mesh, free: int) -> Plan:
    config, n_lanes = spec.config, len(spec.names)
    n_lane, per_lane = mesh.shape["lane"], mesh.size // mesh.shape["lane"]
    by_map = devices.maps_lanes(config, mesh)
    platform = mesh.devices.flat[0].platform
    need = calibration.need.on(platform, devices.kernels_together(platform, mesh.size, config.devices.remat))
    fits = devices.most_lanes(need, by_map, free) * n_lane
    lanes = devices.split_lanes(n_lanes, min(fits, config.devices.max_lanes or fits), n_lane)
    at_once = -(-max(lanes) // n_lane)  # lanes on a device
    size = devices.memory_of(need, at_once, by_map)
    # A forward pass is a third of an update.
    n_evaluations = 2 + -(-config.train.n_steps // config.train.eval_every)  # at step 0, and of the test set
    n_batches = len(spec.feed.validation.tokens)
    updates = config.train.n_steps + n_evaluations * n_batches / 3 + probes.work(config.train, n_batches)
    seconds = updates * calibration.seconds_per_step * n_lanes / n_lane / per_lane
    return Plan(spec, tuple(lanes), mesh.size, size, free, seconds)


def show(console: Console, plans: Sequence[Plan], target: Target | None = None) -> None:
    """Prints the plan, a row per program."""
    columns = ("lanes", "devices", "parameters", "MFLOP/token", "memory", "time")
    table = Table(Column("program", overflow="fold"), *columns, box=None, pad_edge=False)
    labelled = list(zip(plans, labels([plan.spec for plan in plans]), strict=True))
    for plan, label in labelled:
        costs = plan.spec.costs
        lanes = " + ".join(map(str, plan.lanes))
        flops = f"{costs.flops_per_token / 1e6:,.1f}"
        memory, seconds = f"{plan.bytes / 2**20:,.0f} MiB", duration(plan.seconds)
        table.add_row(label, lanes, str(plan.n_devices), f"{costs.parameters:,}", flops, memory, seconds)
    console.print(table)
    for plan, label in labelled:
        if plan.bytes > plan.free:
            has = f"a device has {plan.free / 2**20:,.0f} MiB{'' if target else ' free'}"
            console.print(f"warning     {label} does not fit: one lane takes {plan.bytes / 2**20:,.0f} MiB, {has}")
    n_runs, total = sum(len(plan.spec.names) for plan in plans), duration(sum(plan.seconds for plan in plans))
    bound = f"about {total} plus compiling, by a few updates of one lane on this machine"
    if target:
        speed = f"{target.bandwidth / 1e12:.2f} TB/s"
        bound = (
            f"at least {total}: every product at the peak of {target.name}, memory at {speed}; expect two to three "
            "times that, and more for small models"
        )
    n_parts = sum(len(plan.lanes) for plan in plans)
    parts = f" in {n_parts} parts" if n_parts > len(plans) else ""
    console.print(f"in all      {counted(n_runs, 'run')} in {counted(len(plans), 'program')}{parts}, {bound}")


def labels(specs: Sequence[ProgramSpec]) -> list[str]:
    """A name for each program: the static fields in which it differs from another, the activation if there is none."""
    flats = [config_lib.flat(spec.config) for spec in specs]
    paths = [path for path in _differing(flats) if path not in config_lib.paths("traced")]
    return [" ".join(_word(path, flat[path]) for path in paths or ["model.activation"]) for flat in flats]


def lanes(spec: ProgramSpec) -> tuple[ShownLane, ...]:
    """The lanes of a program: their seeds, and the other fields in which they differ."""
    flats = [config_lib.flat(config) for config in spec.configs]
    paths = [path for path in _differing(flats) if path != "seed"]
    return tuple(ShownLane(" ".join(_word(path, flat[path]) for path in paths), flat["seed"]) for flat in flats)


def _differing(flats: Sequence[Mapping[str, Any]]) -> list[str]:
    """The fields in which configs differ, in the order of the schema."""
    return [path for path, value in flats[0].items() if any(flat[path] != value for flat in flats)]


def _word(path: str, value: object) -> str:
    return str(value) if path == "model.activation" else f"{path.rpartition('.')[2]}={value}"
