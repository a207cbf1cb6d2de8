"""Gaussian moments and gains: reference constants, mpmath's quadrature, closed forms, bad input."""

import math

import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from actlab import activations
from actlab.errors import UserError

pytestmark = pytest.mark.optimized

FIELDS = (
    "mean",
    "second_moment",
    "slope_mean",
    "slope_second_moment",
    "curvature_second_moment",
    "kurtosis",
)
# Computed with mpmath at 30 digits, scale 1, in the order of FIELDS.
AT_SCALE_1 = """
relu 0.398942280401 0.5 0.5 0.5 0.0 5.4076392416
leaky_relu 0.394952857597 0.50005 0.505 0.50005 0.0 5.35997596855
relu2 0.5 1.5 0.797884560803 2.0 2.0 25.32
leaky_relu2 0.625 1.59375 0.598413420602 2.125 2.125 25.5194805195
tanh 0.0 0.394294490398 0.605705509602 0.464402902448 0.300203812004 1.62729080601
hard_tanh 0.0 0.516058550962 0.682689492137 0.682689492137 0.0 1.61316818235
sigmoid 0.5 0.293379035858 0.206620964142 0.0448362413502 0.0047413663631 2.13938039818
softplus 0.806059183347 0.921245908859 0.5 0.293379035858 0.0448362413502 4.53778313039
softsign 0.0 0.183014021267 0.412755100339 0.227671340422 0.601704844389 1.58778681388
elu 0.160520572267 0.644945417493 0.761578291865 0.668102001223 0.168102001223 3.1796592401
selu 0.0 1.0 0.985231116186 1.07157499246 0.519588710041 2.50314045062
gelu 0.282094791774 0.42522148257 0.5 0.455850865649 0.275664447711 6.08466540028
gelu_centred 0.0 0.345644011024 0.5 0.455850865649 0.275664447711 6.08466540028
gelu_tanh 0.282038588079 0.425193711033 0.5 0.455817845963 0.275410285184 6.0870263884
quick_gelu 0.282330552813 0.421952806897 0.5 0.449549200479 0.276148537341 6.01294775179
gelu2 0.42522148257 1.30467909722 0.705236979435 1.9377449436 2.15664004788 31.1748376978
silu 0.206620964142 0.355775519817 0.5 0.379482351633 0.143833644438 6.06851331139
hard_swish 0.166216700656 0.331567375138 0.5 0.358531517179 0.110811133771 6.57020848491
mish 0.240403888375 0.452342192376 0.563747557288 0.479083758374 0.196883362171 5.13496775636
xielu 0.528416457813 1.73551513574 0.947570282134 2.07033534933 1.38758528078 16.8127508819
"""
# act of the gated form: E h^2, forward gain, E (dh/dz1)^2, E (dh/dz2)^2.
GATED = """
glu .293379035858 1.84622854534 .0448362413502 .293379035858
bilinear 1 1 1 1
reglu .5 1.41421356237 .5 .5
geglu .425221482570 1.53353044120 .455850865649 .425221482570
geglu_tanh .425193711033 1.53358052167 .455817845963 .425193711033
swiglu .355775519817 1.67653247033 .379482351633 .355775519817
drelu .25 2 .25 .25
"""
# E f^2 / scale^2, then E f'^2, at scales .02 sqrt 384, .02 sqrt 768, 1, 2, to six digits.
AT_OTHER_SCALES = """
relu .5 .5 .5 .5 .5 .5 .5 .5
relu2 .2304 .4608 1.5 6.0 .3072 .6144 2.0 8.0
tanh .780779 .652659 .394294 .158815 .793677 .681680 .464403 .255950
elu .785426 .733641 .644945 .564552 .794449 .747373 .668102 .594411
gelu .308324 .346630 .425221 .482466 .324681 .370465 .455851 .506045
silu .275591 .296193 .355776 .439472 .283380 .309246 .379482 .466425
mish .390235 .410090 .452342 .487141 .401509 .427546 .479084 .512996
softplus 3.55484 1.99403 .921246 .582445 .258933 .266757 .293379 .348574
sigmoid 1.68576 .868350 .293379 .0871434 .0582527 .0548435 .0448362 .0290252
xielu .570148 .806085 1.73552 5.24724 .625074 .913177 2.07034 6.54635
"""


