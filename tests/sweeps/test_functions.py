"""A workdir never goes on with another function than the one it was begun with."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from actlab import activations
from actlab.config import replace
from actlab.errors import UserError
from actlab.sweeps import functions, session, trained
from actlab.workdir import manifest
from actlab.workdir.records import Workdir


def run(config, workdir):
    return session.run(config, "test", workdir, ["test"])


def sloped(slope):
    return activations.elementwise(lambda x: x + slope * jnp.abs(x))


@pytest.fixture
def bent(monkeypatch):
    """Registers functions under one name, as a file does that is edited between two commands."""

    def register(fn, **changes):
        monkeypatch.setitem(
            activations.catalogue._records, "bent", activations.Activation("bent", fn, "f(x)", "ours", **changes)
        )
        activations.catalogue._get.cache_clear()

    yield register
    activations.catalogue._get.cache_clear()


@pytest.fixture
def config(small_sweep):
    return replace(small_sweep, sweep=(), **{"model.activation": "bent"})


def test_what_is_noted_is_what_the_model_computes(config, bent, tmp_path):
    bent(sloped(0.5))
    fine = replace(
        config, **{"finetune.from_checkpoint": "w", "finetune.swap.from": "bent", "finetune.swap.to": "geglu"}
    )
    noted = functions.values([config, replace(fine, **{"finetune.swap.blocks": 1})])
    assert noted["bent"]["fn"] == pytest.approx([1.5 * x if x > 0 else 0.5 * x for x in manifest.INPUTS])
    assert noted["bent"]["slope"][:5] == [0.5] * 5 and noted["bent"].keys() == {"fn", "slope"}
    assert noted["geglu"]["value_fn"] == pytest.approx(manifest.INPUTS.tolist())
    assert noted.keys() == {"bent", "geglu"}, "a decoder has no head or pooler with an activation"
    assert noted["geglu"]["fn"] == pytest.approx(jax.nn.gelu(manifest.INPUTS, approximate=False).tolist(), abs=1e-5)
    drawn = functions.values([replace(config, **{"model.activation": "stochastic_gelu"})])
    assert drawn["stochastic_gelu"]["draw"]


def test_a_function_wrong_at_the_width_of_the_model_is_refused_before_a_workdir_is_made(config, bent, tmp_path):
    bent(lambda x: x[..., :16])
    d_ff = 4 * config.model.d_model
    with pytest.raises(UserError, match=rf"returns shape \(2, 16\) for an array of shape \(2, {d_ff}\)"):
        run(config, tmp_path / "w")
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (
            lambda x: x - x.mean(axis=1, keepdims=True),
            "'bent' is not elementwise, since it fails on an array of one axis",
        ),
        (lambda x: x[..., :10], "'bent' is not elementwise, since an output depends on other inputs"),
        (
            lambda x: x * np.random.default_rng().uniform(),
            "'bent' is not pure, since it gives another output each time",
        ),
    ],
)
def test_a_function_of_rows_or_of_more_than_its_input_is_told(config, bent, fn, words):
    bent(fn)
    with pytest.raises(UserError, match=words):
        functions.values([config])


def test_units_of_a_row_may_depend_on_each_other_but_rows_may_not(config, bent):
    def grouped(x):
        return jax.nn.softmax(x.reshape(*x.shape[:-1], -1, 4)).reshape(x.shape)

    bent(grouped, elementwise=False)
    noted = functions.values([config])["bent"]
    expected = [np.exp(x) / (np.exp(x) + 3) for x in manifest.INPUTS.astype(np.float64)]
    assert noted["fn"] == pytest.approx(expected, rel=1e-5) and len(noted["slope"]) == len(manifest.INPUTS)
    for mixing in (lambda x: jnp.roll(x, -1, axis=0), lambda x: x - x.mean()):
        bent(mixing, elementwise=False)
        with pytest.raises(UserError, match="'bent' mixes rows, so that a token sees others"):
            functions.values([config])


@pytest.mark.parametrize(
    ("slope", "changes", "words"),
    [
        (0.500001, {}, None),
        (-3.0, {}, "'bent', whose fn at -20 was -10.0 and now is -80.0: restore"),
        (0.5, {"gated": True}, "'bent', whose value_fn at -20 was None and now is -20.0"),
        (jnp.nan, {}, "'bent', whose fn at -20 was -10.0 and now is None"),
    ],
)
def test_another_function_of_the_same_name_is_refused(config, bent, tmp_path, slope, changes, words):
    bent(sloped(0.5))
    Workdir(tmp_path).write_manifest({"activations": functions.values([config])})
    functions.require_same(Workdir(tmp_path), functions.values([config]))
    bent(sloped(slope), **changes)
    if words is None:
        functions.require_same(Workdir(tmp_path), functions.values([config]))
        return
    with pytest.raises(UserError, match=words):
        functions.require_same(Workdir(tmp_path), functions.values([config]))


@jax.custom_jvp
def relu_with_another_slope(x):
    return jax.nn.relu(x)


relu_with_another_slope.defjvp(lambda x, dx: (jax.nn.relu(x[0]), 0.9 * dx[0]))


@pytest.mark.parametrize(
    ("one", "other", "what"),
    [
        (jax.nn.relu, jax.nn.relu6, "fn"),
        (partial(jax.nn.gelu, approximate=False), partial(jax.nn.gelu, approximate=True), "fn"),
        (jax.nn.relu, relu_with_another_slope, "slope"),
    ],
)
def test_small_edits_are_found(one, other, what):
    noted = [functions._values(activations.Activation("mine", fn, "", "ours")) for fn in (one, other)]
    assert manifest.function_difference(noted[0], noted[0]) is None and manifest.function_difference(*noted)[0] == what


def test_a_workdir_that_notes_no_function_is_taken_as_it_is(config, bent, tmp_path):
    bent(sloped(0.5))
    Workdir(tmp_path).write_manifest({})
    functions.require_same(Workdir(tmp_path), functions.values([config]))
    Workdir(tmp_path).write_manifest({"activations": {"another": {"fn": []}}})
    functions.require_same(Workdir(tmp_path), functions.values([config]))


def test_neither_training_nor_reading_goes_on_with_an_edited_function(config, bent, stopped_early, tmp_path):
    relu, tanh = (activations.get(name).fn for name in ("relu", "tanh"))
    bent(relu)
    with stopped_early():
        assert run(config, tmp_path / "w") == 143
    before = (tmp_path / "w/manifest.json").read_bytes()
    bent(tanh)
    for call in (lambda: run(config, tmp_path / "w"), lambda: trained.load(tmp_path / "w")):
        with pytest.raises(UserError, match="was begun with another 'bent'"):
            call()
    assert (tmp_path / "w/manifest.json").read_bytes() == before
    bent(relu)
    assert run(config, tmp_path / "w") == 0
    assert trained.load(str(tmp_path / "w")).step == 12
    bent(tanh)
    with pytest.raises(UserError, match="was begun with another 'bent'"):  # and not "already finished"
        run(config, tmp_path / "w")


def test_two_names_of_one_function_are_refused(config, tmp_path):
    for names in (("gelu", "gelu_exact"), ("gelu_scale(s=1)", "gelu_scale( s = 1.0 )")):
        with pytest.raises(UserError, match="two names of one function"):
            run(replace(config, sweep=(("model.activation", names),)), tmp_path / "w")
    assert not (tmp_path / "w").exists()


def test_values_that_come_to_one_run_are_refused(config, tmp_path):
    d_ff = (("model.d_ff", (None, 4 * config.model.d_model)),)
    with pytest.raises(UserError, match="config.sweep has one run twice, .* and .*: leave out one of the two values"):
        run(replace(config, **{"model.activation": "gelu"}, sweep=d_ff), tmp_path / "w")
    assert not (tmp_path / "w").exists()
