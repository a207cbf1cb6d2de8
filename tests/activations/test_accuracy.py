"""f, f' and f'' of every entry in every dtype, in units in the last place (ULP); f' and f'' come from autodiff.

mpmath checks float64 at some hundred points; float64 then checks float32 at many points and float16 and bfloat16 at all
of theirs. Numbers below the smallest normal may be flushed to 0 (XLA on CPU). No tolerance is widened around the zeros
of f' and f'', except for those that depend on trained or given numbers: there the error is counted in ULP of `FLOOR`.
"""

import functools

import evaluated
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from mpmath import mpf

from actlab import activations

pytestmark = pytest.mark.optimized

ORDERS = ("f", "f'", "f''")
LIMIT = 4.0
# Entries above 4 ULP somewhere: order of the derivative, what they reach.
WIDER = {("gelu_tanh", 1): 4.5, ("gelu_tanh", 2): 4.5}
# Counted in ULP of this at least, as said above.
FLOOR = {"xielu": 1.0, "swish(beta=1.3)": 1e-6, "swish(beta=-0.7)": 1e-6, "gelu_scale(s=0.3)": 1e-6}


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


def _gelu_centred(x):
    f, *derivatives = _gelu(1)(x)
    return f - 1 / (2 * mpmath.sqrt(mpmath.pi)), *derivatives


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


def _xielu(x):
    p, rest = (mpmath.log1p(mpmath.exp(mpf(evaluated.THETA["xielu"][name]))) for name in ("theta_p", "theta_n"))
    b, n = mpf(1) / 2, mpf(1) / 2 + rest
    if x > 0:
        return p * x * x + b * x, 2 * p * x + b, 2 * p
    return n * (mpmath.expm1(x) - x) + b * x, n * mpmath.expm1(x) + b, n * mpmath.exp(x)


def _swish(name):
    beta = mpf(evaluated.THETA[name]["beta"])
    return lambda x: _gated(x, beta * x, beta, 0)


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
    "gelu_centred": _gelu_centred,
    "silu": lambda x: _gated(x, x, 1, 0),
    "swish": lambda x: _gated(x, x, 1, 0),
    **{name: _swish(name) for name in ("swish(beta=1.3)", "swish(beta=-0.7)")},
    "mish": _mish,
}
NOT_HERE = {"gelu_tanh_jax", "polynorm", "glu", "bilinear", "reglu", "geglu", "geglu_tanh", "swiglu", "drelu"}
NOT_HERE |= {"stochastic_gelu"}  # evaluated by the function of gelu
ZEROS = (0.751791524694, 0.752461422071, 1.27846454276, 1.41421356237, 1.41850400879, 1.19243121452, 2.25637639636)
ZEROS += (1.49057117949, 2.39935728052, 1.2092501062839, 0.278737715912, 1.5, 0.424569883844)


