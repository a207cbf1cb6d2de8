"""The catalogue: records, names with parameters, registration, bad input."""

import dataclasses
import functools
import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from actlab import activations
from actlab.activations import catalogue, definition
from actlab.errors import UserError

pytestmark = pytest.mark.optimized

GATES = {
    "glu": "sigmoid",
    "bilinear": "identity",
    "reglu": "relu",
    "geglu": "gelu",
    "geglu_tanh": "gelu_tanh",
    "swiglu": "silu",
    "drelu": "relu",
}


@pytest.mark.parametrize("name", activations.names())
def test_a_record_says_what_it_is(name):
    record = activations.get(name)
    assert record.name == name and record.formula and record.source
    assert record.gated == (name in GATES)


@pytest.mark.parametrize("name", activations.names())
def test_units_do_not_mix_but_in_records_that_say_so_and_rows_never_do(name):
    record = activations.get(name)  # whose start of a training does not check it, as it does those of users
    (definition.require_elementwise if record.elementwise else definition.require_own_rows)(record)


def test_exponential_units_keep_the_sign_of_a_zero():
    fns = [activations.get(name).fn for name in ("elu", "celu", "selu")]
    for found in jax.jit(lambda x: [fn(x) for fn in fns])(jnp.array([0.0, -0.0])):
        assert found.tolist() == [0, 0] and np.signbit(found).tolist() == [False, True]


def test_empty_arrays_stay_empty():
    for name in activations.names():
        for shape in ((0,), (2, 0), (0, 3)):
            found = jax.eval_shape(jax.grad(lambda x, name=name: activations.get(name).fn(x).sum()), jnp.zeros(shape))
            assert found.shape == shape, name


def test_the_defaults_of_a_function_are_the_numbers_of_its_record():
    for record in map(activations.get, activations.names()):
        defaults = inspect.signature(record.fn).parameters
        assert {name: value.default for name, value in list(defaults.items())[1:]} == {
            **record.parameters,
            **record.theta,
        }, record.name


def test_gated_ones_have_the_function_of_their_gate():
    x = jnp.linspace(-4, 4, 33)
    for gated, gate in GATES.items():
        record = activations.get(gated)
        assert record.fn is activations.get(gate).fn
        np.testing.assert_array_equal(record.value_fn(x), jax.nn.relu(x) if gated == "drelu" else x)


@pytest.mark.parametrize(
    ("alias", "name"),
    [("swish_1", "silu"), ("gelu_new", "gelu_tanh"), ("hardsigmoid", "hard_sigmoid"), ("squared_relu", "relu2")],
)
def test_an_alias_is_the_record(alias, name):
    assert activations.get(alias) is activations.get(name) and alias not in activations.names()


def test_parameters_ride_in_the_name():
    record = activations.get(" gelu_scale( s = .25 ) ")
    assert record.name == "gelu_scale(s=0.25)" and record.parameters == {"s": 0.25}
    assert activations.get(record.name).parameters == record.parameters
    assert activations.get("leaky_relu(slope=-2e-1)").fn(-1.0) == pytest.approx(0.2)
    assert activations.get("celu(alpha=2)") is activations.get("celu(alpha=2)")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("geglo", "did you mean 'geglu'"),
        ("GELU", "did you mean 'gelu'"),
        ("gleu", "did you mean 'gelu'"),
        ("Dense", "'selu'"),
        ("", "malformed"),
        (3, "=3 is not a text"),
        (None, "=None is not a text"),
        ("gelu_scale(s=0.3", "malformed"),
        ("gelu_scale(s=0.3)x", "malformed"),
        ("gelu_scale()", "malformed at ''"),
        ("gelu_scale(s)", "malformed at 's'"),
        ("gelu_scale(s=)", "malformed at 's='"),
        ("gelu_scale(0.3)", "malformed at '0.3'"),
        ("gelu_scale(s=1,)", "malformed at ''"),
        ("gelu_scale(t=1)", "choose one of s"),
        ("gelu_scale(s=1, s=1)", "gives 's' twice"),
        ("gelu_scale(s=one)", "not a number"),
        ("gelu_scale(s=1_0)", "not a number"),
        ("gelu_scale(s=٣)", "not a number"),
        ("gelu_scale(s=exit())", "not a number"),
        ("gelu_scale(s=nan)", "not a finite number"),
        ("gelu_scale(s=1e999)", "not a finite number"),
        ("gelu_scale(s=-0.1)", "out of range"),
        ("celu(alpha=0)", "out of range"),
        ("gelu(s=1)", "gelu takes none"),
        ("swish(beta=2)", "swish takes none"),
    ],
)
def test_a_wrong_name_gets_one_sentence(text, answer):
    with pytest.raises(UserError, match=re.escape(answer)) as error:
        activations.get(text)
    assert "\n" not in str(error.value) and "config.model.activation" in str(error.value)


