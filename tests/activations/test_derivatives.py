"""Derivatives: modes of autodiff against each other, closed forms' vectors, symmetries, conventions at kinks."""

import json
import pathlib

import evaluated
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from actlab import activations

pytestmark = pytest.mark.optimized

VECTORS = json.loads((pathlib.Path(__file__).parent / "vectors.json").read_text())
VECTOR_POINTS = np.array([-3, -1, -0.5, 0.5, 1, 3])
# One of each way to define derivatives: plain operations, three formulas, a product, two arguments, a sum.
KINDS = ("leaky_relu", "gelu", "penalized_tanh", "swish", "xielu")
SYMMETRIC = ("gelu", "gelu_tanh", "quick_gelu", "silu", "hard_swish", "gelu_scale(s=0.3)")
# (entry, point, slope, curvature): what the docstrings promise.
KINKS = [
    ("relu", 0.0, 0.0, 0.0),
    ("leaky_relu(slope=0.2)", 0.0, 0.2, 0.0),
    ("prelu", 0.0, 0.25, 0.0),
    ("relu6", 0.0, 0.0, 0.0),
    ("relu6", 6.0, 0.0, 0.0),
    ("relu2", 0.0, 0.0, 0.0),
    ("leaky_relu2", 0.0, 0.0, 0.5),
    ("hard_tanh", -1.0, 0.0, 0.0),
    ("hard_tanh", 1.0, 0.0, 0.0),
    ("hard_sigmoid", -3.0, 0.0, 0.0),
    ("hard_sigmoid", 3.0, 0.0, 0.0),
    ("hard_swish", -3.0, 0.0, 0.0),
    ("hard_swish", 3.0, 1.0, 0.0),
    ("penalized_tanh", 0.0, 0.25, 0.0),
    ("softsign", 0.0, 1.0, 0.0),
    ("elu(alpha=0.7)", 0.0, 0.7, 0.7),
    ("celu(alpha=2)", 0.0, 1.0, 0.5),
    ("selu", 0.0, 1.7580993408473766, 1.7580993408473766),
    ("xielu", 0.0, 0.5, 0.8),
]


def test_reference_vectors_in_float64():
    rows = evaluated.evaluate(VECTOR_POINTS)
    for name, expected in VECTORS.items():
        for row, key in zip(rows[name], ("f", "f'", "f''"), strict=True):
            # The trained scalars of xielu are float32 numbers here.
            tolerance = 1e-7 if name == "xielu" else 1e-10
            np.testing.assert_allclose(row, expected[key], rtol=tolerance, atol=tolerance, err_msg=f"{name} {key}")


def test_all_modes_of_autodiff_agree():
    x = jnp.array([-15.3, -4.1, -1.7, -0.6, -0.01, 0.02, 0.9, 2.2, 7.5], jnp.float32)
    forward = lambda f: lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),))[1]
    reverse = lambda f: lambda x: jax.vjp(f, x)[1](jnp.ones_like(x))[0]
    of_sum = lambda f: jax.grad(lambda x: jax.vmap(f)(x).sum())

    @jax.jit
    def both(x):
        groups = {}
        for name in KINDS:
            f = activations.get(name).fn
            slopes = [forward(f), reverse(f), jax.vmap(jax.grad(f)), of_sum(f)]
            curvatures = [outer(inner(f)) for outer in (forward, reverse) for inner in (forward, reverse)]
            curvatures += [jax.vmap(jax.hessian(f)), jax.vmap(jax.grad(jax.grad(f)))]
            groups[name] = [[function(x) for function in functions] for functions in (slopes, curvatures)]
        return groups

    for name, groups in both(x).items():
        for first, *others in groups:
            for other in others:
                np.testing.assert_allclose(other, first, rtol=1e-6, atol=1e-30, err_msg=name)


@pytest.mark.parametrize("name", activations.names())
def test_shape_and_dtype_are_those_of_the_input(name):
    record = activations.get(name)
    x = jax.ShapeDtypeStruct((2, 3), jnp.float16)
    for function in (record.fn, record.value_fn):
        y = jax.eval_shape(function, x)
        assert y.dtype == x.dtype and y.shape == (2, 3)


def test_conventions_at_kinks():
    rows = evaluated.evaluate(np.array([point for _, point, *_ in KINKS], np.float32))
    for i, (name, point, slope, curvature) in enumerate(KINKS):
        found = [row[i] for row in rows[name][1:]]
        assert found == pytest.approx([slope, curvature], rel=1e-6), f"{name} at {point}"


def test_slopes_at_x_and_minus_x_add_up_to_one():
    random = np.random.default_rng(0)
    x = np.concatenate([random.uniform(-50, 50, 2000), random.normal(size=2000)]).astype(np.float32)
    right, left = evaluated.evaluate(x), evaluated.evaluate(-x)
    for name in SYMMETRIC:
        np.testing.assert_allclose(right[name][1] + left[name][1], 1, rtol=0, atol=3e-7, err_msg=name)


def test_gelu_keeps_its_digits_where_jax_loses_them():
    x = jnp.float32(-11.625)
    with jax.enable_x64(True):
        exact = jax.jit(activations.get("gelu").fn)(jnp.float64(-11.625))
    ours, theirs = jax.jit(lambda x: (activations.get("gelu").fn(x), jax.nn.gelu(x, approximate=False)))(x)
    assert abs(float(ours) / float(exact) - 1) < 3e-7 < abs(float(theirs) / float(exact) - 1)


