"""Interval arithmetic and the enclosed atoms contain the true values, which are exact fractions or mpmath's."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy.special
from hypothesis import example, given, strategies as st

from actlab.activations import polynomial, swish
from actlab.activations.proofs import intervals, jets
from actlab.activations.proofs.intervals import INTERVALS, Interval, at, enclose
from actlab.errors import UserError

ENDS = st.floats(allow_nan=False)
SHARE = st.floats(0, 1)


@pytest.fixture(autouse=True)
def overflow():
    with np.errstate(all="ignore"):
        yield


def interval(a, b):
    """The interval between two ends; never all of it at infinity."""
    low, high = min(a, b), max(a, b)
    largest = np.finfo(np.float64).max
    return Interval(np.float64(min(low, largest)), np.float64(max(high, -largest)))


def member(x, share):
    """A finite number of an interval."""
    low, high = (max(min(float(end), 1e308), -1e308) for end in (x.low, x.high))
    inside = low + (high - low) * share if math.isfinite(high - low) else (low, 0.0, high)[int(share * 2.99)]
    return Fraction(min(max(inside, float(x.low)), float(x.high)))


def contains(x, value):
    above = x.low == -math.inf or Fraction(float(x.low)) <= value
    return above and (x.high == math.inf or value <= Fraction(float(x.high)))


@given(ENDS, ENDS, SHARE, ENDS, ENDS, SHARE)
@example(0.0, 0.0, 0.0, -math.inf, math.inf, 1.0)
@example(0.0, 1.0, 0.0, 5e-324, math.inf, 1.0)
@example(-1.0, 0.1, 1.0, 0.1, 0.3, 1.0)
def test_operations_contain_the_true_results(a, b, share, c, d, other_share):
    x, y = interval(a, b), interval(c, d)
    p, q = member(x, share), member(y, other_share)
    assert contains(x + y, p + q) and contains(x - y, p - q) and contains(x * y, p * q) and contains(-x, -p)
    assert contains(x * 3, p * 3) and contains(1 + x, 1 + p)
    assert q == 0 or contains(x / y, p / q)
    for result in (x + y, x - y, x * y, x / y, x.power(3)):
        assert result.low <= result.high and result.low < math.inf and result.high > -math.inf


@given(st.floats(-1e100, 1e100), st.floats(-1e100, 1e100))
def test_operations_on_points_are_narrow(p, q):
    x, y = at(np.float64(p)), at(np.float64(q))
    for result, value in ((x + y, p + q), (x * y, p * q)):
        assert result.high - result.low <= 4 * np.spacing(abs(value)) + 1e-320


@given(st.floats(0, 1e300), st.floats(0, 1e300), st.floats(0, 1e300))
def test_signs_survive(a, b, c):
    x, y = interval(a, b), interval(0.0, c)
    assert (x * y).low >= 0 and (x * -y).high <= 0 and (x + y).low >= 0
    assert (y * at(np.float64(0))).high == (y * at(np.float64(0))).low == 0
    nothing = interval(0.0, 0.0) * interval(-a, b)
    assert nothing.low == nothing.high == 0
    assert interval(max(a, 1e-300), max(b, 1e-300)).reciprocal().low >= 0


def test_division_by_an_interval_around_0_knows_nothing():
    for low, high in ((-1.0, 1.0), (0.0, 1.0), (-1.0, 0.0)):
        result = interval(low, high).reciprocal()
        assert result.low == -math.inf and result.high == math.inf


@given(st.fractions())
@example(Fraction(1, 10))
@example(swish.QUICK_GELU_BETA)
def test_constants_are_enclosed(value):
    x = enclose(value)
    assert contains(x, value) and x.high - x.low <= 2 * np.spacing(float(abs(value)))


@pytest.mark.parametrize(
    ("given", "true"),
    [
        (swish.LINEAR, lambda: 2 * mpmath.sqrt(2 / mpmath.pi)),
        (polynomial.INVERSE_SQRT_15, lambda: 1 / mpmath.sqrt(15)),
        (polynomial.INVERSE_SQRT_3, lambda: 1 / mpmath.sqrt(3)),
        (jets.ONE_OVER_SQRT_2_PI, lambda: 1 / mpmath.sqrt(2 * mpmath.pi)),
        (intervals._INVERSE_SQRT_2, lambda: 1 / mpmath.sqrt(2)),
    ],
)
def test_irrational_constants_are_given_to_forty_digits(given, true):
    with mpmath.workdps(60):
        assert abs(mpmath.mpf(given.numerator) / given.denominator - true()) < 1e-38


ATOMS = {
    "e^-x": (lambda x, k: x**k * mpmath.exp(-x), lambda x, k: INTERVALS.decays(x, (Fraction(1),), [k])[k]),
    "e^-x^2/2": (
        lambda x, k: x**k * mpmath.exp(-x * x / 2),
        lambda x, k: INTERVALS.decays(x, (Fraction(0), Fraction(1, 2)), [k])[k],
    ),
    "gelu_tanh's": (
        lambda x, k: x**k / mpmath.exp(2 * mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3)),
        lambda x, k: INTERVALS.decays(x, swish.CUBIC_RATES, [k])[k],
    ),
    "Phi(-x)": (lambda x, k: x**k * mpmath.ncdf(-x), lambda x, k: INTERVALS.normal_tails(x, [k])[k]),
    "log1p": (lambda x, k: mpmath.log1p(x), lambda x, k: INTERVALS.log1p(x)),
}
SIZES = st.floats(-12, 2.5).map(lambda e: 10**e) | st.just(0.0) | st.floats(0, 6)


@pytest.mark.parametrize("name", ATOMS)
@given(SIZES, SIZES | st.just(math.inf), SHARE, st.integers(0, 5))
def test_atoms_contain_the_true_values(name, a, b, share, k):
    true, enclosed = ATOMS[name]
    low, high = min(a, b), max(a, b)
    box = Interval(np.float64(low), np.float64(high))
    with mpmath.workdps(30):
        for x in (low, low + (min(high, low + 50) - low) * share, min(high, 1e3)):
            value, result = true(mpmath.mpf(x), k), enclosed(box, k)
            assert mpmath.mpf(float(result.low)) <= value <= mpmath.mpf(float(result.high))


@pytest.mark.parametrize("name", ATOMS)
@given(SIZES, st.integers(0, 5))
def test_atoms_at_points_are_narrow(name, x, k):
    true, enclosed = ATOMS[name]
    result = enclosed(at(np.float64(x)), k)
    assert result.high - result.low <= 4e-12 * (1 + min(x, 40) ** 2) * result.high + 1e-300


def test_the_peak_is_enclosed_and_not_far_below():
    # x^2 e^-x has its maximum 4 / e^2 at 2, inside: neither end knows it.
    result = INTERVALS.decays(Interval(np.float64(1), np.float64(5)), (Fraction(1),), [2])[2]
    assert 4 / math.e**2 <= result.high <= 4 / math.e**2 * (1 + 1e-10)
    assert float(result.low) == pytest.approx(25 * math.exp(-5), rel=1e-12)


def test_a_negative_argument_is_refused():
    with pytest.raises(UserError, match="in terms of -x"):
        INTERVALS.decays(Interval(np.float64(-1), np.float64(1)), (Fraction(1),), [0])


def ulps(computed, true):
    return max(
        abs(float((mpmath.mpf(float(c)) - t) / np.spacing(float(t)))) for c, t in zip(computed, true, strict=True)
    )


def test_the_libraries_are_as_accurate_as_the_enclosures_trust():
    random = np.random.default_rng(0)
    x = np.concatenate([10 ** random.uniform(-10, 2.8, 500), random.uniform(0, 30, 500)])
    with mpmath.workdps(30):
        points = [mpmath.mpf(float(v)) for v in x]
        assert ulps(np.exp(-x), [mpmath.exp(-v) for v in points]) < intervals.EXP_ULP / 2
        assert ulps(np.log1p(x), [mpmath.log1p(v) for v in points]) < intervals.EXP_ULP / 2
        scaled = [mpmath.exp(v * v) * mpmath.erfc(v) for v in points]
        assert ulps(scipy.special.erfcx(x), scaled) < intervals.ERFCX_ULP / 4
