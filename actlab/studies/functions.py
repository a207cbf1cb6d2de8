"""What the activations of a workdir compute, so that it never goes on with another function of the same name."""

import functools
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

# Beyond 6 for what is bounded there.
INPUTS = np.array([-20.0, *np.linspace(-6, 6, 25), 20.0], np.float32)
# A choice: a quarter of how far GELU by tanh is from GELU; how far devices are from each other was not measured.
RTOL, ATOL = 1e-5, 1e-4

Values = dict[str, dict[str, list[float | None]]]


def named(config: Config) -> dict[str, str]:
    """The activations that a run's model has, by field."""
    own = {f"model.{name}": getattr(config.model, name) for name in ("activation", *OTHER_ACTIVATIONS)}
    swapped = {"finetune.swap.to": config.finetune.swap.to} if config.finetune.swap.blocks else {}
    return {**own, **swapped}


def values(configs: Iterable[Config]) -> Values:
    """By activation: fn and its slope, value_fn of a gated one and draw of a random one, at INPUTS.

    Parameters that are trained have the values they start with; what is not finite is None.
    """
    names = sorted({name for config in configs for name in named(config).values()})
    return {name: _values(activations.get(name)) for name in names}


def require_same(workdir: Workdir, computed: Values) -> None:
    """Raises UserError if an activation computes something else than when the workdir was begun.

    A workdir begun by a version that did not note it is taken as it is.
    """
    known = workdir.manifest().get("activations", {})
    for name in sorted(computed.keys() & known.keys()):
        found = difference(known[name], computed[name])
        if found is not None:
            what, x, before, now = found
            raise UserError(
                f"--workdir={workdir.path} was begun with another {name!r}, whose {what} at {x:g} was {before} and now "
                f"is {now}: restore that function, or take another workdir."
            )


def difference(
    one: dict[str, list[float | None]], other: dict[str, list[float | None]]
) -> tuple[str, float, float | None, float | None] | None:
    """The first thing in which what was noted twice of an activation differs: (what, x, the one, the other)."""
    nothing = [None] * len(INPUTS)
    for what in sorted(one.keys() | other.keys()):
        both = one.get(what, nothing), other.get(what, nothing)
        arrays = [np.array([np.nan if value is None else value for value in values]) for values in both]
        apart = np.flatnonzero(~np.isclose(*arrays, rtol=RTOL, atol=ATOL, equal_nan=True))
        if len(apart):
            return what, float(INPUTS[apart[0]]), both[0][apart[0]], both[1][apart[0]]
    return None


@functools.cache
def _values(record: Activation) -> dict[str, list[float | None]]:
    x = jnp.asarray(INPUTS)
    fn, slope = jax.jvp(record.fn, (x,), (jnp.ones_like(x),))
    found: dict[str, Any] = {"fn": fn, "slope": slope}
    if record.gated:
        found["value_fn"] = record.value_fn(x)
    if record.draw is not None:
        found["draw"] = record.draw(jax.random.key(0), x)
    return {what: [_number(value) for value in np.asarray(array, np.float64)] for what, array in found.items()}


def _number(value: float) -> float | None:
    return float(f"{value:.7g}") if np.isfinite(value) else None
