"""The catalogue: every entry against mpmath, its autodiff slope too; names and errors."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from actlab import activations
from actlab.errors import UserError

POINTS = (-9.5, -3.0, -1.0, -0.5, -1e-3, 1e-3, 0.5, 1.0, 3.0, 9.5)


def _tanh_gelu(x):
    return x / 2 * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3)))


FORMULAS = {
    "relu": lambda x: max(x, mpmath.mpf(0)),
    "tanh": mpmath.tanh,
    "elu": lambda x: x if x > 0 else mpmath.expm1(x),
    "gelu": lambda x: x * mpmath.ncdf(x),
    "gelu_tanh": _tanh_gelu,
    "silu": lambda x: x / (1 + mpmath.exp(-x)),
}
GATES = {"swiglu": "silu", "geglu": "gelu", "reglu": "relu"}


def test_the_names_are_the_formulas_tested_here():
    assert set(activations.names()) == set(FORMULAS) | set(GATES)


@pytest.mark.parametrize("name", activations.names())
def test_values_and_slopes_are_those_of_the_formula(name):
    record, formula = activations.get(name), FORMULAS[GATES.get(name, name)]
    x = jnp.array(POINTS, jnp.float32)
    with mpmath.workdps(40):
        exact = [mpmath.mpf(float(point)) for point in x]
        values = [float(formula(point)) for point in exact]
        slopes = [float(mpmath.diff(formula, point)) for point in exact]
    np.testing.assert_allclose(record.fn(x), values, rtol=2e-5, atol=1e-30)
    np.testing.assert_allclose(jax.vmap(jax.grad(record.fn))(x), slopes, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", activations.names())
def test_a_record_tells_what_it_is(name):
    record = activations.get(name)
    assert record.name == name and record.formula and record.source
    assert record.gated == (name in GATES)
    assert record.fn(jnp.ones((2, 3), jnp.bfloat16)).dtype == jnp.bfloat16


def test_exact_and_tanh_gelu_are_two_functions():
    x = jnp.array([-2.3])
    assert abs(activations.get("gelu").fn(x) - activations.get("gelu_tanh").fn(x)) > 1e-4


def test_gelu_tanh_has_a_gradient_in_bfloat16_where_the_usual_form_is_dead():
    slope = jax.grad(activations.get("gelu_tanh").fn)(jnp.bfloat16(-4.0))
    assert slope != 0
    usual = jax.grad(lambda x: jax.nn.gelu(x, approximate=True))(jnp.bfloat16(-4.0))
    assert usual == 0


@pytest.mark.parametrize(
    ("name", "near"), [("geglo", "'geglu'"), ("GELU", "'gelu'"), ("swish", "'swiglu'"), ("Dense", "valid: elu")]
)
def test_an_unknown_name_is_answered_with_the_nearest(name, near):
    with pytest.raises(UserError, match=near):
        activations.get(name)
