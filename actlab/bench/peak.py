"""The machine's peak: FLOP/s of the feed-forward's product alone, which training can be measured against."""

import functools
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from actlab.config import Config
from actlab.training.cohort import compute_dtype, product_precision

_REPEATS = 11  # products in one call
_SECONDS = 0.1  # of measuring, after one call that compiles


class Product(NamedTuple):
    """[T, D] @ [D, F] in a dtype."""

    rows: int
    width: int
    hidden: int
    dtype: str
    precision: str

    @property
    def flops(self) -> int:
        """Of one call."""
        return _REPEATS * 2 * self.rows * self.width * self.hidden


def product_of(config: Config) -> Product:
    """That of the plain feed-forward of a config."""
    rows, width = config.data.batch_size * config.model.context, config.model.d_model
    hidden = config.model.d_ff or 4 * width
    return Product(rows, width, hidden, compute_dtype(config).name, product_precision(config))


def timed(product: Product) -> Callable[[], float]:
    """Seconds of a call, one product after the other on one device."""
    x = jnp.ones((product.rows, product.width), product.dtype)
    w = jnp.ones((product.width, product.hidden), product.dtype)

    @jax.jit
    def products(x: jax.Array, w: jax.Array) -> jax.Array:
        with jax.default_matmul_precision(product.precision):
            # Each depends on the one before, so that the compiler can leave none out.
            return jax.lax.fori_loop(0, _REPEATS - 1, lambda i, y: (x + y[0, 0] * 1e-9) @ w, x @ w)

    def run() -> float:
        begin = time.perf_counter()
        products(x, w).block_until_ready()
        return time.perf_counter() - begin

    return run


@functools.cache
def flops_per_second(product: Product) -> float:
    """The most of a few calls on one device; measured once in a process."""
    run = timed(product)
    run()
    seconds = [run()]
    while sum(seconds) < _SECONDS:
        seconds.append(run())
    return product.flops / min(seconds)


def of_devices(config: Config, n_devices: int) -> float:
    """FLOP/s of so many devices together; those of a CPU share its cores."""
    one = flops_per_second(product_of(config))
    return one if jax.default_backend() == "cpu" else one * n_devices
