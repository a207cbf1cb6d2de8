"""Dead zones: where a function as implemented, or its autodiff gradient, is exactly 0 in a dtype. Measured."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType

import jax
import jax.numpy as jnp
import numpy as np

from actlab.activations.catalogue import get
from actlab.activations.definition import Activation

DTYPES = ("float32", "bfloat16", "float16")
_N_POINTS = 2**16  # at a time: all finite numbers of a 16-bit dtype


@dataclasses.dataclass(frozen=True)
class DeadZone:
    """The ends of the zones; None if there is no such zone."""

    value_below: float | None  # the largest z with f = 0 at it and everywhere below
    gradient_below: float | None  # the largest z with f' = 0 at it and everywhere below
    gradient_above: float | None  # the smallest z with f' = 0 at it and everywhere above


def dead_zones(name: str) -> Mapping[str, DeadZone]:
    """Dead zones by dtype on the default backend, without jit; those of the gate for a gated activation.

    bfloat16 and float16 are scanned exhaustively. Of float32, 65,536 numbers are tried, equally many in each power of
    two, and then all between the two where the zone ends. A nan gradient inside a zone is skipped: that of
    jax.nn.gelu is nan left of -7e12 and 0 from there to -4.87. Empty for a vector-valued activation.

    Raises:
        UserError: for an unknown name.
    """
    return _dead_zones(get(name), jax.default_backend())


@functools.cache
def _dead_zones(record: Activation, backend: str) -> Mapping[str, DeadZone]:
    dtypes = DTYPES if record.elementwise else ()
    return MappingProxyType({dtype: _measure(record.fn, np.dtype(dtype)) for dtype in dtypes})


def _measure(fn: Callable, dtype: np.dtype) -> DeadZone:
    return DeadZone(
        value_below=_end(fn, dtype, "value", 1),
        gradient_below=_end(fn, dtype, "gradient", 1),
        gradient_above=_end(fn, dtype, "gradient", -1),
    )


def _end(fn: Callable, dtype: np.dtype, which: str, sign: int) -> float | None:
    """The inner end of the zone that begins at -sign * infinity."""
    low, high = -_largest(dtype), _largest(dtype)
    while True:
        ordinals, zero, passed = _zeros(fn, dtype, which, sign, low, high)
        alive = np.flatnonzero(~(zero | passed))
        end = int(alive[0]) - 1 if alive.size else _N_POINTS - 1
        if end < 0 or not zero[end]:
            return None
        if end == _N_POINTS - 1 or ordinals[end + 1] - ordinals[end] == 1:
            return float(_numbers(sign * ordinals[end : end + 1], dtype)[0])
        low, high = int(ordinals[end]), int(ordinals[end + 1])


@functools.lru_cache(maxsize=8)
def _zeros(
    fn: Callable, dtype: np.dtype, which: str, sign: int, low: int, high: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ordinals from low to high; where f or f' is 0, and where it is nan, at the numbers of sign times them."""
    ordinals = np.linspace(low, high, _N_POINTS).round().astype(np.int64)
    x = jnp.asarray(_numbers(sign * ordinals, dtype))
    value, pull = jax.vjp(fn, x)
    result = np.asarray(value if which == "value" else pull(jnp.ones_like(value))[0], np.float32)
    return ordinals, result == 0, np.isnan(result)


def _bits(dtype: np.dtype) -> type:
    return np.uint16 if dtype.itemsize == 2 else np.uint32


def _largest(dtype: np.dtype) -> int:
    """The ordinal of the largest finite number; 0 has 0, the next larger number the next larger integer."""
    return int(np.array(jnp.finfo(dtype).max, dtype).view(_bits(dtype)))


def _numbers(ordinals: np.ndarray, dtype: np.dtype) -> np.ndarray:
    negative = (ordinals < 0).astype(_bits(dtype)) << (8 * dtype.itemsize - 1)
    return (np.abs(ordinals).astype(_bits(dtype)) | negative).view(dtype)