def rows(table):
    """Names with their numbers."""
    return [(name, [float(x) for x in numbers]) for name, *numbers in map(str.split, table.strip().splitlines())]


@pytest.mark.parametrize(("name", "numbers"), rows(AT_SCALE_1))
def test_moments_are_the_reference_at_scale_1(name, numbers):
    moments = activations.moments(name)
    assert [getattr(moments, field) for field in FIELDS] == pytest.approx(numbers, rel=1e-11, abs=1e-12)
    mean, second, _, slope_second, *_ = numbers
    assert moments.variance == pytest.approx(second - mean**2, rel=1e-10)
    assert moments.forward_gain == pytest.approx(second**-0.5, rel=1e-11)
    assert moments.backward_gain == pytest.approx(slope_second**-0.5, rel=1e-11)
    assert moments.gate_slope_second_moment is moments.value_slope_second_moment is None and not moments.gated


@pytest.mark.parametrize(("name", "numbers"), rows(AT_OTHER_SCALES))
def test_moments_are_the_reference_at_other_scales(name, numbers):
    for scale, value, slope in zip((0.02 * 384**0.5, 0.02 * 768**0.5, 1.0, 2.0), numbers[:4], numbers[4:], strict=True):
        moments = activations.moments(name, scale)
        assert moments.second_moment / scale**2 == pytest.approx(value, rel=5e-6)
        assert moments.slope_second_moment == pytest.approx(slope, rel=5e-6)


@pytest.mark.parametrize(("name", "numbers"), rows(GATED))
def test_gated_moments_are_the_reference(name, numbers):
    moments = activations.moments(name)
    second, gain, by_gate, by_value = numbers
    assert moments.gated and moments.second_moment == pytest.approx(second, rel=1e-11)
    assert moments.forward_gain == pytest.approx(gain, rel=1e-11)
    assert moments.gate_slope_second_moment == pytest.approx(by_gate, rel=1e-11)
    assert moments.value_slope_second_moment == pytest.approx(by_value, rel=1e-11)
    assert moments.backward_gain == pytest.approx((by_gate + by_value) ** -0.5, rel=1e-11)
    assert moments.mean == pytest.approx(1 / (2 * math.pi) if name == "drelu" else 0, abs=1e-14)


def test_kurtosis_of_a_product_is_that_of_the_product():
    # Of independent centred z1 z2: 3 * 3. Of relu(z1) relu(z2): from E relu^k = 1/sqrt(2 pi), 1/2, 2/sqrt(2 pi), 3/2.
    assert activations.moments("bilinear", 0.3).kurtosis == pytest.approx(9, rel=1e-12)
    m, second, third, fourth = 1 / (2 * math.pi), 1 / 4, 4 / (2 * math.pi), 9 / 4
    central = fourth - 4 * m * third + 6 * m**2 * second - 3 * m**4
    assert activations.moments("drelu", 7.0).kurtosis == pytest.approx(central / (second - m**2) ** 2, rel=1e-12)


def test_the_gain_keeps_the_second_moment_of_the_input():
    for scale in (1e-3, 0.3, 1e3):
        assert activations.moments("relu", scale).forward_gain == pytest.approx(2**0.5, rel=1e-14)
        moments = activations.moments("swiglu", scale)
        assert moments.forward_gain**2 * moments.second_moment == pytest.approx(scale**2, rel=1e-12)
        # z2 is not bounded: E h^2 = E act^2 scale^2, E (dh/dz1)^2 = E act'^2 scale^2.
        act = activations.moments("silu", scale)
        assert moments.second_moment == pytest.approx(act.second_moment * scale**2, rel=1e-12)
        assert moments.gate_slope_second_moment == pytest.approx(act.slope_second_moment * scale**2, rel=1e-12)


