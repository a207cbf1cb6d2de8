"""What is computed about an activation: bounds, Gaussian moments and gains, dead zones; and its cost."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from actlab.activations.catalogue import get
from actlab.activations.proofs.bounds import Bounds, bounds_of
from actlab.activations.proofs.dead_zones import DeadZone, dead_zones
from actlab.activations.proofs.formulas import exact_of
from actlab.activations.proofs.measured import measured_bounds
from actlab.activations.proofs.moments import Moments, check_scale, moments


@dataclasses.dataclass(frozen=True)
class Properties(Bounds, Moments):
    """Bounds hold for every input, whatever the scale; moments for inputs of N(0, scale^2).

    Where `proven` is false, the bounds were measured on a grid; where `sampled` is true, the moments are good to about
    1e-4. Proven bounds and integrated moments need an exact formula, which every activation of actlab has.

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
        UserError: as `moments`, and where a tail of an exact formula cannot be enclosed.
    """
    record, scale = get(name), check_scale(scale)
    moments_there = moments(name, scale)  # refuses what can neither be proven nor measured
    exact = exact_of(record, scale if not record.elementwise else 1.0)
    bounds = measured_bounds(record) if exact is None else bounds_of(exact)
    return Properties(**vars(bounds), **vars(moments_there))


N_ELEMENTS = 1024


@dataclasses.dataclass(frozen=True)
class StaticCost:
    """Operations per element of the compiled program; a transcendental is one exp, tanh, log or erf."""

    flops: float
    transcendentals: float

    @property
    def total(self) -> float:
        """Both kinds together, a transcendental counted as one operation."""
        return self.flops + self.transcendentals


def static_cost(fn: Callable[[Array], Array], *, backward: bool = False) -> StaticCost:
    """The cost of fn on float32, as XLA for CPU counts it; it does not predict time.

    With `backward` it is the cost of dx from (x, dy), without the value of fn, which the compiler drops as unused.

    Raises:
        RuntimeError: if the compiler does not count.
    """
    x = jax.device_put(jnp.zeros((N_ELEMENTS,), jnp.float32), jax.devices("cpu")[0])
    program = jax.jit(lambda x, dy: jax.vjp(fn, x)[1](dy) if backward else fn(x))
    counts = program.lower(x, x).compile().cost_analysis()
    if counts is None:
        raise RuntimeError("XLA for CPU gives no cost analysis: this version of jaxlib does not count.")
    return StaticCost(counts.get("flops", 0.0) / N_ELEMENTS, counts.get("transcendentals", 0.0) / N_ELEMENTS)
