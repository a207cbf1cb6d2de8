"""Certified bounds: reference constants, mpmath's roots inside, closed forms at parameters, bad input."""

import dataclasses
import math
import re
from fractions import Fraction

import evaluated
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from actlab import activations, models
from actlab.activations.proofs.bounds import Enclosure
from actlab.activations.proofs.formulas import derivatives, exact_of
from actlab.activations.proofs.measured import measured_bounds
from actlab.config import ModelConfig
from actlab.errors import UserError

pytestmark = pytest.mark.optimized

INF = math.inf
RIGHT, LEFT, LINE = (0, INF), (-INF, 0), (-INF, INF)
# minimum, at, infimum of f', supremum of f', supremum of |f''|, at. A pair is the interval where it is taken;
# None: nowhere. mpmath at 30 digits, or closed forms.
REFERENCE = {
    "identity": (-INF, None, 1, 1, 0, LINE),
    "relu": (0, LEFT, 0, 1, 0, LINE),
    "leaky_relu": (-INF, None, 0.01, 1, 0, LINE),
    "prelu": (-INF, None, 0.25, 1, 0, LINE),
    "relu6": (0, LEFT, 0, 1, 0, LINE),
    "relu2": (0, LEFT, 0, INF, 2, RIGHT),
    "leaky_relu2": (0, 0, -INF, INF, 2, RIGHT),
    "hard_tanh": (-1, (-INF, -1), 0, 1, 0, LINE),
    "hard_sigmoid": (0, (-INF, -3), 0, 1 / 6, 0, LINE),
    "hard_swish": (-0.375, -1.5, -0.5, 1.5, 1 / 3, (-3, 3)),
    "tanh": (-1, None, 0, 1, 4 / (3 * 3**0.5), 0.658478948462),
    "penalized_tanh": (-0.25, None, 0, 1, 4 / (3 * 3**0.5), 0.658478948462),
    "sigmoid": (0, None, 0, 0.25, 3**0.5 / 18, 1.31695789692),
    "softplus": (0, None, 0, 1, 0.25, 0),
    "softsign": (-1, None, 0, 1, 2, 0),
    "elu": (-1, None, 0, 1, 1, 0),
    "celu": (-1, None, 0, 1, 1, 0),
    "selu": (-1.75809934085, None, 0, 1.75809934085, 1.75809934085, 0),
    "xielu": (-0.205751224096, -0.980829253012, -0.3, INF, 1.6, RIGHT),
    "gelu": (-0.169971207480, -0.751791524694, -0.128904145185, 1.12890414519, 0.797884560803, 0),
    "gelu_centred": (-0.452065999253, -0.751791524694, -0.128904145185, 1.12890414519, 0.797884560803, 0),
    "gelu_tanh": (-0.170040750571, -0.752461422071, -0.128993068659, 1.12899306866, 0.797884560803, 0),
    "quick_gelu": (-0.163610189636, -0.751154255441, -0.0998393201289, 1.09983932013, 0.851, 0),
    "silu": (-0.278464542761, -1.27846454276, -0.0998393201289, 1.09983932013, 0.5, 0),
    "mish": (-0.308843413017, -1.19243121452, -0.112526122389, 1.08849816125, 0.644204637237, -0.0879344313149),
    "gelu2": (0, 0, -0.0616202717978, INF, 2.76666009330, 1.07137687949),
    "polynorm": (-INF, None, 1 / 3 - 15**0.5 / 27, INF, INF, None),
}
SAME = {
    "gelu_scale": "gelu",
    "stochastic_gelu": "gelu",
    "gelu_tanh_jax": "gelu_tanh",
    "swish": "silu",
    "glu": "sigmoid",
    "bilinear": "identity",
    "reglu": "relu",
    "geglu": "gelu",
    "geglu_tanh": "gelu_tanh",
    "swiglu": "silu",
    "drelu": "relu",
}
# Where f' is least and greatest.
SLOPE_PLACES = {
    "gelu": (-(2**0.5), 2**0.5),
    "gelu_centred": (-(2**0.5), 2**0.5),
    "gelu_tanh": (-1.41850400879, 1.41850400879),
    "quick_gelu": (-1.40972813191, 1.40972813191),
    "silu": (-2.39935728052, 2.39935728052),
    "mish": (-2.25637639636, 1.49057117949),
    "hard_swish": (-3, 3),
    "gelu2": (-0.278737715912, None),
    "selu": (None, 0),
    "tanh": (None, 0),
    "relu": (LEFT, RIGHT),
    "relu6": ((6, INF), (0, 6)),
    "xielu": (None, None),
}
LIMITS = {
    "relu6": (0, 6),
    "gelu_centred": (-0.28209479177387814, INF),
    "hard_tanh": (-1, 1),
    "hard_sigmoid": (0, 1),
    "tanh": (-1, 1),
    "penalized_tanh": (-0.25, 1),
    "sigmoid": (0, 1),
    "glu": (0, 1),
    "softsign": (-1, 1),
    "elu": (-1, INF),
    "celu": (-1, INF),
    "selu": (-1.0507009873554805 * 1.6732632423543772, INF),
    "xielu": (INF, INF),
    "leaky_relu2": (INF, INF),
    **{name: (-INF, INF) for name in ("identity", "bilinear", "leaky_relu", "prelu", "polynorm")},
}
KINKS = {
    **{name: (0.0,) for name in ("relu", "leaky_relu", "prelu", "reglu", "drelu", "selu", "penalized_tanh")},
    "relu6": (0.0, 6.0),
    "hard_tanh": (-1.0, 1.0),
    "hard_sigmoid": (-3.0, 3.0),
    "hard_swish": (-3.0, 3.0),
}
NOT_MONOTONE = ("leaky_relu2", "hard_swish", "xielu", "gelu", "gelu_centred", "gelu_tanh", "quick_gelu", "silu", "mish")
NOT_MONOTONE += ("gelu2",)