@pytest.mark.parametrize("dtype", ["int32", "complex64", "bool"])
def test_integers_and_complex_numbers_are_refused(dtype):
    for name in activations.names():
        with pytest.raises(TypeError, match=dtype):
            activations.get(name).fn(jnp.ones(3, dtype))


@pytest.fixture
def own():
    """A user's activation, removed after the test."""

    @activations.elementwise
    def bent(x, slope: float = 0.5):
        return x + slope * jnp.abs(x)

    return activations.Activation("bent", bent, r"x + a |x|", "me", aliases=("benty",), parameters={"slope": 0.5})


def test_a_user_registers_their_own(own):
    assert activations.register(own) is own and "bent" in activations.names()
    assert activations.get("benty(slope=2)").fn(-1.0) == 1
    activations.register(own)  # a config file that is read twice


def test_a_taken_or_malformed_name_is_refused(own):
    make = lambda name, aliases=(): activations.Activation(name, own.fn, "x", "me", aliases=aliases)
    for record in (make("gelu"), make("bent", ("gelu_new",)), make("swish_1")):
        with pytest.raises(UserError, match="is taken by"):
            activations.register(record)
    with pytest.raises(UserError, match="malformed"):
        activations.register(make("a(b)"))
    assert activations.get("gelu").fn is not own.fn


@jax.custom_vjp
def backwards_only(x):
    return jax.nn.relu(x)


backwards_only.defvjp(lambda x: (jax.nn.relu(x), x), lambda x, g: (g * (x > 0),))


def test_a_function_in_the_place_of_a_record_is_refused():
    with pytest.raises(UserError, match="wrap a function in its record, activations.Activation"):
        activations.register(jnp.tanh)


@pytest.mark.parametrize(
    ("fn", "told"),
    [
        (lambda x: x * undefined, "fn fails in line .* with NameError, name 'undefined' is not defined"),  # noqa: F821
        (lambda x: np.sinh(x), "fn fails in line .* with TracerArrayConversionError"),
        (lambda x: x if x > 0 else 0, "fn fails in line .* with "),
        (lambda x, slope: x * slope, "fn fails .* missing 1 required positional argument: 'slope'"),
        (
            lambda x: jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, jnp.tanh(s[1])), (0, x))[1],
            "fn fails .*with ValueError, Reverse-mode differentiation does not work",
        ),
        (backwards_only, "fn fails .*with TypeError, jax.custom_vjp has no derivative forwards"),
        (lambda x: jnp.sum(x), r"fn returns shape \(\) for an array of shape \(2, 8\)"),
        (lambda x: (x, x), "fn returns tuple"),
        (lambda x: (x > 0).astype(jnp.int32), "fn returns int32 for an array of float32"),
    ],
)
def test_a_function_that_cannot_be_used_is_refused_with_its_line(fn, told):
    with pytest.raises(UserError, match=f"activation 'broken': {told}"):
        activations.register(activations.Activation("broken", fn, "x", "me"))
    assert "broken" not in activations.names()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"parameters": {"slope": 0.25}}, "parameters has slope=0.25, for which fn has the default 0.5"),
        ({"parameters": {}, "theta": {"slope": 0.25}}, "theta has slope=0.25, for which fn has the default 0.5"),
        ({"fn": lambda x, slope: slope * x}, "parameters has slope=0.5, for which fn has no default"),
        ({"domain": {"slope": (1.0, 2.0)}}, "slope=0.5 is outside its own domain, 1 to 2"),
        ({"domain": {"slop": (0.0, 2.0)}}, "domain has slop, which is no parameter"),
        ({"theta": {"slope": 0.5}}, "slope is a parameter and trained too"),
        ({"parameters": {"slope": "0.5"}}, "parameters has slope='0.5': give a finite number"),
        ({"parameters": {"slope": float("nan")}}, "parameters has slope=nan: give a finite number"),
        ({"aliases": "benty"}, "aliases='benty' is a text"),
    ],
)
def test_a_record_that_contradicts_its_function_is_refused(own, changes, told):
    with pytest.raises(UserError, match=re.escape(told)):
        activations.register(dataclasses.replace(own, **changes))


