"""f, f' and f'' of every entry against mpmath, in units in the last place (ULP): float32, float64, bfloat16.

f' and f'' come from autodiff. Numbers below the smallest normal may be flushed to 0 (XLA on CPU). No tolerance is
widened around the zeros of f' and f'', but for xielu and swish(beta), whose zeros depend on trained scalars, and for
functions of a scaled argument: there the error is counted in ULP of `floor` at least.
"""

import functools

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mpf

from actlab import activations

ORDERS = ("f", "f'", "f''")
LIMIT = 4.0
# Entries above 4 ULP somewhere: order of the derivative, what they reach.
WIDER = {
    ("gelu_tanh", 2): 5.0,
    ("gelu2", 1): 5.0,
    ("gelu2", 2): 5.0,
    ("quick_gelu", 2): 5.0,
    ("silu", 2): 4.5,
    ("swish", 2): 4.5,
    ("swish(beta=1.3)", 2): 4.5,
    ("mish", 2): 6.0,
}
# Counted in ULP of this at least, as said above.
FLOOR = {"xielu": 1.0, "swish(beta=1.3)": 1e-3, "quick_gelu": 1e-3, "gelu_scale(s=0.3)": 1e-3}


def sigmoid(x):
    return 1 / (1 + mpmath.exp(-x))


def _pieces(right, left):
    return lambda x: right(x) if x > 0 else left(x)


def _linear(slope):
    return lambda x: (slope * x, mpf(slope), mpf(0))


def _parabola(scale):
    return lambda x: (scale * x * x, 2 * scale * x, mpf(2 * scale))


def _between(low, high, inside):
    """A function of three pieces: constant, `inside` strictly between, then constant or the identity."""

    def formula(x):
        if low < x < high:
            return inside(x)
        return (inside(mpf(low) if x <= low else mpf(high))[0], mpf(0), mpf(0))

    return formula


def _hard_swish(x):
    if abs(x) < 3:
        return x * (x + 3) / 6, (2 * x + 3) / 6, mpf(1) / 3
    return (x, mpf(1), mpf(0)) if x > 0 else (mpf(0), mpf(0), mpf(0))


def _exponential(scale, alpha):
    def left(x):
        e = mpmath.exp(x / alpha)
        return scale * mpmath.expm1(x / alpha), scale / alpha * e, scale / alpha**2 * e

    return left


def _tanh(x):
    t, slope = mpmath.tanh(x), mpmath.sech(x) ** 2
    return t, slope, -2 * t * slope


def _sigmoid(x):
    s, slope = sigmoid(x), sigmoid(x) * sigmoid(-x)
    return s, slope, -slope * mpmath.tanh(x / 2)


def _softplus(x):
    e = mpmath.log1p(mpmath.exp(-abs(x)))
    return max(x, mpf(0)) + e, sigmoid(x), sigmoid(x) * sigmoid(-x)


def _softsign(x):
    a = 1 + abs(x)
    return x / a, 1 / a**2, -2 * mpmath.sign(x) / a**3


def _gelu(s):
    def formula(x):
        y = x / s
        cdf, pdf = mpmath.erfc(-y / mpmath.sqrt(2)) / 2, mpmath.npdf(y)
        return x * cdf, cdf + y * pdf, (2 - y * y) * pdf / s

    return formula


def _gelu2(x):
    f, slope, curvature = _gelu(1)(x)
    return f * f, 2 * f * slope, 2 * (slope**2 + f * curvature)


def _gated(x, z, dz, ddz):
    """x sigmoid(z)."""
    s, slope, curvature = _sigmoid(z)
    return x * s, s + x * dz * slope, 2 * dz * slope + x * (ddz * slope + dz**2 * curvature)


def _gelu_tanh(x):
    c, k = 2 * mpmath.sqrt(2 / mpmath.pi), mpf("0.044715")
    return _gated(x, c * (x + k * x**3), c * (1 + 3 * k * x * x), 6 * c * k * x)


def _mish(x):
    n = mpmath.exp(x)
    under = n * n + 2 * n + 2
    slope = (n + 2) * under + 4 * x * (n + 1)
    curvature = 2 * (n + 1) * under + x * (((-2 * n - 3) * n + 2) * n + 2)
    return x * n * (n + 2) / under, n * slope / under**2, 4 * n * curvature / under**3


def _xielu(x, dtype=np.float32):
    theta = activations.get("xielu").theta
    p, rest = (mpmath.log1p(mpmath.exp(mpf(float(dtype(theta[name]))))) for name in ("theta_p", "theta_n"))
    b, n = mpf(1) / 2, mpf(1) / 2 + rest
    if x > 0:
        return p * x * x + b * x, 2 * p * x + b, 2 * p
    return n * (mpmath.expm1(x) - x) + b * x, n * mpmath.expm1(x) + b, n * mpmath.exp(x)


