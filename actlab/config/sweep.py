"""A sweep as its runs, and runs as programs: those that compile to the same code."""

import dataclasses
import itertools
from collections.abc import Collection, Sequence
from typing import Any

from actlab.config.convert import first_difference, flat, replace
from actlab.config.rules import axis_fields, axis_rows
from actlab.config.schema import Config, get, paths
from actlab.errors import UserError, suggestion


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of a sweep: its name in the records, its config (without a sweep) and its place on the axes."""

    name: str
    config: Config
    axes: dict[str, Any]


def swept(config: Config) -> frozenset[str]:
    """The fields that the axes of a config set."""
    return frozenset(path for key, _ in config.sweep for path in axis_fields(key))


def expand(config: Config) -> tuple[Run, ...]:
    """The runs of a config in the order of its axes, the last one fastest; one run if there is no sweep.

    Raises:
        UserError: if the fields of a run contradict each other, or a swap in no block is the config's own.
    """
    names = [axis_fields(key) for key, _ in config.sweep]
    swap = config.finetune.swap
    # Among a sweep's values of it, no block is the control.
    if swap.to and not swap.blocks and "finetune.swap.blocks" not in swept(config):
        raise UserError(
            f"config.finetune.swap.to={swap.to!r} swaps nothing with config.finetune.swap.blocks=0: set the number of "
            f"blocks, up to {config.model.n_layers}, or leave swap.to empty."
        )
    runs = []
    for rows in itertools.product(*(axis_rows(axis) for axis in config.sweep)):
        pairs = (zip(axis, row, strict=True) for axis, row in zip(names, rows, strict=True))
        runs.append(_run(config, dict(itertools.chain.from_iterable(pairs))))
    return tuple(runs)


def _run(config: Config, place: dict[str, Any]) -> Run:
    one = replace(config, sweep=(), **place)
    # Every name has the coordinates, so that a run has one name in whatever sweep it is. repr tells all floats apart.
    always = f"{one.model.activation}-lr{one.optimizer.learning_rate!r}-seed{one.seed}"
    further = [path for path in place if path not in paths("coordinate")]
    return Run("-".join([always, *(f"{path.rpartition('.')[2]}{place[path]}" for path in further)]), one, place)


def find(config: Config, name: str, kept: Collection[str] = ()) -> Run:
    """The run of that name, to be trained by itself just as in its sweep.

    Fields that are `kept` have the config's own values instead of the run's: another seed, for example.

    Raises:
        UserError: for an unknown name, or if the fields contradict each other.
    """
    runs = {run.name: run for run in expand(config)}
    if name not in runs:
        raise UserError(f"--run={name} is not a run of the config: {suggestion(name, runs)}")
    place = {path: get(config, path) if path in kept else value for path, value in runs[name].axes.items()}
    return _run(config, place)


def programs(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs that share every static field, together, in the order of their first."""
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(static(run.config), []).append(run)
    return list(groups.values())


def static(config: Config) -> tuple[Any, ...]:
    """The values of all fields that the runs of a program share."""
    return tuple(value for path, value in flat(config).items() if path not in paths("traced"))


def extends(ours: Config, theirs: Config) -> bool:
    """Whether ours has all runs of theirs and more of the same design: values were added to the axes of its sweep."""
    if first_difference(replace(ours, sweep=()), replace(theirs, sweep=())) is not None:
        return False
    more, known = ({(run.name, *run.axes.items()) for run in expand(one)} for one in (ours, theirs))
    return known < more


def narrow(config: Config, program: Sequence[Run]) -> Config:
    """The config with its sweep cut down to the runs of a program: of each axis the values that they take.

    The result is a product again: whether two values of an axis share a program does not depend on the other axes,
    whose values agree within a program in all that is static.
    """

    def taken(key: str, row: tuple[Any, ...]) -> bool:
        return any(tuple(run.axes[path] for path in axis_fields(key)) == row for run in program)

    cut = [
        (key, [value for value, row in zip(values, axis_rows((key, values)), strict=True) if taken(key, row)])
        for key, values in config.sweep
    ]
    narrowed = replace(config, sweep=cut)
    if [run.name for run in expand(narrowed)] != [run.name for run in program]:
        raise RuntimeError(f"the program of {program[0].name} is not a product of axes")
    return narrowed