# s, scale, E f, E f'^2. By Stein's lemma E x Phi(x / s) = scale^2 E phi(x / s) / s; E f'^2 by mpmath.quad at 20 digits,
# its interval cut at 0, s/2, 2s and 8s.
SHARP_AND_FLAT = """
0.0001 0.001 0.00039696240574661 0.50539986418342
0.0001 1.0 0.39894227840672 0.50000562697675
0.0001 1000.0 398.94228040143 0.50000000562698
0.3 0.001 1.3298002135797e-6 0.25000707339584
0.3 1.0 0.38211740245456 0.51127274460542
0.3 1000.0 398.94226244903 0.50001688092472
7.0 0.001 5.6991753761513e-8 0.25000001299224
7.0 1.0 0.056418958354776 0.26248231631839
7.0 1000.0 398.93250667475 0.50039380958233
"""
# name, scale, mean, second moment, kurtosis: mpmath.quad at 20 digits, cut at kinks and at 0, 3 and 12 scales.
AT_SMALL_AND_LARGE_SCALES = """
celu(alpha=2) 0.05 0.000308392664955 0.002451468854292 2.963144406185
celu(alpha=2) 3.0 0.6083881751591 5.339810457603 3.473528276301
leaky_relu(slope=-0.2) 0.05 0.02393653682409 0.0013 6.145662383508
leaky_relu(slope=-0.2) 3.0 1.436192209445 4.68 6.145662383508
penalized_tanh(slope=0.1) 0.05 0.0179226009089 0.001256231810344 4.874389627728
penalized_tanh(slope=0.1) 3.0 0.3698023325079 0.3763091875367 1.205815815838
relu6 0.05 0.01994711402007 0.00125 5.407639241597
relu6 3.0 1.171354733354 4.142416165363 3.870327730076
hard_sigmoid 0.05 0.5 0.2500694444444 3.0
hard_sigmoid 3.0 0.5 0.3790146377404 1.613168182353
mish 0.05 0.0007991418273098 0.000901553108249 3.032233232934
mish 3.0 1.079284392086 4.457410711736 5.152000981965
prelu 0.05 0.01496033551505 0.001328125 4.239242075417
prelu 3.0 0.8976201309032 4.78125 4.239242075417
swish 0.05 0.0006246098624186 0.0006261694396287 3.029832028048
swish 3.0 1.033541142965 4.24940998778 5.573480669181
"""


@pytest.mark.parametrize("row", SHARP_AND_FLAT.strip().splitlines())
def test_sharp_and_flat_gelus_at_any_scale(row):
    s, scale, mean, slope = map(float, row.split())
    moments = activations.moments(f"gelu_scale(s={s})", scale)
    assert moments.mean == pytest.approx(mean, rel=1e-10)
    assert moments.slope_second_moment == pytest.approx(slope, rel=1e-10)
    assert moments.slope_mean == pytest.approx(0.5, rel=1e-12)


@pytest.mark.parametrize(("name", "numbers"), rows(AT_SMALL_AND_LARGE_SCALES))
def test_moments_are_those_of_mpmaths_quadrature(name, numbers):
    scale, mean, second, kurtosis = numbers
    moments = activations.moments(name, scale)
    assert (moments.mean, moments.second_moment, moments.kurtosis) == pytest.approx((mean, second, kurtosis), rel=1e-9)


def test_negative_slope_share_counts_what_underflows():
    # silu falls left of -1 - W(1 / e); at scale 1000 its slope there is mostly 0 in float64.
    turn = 1 + float(mpmath.lambertw(mpmath.exp(-1)).real)
    for scale in (1e-3, 0.5, 1.0, 1e3):
        share = activations.moments("silu", scale).negative_slope_share
        assert share == pytest.approx(float(mpmath.ncdf(-turn / scale)), rel=1e-9, abs=1e-40)
    assert activations.moments("leaky_relu(slope=-1)").negative_slope_share == pytest.approx(0.5, rel=1e-12)
    assert (
        activations.moments("relu").negative_slope_share == activations.moments("tanh", 1e3).negative_slope_share == 0
    )


def test_polynorm_is_its_limit_of_many_features():
    z = np.random.default_rng(0).normal(scale=2.0, size=(8, 100_000)).astype(np.float32)
    measured = np.asarray(activations.get("polynorm").fn(z))
    moments = activations.moments("polynorm", 2.0)
    assert moments.mean == pytest.approx(measured.mean(), abs=0.01)
    assert moments.second_moment == pytest.approx(np.mean(measured**2), rel=0.01)
    assert moments.second_moment == pytest.approx(activations.moments("polynorm", 0.1).second_moment, rel=1e-12)


