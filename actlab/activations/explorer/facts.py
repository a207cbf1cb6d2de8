"""What the page says of one activation, computed."""

import dataclasses

from actlab.activations.catalogue import get
from actlab.activations.explorer.curves import curves
from actlab.activations.moments import Moments, moments
from actlab.activations.properties import Properties, properties
from actlab.activations.record import Activation

SCALES = tuple(round(0.1 * step, 1) for step in range(1, 41))
SCALE = 1.0  # at first, and that of what does not move


@dataclasses.dataclass(frozen=True)
class Facts:
    """Everything of one activation: `moments` at each of SCALES, `curves` as points of f, f' and f''."""

    record: Activation
    properties: Properties
    moments: tuple[Moments, ...]
    curves: tuple[list[tuple[float, float]], ...]

    @property
    def name(self) -> str:
        """The name in the catalogue."""
        return self.record.name


def facts(name: str) -> Facts:
    """All that the page says of an activation; half a second, most of it for the dead zones.

    Raises:
        UserError: for an unknown name, and an activation without an exact formula.
    """
    known = properties(name, SCALE)
    _ = known.dead_zones  # measured now, where progress is shown
    return Facts(get(name), known, tuple(moments(name, scale) for scale in SCALES), curves(known))
