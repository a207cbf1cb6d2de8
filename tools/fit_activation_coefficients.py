"""Makes actlab/activations/precise/coefficients.json: the polynomials of the activations, by Chebyshev interpolation.

Run from the root of the repository, half a minute: python tools/fit_activation_coefficients.py. It writes the file.

Every polynomial is mpmath.chebyfit of a smooth function at 60 digits: interpolation at Chebyshev nodes, within a
small factor of the best polynomial; the degree is the least whose relative error is under the format's TOLERANCE.
Two kinds: on a whole half line, in t = (a - c) / (a + c); and around a root of a derivative, of
(f(r + d) - f(r)) / d, r the floating-point number next to the root: then f(r) + d * polynomial keeps its relative
accuracy where the closed formula cancels. (r in two parts would not do: XLA adds up constants.)
"""

import json
import pathlib
import textwrap

import mpmath
import numpy as np
from mpmath import mpf

TABLE = pathlib.Path(__file__).parents[1] / "actlab/activations/precise/coefficients.json"
mpmath.mp.dps = 60
TOLERANCE = {"float32": mpf(2) ** -27, "float64": mpf(2) ** -56}
ROUND = {"float32": lambda value: float(np.float32(float(value))), "float64": float}
FAR = {"float32": 20, "float64": 50}  # a Gaussian tail underflows before
CENTRE = {"float32": mpf("1.5"), "float64": mpf(4)}
HALF = {"float32": 11, "float64": 26}  # bits of ln 2 that products with few bits leave exact
INNER = mpf("0.625")  # within, Phi is a polynomial
TAIL = mpf("0.75")  # gelu2'' has one root beyond
PHI_0 = 1 / mpmath.sqrt(2 * mpmath.pi)
ALPHA = 2 * mpmath.sqrt(2 / mpmath.pi)
QUICK = mpf("1.702")
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


def sigmoid(x):
    """The logistic function."""
    return 1 / (1 + mpmath.exp(-x))


def silu_slope(a):
    """silu'(-a) / sigmoid(-a)."""
    return 1 - a * sigmoid(a)


def silu_curvature(a):
    """silu''(a) e^a."""
    return sigmoid(a) ** 2 * (2 - a * mpmath.tanh(a / 2))


def quick_slope(a):
    """quick_gelu'(-a) / sigmoid(-QUICK a)."""
    return silu_slope(QUICK * a)


def quick_curvature(a):
    """quick_gelu''(a) e^(QUICK a)."""
    return QUICK * silu_curvature(QUICK * a)


def tanh_slope(a):
    """gelu_tanh'(-a) / sigmoid(-z), z = ALPHA a + BETA a^3."""
    return 1 - (ALPHA * a + 3 * BETA * a**3) * sigmoid(ALPHA * a + BETA * a**3)


def tanh_curvature(a):
    """gelu_tanh''(a) e^z."""
    z, slope = ALPHA * a + BETA * a**3, ALPHA + 3 * BETA * a * a
    return sigmoid(z) ** 2 * (2 * slope + 6 * BETA * a * a - a * slope**2 * mpmath.tanh(z / 2))


def mish_slope(x):
    """mish'(x)."""
    n = mpmath.exp(x)
    under = n * n + 2 * n + 2
    return n * ((n + 2) * under + 4 * x * (n + 1)) / under**2


def mish_curvature(x):
    """mish''(x)."""
    n = mpmath.exp(x)
    under = n * n + 2 * n + 2
    return 4 * n * (2 * (n + 1) * under + x * (((-2 * n - 3) * n + 2) * n + 2)) / under**3


def gelu_centred(x):
    """x Phi(x) less its mean over N(0, 1)."""
    return x * mpmath.ncdf(x) - 1 / (2 * mpmath.sqrt(mpmath.pi))


def gelu2(x):
    """(x Phi(x))^2."""
    return (x * mpmath.ncdf(x)) ** 2


def gelu2_slope(x):
    """gelu2'(x)."""
    cdf, pdf = mpmath.ncdf(x), mpmath.npdf(x)
    return 2 * x * cdf * (cdf + x * pdf)


