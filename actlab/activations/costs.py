"""What an activation costs by the compiler's own count, before anything runs."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array

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
    """The cost of fn on float32, as XLA counts it for CPU; it is no time.

    With `backward` it is that of dx from (x, dy), where the compiler drops the value that nobody reads.

    Raises:
        RuntimeError: where the compiler counts nothing.
    """
    x = jax.device_put(jnp.zeros((N_ELEMENTS,), jnp.float32), jax.devices("cpu")[0])
    program = jax.jit(lambda x, dy: jax.vjp(fn, x)[1](dy) if backward else fn(x))
    counts = program.lower(x, x).compile().cost_analysis()
    if counts is None:
        raise RuntimeError("XLA for CPU gives no cost analysis: this version of jaxlib does not count.")
    return StaticCost(counts.get("flops", 0.0) / N_ELEMENTS, counts.get("transcendentals", 0.0) / N_ELEMENTS)