def check_place(place, expected):
    if expected is None:
        assert place is None
    elif isinstance(expected, tuple):
        assert (place.low, place.high) == expected
    else:
        assert place.width <= 1e-6 and place.low - 1e-11 <= expected <= place.high + 1e-11


def check_value(enclosure, expected):
    if math.isinf(expected):
        assert enclosure.low == enclosure.high == expected == enclosure.value and enclosure.width == 0
    else:
        assert enclosure.low - 1e-11 <= expected <= enclosure.high + 1e-11
        assert 0 <= enclosure.width <= 1e-6 and enclosure.value == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("name", activations.names())
def test_bounds_are_the_reference(name):
    p = activations.properties(name)
    minimum, at, slope_low, slope_high, curvature, curved_at = REFERENCE[SAME.get(name, name)]
    check_value(p.minimum, minimum)
    check_place(p.minimum_at, at)
    check_value(p.slope_infimum, slope_low)
    check_value(p.slope_supremum, slope_high)
    check_value(p.lipschitz, max(abs(slope_low), abs(slope_high)))
    check_value(p.curvature_supremum, curvature)
    check_place(p.curvature_supremum_at, curved_at)


@pytest.mark.parametrize("name", activations.names())
def test_limits_kinks_and_monotony(name):
    p = activations.properties(name)
    assert (p.limit_left, p.limit_right) == pytest.approx(LIMITS.get(name, (0, INF)), abs=1e-15)
    assert p.kinks == KINKS.get(name, ())
    assert p.monotone is (SAME.get(name, name) not in NOT_MONOTONE)
    check_value(p.maximum, max(p.limit_left, p.limit_right))
    assert (p.maximum_at is None) == (name not in ("relu6", "hard_tanh", "hard_sigmoid"))


@pytest.mark.parametrize("name", SLOPE_PLACES)
def test_the_places_of_the_steepest_slopes(name):
    p = activations.properties(name)
    check_place(p.slope_infimum_at, SLOPE_PLACES[name][0])
    check_place(p.slope_supremum_at, SLOPE_PLACES[name][1])


mp = mpmath
SMOOTH = {
    "gelu": lambda x: x * mp.ncdf(x),
    "gelu_tanh": lambda x: x / 2 * (1 + mp.tanh(mp.sqrt(2 / mp.pi) * (x + mp.mpf("0.044715") * x**3))),
    "quick_gelu": lambda x: x / (1 + mp.exp(-mp.mpf("1.702") * x)),
    "silu": lambda x: x / (1 + mp.exp(-x)),
    "mish": lambda x: x * mp.tanh(mp.log1p(mp.exp(x))),
    "gelu2": lambda x: (x * mp.ncdf(x)) ** 2,
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "tanh": mp.tanh,
}


def holds(enclosure, value):
    return mp.mpf(enclosure.low) <= value <= mp.mpf(enclosure.high)


