"""A sweep as its runs, and runs as cohorts: those that compile to one program."""

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from actlab import axes
from actlab import config as config_lib
from actlab.config import Config
from actlab.errors import UserError, suggestion

TRACED = ("seed", "optimizer.learning_rate", "optimizer.weight_decay")  # may differ between the lanes of a program


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of a sweep: its name in the records, its config (without a sweep) and where it lies on the axes."""

    name: str
    config: Config
    axes: dict[str, Any]


def expand(config: Config) -> tuple[Run, ...]:
    """The runs of a config in the order of its axes, the last one fastest; one run if there is no sweep.

    Raises:
        UserError: if the fields of some run are at odds.
    """
    return tuple(_run(config, place) for place in _places(config.sweep))


def find(config: Config, name: str, kept: Collection[str] = ()) -> Run:
    """The run of that name, which trains by itself as it does in its sweep.

    Fields that are `kept` are the config's own instead of the run's: another seed, say.

    Raises:
        UserError: if the config has none of that name, or its fields are at odds.
    """
    runs = {run.name: run for run in expand(config)}
    if name not in runs:
        raise UserError(f"--run={name} is not a run of the config: {suggestion(name, runs)}")
    own = config_lib.flat(config)
    return _run(config, {path: own[path] if path in kept else value for path, value in runs[name].axes.items()})


def _places(sweep: Sequence[axes.Axis]) -> Iterator[dict[str, Any]]:
    for chosen in itertools.product(*(axes.rows(axis) for axis in sweep)):
        pairs = (zip(axes.paths(key), row, strict=True) for (key, _), row in zip(sweep, chosen, strict=True))
        yield dict(itertools.chain.from_iterable(pairs))


def _run(config: Config, place: dict[str, Any]) -> Run:
    one = config_lib.replace(config, sweep=(), **place)
    always = f"{one.model.activation}-lr{one.optimizer.learning_rate!r}-seed{one.seed}"
    named = ("model.activation", "optimizer.learning_rate", "seed")
    more = [f"{path.rpartition('.')[2]}{value}" for path, value in place.items() if path not in named]
    return Run("-".join([always, *more]), one, place)


def cohorts(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs that share every static field, together, in the order of their first."""
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(_static(run.config), []).append(run)
    return list(groups.values())


def _static(config: Config) -> tuple[Any, ...]:
    return tuple(value for path, value in config_lib.flat(config).items() if path not in TRACED)
