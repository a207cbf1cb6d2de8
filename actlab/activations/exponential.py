"""e^-a, products with it, 1 - e^-a and sigmoid(-a), to the last digit; and what else is held in two numbers.

XLA's exp is up to 1 unit in the last place (ULP) off on CPU and 2 on GPU, its expm1 and tanh more, and products make
more of it. So e^-a is made here, as 2^-n (1 + q), n ln 2 next to a and q a polynomial. That form meets three more
faults. exp multiplies the rounding error of its argument by the argument, 87 ULP at e^-87: arguments come as a sum
of two numbers. e^-a underflows before a^2 e^-a does: 2^-n comes in last. And 1 - e^-a cancels near 0:
(1 - 2^-n) - 2^-n q does not. XLA flushes numbers below the smallest normal to 0 on CPU; so does all built on this.

a stands for a magnitude, at least 0.
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
    octaves: int  # e^-a is multiplied by 2^octaves until it is part of a product
    polynomials: dict[str, tuple[float, ...]]
    expansions: dict[str, tuple[float, float, float, float, float]]
    centre: float


FLOAT32 = Format(jnp.int32, 23, 127, 128.0, 60, c.FLOAT32, c.FLOAT32_EXPANSIONS, c.FLOAT32_CENTRE)
FLOAT64 = Format(jnp.int64, 52, 1023, 1100.0, 600, c.FLOAT64, c.FLOAT64_EXPANSIONS, c.FLOAT64_CENTRE)


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
    """x without its last bit: a value in memory, which no compiler can contract into a fused multiply-add."""
    return _cut(x, 1)


def split(constant: Fraction, x: Array) -> tuple[float, float]:
    """A constant as a number of half the bits and the rest, for the format of x."""
    kept = format_of(x).mantissa // 2
    unit = Fraction(2) ** (math.frexp(float(constant))[1] - kept)
    high = round(constant / unit) * unit
    return float(high), float(constant - high)


def times(x: Array, factor: Array | Fraction) -> tuple[Array, Array]:
    """x * factor as a sum of two numbers, to more than twice the precision (Dekker 1971, section 5)."""
    whole, high, low, rest = _parts(factor, x)
    x_high = short(x)
    x_low = x - x_high
    product = almost(x * whole)
    # Each product is exact, and so is each sum but the last.
    error = ((x_high * high - product) + x_high * low) + x_low * high
    error = error + (x_low * low + x * rest)
    # The low part of a tiny number is flushed to 0, and without use.
    tiny = jnp.abs(product) < 1e-8
    return jnp.where(tiny, x * whole, product), jnp.where(tiny, 0, error)


def _parts(factor: Array | Fraction, x: Array) -> tuple[Any, Any, Any, Any]:
    """A factor in the format of x, as two numbers of half the bits, and what a fraction has beyond."""
    if isinstance(factor, Fraction):
        high, rest = split(factor, x)
        low, rest = split(factor - Fraction(high), x)
        return float(factor), high, low, rest
    high = short(factor)
    return factor, high, factor - high, 0.0


def square(x: Array) -> tuple[Array, Array]:
    """x^2 as an exact number and the rest, at most 2^-10 of it."""
    x_high = short(x)
    return x_high * x_high, (x - x_high) * (x + x_high)


class Decay(NamedTuple):
    """e^-a = (1 + q) power unit; `unit` is a power of two that keeps `power` from underflow."""

    q: Array
    power: Array
    unit: float

    @property
    def value(self) -> Array:
        """e^-a."""
        return ((1 + self.q) * self.power) * self.unit

    @property
    def lost(self) -> Array:
        """1 - e^-a."""
        power = self.power * self.unit
        return (1 - power) - power * self.q

    def times(self, factor: Array | float, rest: Array | float = 0.0) -> Array:
        """factor (1 + rest) e^-a, which underflows only if the product does."""
        return ((factor + factor * (self.q + rest * (1 + self.q))) * self.power) * self.unit

    def logistic_slope(self, factor: Array) -> Array:
        """factor sigmoid'(a): (1 - w^2) / 4 with w = tanh(a/2) near 0, e^-a (1 - p)^2 with p = sigmoid(-a) beyond."""
        e = self.value
        w = self.lost / (1 + e)
        p = e / (1 + e)
        return jnp.where(e > 0.27, factor * ((1 - w * w) / 4), self.times(factor, -p * (2 - p)))


def decay(a: Array, low: Array | float = 0.0) -> Decay:
    """e^-(a + low) for 0 <= a <= the format's limit: a = n ln 2 - r, as Cody and Waite 1980, chapter 6, reduce it.

    `low` may be up to 2^-10 of a, if a has half the bits then.
    """
    whole = a + low if isinstance(low, Array) else a
    n = _nearest_integer(whole * float(1 / LN_2))
    # n has few bits, so its product with the high part is exact.
    high, rest = split(LN_2, a)
    r = (n * high - a) + (n * rest - low)
    return _decay(n, r + r * r * polynomial("exponential_rest", r))


def decay_of_octaves(a: Array, low: Array) -> Decay:
    """2^-(a + low) for 0 <= a <= 1.44 times the format's limit; a has half the bits, `low` is up to 2^-10 of a."""
    n = _nearest_integer(a + low)
    r = (n - a) - low
    high, _ = split(LN_2, a)
    return _decay(n, r * high + r * polynomial("octave_rest", r))


def _nearest_integer(x: Array) -> Array:
    return jax.lax.round(x, jax.lax.RoundingMethod.TO_NEAREST_EVEN)


def _decay(n: Array, q: Array) -> Decay:
    kind = format_of(q)
    exponent = (kind.bias + kind.octaves) - n.astype(kind.bits)
    power = jax.lax.bitcast_convert_type(exponent << kind.mantissa, q.dtype)
    return Decay(q, power, 2.0**-kind.octaves)


class Tail(NamedTuple):
    """sigmoid(-a) = near * unit, as in Decay.

    `near` is made by a division: XLA on CPU does one only once for f and f', and all that comes before with it. What
    ends in a product it does again for each.
    """

    near: Array
    unit: float

    @property
    def value(self) -> Array:
        """sigmoid(-a)."""
        return self.near * self.unit

    def times(self, factor: Array | float) -> Array:
        """factor sigmoid(-a), which underflows only if the product does."""
        return (factor * self.near) * self.unit


def tail(e: Decay) -> Tail:
    """sigmoid(-a) from e^-a."""
    return Tail(((1 + e.q) * e.power) / (1 + e.value), e.unit)


def tail_of(a: Array, low: Array | float = 0.0) -> Tail:
    """sigmoid(-(a + low))."""
    return tail(decay(a, low))


def magnitude(x: Array, limit: float) -> Array:
    """|x|, cut at a limit; NaN stays NaN."""
    return jnp.minimum(jnp.abs(x), limit)


def inside(name: str, a: Array) -> Array:
    """Where the expansion of that name holds."""
    *_, middle, radius = format_of(a).expansions[name]
    return jnp.abs(a - middle) < radius


def expansion(name: str, a: Array, low: Array | float = 0.0) -> Array:
    """A polynomial in the distance of a + low to a root, around which the closed formula cancels, or to a point."""
    near, rest, there, *_ = format_of(a).expansions[name]
    if isinstance(low, Array):
        ratio = polynomial(name, (a - near) + low)
        return (a - near) * ratio + (low - rest) * ratio
    # The compiler would add the rest to the root, and lose it.
    distance = a - near
    return there + distance * polynomial(name, distance)