@pytest.mark.parametrize("name", SMOOTH)
def test_enclosures_hold_the_true_extrema_to_thirty_digits(name):
    f, p = SMOOTH[name], activations.properties(name)
    with mp.workdps(50):
        for order, value, place in (
            (0, p.minimum, p.minimum_at),
            (1, p.slope_infimum, p.slope_infimum_at),
            (1, p.slope_supremum, p.slope_supremum_at),
            (2, p.curvature_supremum, p.curvature_supremum_at),
        ):
            # At 0, where gelu2 has its minimum and others their greatest curvature, findroot stops short of it.
            if place is not None and math.isfinite(value.value):
                g = lambda x, order=order: mp.diff(f, x, order)
                peak = mp.findroot(
                    lambda x, order=order: mp.diff(f, x, order + 1), place.value, tol=1e-25, verify=False
                )
                peak = mp.mpf(0) if abs(peak) < 1e-15 else peak
                assert holds(place, peak)
                assert holds(value, abs(g(peak)) if order == 2 else g(peak))


@settings(max_examples=4)
@given(st.floats(-6, 6).map(lambda e: 10**e))
def test_gelu_scale_scales(s):
    p = activations.properties(f"gelu_scale(s={s!r})")
    with mp.workdps(40):
        place = mp.findroot(lambda x: mp.ncdf(x) + x * mp.npdf(x), -0.75)
        assert holds(p.minimum, s * place * mp.ncdf(place)) and holds(p.minimum_at, s * place)
        curvature = mp.sqrt(2 / mp.pi) / s
        assert holds(p.curvature_supremum, curvature) and holds(p.curvature_supremum_at, 0)
        assert holds(p.lipschitz, (1 + mp.erf(1)) / 2 + mp.exp(-1) / mp.sqrt(mp.pi))
        assert p.curvature_supremum.width <= 1e-6 * max(1, curvature) and p.minimum.width <= 1e-6 * max(1, s)


ALPHA = st.floats(-6, 6).map(lambda e: 10**e)


@settings(max_examples=4)
@given(ALPHA)
def test_exponential_units_at_any_alpha(alpha):
    p = activations.properties(f"celu(alpha={alpha!r})")
    with mp.workdps(40):
        assert holds(p.minimum, -mp.mpf(alpha)) and p.minimum_at is None
        assert holds(p.curvature_supremum, 1 / mp.mpf(alpha)) and holds(p.lipschitz, 1) and p.kinks == ()
    p = activations.properties(f"elu(alpha={alpha!r})")
    assert holds(p.minimum, -alpha) and holds(p.lipschitz, max(1, alpha)) and holds(p.curvature_supremum, alpha)
    # A jump of a few units in the last place is not told from none.
    assert p.monotone and (abs(alpha - 1) < 1e-13 or p.kinks == (0.0,)) and p.limit_left == pytest.approx(-alpha)


@settings(max_examples=4)
@given(st.floats(-1e6, 1e6))
def test_leaky_ones_at_any_slope(slope):
    p = activations.properties(f"leaky_relu(slope={slope!r})")
    assert (p.slope_infimum.value, p.slope_supremum.value) == (min(slope, 1), max(slope, 1))
    assert p.lipschitz.value == max(abs(slope), 1) and p.monotone is (slope >= 0)
    assert p.kinks == (() if slope == 1 else (0.0,))
    assert p.limit_left == (0 if slope == 0 else math.copysign(INF, -slope))
    p = activations.properties(f"penalized_tanh(slope={slope!r})")
    assert holds(p.minimum, min(-slope, 0)) and p.maximum.value == pytest.approx(max(1, -slope))
    assert holds(p.curvature_supremum, 4 / (3 * mp.sqrt(3)) * max(1, abs(mp.mpf(slope))))


# polynorm's limit of many features is compared in test_moments.py.
def test_the_exact_formula_is_the_function():
    x = np.sort(np.concatenate([np.linspace(-9.03, 9.01, 200), [-60.0, 60.0]]).astype(np.float32))
    rows = evaluated.evaluate(x)
    for name in (*evaluated.NAMES, *evaluated.WITH_PARAMETERS):
        exact = exact_of(activations.get(name), 1.0)
        assert exact is not None
        for measured, row in zip(rows[name], derivatives(exact, x.astype(np.float64)), strict=True):
            # jax.nn.gelu(approximate=True) cancels on the left.
            atol = 3e-5 if name == "gelu_tanh_jax" else 1e-7
            np.testing.assert_allclose(measured, row, rtol=2e-6, atol=atol, err_msg=name)


