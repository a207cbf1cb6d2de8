"""The exact formula of every activation of the catalogue, in a form whose enclosures are finite on infinite tails.

e^-x is met with x >= 0 only, and x e^-x as one atom; each side of 0 has its own formula. Where a slope has one sign
the form shows it (tanh x = 2 / (1 + e^-2x) - 1, not (1 - e) / (1 + e)), so that interval arithmetic sees it.
"""

import math
from fractions import Fraction

from actlab.activations.atoms import HALF, decaying, log1p, normal_tail
from actlab.activations.jets import Constant, Jet
from actlab.activations.piecewise import Piece, Piecewise, halves, whole

# Klambauer et al. 2017, arXiv:1706.02515.
SELU_SCALE = Fraction("1.0507009873554804934193349852946")
SELU_ALPHA = Fraction("1.6732632423543772848170429916717")
QUICK_GELU_BETA = Fraction("1.702")
# gelu_tanh is x sigmoid(v(x)), v(x) = 2 sqrt(2 / pi) (x + 0.044715 x^3).
TWO_SQRT_2_OVER_PI = Fraction("1.595769121605730711759784239737527473903434524659738630662")
CUBIC_RATES = (TWO_SQRT_2_OVER_PI, Fraction(0), TWO_SQRT_2_OVER_PI * Fraction("0.044715"))
INVERSE_SQRT_15 = Fraction("0.2581988897471611256786176933188266407222")
INVERSE_SQRT_3 = Fraction("0.5773502691896257645091487805019574556476")
GELU_MEAN = Fraction("0.2820947917738781434740397257803862929220253146644994284")  # 1 / (2 sqrt pi)
SHARPEST = 1e-18  # below it gelu_scale is relu


def _nothing(x: Jet) -> Jet:
    return x * 0


def _same(x: Jet) -> Jet:
    return x


def identity() -> Piecewise:
    """x."""
    return whole(_same)


def relu() -> Piecewise:
    """max(0, x)."""
    return halves(_nothing, _same)


def leaky_relu(slope: float) -> Piecewise:
    """x, left of 0 slope x."""
    return halves(lambda x: x * slope, _same)


def relu2() -> Piecewise:
    """max(0, x)^2."""
    return halves(_nothing, lambda x: x * x)


def leaky_relu2(slope: float) -> Piecewise:
    """x^2, left of 0 slope^2 x^2."""
    return halves(lambda x: x * x * Fraction(slope) ** 2, lambda x: x * x)


def _clipped(low: Constant, high: Constant, left: float, right: float, middle: "Piece") -> Piecewise:
    ends = (lambda x: x.constant(low), lambda x: x.constant(high))
    return Piecewise((Piece(-math.inf, left, ends[0]), middle, Piece(right, math.inf, ends[1])))


def relu6() -> Piecewise:
    """min(max(0, x), 6)."""
    return _clipped(0, 6, 0.0, 6.0, Piece(0.0, 6.0, _same))


def hard_tanh() -> Piecewise:
    """x cut to [-1, 1]."""
    return _clipped(-1, 1, -1.0, 1.0, Piece(-1.0, 1.0, _same))


def hard_sigmoid() -> Piecewise:
    """(x + 3) / 6 cut to [0, 1]."""
    return _clipped(0, 1, -3.0, 3.0, Piece(-3.0, 3.0, lambda x: (x + 3) * Fraction(1, 6)))


def hard_swish() -> Piecewise:
    """x hard_sigmoid(x)."""
    middle = Piece(-3.0, 3.0, lambda x: x * (x + 3) * Fraction(1, 6))
    return Piecewise((Piece(-math.inf, -3.0, _nothing), middle, Piece(3.0, math.inf, _same)))


def _tanh_right(x: Jet) -> Jet:
    return 2 / (1 + decaying(2 * x)) - 1


def tanh() -> Piecewise:
    """tanh x = 2 / (1 + e^-2x) - 1."""
    return penalized_tanh(1.0)


def penalized_tanh(slope: float) -> Piecewise:
    """tanh x, left of 0 slope tanh x."""
    return halves(lambda x: _tanh_right(-x) * -slope, _tanh_right)


def sigmoid() -> Piecewise:
    """1 / (1 + e^-x)."""
    return halves(lambda x: 1 - 1 / (1 + decaying(-x)), lambda x: 1 / (1 + decaying(x)))


def _softplus(x: Jet) -> Jet:
    """For x >= 0."""
    return x + log1p(decaying(x))


def softplus() -> Piecewise:
    """log(1 + e^x)."""
    return halves(lambda x: log1p(decaying(-x)), _softplus)


def softsign() -> Piecewise:
    """x / (1 + |x|)."""
    return halves(lambda x: 1 / (1 - x) - 1, lambda x: 1 - 1 / (1 + x))


