"""e^-a, products with it, 1 - e^-a and sigmoid(-a) to the last digit, and numbers held as a sum of two.

XLA's exp is up to 1 unit in the last place (ULP) off on CPU and 2 on GPU, its expm1 and tanh more, and products add
to it. So e^-a is computed here, as 2^-n (1 + q) with n ln 2 next to a and a polynomial q. This form also mends three
other faults:

- exp multiplies the rounding error of its argument by the argument, 87 ULP at e^-87. So arguments are sums of two
  numbers.
- e^-a underflows before a^2 e^-a does. So the factor 2^-n comes last.
- 1 - e^-a cancels near 0; (1 - 2^-n) - 2^-n q does not.

XLA flushes numbers below the smallest normal one to 0 on CPU; so does everything built on this. a is a magnitude, at
least 0. The coefficients are in coefficients.json, which tools/fit_activation_coefficients.py writes.
"""

import functools
import json
import math
import pathlib
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

LN_2 = Fraction("0.693147180559945309417232121458176568075500134360255254120680009")


class Format(NamedTuple):
    """What the formulas need to know about float32 or float64."""

    bits: Any  # the integer type of the same width
    mantissa: int  # stored bits of the mantissa
    bias: int  # of the exponent
    limit: float  # e^-limit is 0 with a wide margin
    octaves: int  # e^-a is multiplied by 2^octaves until it is part of a product
    centre: float  # c of t = (a - c) / (a + c), in which half lines have polynomials
    expansions: dict[str, list[float]]  # a root r rounded, the rest of it, f(r), middle and radius of where it is used
    polynomials: dict[str, list[float]]  # coefficients, highest power first


TABLE = pathlib.Path(__file__).parent / "coefficients.json"
_TABLES = json.loads(TABLE.read_text())
FLOAT32 = Format(jnp.int32, 23, 127, 128.0, 60, **_TABLES["float32"])
FLOAT64 = Format(jnp.int64, 52, 1023, 1100.0, 600, **_TABLES["float64"])
IN_16_BITS = _TABLES["16 bits"]  # for results that are rounded to 16 bits, to 2^-16


def format_of(x: Array) -> Format:
    """The format of a float32 or float64 array."""
    return FLOAT64 if x.dtype == jnp.float64 else FLOAT32


def limit_of(x: Array) -> float:
    """Beyond it e^-x is 0 with a wide margin. Magnitudes are cut there, so that no infinity is multiplied by 0."""
    return format_of(x).limit


def polynomial(name: str, x: Array) -> Array:
    """A polynomial of the table, by Horner's rule."""
    return horner(format_of(x).polynomials[name], x)


def horner(coefficients: Sequence[float], x: Array) -> Array:
    """A polynomial, of whose coefficients that of the highest power is first."""
    first, *others = coefficients
    result = jnp.full_like(x, first)
    for coefficient in others:
        result = result * x + coefficient
    return result


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _cut(x: Array, dropped: int) -> Array:
    kind = format_of(x).bits
    bits = jax.lax.bitcast_convert_type(x, kind)
    return jax.lax.bitcast_convert_type(bits & jnp.array(-(1 << dropped), kind), x.dtype)


# The derivative of x itself. Then the rest, x - _cut(x), has derivative 0, and their sum has the right one.
_cut.defjvp(lambda dropped, primals, tangents: (_cut(*primals, dropped), *tangents))


def short(x: Array) -> Array:
    """x without the lower half of its bits: products of two such numbers are exact."""
    return _cut(x, format_of(x).mantissa // 2 + 1)


def almost(x: Array) -> Array:
    """x without its last bit: a bit operation, which the compiler cannot contract into a fused multiply-add."""
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
    # The low part of a tiny number would be flushed to 0; it is not needed either.
    tiny = jnp.abs(product) < 1e-8
    return jnp.where(tiny, x * whole, product), jnp.where(tiny, 0, error)


def _parts(factor: Array | Fraction, x: Array) -> tuple[Any, Any, Any, Any]:
    """A factor rounded to the format of x, as two numbers of half the bits, and what is left of a fraction."""
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

    `near` is the result of a division on purpose: XLA on CPU shares a division, and all that leads to it, between f
    and f', but repeats for each whatever ends in a product.
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
    # Without `rest`: the compiler would add it to the root, where it is lost. The fit is around `near` itself.
    distance = a - near
    return there + distance * polynomial(name, distance)