_SELU = mpf("1.0507009873554804934193349852946"), mpf("1.6732632423543772848170429916717")
FORMULAS = {
    "identity": _linear(1),
    "relu": _pieces(_linear(1), _linear(0)),
    "leaky_relu": _pieces(_linear(1), _linear(mpf("0.01"))),
    "leaky_relu(slope=0.2)": _pieces(_linear(1), _linear(mpf("0.2"))),
    "prelu": _pieces(_linear(1), _linear(mpf("0.25"))),
    "relu6": _between(0, 6, _linear(1)),
    "relu2": _pieces(_parabola(1), _linear(0)),
    "leaky_relu2": _pieces(_parabola(1), _parabola(mpf("0.25"))),
    "hard_tanh": _between(-1, 1, _linear(1)),
    "hard_sigmoid": _between(-3, 3, lambda x: ((x + 3) / 6, mpf(1) / 6, mpf(0))),
    "hard_swish": _hard_swish,
    "tanh": _tanh,
    "penalized_tanh": _pieces(_tanh, lambda x: tuple(value / 4 for value in _tanh(x))),
    "sigmoid": _sigmoid,
    "softplus": _softplus,
    "softsign": _softsign,
    "elu": _pieces(_linear(1), _exponential(1, 1)),
    "elu(alpha=0.7)": _pieces(_linear(1), _exponential(mpf("0.7"), 1)),
    "celu": _pieces(_linear(1), _exponential(1, 1)),
    "celu(alpha=2)": _pieces(_linear(1), _exponential(2, 2)),
    "celu(alpha=0.3)": _pieces(_linear(1), _exponential(mpf("0.3"), mpf("0.3"))),
    "selu": _pieces(_linear(_SELU[0]), _exponential(_SELU[0] * _SELU[1], 1)),
    "xielu": _xielu,
    "gelu": _gelu(1),
    "gelu_scale": _gelu(1),
    "gelu_scale(s=0.3)": _gelu(mpf("0.3")),
    "gelu_scale(s=4)": _gelu(4),
    "gelu_tanh": _gelu_tanh,
    "quick_gelu": lambda x: _gated(x, mpf("1.702") * x, mpf("1.702"), 0),
    "gelu2": _gelu2,
    "silu": lambda x: _gated(x, x, 1, 0),
    "swish": lambda x: _gated(x, x, 1, 0),
    "swish(beta=1.3)": lambda x: _gated(x, mpf(float(np.float32(1.3))) * x, mpf(float(np.float32(1.3))), 0),
    "mish": _mish,
}
NOT_HERE = {"gelu_tanh_jax", "polynorm", "glu", "bilinear", "reglu", "geglu", "geglu_tanh", "swiglu", "drelu"}
ZEROS = (0.751791524694, 0.752461422071, 1.27846454276, 1.41421356237, 1.41850400879, 1.19243121452, 2.25637639636)
ZEROS += (1.49057117949, 2.39935728052, 1.2092501062839, 0.278737715912, 1.5)


def function_of(name):
    if name == "swish(beta=1.3)":
        return lambda x: activations.get("swish").fn(x, beta=np.float32(1.3).item())
    return activations.get(name).fn


@functools.cache
def compiled(name):
    """f, f' by reverse mode, f'' by forward over reverse mode."""
    f = function_of(name)
    slope = jax.grad(f)
    curvature = lambda x: jax.jvp(slope, (x,), (jnp.ones_like(x),))[1]  # noqa: E731
    return jax.jit(f), jax.jit(jax.vmap(slope)), jax.jit(jax.vmap(curvature))


def points(dtype, count):
    """A grid that hits no zero of a derivative, the floats around all of those, and every fourth exponent."""
    dense = np.concatenate([np.linspace(-20, 20, count), np.linspace(-3.003, 3.004, count)])
    exponents = [sign * 1.37 * 2.0**k for k in range(-122, 128, 4) for sign in (-1, 1)]
    zeros = np.array([sign * zero for zero in ZEROS for sign in (-1, 1)], dtype)
    around = [zero + np.spacing(zero) * k for zero in zeros for k in (-2, -1, 0, 1, 2)]
    around += [zero + offset for zero in zeros for offset in (-1e-3, 1e-5)]
    tails = np.linspace(-105, -8, count // 2)
    return np.concatenate([dense, exponents, around, tails, [0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 6.0]]).astype(dtype)


def exact(name, x):
    """Three lists of mpmath values."""
    with mpmath.workdps(60 if np.max(np.abs(x)) < 1e6 else 80):
        return list(zip(*(FORMULAS[name](mpf(float(value))) for value in x), strict=True))


def ulps(name, got, truth, smallest_normal):
    """Errors in ULP, infinite where a value that can be represented is missing; 0 where flushing excuses it."""
    got = np.asarray(got)
    info = np.finfo(got.dtype)
    errors = np.zeros(len(got))
    for index, (value, true) in enumerate(zip(got, truth, strict=True)):
        if abs(true) < smallest_normal:
            errors[index] = 0 if abs(float(value)) <= 4 * smallest_normal else np.inf
        elif abs(true) <= float(info.max):
            unit = np.spacing(np.abs(got.dtype.type(max(abs(true), FLOOR.get(name, 0)))))
            errors[index] = abs(mpf(float(value)) - true) / mpf(float(unit)) if np.isfinite(value) else np.inf
    return errors


def worst(name, x, dtype):
    """The largest error of f, f' and f'', each with its place."""
    # xielu and 0.2 x take a difference of numbers that are flushed first: a few binades of grace.
    smallest_normal = 4 * float(np.finfo(dtype).tiny)
    rows = [ulps(name, f(x), truth, smallest_normal) for f, truth in zip(compiled(name), exact(name, x), strict=True)]
    return [(row.max(), x[row.argmax()]) for row in rows]


def test_every_entry_has_a_formula_here():
    assert {name.split("(")[0] for name in FORMULAS} == set(activations.names()) - NOT_HERE


@pytest.mark.parametrize("name", FORMULAS)
def test_float32_is_accurate(name):
    for order, (error, place) in enumerate(worst(name, points(np.float32, 240), np.float32)):
        assert error <= WIDER.get((name, order), LIMIT), f"{ORDERS[order]} is {error:.1f} ULP off at {place!r}"


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMULAS)
def test_float32_is_accurate_at_many_points(name):
    x = np.random.default_rng(3).uniform(-20, 20, 40_000).astype(np.float32)
    for order, (error, place) in enumerate(worst(name, x, np.float32)):
        assert error <= WIDER.get((name, order), LIMIT) + 0.5, f"{ORDERS[order]} is {error:.1f} ULP off at {place!r}"


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.sampled_from(sorted(FORMULAS)), st.floats(-20, 20, width=32, allow_subnormal=False))
def test_float32_is_accurate_anywhere(name, x):
    for order, (error, _) in enumerate(worst(name, np.full(1, x, np.float32), np.float32)):
        assert error <= WIDER.get((name, order), LIMIT) + 0.5


