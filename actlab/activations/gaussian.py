"""x Phi(x) and its kin, Phi and phi the distribution function and density of N(0, 1).

With a = |x|: x Phi(x) = max(x, 0) - a Phi(-a), and a Phi(-a) = e^(-a^2/2) m(a), m(a) = a erfcx(a / sqrt 2) / 2 so
flat that it is a polynomial in t = (a - c) / (a + c) (as Shepherd and Laframboise 1981 have it for erfcx). For
a < 5/8, where m(a) nears 0, Phi is 1/2 + x times a polynomial in x^2. a^2 is held in two numbers. The slope at -a is
e^(-a^2/2) (r - a) g(a), r its root 0.7518 and g a positive polynomial in t: accurate on both sides of the root.
So x Phi(x) keeps its digits until it underflows at -13.
"""

from fractions import Fraction
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from actlab.activations.derivatives import elementwise, with_derivatives
from actlab.activations.exponential import Decay, decay, format_of, magnitude, near_root, polynomial, square, times

PHI_0 = 0.39894228040143267794  # phi(0)
# Below it x Phi(x / s) is ReLU to within s, and 1 / s nears overflow.
SHARPEST = 1e-30
INNER = 0.625


class _Tail(NamedTuple):
    """a + low = |x| / s, and t."""

    a: Array
    low: Array | float
    t: Array

    def decay(self, times: float = 1.0) -> Decay:
        """e^-(times (a + low)^2 / 2)."""
        squared, rest = square(self.a)
        return decay(squared * (times / 2), (rest / 2 + self.a * self.low) * times)

    def to_root(self, name: str, ratio: Array) -> Array:
        """The difference to a root times a function, f = (r - a) ratio(a), accurate also where a is next to r."""
        near, there, _ = format_of(self.a).roots[name]
        return ((near - self.a) - self.low) * ratio + there

    def slope(self) -> Array:
        """gelu'(-a) e^(a^2/2)."""
        return self.to_root("gelu_slope", polynomial("gelu_slope", self.t))

    def curvature(self) -> Array:
        """gelu''(a) e^(a^2/2)."""
        return self.to_root("gelu_curvature", 2**0.5 + (self.a + self.low)) * PHI_0


def _tail(x: Array, s: float = 1.0) -> _Tail:
    # Beyond, e^-(a^2/2) is 0.
    cut = magnitude(x, s * (50.0 if x.dtype == jnp.float64 else 18.0))
    a, low = (cut, 0.0) if s == 1 else times(cut, 1 / Fraction(s))
    centre = format_of(x).centre
    return _Tail(a, low, ((a + low) - centre) / ((a + low) + centre))


def _inner(x: Array, tail: _Tail) -> Array:
    """x Phi of small arguments."""
    y = tail.a + tail.low
    deviation = jnp.copysign(y, x) * polynomial("half_normal", y * y)
    return x * (0.5 + deviation)


def _value(x: Array, s: float = 1.0) -> Array:
    tail = _tail(x, s)
    left = tail.decay().times(s * polynomial("mills", tail.t))
    return jnp.where(tail.a < INNER, _inner(x, tail), jnp.maximum(x, 0) - left)


def _slope(x: Array, s: float = 1.0) -> Array:
    tail = _tail(x, s)
    left = tail.decay().times(tail.slope())
    return jnp.where(x < 0, left, 1 - left)


def _curvature(x: Array, s: float = 1.0) -> Array:
    tail = _tail(x, s)
    return tail.decay().times(tail.curvature() / s)


_with_gelu = with_derivatives(_value, _slope, _curvature)


@elementwise
def gelu(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """x Phi(x): the exact form. Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2."""
    return _with_gelu(x)


@elementwise
def gelu_scale(x: Float[Array, "*S"], s: float = 1.0) -> Float[Array, "*S"]:
    """x Phi(x / s): ReLU at s = 0, gelu at 1, x/2 as s grows; curvature sqrt(2 / pi) / s at 0.

    Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2, with the standard deviation of the normal left free.
    """
    if s < SHARPEST:
        return jax.nn.relu(x)
    return with_derivatives(lambda x: _value(x, s), lambda x: _slope(x, s), lambda x: _curvature(x, s))(x)


def _square_value(x: Array) -> Array:
    # On the left e^(-a^2) comes in once, not as the square of a rounded number.
    tail = _tail(x)
    left = tail.decay(2.0).times(polynomial("mills_square", tail.t))
    return jnp.where((x < 0) & (tail.a >= INNER), left, jnp.square(_value(x)))


def _square_slope(x: Array) -> Array:
    tail = _tail(x)
    left = tail.decay(2.0).times(-2 * polynomial("mills", tail.t) * tail.slope())
    return jnp.where((x < 0) & (tail.a >= INNER), left, 2 * _value(x) * _slope(x))


def _square_curvature(x: Array) -> Array:
    tail = _tail(x)
    inside = jnp.clip(x, -50, 50)  # infinity must not meet 0
    bracket = jnp.square(tail.slope()) - polynomial("mills", tail.t) * tail.curvature()
    right = 2 * (jnp.square(_slope(inside)) + _value(inside) * _curvature(inside))
    result = jnp.where((x < 0) & (tail.a >= INNER), tail.decay(2.0).times(2 * bracket), right)
    result = near_root("gelu2_curvature_left", inside, 0.0, result)
    return near_root("gelu2_curvature_right", inside, 0.0, result)


_with_gelu2 = with_derivatives(_square_value, _square_slope, _square_curvature)


@elementwise
def gelu2(x: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """(x Phi(x))^2. gelu under Primer's square, So et al. 2021, arXiv:2109.08668."""
    return _with_gelu2(x)
