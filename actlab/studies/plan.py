"""The plan of a sweep: its cohorts, what each costs, how its lanes are dealt into programs, how long all will take."""

import dataclasses
import functools
import time
from collections.abc import Sequence
from typing import NamedTuple

import jax
from rich.console import Console
from rich.table import Table

from actlab import config as config_lib
from actlab.studies import sweep
from actlab.training import layout, memory, prober
from actlab.training.cohort import Cohort, maps_lanes
from actlab.training.setting import Setting


class Calibration(NamedTuple):
    """What one lane takes: memory of each of its devices, and device-seconds per update."""

    need: memory.Need
    seconds_per_step: float


@dataclasses.dataclass(frozen=True)
class Plan:
    """A cohort's share of the plan. Bytes are those of its largest program on a device."""

    setting: Setting
    lanes: tuple[int, ...]  # of each program
    n_devices: int
    bytes: int
    seconds: float


def calibrate(setting: Setting) -> Calibration:
    """Compiles a program of one lane, for as many devices as its config asks for, and times one update.

    Raises:
        UserError: if it does not fit into memory.
    """
    try:
        return _calibrate(setting)
    except jax.errors.JaxRuntimeError as error:
        if not memory.is_exhausted(error):
            raise
        raise memory.too_small(setting.config.data.batch_size) from error


def _calibrate(setting: Setting) -> Calibration:
    n_data = setting.config.devices.data or 1
    alone = config_lib.replace(setting.config, **{"devices.lane": 1, "devices.data": n_data})
    cohort = Cohort(setting.model, alone, setting.lanes[:1], setting.objective)
    need = memory.need(cohort.compile())
    span = range(alone.train.steps_per_call)
    feed = dataclasses.replace(setting.feed, seeds=setting.feed.seeds[:1])
    rows = cohort.rows(functools.partial(feed.train, span))
    state, _ = cohort.train(cohort.init(), rows, 1)
    jax.block_until_ready(state)
    begin = time.perf_counter()
    jax.block_until_ready(cohort.train(state, rows, 1))
    return Calibration(need, (time.perf_counter() - begin) * cohort.mesh.size)


def make(settings: Sequence[Setting]) -> list[Plan]:
    """The plan of cohorts; each shape of model is calibrated once, whatever its activation.

    Raises:
        UserError: for more devices than there are, a number of lanes or rows that they do not divide, or a process
            without any of them.
    """
    known: dict[tuple[object, ...], Calibration] = {}
    plans = []
    for setting in settings:
        config = setting.config
        size = (len(setting.names), config.data.batch_size)
        layout.idle(layout.mesh(config.devices, *size), *size)  # raises
        shape = (config.data.batch_size, config.train.steps_per_call, config.train.dtype)
        key = (*shape, *(value for path, value in config_lib.flat(config).items() if _shapes(path)))
        if key not in known:
            known[key] = calibrate(setting)
        plans.append(_plan(setting, known[key]))
    return plans


def _shapes(path: str) -> bool:
    return path.startswith("model.") and path not in ("model.activation", "model.init")


def _plan(setting: Setting, calibration: Calibration) -> Plan:
    config, n_lanes = setting.config, len(setting.names)
    mesh = layout.mesh(config.devices, n_lanes, config.data.batch_size)
    n_lane, per_lane = mesh.shape["lane"], mesh.size // mesh.shape["lane"]
    by_map = maps_lanes(config)
    fits = memory.most_lanes(calibration.need, by_map, memory.available()) * n_lane
    lanes = memory.divided(n_lanes, min(fits, config.devices.max_lanes or fits), n_lane)
    at_once = -(-max(lanes) // n_lane)
    state, work = calibration.need
    size = at_once * state + (work if by_map else at_once * work)
    # A forward pass is a third of an update.
    n_evaluations = 1 + -(-config.train.n_steps // config.train.eval_every)
    n_batches = len(setting.feed.validation.tokens)
    updates = config.train.n_steps + n_evaluations * n_batches / 3 + prober.work(config.train, n_batches)
    seconds = updates * calibration.seconds_per_step * n_lanes / n_lane / per_lane
    return Plan(setting, tuple(lanes), mesh.size, size, seconds)


def show(console: Console, plans: Sequence[Plan]) -> None:
    """Prints the plan, a row per cohort."""
    table = Table("cohort", "lanes", "devices", "parameters", "MFLOP/token", "memory", "time", box=None, pad_edge=False)
    for plan, label in zip(plans, labels([plan.setting for plan in plans]), strict=True):
        costs = plan.setting.costs
        lanes = " + ".join(map(str, plan.lanes))
        flops = f"{costs.flops_per_token / 1e6:,.1f}"
        size, duration = f"{plan.bytes / 2**20:,.0f} MiB", _duration(plan.seconds)
        table.add_row(label, lanes, str(plan.n_devices), f"{costs.parameters:,}", flops, size, duration)
    console.print(table)
    n_runs, total = sum(len(plan.setting.names) for plan in plans), sum(plan.seconds for plan in plans)
    console.print(
        f"in all      {n_runs} runs in {sum(len(plan.lanes) for plan in plans)} programs, about {_duration(total)}, "
        "by one update of one lane on this machine"
    )


def labels(settings: Sequence[Setting]) -> list[str]:
    """A name for each cohort: the static fields in which it differs from another, the activation if there is none."""
    flats = [config_lib.flat(setting.config) for setting in settings]
    paths = [
        path
        for path in flats[0]
        if path not in sweep.TRACED and path != "sweep" and any(flat[path] != flats[0][path] for flat in flats)
    ]
    return [" ".join(_word(path, flat[path]) for path in paths or ["model.activation"]) for flat in flats]


def _word(path: str, value: object) -> str:
    return str(value) if path == "model.activation" else f"{path.rpartition('.')[2]}={value}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
