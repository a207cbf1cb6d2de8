"""Makes actlab/activations/coefficients.py: the polynomials of the activations, fitted by Chebyshev interpolation.

Command: python experiments/fit_activation_coefficients.py > actlab/activations/coefficients.py, then ruff format
Expected time: half a minute.

Every polynomial is mpmath.chebyfit of a smooth function at 60 digits: interpolation at Chebyshev nodes, within a
small factor of the best polynomial; the degree is the least whose relative error is under the format's TOLERANCE.
Two kinds: on a whole half line, in t = (a - c) / (a + c); and around a root of a derivative, of
(f(r + d) - f(r)) / d, r the floating-point number next to the root: then f(r) + d * polynomial keeps its relative
accuracy where the closed formula cancels. (r in two parts would not do: XLA adds up constants.)
"""

import pprint

import mpmath
import numpy as np
from mpmath import mpf

mpmath.mp.dps = 60
TOLERANCE = {"FLOAT32": mpf(2) ** -27, "FLOAT64": mpf(2) ** -56}
ROUND = {"FLOAT32": lambda value: float(np.float32(float(value))), "FLOAT64": float}
FAR = {"FLOAT32": 20, "FLOAT64": 50}  # a Gaussian tail underflows before
CENTRE = {"FLOAT32": mpf("1.5"), "FLOAT64": mpf(4)}
INNER = mpf("0.625")  # within, Phi is a polynomial
PHI_0 = 1 / mpmath.sqrt(2 * mpmath.pi)
ALPHA = 2 * mpmath.sqrt(2 / mpmath.pi)
BETA = ALPHA * mpf("0.044715")


def mills(a):
    """Phi(-a) exp(a^2 / 2): half of erfcx(a / sqrt 2)."""
    return mpmath.erfc(a / mpmath.sqrt(2)) * mpmath.exp(a * a / 2) / 2


def cdf_rest(s):
    """Phi(x) = 1/2 + x times this, s = x^2."""
    x = mpmath.sqrt(s)
    return mpmath.erf(x / mpmath.sqrt(2)) / (2 * x) if s else PHI_0


def gelu_slope(a):
    """gelu'(-a) exp(a^2 / 2)."""
    return mills(a) - a * PHI_0


def silu_slope(a):
    """silu'(-a) = e^-a times this over (1 + e^-a)^2."""
    return 1 - a + mpmath.exp(-a)


def silu_curvature(a):
    """silu''(a) = sigmoid'(a) times this."""
    return 2 - a * mpmath.tanh(a / 2)


def tanh_slope(a):
    """gelu_tanh'(-a) = e^-z times this over (1 + e^-z)^2, z = ALPHA a + BETA a^3."""
    return 1 + mpmath.exp(-(ALPHA * a + BETA * a**3)) - ALPHA * a - 3 * BETA * a**3


def tanh_curvature(a):
    """gelu_tanh''(a) = sigmoid'(z) times this."""
    z, slope = ALPHA * a + BETA * a**3, ALPHA + 3 * BETA * a * a
    return 2 * slope + 6 * BETA * a * a - a * slope**2 * mpmath.tanh(z / 2)


def mish_slope(x):
    """mish'(x) = n times this over D^2, n = e^x, D = n^2 + 2n + 2; for x < 0."""
    n = mpmath.exp(x)
    return (n + 2) * (n * n + 2 * n + 2) + 4 * x * (n + 1)


def mish_curvature(x):
    """mish''(x) = 4 n times this over D^3."""
    n = mpmath.exp(x)
    return 2 * (n + 1) * (n * n + 2 * n + 2) + x * (((-2 * n - 3) * n + 2) * n + 2)


def gelu2_curvature(x):
    """gelu2''(x) = 2 (gelu'^2 + gelu gelu'')."""
    cdf, pdf = mpmath.ncdf(x), mpmath.npdf(x)
    return 2 * ((cdf + x * pdf) ** 2 + x * cdf * (2 - x * x) * pdf)


def mish_curvature_right(x):
    """The same over n^3, which does not grow."""
    return mish_curvature(x) / mpmath.exp(3 * x)


def exponential_rest(r):
    """(e^r - 1 - r) / r^2."""
    return (mpmath.expm1(r) - r) / r**2 if r else mpf(1) / 2


def log_rest(s):
    """log1p(e) = w (1 + s times this), w = 2z, z = e / (2 + e), s = z^2."""
    z = mpmath.sqrt(s)
    return (mpmath.atanh(z) / z - 1) / s if s else mpf(1) / 3


