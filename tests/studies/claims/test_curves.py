"""The numbers that claims are made of, against closed forms and mpmath."""

import math

import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy import integrate

from actlab.studies.claims import curves, gelu


def mp_gelu(z):
    return z * mpmath.ncdf(z)


@pytest.mark.parametrize("z", [-9.3, -2.5, -0.1, 0.0, 0.7, 5.5])
def test_value_slope_and_curvature_are_float64(z):
    with mpmath.workdps(30):
        phi, Phi = mpmath.npdf(z), mpmath.ncdf(z)
        truth = [float(z * Phi), float(Phi + z * phi), float((2 - mpmath.mpf(z) ** 2) * phi)]
    computed = [float(f("gelu", z)) for f in (curves.value, curves.slope, curves.curvature)]
    assert computed == pytest.approx(truth, rel=1e-13, abs=1e-300)


@pytest.mark.parametrize("shape", [(), (3,), (2, 5), (4097,)])
def test_arrays_keep_their_shape_and_order(shape):
    z = np.linspace(-2, 2, math.prod(shape)).reshape(shape)
    assert np.array_equal(curves.value("relu", z), np.maximum(z, 0))


def test_gaussian_means_have_their_closed_forms():
    assert curves.mean(lambda z: curves.value("relu", z)) == pytest.approx(1 / math.sqrt(2 * math.pi), abs=1e-13)
    assert curves.mean(lambda z: curves.value("gelu", z)) == pytest.approx(0.5 / math.sqrt(math.pi), abs=1e-13)
    power = curves.mean(lambda z: curves.slope("gelu", z) ** 2)
    assert power == pytest.approx(1 / 3 + 2 / (3 * math.pi * math.sqrt(3)), abs=1e-13)
    assert curves.mean(lambda z: curves.value("relu", z) ** 2, scale=0.3) == pytest.approx(0.045, abs=1e-13)
    assert curves.mean(lambda z: np.ones_like(z), negative=True) == pytest.approx(0.5, abs=1e-13)


@pytest.mark.parametrize(("mu", "sigma"), [(0.0, 1.0), (-3.0, 2.0), (1.5, 0.4)])
def test_mean_of_gelu_under_a_shifted_gaussian(mu, sigma):
    def integrand(z):
        return float(gelu.phi((z - mu) / sigma)) / sigma * z * float(gelu.Phi(z))

    reach = 12 * sigma
    truth, _ = integrate.quad(integrand, mu - reach, mu + reach, epsabs=1e-12, limit=200)
    assert gelu.mean_under(mu, sigma) == pytest.approx(truth, abs=1e-10)


def test_where_bfloat16_goes_silent():
    assert curves.silent_below(lambda x: jnp.where(x < -3, 1.0, x)) == -3.015625
    assert curves.silent_below(lambda x: x) == -math.inf
    # A gradient that comes back further left is not silent.
    assert curves.silent_below(lambda x: jnp.where((x < -3) & (x > -50), 1.0, x)) == -math.inf


def test_turning_point_and_steepest_fall():
    with mpmath.workdps(30):
        turn = mpmath.findroot(lambda z: mpmath.ncdf(z) + z * mpmath.npdf(z), -0.75)
    assert gelu.turning_point() == pytest.approx(float(turn), abs=1e-14)
    assert gelu.steepest_fall() == pytest.approx(-math.sqrt(2), abs=1e-14)