def test_a_cell_of_a_notebook_may_be_edited_and_a_file_named_by_two_paths(tmp_path):
    def cell(source, file):
        names = {}
        exec(compile(source, file, "exec"), names)
        return activations.Activation("mine", names["mine"], "x", "me")

    first, edited = "def mine(x): return x", "\ndef mine(x): return 2 * x"
    activations.register(cell(first, "<ipython-input-7-0a>"))
    activations.register(cell(edited, "<ipython-input-8-0b>"))
    assert float(activations.get("mine").fn(3.0)) == 6
    catalogue._records.pop("mine")
    (tmp_path / "mine.py").write_text(first)
    activations.register(cell(first, str(tmp_path / "mine.py")))
    activations.register(cell(first, str(tmp_path / "." / ".." / tmp_path.name / "mine.py")))
    with pytest.raises(UserError, match="'mine' is taken by me"):
        activations.register(cell(edited, str(tmp_path / "mine.py")))
    catalogue._records.pop("mine")
    catalogue._get.cache_clear()


def test_the_other_functions_of_a_record_are_tried_too(own):
    for field, broken in (("value_fn", lambda x: x[0]), ("draw", lambda key, x, slope: x[0])):
        with pytest.raises(UserError, match=f"activation 'bent': {field} returns shape"):
            activations.register(dataclasses.replace(own, **{field: broken}))


def curved(sign):
    """A user's activation with derivatives of their own."""
    if sign > 0:
        return activations.elementwise(activations.with_derivatives(lambda x: x * x, lambda x: 2 * x, lambda x: 2.0))
    return activations.elementwise(activations.with_derivatives(lambda x: -x, lambda x: -1.0, lambda x: 0.0))


def test_another_function_of_the_same_name_is_refused_whatever_it_is_wrapped_in():
    make = lambda fn: activations.Activation("curved", fn, "x", "me")
    bent = lambda slope: functools.partial(leaky, slope=slope)
    closed = lambda slope: lambda x: leaky(x, slope)
    for first, same, other in (
        (curved(1), curved(1), curved(-1)),
        (bent(0.5), bent(0.5), bent(0.25)),
        (closed(0.5), closed(0.5), closed(0.25)),
    ):
        activations.register(make(first))
        activations.register(make(same))
        with pytest.raises(UserError, match="'curved' is taken by me"):
            activations.register(make(other))
        catalogue._records.pop("curved")
    catalogue._get.cache_clear()


def leaky(x, slope):
    """Of a user, its slope set by functools.partial."""
    return jnp.where(x < 0, slope * x, x)


def test_parameters_are_those_of_the_draw_too():
    draw = lambda key, x, p=0.5: jax.random.bernoulli(key, p, x.shape) * x
    noisy = activations.elementwise(lambda x, p=0.5: p * x)
    activations.register(activations.Activation("noisy", noisy, "p x", "me", parameters={"p": 0.5}, draw=draw))
    record, x = activations.get("noisy(p=1)"), jnp.ones(64)
    assert float(record.draw(jax.random.key(0), x).mean()) == float(record.fn(x).mean()) == 1
    catalogue._records.pop("noisy")
