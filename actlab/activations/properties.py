"""All that is computed about an activation: certified bounds, Gaussian moments and gains, dead zones."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from actlab.activations.bounds import Bounds, bounds_of
from actlab.activations.catalogue import get
from actlab.activations.dead_zones import DeadZone, dead_zones
from actlab.activations.formulas import exact_of
from actlab.activations.moments import Moments, check_scale, moments
from actlab.activations.record import Activation
from actlab.errors import UserError


@dataclasses.dataclass(frozen=True)
class Properties(Bounds, Moments):
    """Bounds hold for every input, whatever the scale; moments for inputs of N(0, scale^2).

    For a gated form act(z1) value(z2) the bounds are those of act. For polynorm everything is that of its limit of
    many features at this scale, a cubic function of each.
    """

    @functools.cached_property
    def dead_zones(self) -> Mapping[str, DeadZone]:
        """By dtype, measured on the default backend when first asked for: about a second."""
        return dead_zones(self.name)


def properties(name: str, scale: Any = 1.0) -> Properties:
    """The properties of an activation at its parameters, trainable scalars at their start.

    Raises:
        UserError: for an unknown name, a scale that is no number from 1e-30 to 1e30, and an activation of your own
            without an exact formula: bounds are never taken from samples.
    """
    record, scale = get(name), check_scale(scale)
    return Properties(
        **_fields(_bounds(record, scale if not record.elementwise else 1.0)), **_fields(moments(name, scale))
    )


def _fields(of: Any) -> dict[str, Any]:
    return {field.name: getattr(of, field.name) for field in dataclasses.fields(of)}


@functools.lru_cache(maxsize=1024)
def _bounds(record: Activation, scale: float) -> Bounds:
    exact = exact_of(record, scale)
    if exact is None:
        raise UserError(
            f"activation {record.name!r} has no exact formula, so its bounds cannot be certified: "
            "give its record one, exact=lambda: activations.halves(left, right), or ask for activations.moments."
        )
    return bounds_of(exact)