def test_the_sharp_limit_of_gelu_scale_is_relu_and_the_blunt_one_half_of_x():
    x = jnp.linspace(-3, 3, 13)
    sharpest, sharp, blunt = jax.jit(lambda x: [activations.get(f"gelu_scale(s={s})").fn(x) for s in (0, 1e-12, 1e9)])(
        x
    )
    np.testing.assert_allclose(sharpest, jax.nn.relu(x))
    np.testing.assert_allclose(sharp, jax.nn.relu(x), atol=1e-12)
    np.testing.assert_allclose(blunt, x / 2, rtol=1e-6)
    scales = (1e-18, 0.25, 1e9, 1e-21, 0)
    functions = [activations.get(f"gelu_scale(s={s})").fn for s in scales]
    curvatures = jax.jit(lambda x: [jax.grad(jax.grad(f))(x) for f in functions])(0.0)
    assert curvatures[:3] == pytest.approx([0.797884560803 / s for s in scales[:3]])
    assert curvatures[3:] == [0, 0]


def test_the_framework_form_is_kept_with_its_faults():
    framework, ours = activations.get("gelu_tanh_jax").fn, activations.get("gelu_tanh").fn
    x = jnp.linspace(-5, 5, 101)
    np.testing.assert_array_equal(*jax.jit(lambda x: (framework(x), jax.nn.gelu(x, approximate=True)))(x))
    slopes = jax.jit(lambda x: (jax.grad(framework)(x), jax.grad(ours)(x)))
    flat, steep = slopes(jnp.bfloat16(-4.0))
    assert flat == 0 != steep
    lost, kept = slopes(jnp.float32(1e20))
    assert np.isnan(lost) and kept == 1


@pytest.mark.parametrize(("name", "trained"), [("prelu", {}), ("swish", {}), ("swish", {"beta": -0.8}), ("xielu", {})])
def test_slopes_in_trained_scalars_are_those_of_finite_differences(name, trained):
    record = activations.get(name)
    with jax.enable_x64(True):
        x = jnp.array([-80.0, -3.1, -0.4, 0.3, 2.5])
        for key, start in {**record.theta, **trained}.items():
            step = 1e-5
            f = lambda value, key=key: record.fn(x, **{**record.theta, key: value})
            slope = lambda value, key=key: jax.vmap(jax.grad(lambda x: record.fn(x, **{key: value})))(x)
            for function in (f, slope):
                value = jax.jit(function)
                expected = (value(start + step) - value(start - step)) / (2 * step)
                found = jax.jit(jax.jacobian(function))(start)
                np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


def test_slopes_in_trained_scalars_are_finite_for_huge_inputs():
    x = jnp.array([-3e38, -1e20, 1e20, 3e38])
    for name, scalar in (("swish", "beta"), ("prelu", "slope")):
        slopes = jax.jacobian(lambda value, name=name, scalar=scalar: activations.get(name).fn(x, **{scalar: value}))
        assert np.all(np.isfinite(jax.jit(slopes)(jnp.float32(1))))
    slope = jax.grad(lambda value: activations.get("prelu").fn(jnp.float32(jnp.inf), slope=value))
    assert slope(jnp.float32(0.25)) == 0


def test_polynorm_is_its_formula_at_any_scale():
    fn, theta = jax.jit(activations.get("polynorm").fn), {"w0": 0.2, "w1": -0.5, "w2": 1.5, "bias": 0.25}
    x = np.random.default_rng(0).normal(size=(3, 7))
    normalised = lambda v: v / np.sqrt(np.mean(v**2, axis=-1, keepdims=True))
    expected = 0.2 * normalised(x**3) - 0.5 * normalised(x**2) + 1.5 * normalised(x) + 0.25
    for scale in (1e-36, 1e-30, 1.0, 1e30, 1.3e38):
        np.testing.assert_allclose(fn(jnp.array(x * scale), **theta), expected, rtol=2e-6)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16])
def test_polynorm_of_zeros_is_the_bias_and_all_its_derivatives_are_finite(dtype):
    fn, theta = jax.jit(activations.get("polynorm").fn), {"w0": 0.2, "w1": -0.5, "w2": 1.5, "bias": 0.25}
    smallest = float(jnp.finfo(dtype).smallest_subnormal)
    x = jnp.array([[0, 0, 0, 0], [1, 2, 3, 4], [0, 0, 0, 1], [0, 0, 0, smallest]], dtype)
    assert np.all(fn(x, **theta)[0] == 0.25)
    assert np.all(np.isfinite(fn(x, **theta).astype(jnp.float32)))
    total = lambda x, theta: fn(x, **theta).astype(jnp.float32).sum()
    by_x, by_theta = jax.jit(jax.grad(total, argnums=(0, 1)))(x, theta)
    assert np.all(np.isfinite(by_x[:3].astype(jnp.float32)))  # the last is 1 / smallest, which overflows
    assert all(np.isfinite(value) for value in by_theta.values())
    second = jax.jit(lambda x: jax.jvp(lambda x: jax.grad(total)(x, theta), (x,), (jnp.ones_like(x),))[1])(x[:3])
    assert np.all(np.isfinite(second.astype(jnp.float32)))


def test_polynorm_has_the_slope_of_finite_differences():
    fn = jax.jit(activations.get("polynorm").fn)
    with jax.enable_x64(True):
        x = jnp.array(np.random.default_rng(1).normal(size=5))
        expected = np.stack([(fn(x + step) - fn(x - step)) / 2e-6 for step in 1e-6 * np.eye(5)], axis=-1)
        np.testing.assert_allclose(jax.jit(jax.jacobian(fn))(x), expected, rtol=1e-6, atol=1e-8)