def elu(alpha: float) -> Piecewise:
    """x, left of 0 alpha (e^x - 1)."""
    return halves(lambda x: (decaying(-x) - 1) * alpha, _same)


def celu(alpha: float) -> Piecewise:
    """x, left of 0 alpha (e^(x / alpha) - 1)."""
    return halves(lambda x: (decaying(x * (-1 / Fraction(alpha))) - 1) * alpha, _same, unit=alpha)


def selu() -> Piecewise:
    """L x, left of 0 L A (e^x - 1)."""
    return halves(lambda x: (decaying(-x) - 1) * (SELU_SCALE * SELU_ALPHA), lambda x: x * SELU_SCALE)


def xielu(theta_p: float, theta_n: float) -> Piecewise:
    """p x^2 + x / 2, left of 0 (r + 1/2) (e^x - 1) - r x; p, r the softplus of the thetas."""

    def softplus_of(theta: float, x: Jet) -> Jet:
        size = x.constant(abs(theta))
        return _softplus(size) if theta > 0 else log1p(decaying(size))

    def left(x: Jet) -> Jet:
        rest = softplus_of(theta_n, x)
        return (rest + HALF) * (decaying(-x) - 1) - rest * x

    return halves(left, lambda x: x * (softplus_of(theta_p, x) * x + HALF))


def _gelu_left(a: Jet) -> Jet:
    return -normal_tail(a, 1)


def gelu_scale(s: float) -> Piecewise:
    """x Phi(x / s), as s y Phi(y)."""
    if s < SHARPEST:
        return relu()
    inverse = 1 / Fraction(s)
    return halves(lambda x: _gelu_left(x * -inverse) * s, lambda x: x + _gelu_left(x * inverse) * s, unit=s)


def gelu() -> Piecewise:
    """x Phi(x); right of 0, x - x Phi(-x)."""
    return gelu_scale(1.0)


def gelu_centred() -> Piecewise:
    """x Phi(x) - 1 / (2 sqrt pi)."""
    return halves(lambda x: _gelu_left(-x) - GELU_MEAN, lambda x: x + _gelu_left(x) - GELU_MEAN)


def gelu2() -> Piecewise:
    """(x Phi(x))^2; right of 0, x^2 - 2 x^2 Phi(-x) + (x Phi(-x))^2."""

    def square(a: Jet) -> Jet:
        tail = normal_tail(a, 1)
        return tail * tail

    return halves(lambda x: square(-x), lambda x: x * x - normal_tail(x, 2) * 2 + square(x))


def gelu_tanh() -> Piecewise:
    """x sigmoid(v(x)); right of 0, x - x e^-v / (1 + e^-v)."""

    def left(a: Jet) -> Jet:
        return -decaying(a, 1, CUBIC_RATES) / (1 + decaying(a, 0, CUBIC_RATES))

    return halves(lambda x: left(-x), lambda x: x + left(x))


def swish(beta: Constant) -> Piecewise:
    """x sigmoid(beta x) = y sigmoid(y) / beta, y = beta x, for beta > 0."""
    beta = Fraction(beta)

    def left(a: Jet) -> Jet:
        return -decaying(a, 1) / (1 + decaying(a)) * (1 / beta)

    return halves(lambda x: left(x * -beta), lambda x: x + left(x * beta), unit=float(1 / beta))


def silu() -> Piecewise:
    """x sigmoid(x)."""
    return swish(1)


def quick_gelu() -> Piecewise:
    """x sigmoid(1.702 x)."""
    return swish(QUICK_GELU_BETA)


def mish() -> Piecewise:
    """x tanh(softplus x) = x n (n + 2) / (n (n + 2) + 2), n = e^x; right of 0, x - 2 x e^2 / (1 + 2 e + 2 e^2)."""

    def left(x: Jet) -> Jet:
        e = decaying(-x)
        return -decaying(-x, 1) * (e + 2) / (e * (e + 2) + 2)

    def right(x: Jet) -> Jet:
        e = decaying(x)
        return x - 2 * decaying(x, 1, (Fraction(2),)) / (1 + 2 * e * (1 + e))

    return halves(left, right)


def polynorm(scale: float, w0: float, w1: float, w2: float, bias: float) -> Piecewise:
    """Many features of N(0, scale^2): rms(x^k) is sqrt(E x^2k), so w0 u^3 / sqrt 15 + w1 u^2 / sqrt 3 + w2 u + bias.

    u = x / scale.
    """
    cubic, square = Fraction(w0) * INVERSE_SQRT_15, Fraction(w1) * INVERSE_SQRT_3

    def cubic_of(x: Jet) -> Jet:
        u = x * (1 / Fraction(scale))
        return u * (u * (u * cubic + square) + w2) + bias

    return whole(cubic_of, unit=scale)
