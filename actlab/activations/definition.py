"""What an activation is: its record, and how its function gets a dtype and derivatives.

An accurate f does not give an accurate f' by differentiating its operations one by one: the result cancels and
overflows (jax.nn.mish and jax.nn.gelu have NaN second derivatives at 3e38). So f, f' and f'' are three formulas here,
and every mode of autodiff goes from one to the next. Beyond f'' autodiff differentiates the formula of f''.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from actlab.activations.proofs.jets import Piecewise
from actlab.errors import UserError


def same(x: Array) -> Array:
    """x: the value function of most gated forms."""
    return x


@dataclasses.dataclass(frozen=True, eq=False)
class Activation:
    """An activation: a pure function and what is known about it.

    A gated one is used as fn(x W) * value_fn(x V) (Shazeer 2020, arXiv:2002.05202); value_fn is the identity in most.
    `parameters` are fixed numbers that a name may set, `gelu_scale(s=0.25)`, each within its closed interval in
    `domain`. `theta` are trained scalars with their initial values. fn takes both as keyword arguments with these
    defaults. An `elementwise` fn takes every input by itself; another may mix the hidden units of a token, along the
    last axis, but not tokens.

    `draw(key, x, **keywords)` replaces fn in training: a random activation whose mean given x is fn(x).

    `exact(**keywords)` is the formula of fn, for certified bounds and accurate moments; `value_exact()` is that of
    value_fn. `exact` of a vector-valued activation also takes the `scale` of the input.
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


Function = Callable[[Array], Array]


@functools.cache
def require_elementwise(record: Activation) -> None:
    """Refuses a record that counts as elementwise and whose function is not: its units would all look dead.

    Raises:
        UserError: for such a record.
    """
    x = np.linspace(-3.0, 3.0, 13, dtype=np.float32)
    told = f"activation {record.name!r} is not elementwise, since"
    fix = "say so in its record, elementwise=False."
    try:
        alike = _alike(record, lambda x: jax.vmap(record.fn)(x[:, None])[:, 0], record.fn, x)
    except UserError:
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise UserError(f"{told} it fails on an array of one axis ({reason}): {fix}") from error
    if not alike:
        raise UserError(f"{told} an output depends on other inputs: {fix}")


@functools.cache
def require_own_rows(record: Activation) -> None:
    """Refuses a function that is not elementwise and mixes rows: a token would see the next one, or other texts.

    Raises:
        UserError: for such a record.
    """
    x = np.linspace(-3.0, 3.0, 24, dtype=np.float32).reshape(3, 8)
    keywords = {**record.parameters, **record.theta}
    of_rows = functools.partial(record.fn, **keywords)
    if not _alike(record, jax.vmap(lambda row: of_rows(row[None])[0]), of_rows, x):
        raise UserError(
            f"activation {record.name!r} mixes rows, so that a token sees others and other texts: compute along the "
            "last axis only, that of the hidden units."
        )


def _alike(record: Activation, alone: Function, together: Function, x: np.ndarray) -> bool:
    """Whether two ways to compute a function of x agree; refuses one that is another each time that it is traced."""
    with jax.ensure_compile_time_eval():
        # As new functions, since jit keeps what it has traced.
        one, two, again = (np.asarray(jax.jit(lambda x, f=f: f(x))(x)) for f in (alone, together, together))
    if not np.array_equal(two, again, equal_nan=True):
        raise UserError(
            f"activation {record.name!r} is not pure, since it gives another output each time: let it depend on its "
            "input alone; a random one has `draw`, which is given a key."
        )
    return one.shape == two.shape and np.allclose(one, two, rtol=1e-4, atol=1e-6, equal_nan=True)


def traced_once(*functions: Function) -> Iterator[Function]:
    """The functions, of many operations each, traced once per shape and not once per layer of each program.

    `inline` leaves no call in the program. Not for functions that are made anew in each call: nothing is kept for them.
    """
    return (jax.jit(function, inline=True) for function in functions)


def with_derivatives(value: Function, slope: Function, curvature: Function) -> Function:
    """A function with the derivative `slope`, whose derivative is `curvature`; beyond that, autodiff of `curvature`."""

    @jax.custom_jvp
    def first(x: Array) -> Array:
        return slope(x)

    @jax.custom_jvp
    def function(x: Array) -> Array:
        return value(x)

    first.defjvps(lambda dx, _, x: dx * curvature(x))
    function.defjvps(lambda dx, _, x: dx * first(x))
    # So that catalogue.register can see where the function is written.
    return functools.update_wrapper(function, value, assigned=(), updated=())


def floating(x: Any, name: str) -> Array:
    """x as an array of real floating-point numbers; raises TypeError for integers, booleans and complex numbers."""
    x = jnp.asarray(x)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise TypeError(f"{name} takes real floating-point arrays, not {x.dtype}: convert with x.astype(float).")
    return x


def elementwise(function: Callable[..., Array], in_16_bits: Function | None = None) -> Callable[..., Array]:
    """An activation of real arrays that computes in at least float32 and returns the dtype of its input.

    float16 and bfloat16 are computed in float32 and rounded once, by `in_16_bits` where there is one: a shorter formula
    whose error that rounding hides. Keyword arguments are scalars of the function.

    Raises:
        TypeError: when the result is called with integer, boolean or complex input.
    """

    @functools.wraps(function)
    def applied(x: Any, **scalars: Any) -> Array:
        x = floating(x, getattr(function, "__name__", "an activation"))
        if in_16_bits is not None and x.dtype.itemsize == 2:
            return in_16_bits(x.astype(jnp.float32)).astype(x.dtype)
        wide = jnp.promote_types(x.dtype, jnp.float32)
        scalars = {key: value.astype(wide) if isinstance(value, Array) else value for key, value in scalars.items()}
        return function(x.astype(wide), **scalars).astype(x.dtype)

    return applied
