"""What the activations of a workdir compute, so that it never goes on with another function of the same name."""

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from actlab import activations
from actlab.activations import Activation
from actlab.config import Config
from actlab.errors import UserError
from actlab.models.spec import OTHER_ACTIVATIONS
from actlab.training.records import Workdir

INPUTS = np.linspace(-6, 6, 25, dtype=np.float32)
# Devices and versions of XLA differ by less, functions that someone edited by more.
TOLERANCE = 1e-3

Values = dict[str, dict[str, list[float | None]]]


def named(config: Config) -> dict[str, str]:
    """The activations that a run's model has, by field."""
    own = {f"model.{name}": getattr(config.model, name) for name in ("activation", *OTHER_ACTIVATIONS)}
    swapped = {"finetune.swap.to": config.finetune.swap.to} if config.finetune.swap.blocks else {}
    return {**own, **swapped}


def values(configs: Iterable[Config]) -> Values:
    """By activation: fn, value_fn of a gated one and draw of a random one, at INPUTS and theta's start values.

    What is not finite is None.
    """
    names = sorted({name for config in configs for name in named(config).values()})
    return {name: _values(activations.get(name)) for name in names}


def require_same(workdir: Workdir, computed: Values) -> None:
    """Raises UserError if an activation computes something else than when the workdir was begun.

    A workdir begun by a version that did not note it is taken as it is.
    """
    known = workdir.manifest().get("activations", {})
    for name, ours in computed.items():
        theirs = known.get(name, ours)
        for what in sorted(ours.keys() | theirs.keys()):
            before, now = (of.get(what, [None] * len(INPUTS)) for of in (theirs, ours))
            place = _first_difference(before, now)
            if place is not None:
                raise UserError(
                    f"--workdir={workdir.path} was begun with another {name!r}, whose {what} at {INPUTS[place]:g} was "
                    f"{before[place]} and now is {now[place]}: restore that function, or take another workdir."
                )


def _values(record: Activation) -> dict[str, list[float | None]]:
    x = jnp.asarray(INPUTS)
    found: dict[str, Any] = {"fn": record.fn(x)}
    if record.gated:
        found["value_fn"] = record.value_fn(x)
    if record.draw is not None:
        found["draw"] = record.draw(jax.random.key(0), x)
    return {what: [_number(value) for value in np.asarray(array, np.float64)] for what, array in found.items()}


def _number(value: float) -> float | None:
    return float(f"{value:.7g}") if np.isfinite(value) else None


def _first_difference(*both: list[float | None]) -> int | None:
    pairs = [np.array([np.nan if value is None else value for value in one]) for one in both]
    apart = np.flatnonzero(~np.isclose(*pairs, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True))
    return int(apart[0]) if len(apart) else None