def gelu2_curvature(x):
    """gelu2''(x) = 2 (gelu'^2 + gelu gelu'')."""
    cdf, pdf = mpmath.ncdf(x), mpmath.npdf(x)
    return 2 * ((cdf + x * pdf) ** 2 + x * cdf * (2 - x * x) * pdf)


def gelu2_tail(a):
    """gelu2''(-a) exp(a^2) over its root's distance and a."""
    return gelu2_curvature(-a) * mpmath.exp(a * a) / ((-GELU2_ROOT - a) * a)


def exponential_rest(r):
    """(e^r - 1 - r) / r^2."""
    return (mpmath.expm1(r) - r) / r**2 if r else mpf(1) / 2


def octave_rest(r, high):
    """(2^r - 1) / r - high, the first bits of ln 2."""
    return ((mpf(2) ** r - 1) / r if r else mpmath.log(2)) - high


def log_rest(p):
    """(-log(1 - p) - p) / p^2."""
    return (-mpmath.log1p(-p) - p) / p**2 if p else mpf(1) / 2


GELU2_ROOT = mpmath.findroot(gelu2_curvature, "-1.2093")
GELU_ROOT = mpmath.findroot(gelu_slope, "0.7518")
# name: function, a starting point for its root or else the point itself, the ends of the neighbourhood
EXPANSIONS = {
    "gelu_slope": (gelu_slope, "0.7518", None),
    "gelu_curvature": (lambda a: 2 - a * a, "1.4142", None),
    "gelu_centred": (gelu_centred, "0.44", ("0.125", "1.25")),
    "silu_slope": (silu_slope, "1.2785", ("0.75", "2")),
    "silu_curvature": (silu_curvature, "2.3994", ("1.125", "3.5")),
    "quick_gelu_slope": (quick_slope, "0.7511", ("0.25", "1.5")),
    "quick_gelu_curvature": (quick_curvature, "1.4097", ("0.6875", "2.5")),
    "gelu_tanh_slope": (tanh_slope, "0.7525", ("0.25", "3.5")),
    "gelu_tanh_curvature": (tanh_curvature, "1.4185", ("0.6875", "3.25")),
    "mish_slope": (mish_slope, "-1.1924", ("-2", "0.125")),
    "mish_curvature_left": (lambda x: mish_curvature(x) * mpmath.exp(-x), "-2.2564", ("-4", "-1.5")),
    "mish_curvature_middle": (mish_curvature, -0.5, ("-1.5", "0.6875")),
    "mish_curvature_right": (lambda x: mish_curvature(x) * mpmath.exp(2 * x), "1.4906", ("0.6875", "3")),
    "gelu2_left": (gelu2, -0.5, ("-0.875", "-0.3125")),
    "gelu2_middle": (lambda x: x * mpmath.ncdf(x) ** 2, 0.0, ("-0.3125", "0.75")),
    "gelu2_slope_left": (gelu2_slope, -0.4375, ("-0.5625", "-0.3125")),
    "gelu2_slope_middle": (gelu2_slope, 0.0, ("-0.3125", "0.75")),
    "gelu2_tail": (lambda a: gelu2_curvature(-a), "1.2093", None),
    "gelu2_curvature": (gelu2_curvature, "-0.2787", ("-0.8125", "0.25")),
}


def fit(function, low, high, tolerance, scale=None):
    """The shortest Chebyshev interpolant, highest power first; the error is relative to `scale` or the least value."""
    ends = [mpmath.mpf(low), mpmath.mpf(high)]
    scale = scale or min(abs(function(ends[0] + (ends[1] - ends[0]) * k / 16)) for k in range(17))
    for count in range(3, 60):
        coefficients, error = mpmath.chebyfit(function, ends, count, error=True)
        if error < tolerance * scale:
            return coefficients
    raise ValueError(f"{function} has no short polynomial")


def around(name, centre):
    """(f(centre + d) - f(centre)) / d as a function of d."""
    function = EXPANSIONS[name][0]
    there = function(centre)
    slope = lambda d: (function(centre + d) - there) / d
    return lambda d: slope(d) if abs(d) > mpf(10) ** -25 else mpmath.diff(function, centre)