def few_points(dtype, count=40):
    """A grid that hits no zero of a derivative, the floats around all of those, and every fourth exponent."""
    dense = np.concatenate([np.linspace(-20, 20, count), np.linspace(-3.003, 3.004, count)])
    exponents = [sign * 1.37 * 2.0**k for k in range(-122, 128, 4) for sign in (-1, 1)]
    zeros = np.array([sign * zero for zero in ZEROS for sign in (-1, 1)], dtype)
    around = [zero + np.spacing(zero) * k for zero in zeros for k in (-1, 0, 1)]
    around += [zero + offset for zero in zeros for offset in (-1e-3, 1e-5)]
    tails = np.linspace(-105, -8, count // 2)
    return np.concatenate([dense, exponents, around, tails, [0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 6.0]]).astype(dtype)


def many_points():
    """float32: uniform, of any bits, near zeros of derivatives and near the ends of pieces."""
    random = np.random.default_rng(3)
    bits = random.integers(0, 2**32, 20_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    ends = [
        sign * end for end in (*ZEROS, 0.98347, 1.84566, 0.25, 0.5, 0.625, 0.75, 1.125, 2, 2.5, 3.5) for sign in (-1, 1)
    ]
    near = np.ravel(np.array(ends)[:, None] + random.normal(size=300) * 10.0 ** random.uniform(-8, -1, 300))
    uniform = [random.uniform(-20, 20, 30_000), random.uniform(-3.2, 3.2, 30_000), random.uniform(-105, -8, 10_000)]
    usual = np.concatenate([*uniform, near]).astype(np.float32)
    return np.concatenate([usual, bits[np.isfinite(bits) & (np.abs(bits) >= np.finfo(np.float32).tiny)]])


def halves(dtype):
    """All 16-bit numbers: first the finite ones, then the infinities and a NaN."""
    every = np.arange(2**16, dtype=np.uint16).view(dtype)
    return np.concatenate([every[np.isfinite(every.astype(np.float32))], np.array(SPECIAL, dtype)])


def extremes():
    """Zeros, the smallest and the largest numbers of float32."""
    tiny, largest = np.finfo(np.float32).tiny, np.finfo(np.float32).max
    x = np.array([0, tiny, tiny / 8, 1e-45, 1e-30, 1e7, 7e12, 1.8e19, 1e38, 3e38, largest], np.float32)
    return np.concatenate([x, -x])


SPECIAL = (np.inf, -np.inf, np.nan)
EXTREMES = extremes()
INPUTS = {
    "float64": few_points(np.float64),
    "float32": np.concatenate([few_points(np.float32), many_points(), EXTREMES, SPECIAL]).astype(np.float32),
    "bfloat16": halves(jnp.bfloat16),
    "float16": halves(np.float16),
}


@functools.cache
def computed(dtype):
    """f, f' and f'' at the inputs of a dtype, by name."""
    return evaluated.evaluate(INPUTS[dtype])


@functools.cache
def truth(dtype):
    """The same in float64, which test_float64_is_accurate compares with mpmath."""
    return evaluated.evaluate(INPUTS[dtype].astype(np.float64))


def exact(name, x):
    """Three lists of mpmath values."""
    with mpmath.workdps(60 if np.max(np.abs(x)) < 1e6 else 80):
        return list(zip(*(FORMULAS[name](mpf(float(value))) for value in x), strict=True))


def ulps(name, got, off, size):
    """Errors in ULP, infinite where a value that can be represented is missing; 0 where flushing excuses it.

    `off` are the errors and `size` the absolute values of the truth, in float64.
    """
    info = np.finfo(got.dtype)
    # xielu and 0.2 x take a difference of numbers that are flushed first: a few binades of grace.
    smallest_normal = 4 * float(info.tiny)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        unit = np.spacing(np.maximum(size, FLOOR.get(name, 0)).astype(got.dtype)).astype(np.float64)
        flushed = np.where(np.abs(got) <= smallest_normal, 0, np.inf)
        errors = np.where(size < smallest_normal, flushed, np.abs(off) / unit)
    return np.where(size > float(info.max), 0, np.where(np.isfinite(got), errors, np.inf))


def assert_close(name, order, x, errors):
    worst = errors.argmax()
    limit = WIDER.get((name, order), LIMIT)
    assert errors[worst] <= limit, f"{ORDERS[order]} is {errors[worst]:.1f} ULP off at {x[worst]!r}"


def test_every_entry_has_a_formula_here():
    assert {name.split("(")[0] for name in FORMULAS} == set(activations.names()) - NOT_HERE


@pytest.mark.parametrize("name", FORMULAS)
def test_float64_is_accurate(name):
    x = INPUTS["float64"]
    for order, (got, true) in enumerate(zip(computed("float64")[name], exact(name, x), strict=True)):
        off = np.array([float(mpf(float(a)) - b) for a, b in zip(got, true, strict=True)])
        assert_close(name, order, x, ulps(name, got, off, np.abs(np.array([float(b) for b in true]))))


@pytest.mark.parametrize("name", FORMULAS)
def test_float32_is_accurate(name):
    x = INPUTS["float32"][: -len(EXTREMES) - len(SPECIAL)]
    for order, (got, true) in enumerate(zip(computed("float32")[name], truth("float32")[name], strict=True)):
        got, true = got[: len(x)], true[: len(x)]
        with np.errstate(over="ignore", invalid="ignore"):
            off = got.astype(np.float64) - true
        assert_close(name, order, x, ulps(name, got, off, np.abs(true)))


def order_of(values):
    """Floats of 16 bits as integers in the same order, so that neighbours differ by 1; both zeros are 0."""
    bits = np.asarray(values).view(np.int16).astype(np.int32)
    return np.where(bits < 0, -(bits & 0x7FFF), bits)


# Both ends of float32's range: results that are flushed or overflow, inputs whose half is flushed.
# float16 has none of it: computed in float32, all its numbers are normal.
ENDS = {"bfloat16": (1.2e-38, 3.38e38, 4.7e-38), "float16": (0.0, 65_504.0, 0.0)}


@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FORMULAS)
def test_all_numbers_of_16_bits_are_within_one_ulp(name, dtype):
    x = INPUTS[dtype][: -len(SPECIAL)]
    assert len(x) == {"bfloat16": 65_280, "float16": 63_488}[dtype]
    smallest, largest, smallest_input = ENDS[dtype]
    for order, (got, true) in enumerate(zip(computed(dtype)[name], truth(dtype)[name], strict=True)):
        got, true = got[: len(x)], true[: len(x)]
        assert got.dtype == x.dtype
        with np.errstate(over="ignore"):
            error = np.abs(order_of(got) - order_of(true.astype(got.dtype)))
        representable = np.abs(true) <= largest
        assert np.all(np.isfinite(got[representable])), ORDERS[order]
        counted = representable & (np.abs(true) >= smallest) & (np.abs(x.astype(np.float64)) >= smallest_input)
        wrong = x[counted & (error > 1)]
        assert len(wrong) == 0, f"{ORDERS[order]} at {wrong[:5]}"


@pytest.mark.parametrize("name", FORMULAS)
def test_extreme_inputs_have_finite_answers_where_the_truth_has_infinities_limits_and_nan_stays(name):
    ends = slice(-len(EXTREMES) - len(SPECIAL), -len(SPECIAL))
    rows = computed("float32")[name]
    for row, true, order in zip(rows, exact(name, EXTREMES), ORDERS, strict=True):
        for value, exactly, place in zip(row[ends], true, EXTREMES, strict=True):
            assert abs(exactly) > np.finfo(np.float32).max or np.isfinite(value), f"{order} at {place}"
    right, left, nan = rows[0][-len(SPECIAL) :]
    with mpmath.workdps(60):
        for got, side in ((right, mpf(10) ** 6), (left, -(mpf(10) ** 6))):
            near = float(FORMULAS[name](side)[0])
            expected = np.sign(near) * np.inf if abs(near) > 1e3 else near
            assert got == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert np.isnan(nan)


@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float16", marks=pytest.mark.slow)])
def test_infinities_and_nan_of_16_bits(dtype):
    for name in FORMULAS:
        half, single = (computed(kind)[name][0][-len(SPECIAL) :] for kind in (dtype, "float32"))
        np.testing.assert_array_equal(
            half.astype(np.float32), single.astype(half.dtype).astype(np.float32), err_msg=name
        )


def test_gelu_of_bfloat16_is_half_of_the_smallest_numbers():
    x = INPUTS["bfloat16"][: -len(SPECIAL)]
    half = x.astype(np.float64) / 2
    smallest = (np.abs(half) < 2.5e-38) & (np.abs(half) > 6e-39)
    got = np.asarray(activations.get("gelu").fn(x), np.float64)
    flushed = (got == 0) & (np.abs(half) < 1.2e-38)
    assert np.count_nonzero(smallest & ~flushed) > 200
    assert np.all((flushed | (np.abs(got - half) <= 2**-8 * np.abs(half)))[smallest])


def test_gelu_of_16_bits_takes_less_than_half_of_the_operations_of_float32():
    def operations(dtype):
        lowered = jax.jit(activations.get("gelu").fn).lower(jax.ShapeDtypeStruct((1024,), dtype))
        return lowered.compile().cost_analysis()["flops"]

    assert max(operations(jnp.bfloat16), operations(np.float16)) < operations(np.float32) / 2