@pytest.mark.parametrize("name", [name for name in FORMULAS if name not in ("xielu", "swish(beta=1.3)")])
def test_float64_is_accurate(name):
    with jax.enable_x64(True):
        for order, (error, place) in enumerate(worst(name, points(np.float64, 60), np.float64)):
            limit = 2 * WIDER.get((name, order), LIMIT)
            assert error <= limit, f"{ORDERS[order]} is {error:.1f} ULP off at {place!r}"


def finite_halves(dtype):
    every = np.arange(2**16, dtype=np.uint16).view(dtype)
    return every[np.isfinite(every.astype(np.float32))]


def order_of(values):
    """Floats of 16 bits as integers in the same order, so that neighbours differ by 1; both zeros are 0."""
    bits = np.asarray(values).view(np.int16).astype(np.int32)
    return np.where(bits < 0, -(bits & 0x7FFF), bits)


@pytest.mark.parametrize("name", [name for name in FORMULAS if name not in ("xielu", "swish(beta=1.3)")])
def test_all_bfloat16_are_within_one_ulp(name):
    """Against float64, which the test above holds against mpmath; flushed subnormals may be 0."""
    x = finite_halves(jnp.bfloat16)
    assert len(x) == 65_280
    halves = [np.asarray(f(x)) for f in compiled(name)]
    with jax.enable_x64(True):
        truths = [np.asarray(f(x.astype(np.float64))) for f in compiled(name)]
    for order, (got, truth) in enumerate(zip(halves, truths, strict=True)):
        with np.errstate(over="ignore"):
            error = np.abs(order_of(got) - order_of(truth.astype(jnp.bfloat16)))
        # Both ends of the range: results that are flushed or overflow, inputs whose half is flushed.
        counted = (np.abs(truth) >= 1.2e-38) & (np.abs(truth) < 3.38e38) & (np.abs(x.astype(np.float64)) >= 4.7e-38)
        assert np.all(np.isfinite(got[np.isfinite(truth) & (np.abs(truth) < 3.38e38)])), ORDERS[order]
        wrong = x[counted & (error > 1)]
        assert len(wrong) == 0, f"{ORDERS[order]} at {wrong[:5]}"


@pytest.mark.parametrize("name", FORMULAS)
def test_every_extreme_input_has_a_finite_answer_where_the_truth_has(name):
    tiny, largest = np.finfo(np.float32).tiny, np.finfo(np.float32).max
    x = np.array([0, tiny, tiny / 8, 1e-30, 1e7, 7e12, 1.8e19, 1e38, 3e38, largest], np.float32)
    x = np.concatenate([x, -x])
    for got, truth, order in zip(compiled(name), exact(name, x), ORDERS, strict=True):
        for value, true, place in zip(np.asarray(got(x)), truth, x, strict=True):
            assert abs(true) > largest or np.isfinite(value), f"{order} at {place}"


@pytest.mark.parametrize("name", FORMULAS)
def test_infinities_give_limits_and_nan_stays(name):
    f = function_of(name)
    right, left, nan = (float(f(jnp.float32(x))) for x in (np.inf, -np.inf, np.nan))
    with mpmath.workdps(60):
        for got, side in ((right, mpf(10) ** 6), (left, -(mpf(10) ** 6))):
            near = float(FORMULAS[name](side)[0])
            expected = np.sign(near) * np.inf if abs(near) > 1e3 else near
            assert got == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert np.isnan(nan)
