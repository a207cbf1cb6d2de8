"""What the activations of a workdir computed when it was begun.

A workdir holds the names of activations, not their code. So that it never goes on with another function of the same
name, manifest.json notes the values of each one.
"""

import functools
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from actlab import activations
from actlab.activations import Activation
from actlab.activations.definition import require_elementwise, require_own_rows
from actlab.config import Config
from actlab.errors import UserError
from actlab.models.spec import OTHER_ACTIVATIONS
from actlab.workdir import manifest
from actlab.workdir.records import Workdir

Values = dict[str, dict[str, list[float | None]]]


def named_activations(config: Config) -> dict[str, str]:
    """The activations that a run's model has, by field."""
    fields = ("activation", *(OTHER_ACTIVATIONS if config.model.kind == "encoder" else ()))
    own = {f"model.{name}": getattr(config.model, name) for name in fields}
    swapped = {"finetune.swap.to": config.finetune.swap.to} if config.finetune.swap.blocks else {}
    return {**own, **swapped}


def values(configs: Iterable[Config]) -> Values:
    """Values at `manifest.INPUTS` by activation: fn and its slope, value_fn of gated ones, draw of random ones.

    Trained parameters have their initial values; values that are not finite are None.
    """
    names = sorted({name for config in configs for name in named_activations(config).values()})
    # The check takes half a second. Those that come with actlab are checked by its tests.
    for own in (activations.get(name) for name in names if not activations.is_built_in(name)):
        (require_elementwise if own.elementwise else require_own_rows)(own)
    return {name: _values(activations.get(name)) for name in names}


def require_same(workdir: Workdir, computed: Values) -> None:
    """Raises UserError if an activation computes something else than when the workdir was begun.

    Workdirs of versions that did not note the values are accepted.
    """
    known = workdir.manifest().get("activations", {})
    for name in sorted(computed.keys() & known.keys()):
        found = manifest.function_difference(known[name], computed[name])
        if found is not None:
            what, x, before, now = found
            raise UserError(
                f"--workdir={workdir.path} was begun with another {name!r}, whose {what} at {x:g} was {before} and now "
                f"is {now}: restore that function, or choose another workdir."
            )


def require_same_own(workdir: Workdir, configs: Iterable[Config]) -> None:
    """As `require_same`, but only of a user's own activations, since no others can have been edited."""
    own = [one for one in configs if not all(map(activations.is_built_in, named_activations(one).values()))]
    require_same(workdir, values(own))


@functools.cache
def _values(record: Activation) -> dict[str, list[float | None]]:
    x = jnp.asarray(manifest.INPUTS)
    try:
        fn, slope = jax.jvp(record.fn, (x,), (jnp.ones_like(x),))
    except Exception:
        if record.elementwise:
            raise
        # Of one that asks for rows of some width: each input as the first of eight units, the others 0.
        rows = jnp.pad(x[:, None], ((0, 0), (0, 7)))
        fn, slope = (array[:, 0] for array in jax.jvp(record.fn, (rows,), (jnp.ones_like(rows),)))
    found: dict[str, Any] = {"fn": fn, "slope": slope}
    if record.gated:
        found["value_fn"] = record.value_fn(x)
    if record.draw is not None:
        found["draw"] = record.draw(jax.random.key(0), x)
    return {what: [_number(value) for value in np.asarray(array, np.float64)] for what, array in found.items()}


def _number(value: float) -> float | None:
    # The digits that float32 holds; JSON has neither NaN nor infinity.
    return float(f"{value:.7g}") if np.isfinite(value) else None
