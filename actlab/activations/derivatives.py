"""How an activation gets its dtype and its derivatives.

Accuracy of a derivative is not that of the function: differentiating an accurate formula operation by operation
cancels and overflows (jax.nn.mish and jax.nn.gelu have NaN second derivatives at 3e38). So f, f' and f'' are three
formulas here, and autodiff of any mode walks from one to the next; beyond f'' it is that of the formula of f''.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

Scalar = Callable[[Array], Array]


def with_derivatives(value: Scalar, slope: Scalar, curvature: Scalar) -> Scalar:
    """`value`, whose derivative is `slope`, whose derivative is `curvature`; then autodiff of curvature's formula."""

    @jax.custom_jvp
    def first(x: Array) -> Array:
        return slope(x)

    @jax.custom_jvp
    def function(x: Array) -> Array:
        return value(x)

    first.defjvps(lambda dx, _, x: dx * curvature(x))
    function.defjvps(lambda dx, _, x: dx * first(x))
    # Where it is written, for catalogue.register.
    return functools.update_wrapper(function, value, assigned=(), updated=())


def floating(x: Any, name: str) -> Array:
    """x as an array of real floating-point numbers; raises TypeError for integers, booleans and complex numbers."""
    x = jnp.asarray(x)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise TypeError(f"{name} takes real floating-point arrays, not {x.dtype}: convert with x.astype(float).")
    return x


def elementwise(function: Callable[..., Array]) -> Callable[..., Array]:
    """An activation of real arrays that computes in float32 at least and answers in the dtype of its input.

    float16 and bfloat16 are computed in float32 and rounded once. Keyword arguments are scalars of the function.

    Raises:
        TypeError: from the result, for integer, boolean or complex input.
    """

    @functools.wraps(function)
    def applied(x: Any, **scalars: Any) -> Array:
        x = floating(x, getattr(function, "__name__", "an activation"))
        wide = jnp.promote_types(x.dtype, jnp.float32)
        scalars = {key: value.astype(wide) if isinstance(value, Array) else value for key, value in scalars.items()}
        return function(x.astype(wide), **scalars).astype(x.dtype)

    return applied
