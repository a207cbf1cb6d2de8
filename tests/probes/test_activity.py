"""Moments and definitions of inactivity, against numpy and against what was planted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings, strategies as st

from actlab import activations
from actlab.probes import activity

ON = np.ones(6, np.float32)
moments, sparsity = jax.jit(activity.moments), jax.jit(activity.cett_sparsity)


def arrays(seed, shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
def test_moments_are_those_of_the_tokens_that_count(seed, n_on):
    x, weights = arrays(seed, (6, 5)) + 0.3, (np.arange(6) < n_on).astype(np.float32)
    seen = x[:n_on].astype(np.float64).ravel()
    ours = moments(x, weights)
    expected = {
        "mean": seen.mean(),
        "sd": seen.std(),
        "rms": np.sqrt((seen**2).mean()),
        "kurtosis": scipy.stats.kurtosis(seen, fisher=False),
        "max": seen.max(),
    }
    assert ours.keys() == expected.keys()
    for name, value in expected.items():
        assert ours[name] == pytest.approx(value, rel=1e-4, abs=1e-6), name


def test_fractions_count_what_their_definitions_say():
    z = np.array([[-1.0, 0.0, 2.0, -3.0], [4.0, -5.0, 6.0, -7.0], [-9.0, -9.0, -9.0, -9.0]], np.float32)
    a = np.maximum(z, 0)
    a[0, 2] = 0.04  # rms of the first two rows is sqrt((0.04^2 + 16 + 36) / 8) = 2.55
    weights = np.array([1, 1, 0], np.float32)
    ours = jax.jit(activity.layer)(z, a, z, np.eye(4, dtype=np.float32), weights)
    assert ours["negative_fraction"] == 4 / 8, "0 is not negative, and the last token does not count"
    assert ours["zero_fraction"] == 5 / 8
    assert (ours["tau_sparsity_0.01"], ours["tau_sparsity_0.1"]) == (5 / 8, 6 / 8)


def test_the_common_share_is_that_of_the_mean_row():
    rows, share = arrays(0, (64, 128)), jax.jit(activity.common_share)
    assert float(share(rows)) == pytest.approx(1 / 64, rel=0.3)
    assert float(share(np.tile(rows[0], (64, 1)))) == pytest.approx(1, rel=1e-5)
    # Of b + e, with e centred over units: |b|^2 / (|b|^2 + mean |e|^2).
    apart, shift = rows - rows.mean(axis=0), np.float32(0.5)
    expected = 0.25 / (0.25 + (apart**2).mean())
    assert float(share(apart + shift)) == pytest.approx(expected, rel=1e-4)


def test_a_fraction_of_many_tokens_is_exact():
    # One running sum in float32 would stop at 2^24 of these 2^24 + 2^20.
    ones = jnp.ones((2**10, 2**14 + 2**10), bool)
    assert activity.mean(ones, jnp.ones(2**10)) == 1.0


def test_gradient_dead_units_are_far_below_the_layers_median():
    dz = np.full((6, 8), -0.5, np.float32)
    dz[:, 1], dz[:, 4], dz[:, 6] = 0, 4e-7, 6e-7
    assert activity.gradient_dead_fraction(jnp.asarray(dz)) == 2 / 8
    dz[:, 2:] = 0
    assert activity.gradient_dead_fraction(jnp.asarray(dz)) == 7 / 8, "with a median of 0, those without any gradient"


def error_without(a, down, removed):
    return np.linalg.norm((a * removed) @ down) / np.linalg.norm(a @ down)


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_cett_removes_as_many_of_the_smallest_outputs_as_the_error_allows(seed):
    a, down = arrays(seed, (1, 9)), arrays(seed + 1, (9, 4))
    share = float(sparsity(a, down, np.ones(1, np.float32)))
    removed = round(share * 9)
    order = np.argsort(np.abs(a[0]) * np.linalg.norm(down, axis=1))
    smallest = lambda k: np.isin(np.arange(9), order[:k])
    assert error_without(a[0], down, smallest(removed)) < 0.2 + 1e-5
    assert removed == 9 or error_without(a[0], down, smallest(removed + 1)) > 0.2 - 1e-5


def test_cett_finds_a_planted_share():
    # Orthogonal outputs: 6 of 8 units carry 0.02^2 * 6 / (2 + 0.02^2 * 6) of the square, an error of 0.035.
    a = np.array([[1, 1, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02], [1, 1, 1, 1, 1, 1, 1, 0]], np.float32)
    a = np.repeat(a, 100, axis=0)
    weights = np.repeat(np.array([1, 1], np.float32), 100)
    assert sparsity(a, np.eye(8), weights) == pytest.approx((6 / 8 + 1 / 8) / 2, abs=0.01)
    assert sparsity(np.zeros((3, 8)), np.eye(8), np.ones(3)) == 1, "nothing to keep"


@pytest.mark.parametrize("batch", [8, 64, 256])
def test_cett_looks_at_all_positions_of_windows_alike(batch):
    a = np.ones((batch, 128, 8), np.float32)
    a[:, ::2] = [1, 0, 0, 0, 0, 0, 0, 0]
    tokens = a.reshape(-1, 8)
    assert sparsity(tokens, np.eye(8), np.ones(len(tokens))) == pytest.approx((7 / 8 + 0 / 8) / 2, abs=0.03)


@pytest.mark.parametrize("name", ["leaky_relu", "xielu"])
def test_slopes_are_those_of_the_activation_at_its_trained_scalars(name):
    record = activations.get(name)
    theta = {key: jnp.float32(start + 0.25) for key, start in record.theta.items()}
    z = jnp.asarray([-3.1, -0.4, 0.7, 2.2])
    expected = jax.jit(jax.vmap(jax.grad(lambda value: record.fn(value, **theta))))(z)
    found = jax.jit(lambda z: activity.slopes(record, theta, z))(z)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "dead_z"),
    [("relu", -0.1), ("gelu", -6.0), ("silu", -12.0), ("tanh", 7.0), ("swiglu", -12.0)],
)
def test_a_planted_share_of_dead_units_is_counted(name, dead_z):
    z = np.abs(arrays(0, (6, 40))) * 0.5 + 0.1
    z[:, :7] = dead_z
    z[3, :3] = 0.4  # three of the seven fire on one token,
    z[5, 6] = 0.4  # one on a token that does not count
    weights = ON.copy()
    weights[5] = 0
    fired = activity.fires(activations.get(name), {}, jnp.asarray(z), jnp.asarray(weights))
    np.testing.assert_array_equal(~np.asarray(fired), np.isin(np.arange(40), [3, 4, 5, 6]))


@pytest.mark.parametrize(("slope", "alive"), [(0.00099, False), (0.00101, True), (-0.00099, False), (-0.00101, True)])
def test_a_unit_is_dead_below_a_slope_of_a_thousandth_whatever_its_sign(slope, alive):
    z_TF = -jnp.ones((6, 3))
    fired_F = activity.fires(activations.get(f"leaky_relu(slope={slope})"), {}, z_TF, jnp.asarray(ON))
    assert fired_F.tolist() == [alive] * 3


def test_units_of_an_activation_of_whole_vectors_are_not_counted():
    with pytest.raises(ValueError, match="polynorm looks at a whole vector"):
        activity.fires(activations.get("polynorm"), {}, jnp.zeros((6, 4)), jnp.asarray(ON))


@given(st.integers(1, 2**20))
def test_the_rate_of_a_unit_that_never_fired_is_bounded_by_three_over_n(n):
    bound = activity.silent_rate_bound(n)
    assert bound == pytest.approx(1 - 0.05 ** (1 / n), rel=1e-6) and bound <= 3 / n