@pytest.mark.parametrize("name", ["mish", "gelu2", "xielu", "hard_swish", "softsign"])
def test_no_sample_is_outside_the_bounds(name):
    exact = exact_of(activations.get(name), 1.0)
    assert exact is not None
    p = activations.properties(name)
    x = np.sort(np.concatenate([np.linspace(-50, 50, 20_001), np.linspace(-3, 3, 20_001)]))
    f, slope, curvature = derivatives(exact, x)
    assert p.minimum.low <= f.min() and f.max() <= p.maximum.high
    assert p.slope_infimum.low - 1e-15 <= slope.min() and slope.max() <= p.slope_supremum.high + 1e-15
    assert np.abs(curvature).max() <= p.curvature_supremum.high + 1e-14


def test_scale_moves_moments_and_leaves_bounds():
    near, far = activations.properties("silu", 0.1), activations.properties("silu", 10)
    assert near.minimum == far.minimum and near.forward_gain > far.forward_gain
    assert near.forward_gain == activations.moments("silu", 0.1).forward_gain
    narrow, wide = activations.properties("polynorm", 0.5), activations.properties("polynorm", 2)
    assert narrow.slope_infimum.value == pytest.approx(4 * wide.slope_infimum.value)
    with pytest.raises(dataclasses.FrozenInstanceError):
        near.scale = 1.0


def test_a_users_formula_gives_certified_bounds(register):
    register(
        "bent",
        activations.elementwise(lambda x, slope=0.5: x + slope * jnp.abs(x)),
        parameters={"slope": 0.5},
        exact=lambda slope: activations.halves(lambda x: x - x * slope, lambda x: x + x * slope),
    )
    p = activations.properties("bent(slope=2)", 3)
    assert (p.slope_infimum.value, p.slope_supremum.value, p.kinks) == (-1, 3, (0.0,))
    assert p.minimum_at is not None and holds(p.minimum_at, 0) and p.second_moment == pytest.approx(9 * 5, rel=1e-12)
    # x e^(-|x| / 2), whose slope 1 - |x| / 2 vanishes at 2.
    half = lambda x: activations.decaying(x * 0.5, 1) * 2
    register(
        "wave", lambda x: x * jnp.exp(-jnp.abs(x) / 2), exact=lambda: activations.halves(lambda x: -half(-x), half)
    )
    p = activations.properties("wave")
    assert holds(p.maximum, 2 / mp.e) and holds(p.maximum_at, 2) and holds(p.minimum_at, -2)
    assert (p.limit_left, p.limit_right, p.monotone) == (0, 0, False)


def test_a_minimum_between_two_boxes_is_found(register):
    # 1/64 is an end of boxes that are cut on the way: its slope is monotone on either side.
    shifted = lambda x: (x - 1 / 64) * (x - 1 / 64)
    register("parabola", shifted, exact=lambda: activations.whole(shifted))
    p = activations.properties("parabola")
    assert (p.minimum_at.low, p.minimum_at.high) == (1 / 64, 1 / 64) and holds(p.minimum, 0) and p.minimum.width < 1e-12


def test_a_loose_tail_is_followed_until_it_decides(register):
    # x / (1 + |x|)^2 for x >= 0, written so that its enclosure on [32, infinity] reaches below 0.
    def right(x):
        r = 1 / (1 + x)
        return r - r * r

    register(
        "hump",
        lambda x: jnp.abs(x) / (1 + jnp.abs(x)) ** 2,
        exact=lambda: activations.halves(lambda x: right(-x), right),
    )
    p = activations.properties("hump")
    assert holds(p.minimum, 0) and p.minimum.width <= 1e-8 and holds(p.maximum, 0.25) and holds(p.maximum_at, 1)


def test_what_cannot_be_certified_is_told(register):
    register("whole", lambda x: x / jnp.sum(x), elementwise=False)
    with pytest.raises(UserError, match="'whole' is not elementwise: give its record an exact formula"):
        activations.properties("whole")
    register("wrong", lambda x: x * 2, exact=lambda: activations.whole(lambda x: x * 2.001))
    for compute in (activations.properties, activations.moments):
        with pytest.raises(UserError, match="'wrong' differs from its function by 0.008 at -8"):
            compute("wrong")
    # x times e^-x as two factors has no enclosure on a tail.
    right = lambda x: x * activations.decaying(x)
    register("open", lambda x: x * jnp.exp(-jnp.abs(x)), exact=lambda: activations.halves(lambda x: -right(-x), right))
    with pytest.raises(UserError, match="cannot be enclosed"):
        activations.properties("open")


