"""e^-a with its small end, 1 - e^-a with its small end, and products held in two numbers.

Three faults are met here. exp multiplies the rounding error of its argument by the argument: at e^-87 a relative
error of 2^-24 is 87 units in the last place, so arguments come as a sum of two numbers. e^-a underflows before
a^2 e^-a does, so e^-a stays in two factors until the product is made. And 1 - e^-a cancels near 0; XLA's own
expm1 and tanh are 5 and 4 ULP off in float32 on CPU. XLA flushes numbers below the smallest normal to 0 on CPU;
so does all that is built on this.

a stands for a magnitude, at least 0. XLA's exp is within 1 ULP in float32 on CPU.
"""

import functools
import math
from fractions import Fraction
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from actlab.activations import coefficients as c

LN_2 = Fraction("0.693147180559945309417232121458176568075500134360255254120680009")


class Format(NamedTuple):
    """What the formulas need to know of float32 or float64."""

    bits: Any  # the integer type of the same width
    mantissa: int  # stored bits of the mantissa
    bias: int  # of the exponent
    limit: float  # e^-limit is 0 with a wide margin
    shift: tuple[float, float]  # c and e^-c
    polynomials: dict[str, tuple[float, ...]]
    roots: dict[str, tuple[float, float, float]]
    centre: float


FLOAT32 = Format(jnp.int32, 23, 127, 170.0, c.FLOAT32_SHIFT, c.FLOAT32, c.FLOAT32_ROOTS, c.FLOAT32_CENTRE)
FLOAT64 = Format(jnp.int64, 52, 1023, 1400.0, c.FLOAT64_SHIFT, c.FLOAT64, c.FLOAT64_ROOTS, c.FLOAT64_CENTRE)


def format_of(x: Array) -> Format:
    """The format of a float32 or float64 array."""
    return FLOAT64 if x.dtype == jnp.float64 else FLOAT32


def limit_of(x: Array) -> float:
    """Beyond it e^-x is 0 with a wide margin: magnitudes are cut there, so that infinity meets no 0."""
    return format_of(x).limit


def polynomial(name: str, x: Array) -> Array:
    """A polynomial of the table, by Horner's rule."""
    first, *others = format_of(x).polynomials[name]
    result = jnp.full_like(x, first)
    for coefficient in others:
        result = result * x + coefficient
    return result


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _cut(x: Array, dropped: int) -> Array:
    kind = format_of(x).bits
    bits = jax.lax.bitcast_convert_type(x, kind)
    return jax.lax.bitcast_convert_type(bits & jnp.array(-(1 << dropped), kind), x.dtype)


# The derivative of x itself: then the rest x - _cut(x) has none, and what is built of both has the right one.
_cut.defjvp(lambda dropped, primals, tangents: (_cut(*primals, dropped), *tangents))


def short(x: Array) -> Array:
    """x without the lower half of its bits: products of two such numbers are exact."""
    return _cut(x, format_of(x).mantissa // 2 + 1)


def almost(x: Array) -> Array:
    """x without its last bits: a value in memory, which no compiler can contract into a fused multiply-add."""
    return _cut(x, 3)


def split(constant: Fraction, x: Array) -> tuple[float, float]:
    """A constant as a number of half the bits and the rest, for the format of x."""
    kept = format_of(x).mantissa // 2
    unit = Fraction(2) ** (math.frexp(float(constant))[1] - kept)
    high = round(constant / unit) * unit
    return float(high), float(constant - high)


def times(x: Array, factor: Array | Fraction) -> tuple[Array, Array]:
    """x * factor as a sum of two numbers, to about twice the precision (Dekker 1971, section 5)."""
    if isinstance(factor, Fraction):
        whole = float(factor)
        factor_high, factor_low = split(factor, x)
    else:
        whole = factor
        factor_high = short(factor)
        factor_low = factor - factor_high
    x_high = short(x)
    product = almost(x * whole)
    low = (x_high * factor_high - product) + ((x - x_high) * factor_high + x * factor_low)
    # The low part of a tiny number is flushed to 0, and without use.
    tiny = jnp.abs(product) < 1e-8
    return jnp.where(tiny, x * whole, product), jnp.where(tiny, 0, low)


def square(x: Array) -> tuple[Array, Array]:
    """x^2 as a sum of two numbers."""
    x_high = short(x)
    product = almost(x * x)
    return product, (x_high * x_high - product) + (x - x_high) * (x + x_high)


class Decay(NamedTuple):
    """e^-a = near * unit."""

    near: Array
    unit: Array

    @property
    def value(self) -> Array:
        """e^-a."""
        return self.near * self.unit

    def times(self, factor: Array | float) -> Array:
        """factor e^-a, which underflows only if the product does."""
        return (factor * self.near) * self.unit


def decay(a: Array, low: Array | float = 0.0) -> Decay:
    """e^-(a + low) for 0 <= a <= the format's limit, and `low` so small that its square does not count."""
    shift, unit = format_of(a).shift
    far = a > 2 * shift  # there a - shift is exact
    near = jnp.exp(jnp.where(far, shift - a, -a))
    if isinstance(low, Array):
        near = near - near * low
    return Decay(near, jnp.where(far, unit, 1.0).astype(a.dtype))


def lost(a: Array, low: Array | float = 0.0) -> Array:
    """1 - e^-(a + low) for the same, within 1 ULP: a = n ln 2 - r, as Cody and Waite 1980, chapter 6, reduce it."""
    kind = format_of(a)
    a = jnp.minimum(a, kind.bias // 2)  # where the result is 1
    # n has few bits, so its product with the high part is exact.
    ln_2_high, ln_2_low = split(LN_2, a)
    n = jax.lax.round(a * (1 / float(LN_2)), jax.lax.RoundingMethod.TO_NEAREST_EVEN)
    r = (n * ln_2_high - a) + (n * ln_2_low - low)
    power = jax.lax.bitcast_convert_type((kind.bias - n.astype(kind.bits)) << kind.mantissa, a.dtype)
    return (1 - power) - power * (r + r * r * polynomial("exponential_rest", r))


def magnitude(x: Array, limit: float) -> Array:
    """|x|, cut at a limit; NaN stays NaN."""
    return jnp.minimum(jnp.abs(x), limit)


def near_root(name: str, a: Array, low: Array | float, otherwise: Array) -> Array:
    """`otherwise`, but around the root of that name a polynomial in the distance, exact where the formula cancels.

    The argument is a + low.
    """
    near, there, radius = format_of(a).roots[name]
    distance = (a - near) + low
    return jnp.where(jnp.abs(distance) < radius, there + distance * polynomial(name, distance), otherwise)