def half_line(function, centre):
    """A function of t whose value at t = (a - centre) / (a + centre) is function(a)."""
    return lambda t: function(centre * (1 + t) / (1 - t))


def table(precision):
    """The numbers of one precision.

    centre: c of t = (a - c) / (a + c). polynomials: coefficients, highest power first. expansions: the root rounded,
    the rest of it, f there, and the middle and radius of the neighbourhood in which the expansion is used.
    """
    tolerance, centre = TOLERANCE[precision], CENTRE[precision]
    high = mpmath.nint(mpmath.log(2) * 2 ** HALF[precision]) / 2 ** HALF[precision]
    place = lambda a: (mpf(a) - centre) / (mpf(a) + centre)
    last = place(FAR[precision])
    first = place(INNER)
    ratio = lambda a: gelu_slope(a) / (GELU_ROOT - a)
    polynomials = {
        "exponential_rest": fit(exponential_rest, "-0.35", "0.35", tolerance * 8),
        "octave_rest": fit(lambda r: octave_rest(r, high), "-0.5001", "0.5001", tolerance * 2, mpf(1) / 4),
        "log_rest": fit(log_rest, 0, mpf(1) / 2, tolerance * 4),
        "half_normal": fit(cdf_rest, 0, INNER**2, tolerance * 4),
        "mills": fit(half_line(lambda a: a * mills(a), centre), first, last, tolerance),
        "mills_square": fit(half_line(lambda a: (a * mills(a)) ** 2, centre), first, last, tolerance),
        "gelu_slope": fit(half_line(ratio, centre), -1, last, tolerance),
        "gelu2_slope": fit(half_line(lambda a: a * mills(a) * ratio(a), centre), place("0.5"), last, tolerance),
        "gelu2_tail": fit(half_line(gelu2_tail, centre), place(TAIL), last, tolerance),
    }
    expansions = {}
    for name, (function, start, ends) in EXPANSIONS.items():
        point = mpmath.findroot(function, mpf(start)) if isinstance(start, str) else mpf(start)
        near = mpf(ROUND[precision](point))
        low, high = (mpf(end) for end in ends or (0, 0))
        numbers = (near, point - near, function(near), (low + high) / 2, (high - low) / 2)
        expansions[name] = [float(number) for number in numbers]
        if ends:
            polynomials[name] = fit(around(name, near), low - near, high - near, tolerance)
    rounded = {name: [ROUND[precision](c) for c in row] for name, row in polynomials.items()}
    return {"centre": float(centre), "expansions": expansions, "polynomials": rounded}


def table_of_16_bits():
    """For results that are rounded to 16 bits: gelu and its slope, as gaussian.py has them there."""
    tolerance, centre = mpf(2) ** -16, mpf("2.5")
    functions = {
        "gelu": lambda a: (a + centre) * mills(a),
        "gelu_slope": lambda a: gelu_slope(a) / (GELU_ROOT - a),
    }
    last = (16 - centre) / (16 + centre)
    rows = {name: fit(half_line(function, centre), -1, last, tolerance) for name, function in functions.items()}
    return {"centre": float(centre)} | {name: [ROUND["float32"](c) for c in row] for name, row in rows.items()}


def text(value, indent=""):
    """JSON in lines of at most 120 characters; Python writes floats so that they are read back exactly."""
    if isinstance(value, dict):
        rows = [f'{indent}  "{name}": {text(inner, indent + "  ")}' for name, inner in value.items()]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    if isinstance(value, list) and len(json.dumps(value)) > 100:
        wrapped = textwrap.fill(", ".join(map(json.dumps, value)), 118 - len(indent))
        return "[\n" + textwrap.indent(wrapped, f"{indent}  ") + f"\n{indent}]"
    return json.dumps(value)


def main():
    """Writes the file."""
    tables = {precision: table(precision) for precision in TOLERANCE}
    TABLE.write_text(text({**tables, "16 bits": table_of_16_bits()}) + "\n")


if __name__ == "__main__":
    main()