def test_a_users_formula_serves_an_initialiser_which_is_traced(register):
    register(
        "tilted",
        activations.elementwise(lambda x: x + 0.3 * jnp.abs(x)),
        exact=lambda: activations.halves(lambda x: x * 0.7, lambda x: x * 1.3),
    )
    fields = {"n_layers": 1, "d_model": 16, "n_heads": 2, "context": 8, "vocab_size": 16}
    for init in ("gain", "fan_in"):
        model = models.build(ModelConfig(activation="tilted", init=init, **fields), jnp.float32)
        assert jax.jit(model.init)(jax.random.key(0))


@pytest.mark.parametrize(
    ("fn", "exact", "told"),
    [
        # It holds as far as 8 and not beyond.
        (lambda x: jnp.clip(x, 0, 20), lambda: activations.halves(lambda x: 0.0, lambda x: x), "by 1.3e+05 at 131072"),
        (lambda x: x * x, lambda: activations.whole(lambda x: x**2), "fails with TypeError"),
        (lambda x: x * x, lambda: activations.whole(jnp.square), "fails with TypeError"),
        (
            lambda x: x * x,
            lambda: activations.Piecewise((activations.Piece(0, math.inf, lambda x: x * x),)),
            "do not cover the line",
        ),
        (
            lambda x: x,
            lambda: activations.Piecewise(
                (activations.Piece(-math.inf, 1, lambda x: x), activations.Piece(0, math.inf, lambda x: x))
            ),
            "do not cover the line",
        ),
        (
            lambda x: 1 / (1 + jnp.exp(x)),
            lambda: activations.whole(lambda x: 1 / (1 + activations.decaying(x, rates=(Fraction(-1),)))),
            "a rate below 0",
        ),
    ],
)
def test_a_formula_that_fails_is_told(register, fn, exact, told):
    register("broken", fn, exact=exact)
    with pytest.raises(UserError, match=re.escape(told)):
        activations.properties("broken")


def test_a_formula_may_be_constant_and_its_function_may_jump(register):
    steps = lambda: activations.halves(lambda x: 0.0, lambda x: 1.0)
    register("steps", lambda x: jnp.where(x > 0, 1.0, 0.0), exact=steps)
    p = activations.properties("steps")
    assert (p.limit_left, p.limit_right, p.slope_supremum.high) == (0, 1, 0) and p.mean == pytest.approx(0.5)


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("slope", [1, -1])
@pytest.mark.parametrize("exact", [True, False])
def test_a_function_that_jumps_has_no_lipschitz_constant(register, slope, step, exact):
    formula = lambda: activations.halves(lambda x: x * slope, lambda x: x * slope + step)
    register("jump", lambda x: slope * x + jnp.where(x > 0, step, 0), exact=formula if exact else None)
    p = activations.properties("jump")
    assert p.proven is exact and p.lipschitz.value == INF and p.monotone is (step == slope)
    assert holds(p.slope_supremum, slope) and p.kinks == ()


def test_a_function_that_is_another_at_one_point_jumps_up_and_down(register):
    register("peak", lambda x: jnp.where(x == 0, 1.0, x))
    p = activations.properties("peak")
    assert p.lipschitz.value == INF and p.monotone is False


def test_a_function_of_a_vector_that_counts_as_elementwise_is_refused(register):
    register("shares", activations.elementwise(jax.nn.softmax))
    for compute in (activations.properties, activations.moments, lambda name: measured_bounds(activations.get(name))):
        with pytest.raises(UserError, match="'shares' is not elementwise"):
            compute("shares")


def test_a_function_that_ends_has_no_limit_there(register):
    register("ending", lambda x: jnp.sqrt(x + 20))
    p = measured_bounds(activations.get("ending"))
    assert p.minimum.value == 0 and math.isnan(p.limit_left) and p.limit_right == math.inf