def test_a_users_activation_needs_no_formula(register):
    register("bent", activations.elementwise(lambda x, slope=0.5: x + slope * jnp.abs(x)), parameters={"slope": 0.5})
    register("bent_gate", activations.get("silu").fn, gated=True, value_fn=activations.get("relu").fn)
    for scale in (0.1, 4.0):
        # 1.5 x or 0.5 x: E f^2 = (2.25 + 0.25) / 2 scale^2.
        moments = activations.moments("bent", scale)
        assert moments.second_moment == pytest.approx(1.25 * scale**2, rel=1e-4)
        assert moments.forward_gain == pytest.approx(1.25**-0.5, rel=1e-4)
        assert moments.slope_second_moment == pytest.approx(1.25, rel=1e-4)
        assert activations.moments("bent(slope=2)", scale).negative_slope_share == pytest.approx(0.5, rel=1e-4)
    gated, silu = activations.moments("bent_gate"), activations.moments("silu")
    assert gated.second_moment == pytest.approx(silu.second_moment / 2, rel=1e-4)
    assert gated.value_slope_second_moment == pytest.approx(silu.second_moment / 2, rel=1e-4)


def test_what_has_no_moments_is_told(register):
    register("pole", lambda x: 1 / jnp.where(jnp.abs(x) < 1, 0, x))
    register("vector", lambda x: x / jnp.sum(x), elementwise=False)
    register("root", lambda x: jnp.sqrt(jnp.maximum(x, 0)))
    with pytest.raises(UserError, match="'pole' has no moments at scale=1: its value is inf at "):
        activations.moments("pole")
    with pytest.raises(UserError, match="'root' has no moments at scale=1: its slope is nan at -12"):
        activations.moments("root")
    with pytest.raises(UserError, match="'vector' is not elementwise"):
        activations.moments("vector")


@pytest.mark.parametrize(
    ("scale", "answer"),
    [
        (math.nan, "not a finite positive number"),
        (math.inf, "not a finite positive number"),
        (0.0, "not a finite positive number"),
        (-1, "not a finite positive number"),
        ("1", "not a number"),
        (True, "not a number"),
        (None, "not a number"),
        (1j, "not a number"),
        (1e-31, "out of range"),
    ],
)
def test_a_wrong_scale_gets_one_sentence(scale, answer):
    with pytest.raises(UserError, match=answer) as error:
        activations.moments("gelu", scale)
    assert "scale=" in str(error.value) and "\n" not in str(error.value)


def test_constants_have_no_gain_and_no_kurtosis(register):
    register("nothing", lambda x: 0 * x)
    moments = activations.moments("nothing")
    assert moments.forward_gain == moments.backward_gain == math.inf and math.isnan(moments.kurtosis)
    register("one", lambda x: 1 + 0 * x)
    assert activations.moments("one").variance == 0 and math.isnan(activations.moments("one").kurtosis)


@pytest.mark.parametrize("scale", [1e-3, 1e-5, 1e-8, 1e-16, 1e-29])
@pytest.mark.parametrize(
    ("name", "left", "right"),
    [
        ("tanh", 1, 1),
        ("elu", 1, 1),
        ("celu(alpha=3)", 1, 1),
        ("softsign", 1, 1),
        ("penalized_tanh(slope=0.25)", 0.25, 1),
        ("selu", 1.7580993408473766, 1.0507009873554805),
        ("gelu", 0.5, 0.5),
        ("silu", 0.5, 0.5),
        ("relu", 0, 1),
    ],
)
def test_at_small_scales_the_moments_are_those_of_the_slopes_at_0(name, left, right, scale):
    moments = activations.moments(name, scale)
    square = (left**2 + right**2) / 2
    bend = max(10 * scale, 1e-9)  # what the next order adds
    assert moments.second_moment / scale**2 == pytest.approx(square, rel=bend)
    assert moments.forward_gain == pytest.approx(square**-0.5, rel=bend)
    assert moments.mean / scale == pytest.approx((right - left) / math.sqrt(2 * math.pi), abs=bend)


def test_small_scales_join_the_others_without_a_step():
    for name in ("tanh", "elu", "softsign", "xielu", "sigmoid"):
        near, far = (activations.moments(name, 1e-4 * factor) for factor in (0.999, 1.001))
        for field in ("second_moment", "slope_second_moment"):
            # Between these scales x^2 itself grows by 0.4%, what is left of the moment far less.
            size = 1e-8 if activations.get(name).fn(0.0) == 0 and field == "second_moment" else 1
            ratio = getattr(far, field) / getattr(near, field)
            assert ratio == pytest.approx((1.001 / 0.999) ** 2 if size < 1 else 1, rel=1e-5)
