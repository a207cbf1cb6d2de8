"""What is known of an activation."""

import dataclasses
from collections.abc import Callable, Mapping

from jax import Array

from actlab.activations.piecewise import Piecewise


def same(x: Array) -> Array:
    """x: the value function of most gated forms."""
    return x


@dataclasses.dataclass(frozen=True, eq=False)
class Activation:
    """An activation: a pure function with what is known of it.

    A gated one is used as fn(x W) * value_fn(x V) (Shazeer 2020, arXiv:2002.05202); value_fn is the identity in most.
    `parameters` are fixed numbers that a name may set, `gelu_scale(s=0.25)`, each within its closed interval in
    `domain`. `theta` are scalars that are trained, with their start values. fn takes both by name; it has all of
    them as defaults.

    `draw`, given a key, x and what fn takes by name, replaces fn in training: a random activation whose mean given x
    is fn(x).

    `exact` gives the formula of fn at those numbers for certified bounds and accurate moments, `value_exact` that of
    value_fn; a vector-valued one also takes `scale`.
    """

    name: str
    fn: Callable[..., Array]
    formula: str
    source: str
    gated: bool = False
    value_fn: Callable[[Array], Array] = same
    aliases: tuple[str, ...] = ()
    parameters: Mapping[str, float] = dataclasses.field(default_factory=dict)
    domain: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    theta: Mapping[str, float] = dataclasses.field(default_factory=dict)
    elementwise: bool = True
    draw: Callable[..., Array] | None = None
    exact: Callable[..., Piecewise] | None = None
    value_exact: Callable[[], Piecewise] | None = None