# A smooth one, kinks of the slope and of the curvature, flat parts, limits, and values that grow without end.
@pytest.mark.parametrize("name", ["gelu", "relu6", "hard_swish", "softsign", "leaky_relu2", "silu", "tanh"])
def test_what_is_measured_is_what_is_proven(name):
    proven, measured = activations.properties(name), measured_bounds(activations.get(name))
    assert proven.proven and not proven.sampled and not measured.proven
    for field in dataclasses.fields(measured):
        one, other = getattr(proven, field.name), getattr(measured, field.name)
        if isinstance(one, Enclosure):
            found, true = (other.low, other.high), (one.low, one.high)
            assert found == pytest.approx(true, rel=1e-4, abs=5e-3 if field.name.endswith("_at") else 1e-5), field.name
        elif field.name != "proven":
            # softsign is 1e-5 from its limit where the grid ends.
            assert other == (pytest.approx(one, abs=2e-5) if isinstance(one, float) else one), field.name


@pytest.mark.parametrize("unit", [1e-6, 0.01, 1.0, 1e6])
def test_what_is_measured_does_not_depend_on_the_unit(register, unit):
    register("bent", lambda x: unit * jnp.clip(x, -1, 1))
    register("smooth", lambda x: unit * jnp.tanh(x / 3))
    bent, smooth = (measured_bounds(activations.get(name)) for name in ("bent", "smooth"))
    assert bent.kinks == (-1, 1) and (bent.minimum_at.high, bent.maximum_at.low) == (-1, 1)
    assert smooth.kinks == () and smooth.slope_supremum_at.value == pytest.approx(0, abs=0.1)
    assert (smooth.minimum_at, smooth.maximum_at) == (None, None)


def test_without_a_formula_properties_are_measured_and_say_so(register):
    # x e^(-|x| / 2), which is odd, has its maximum at 2 and its steepest slope, 1, at 0.
    register("ripple", lambda x: x * jnp.exp(-jnp.abs(x) / 2))
    p = activations.properties("ripple", 0.5)
    assert not p.proven and p.sampled
    assert p.maximum.value == pytest.approx(2 / math.e, rel=1e-5) and p.maximum_at.value == pytest.approx(2, abs=5e-3)
    assert p.slope_supremum.value == pytest.approx(1, abs=1e-4) and p.slope_supremum_at.value == pytest.approx(
        0, abs=5e-3
    )
    assert (p.limit_left, p.limit_right, p.monotone, p.kinks) == (0, 0, False, ())
    assert p.scale == 0.5 and p.mean == pytest.approx(0, abs=1e-6)


def test_what_is_measured_where_values_end_or_do_not_settle(register):
    register("endless", lambda x: jnp.exp(x))  # overflows at 88
    p = activations.properties("endless", 0.1)
    assert (p.limit_left, p.limit_right) == (0, INF) and p.maximum.value == p.lipschitz.value == INF
    assert p.minimum.value == 0 and p.minimum_at is None and p.monotone
    register("endless_wave", jnp.sin)
    p = activations.properties("endless_wave")
    assert math.isnan(p.limit_left) and p.minimum.value == pytest.approx(-1) and abs(p.minimum_at.value) < 32
    # Cancels on the left: its values there scatter about the limit, which they do not take.
    register("scattered", lambda x: x * jnp.arctan2(1.0, -x) / jnp.pi)
    p = activations.properties("scattered")
    assert p.minimum.value == pytest.approx(-1 / math.pi, rel=1e-5) and p.minimum_at is None
    register("kinked", lambda x: jnp.abs(x - 0.3) + jnp.maximum(x, -1 / 3))
    assert activations.properties("kinked").kinks == pytest.approx((-1 / 3, 0.3), abs=2e-5)


def test_a_cube_cannot_be_told_monotone(register):
    register(
        "cube", lambda x: (x - 0.3) ** 3, exact=lambda: activations.whole(lambda x: (x - 0.3) * (x - 0.3) * (x - 0.3))
    )
    p = activations.properties("cube")
    assert p.monotone is None and holds(p.slope_infimum, 0) and p.slope_infimum.width < 1e-20


@pytest.mark.parametrize("scale", [math.nan, math.inf, 0, -1.0, "1", None, True])
def test_a_wrong_scale_gets_one_sentence(scale):
    with pytest.raises(UserError, match="scale="):
        activations.properties("gelu", scale)


def test_a_wrong_name_gets_one_sentence():
    with pytest.raises(UserError, match="did you mean 'gelu'"):
        activations.properties("gleu")