GELU_ROOT = mpmath.findroot(gelu_slope, "0.7518")
# name: function, a starting point for its root, radius of the neighbourhood
ROOTS = {
    "gelu_slope": (gelu_slope, "0.7518", "0"),
    "gelu_curvature": (lambda a: 2 - a * a, "1.4142", "0"),
    "silu_slope": (silu_slope, "1.2785", "0.25"),
    "silu_curvature": (silu_curvature, "2.3994", "1.75"),
    "gelu_tanh_slope": (tanh_slope, "0.7525", "0.375"),
    "gelu_tanh_curvature": (tanh_curvature, "1.4185", "0.75"),
    "mish_slope": (mish_slope, "-1.1924", "0.5"),
    "mish_curvature_left": (mish_curvature, "-2.2564", "0.625"),
    "mish_curvature_right": (mish_curvature_right, "1.4906", "0.9"),
    "gelu2_curvature_left": (gelu2_curvature, "-1.2093", "0.375"),
    "gelu2_curvature_right": (gelu2_curvature, "-0.2787", "0.5"),
}


def fit(function, low, high, tolerance):
    """The shortest Chebyshev interpolant, highest power first."""
    ends = [mpmath.mpf(low), mpmath.mpf(high)]
    scale = min(abs(function(ends[0] + (ends[1] - ends[0]) * k / 16)) for k in range(17))
    for count in range(3, 60):
        coefficients, error = mpmath.chebyfit(function, ends, count, error=True)
        if error < tolerance * scale:
            return coefficients
    raise ValueError(f"{function} has no short polynomial")


def around(name, centre):
    """(f(centre + d) - f(centre)) / d as a function of d."""
    function = ROOTS[name][0]
    there = function(centre)
    slope = lambda d: (function(centre + d) - there) / d  # noqa: E731
    return lambda d: slope(d) if abs(d) > mpf(10) ** -25 else mpmath.diff(function, centre)


def half_line(function, centre):
    """A function of t whose value at t = (a - centre) / (a + centre) is function(a)."""
    return lambda t: function(centre * (1 + t) / (1 - t))


def shift(precision):
    """c near 28 or 300 and e^-c: c with so few bits that a - c is exact, e^-c all but a floating-point number."""
    bits, start = {"FLOAT32": (24, 28), "FLOAT64": (53, 300)}[precision]
    unit = mpf(2) ** (mpmath.floor(mpmath.log(3 * start, 2)) + 1 - bits)
    for k in range(1, 10_000):
        c = start + k * unit
        power = mpmath.exp(-c)
        if abs(ROUND[precision](power) / power - 1) < mpf(2) ** -(bits + 8):
            return float(c), ROUND[precision](power)


def table(precision):
    """Polynomials as {name: coefficients} and roots as {name: (r, f(r), radius)}."""
    tolerance, centre = TOLERANCE[precision], CENTRE[precision]
    last = (FAR[precision] - centre) / (FAR[precision] + centre)
    first = (INNER - centre) / (INNER + centre)
    ratio = lambda a: gelu_slope(a) / (GELU_ROOT - a)  # noqa: E731
    polynomials = {
        "exponential_rest": fit(exponential_rest, "-0.35", "0.35", tolerance * 32),
        "log_rest": fit(log_rest, 0, mpf(1) / 9, tolerance * 8),
        "half_normal": fit(cdf_rest, 0, INNER**2, tolerance * 4),
        "mills": fit(half_line(lambda a: a * mills(a), centre), first, last, tolerance),
        "mills_square": fit(half_line(lambda a: (a * mills(a)) ** 2, centre), first, last, tolerance),
        "gelu_slope": fit(half_line(ratio, centre), -1, last, tolerance),
    }
    roots = {}
    for name, (function, start, radius) in ROOTS.items():
        near = ROUND[precision](mpmath.findroot(function, mpf(start)))
        roots[name] = (near, float(function(mpf(near))), float(radius))
        if name not in polynomials and mpf(radius):
            polynomials[name] = fit(around(name, mpf(near)), -mpf(radius), mpf(radius), tolerance)
    rounded = {name: tuple(ROUND[precision](c) for c in row) for name, row in polynomials.items()}
    return rounded, roots


def main():
    """Prints the module."""
    print('"""Made by experiments/fit_activation_coefficients.py, which says how; not to be edited by hand."""\n')
    for precision in TOLERANCE:
        polynomials, roots = table(precision)
        print(f"{precision}_SHIFT = {shift(precision)}")
        print(f"{precision}_CENTRE = {float(CENTRE[precision])}")
        print(f"{precision}_ROOTS =", pprint.pformat(roots, width=118, sort_dicts=False))
        print(f"{precision} =", pprint.pformat(polynomials, width=118, compact=True, sort_dicts=False))


if __name__ == "__main__":
    main()
