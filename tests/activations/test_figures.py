"""The figures show every activation, and are the same each time."""

import xml.etree.ElementTree as ElementTree

import jax.numpy as jnp
import matplotlib.image
import numpy as np
import pytest
from absl import flags
from absl.testing import flagsaver

from actlab import activations
from actlab.activations import __main__ as command
from actlab.activations import colours, figures
from actlab.errors import UserError


def run(*arguments):
    with flagsaver.flagsaver():
        command.main(flags.FLAGS(["activations", *arguments])[1:])


def texts(path):
    """What can be read in an SVG: its texts."""
    return {"".join(node.itertext()) for node in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")}


def check(folder, families, tmp_path, printed):
    """Every figure is there in both formats, shows every name and comes out the same once more."""
    paths = sorted(folder.iterdir())
    assert sorted(printed.split()) == [str(path) for path in paths]
    assert [path.name for path in paths] == sorted(
        f"{name}.{kind}" for name in ("activations", *families) for kind in ("png", "svg")
    )
    assert set(activations.names()) <= texts(folder / "activations.svg")
    for path in folder.glob("*.png"):
        pixels = matplotlib.image.imread(path)[..., :3]
        assert pixels.shape[1] == 7.5 * 300 and 0.02 < np.mean(np.any(pixels < 0.85, axis=-1)) < 0.3
    for family in families:
        svg = folder / f"{family}.svg"
        assert set(figures.FAMILIES[family].members) <= texts(svg)
        figures.save(figures.overlay(family), tmp_path / family)
        assert (tmp_path / f"{family}.svg").read_bytes() == svg.read_bytes()


def test_a_family_is_drawn_and_twice_the_same(tmp_path):
    for name in ("first", "second"):
        figures.save(figures.overlay("gelu_scale"), tmp_path / name)
    assert set(figures.FAMILIES["gelu_scale"].members) <= texts(tmp_path / "first.svg")
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "second.svg").read_bytes()
    pixels = matplotlib.image.imread(tmp_path / "first.png")[..., :3]
    assert 0.02 < np.mean(np.any(pixels < 0.85, axis=-1)) < 0.3


@pytest.mark.slow
def test_every_activation_is_drawn_and_twice_the_same(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(figures, "FAMILIES", {"gates": figures.FAMILIES["gates"]})
    run(f"--plot={tmp_path / 'new' / 'figures'}")
    check(tmp_path / "new/figures", ["gates"], tmp_path, capsys.readouterr().out)


@pytest.mark.slow
def test_every_family_is_drawn_and_twice_the_same(tmp_path, capsys):
    run(f"--plot={tmp_path / 'new' / 'figures'}")
    check(tmp_path / "new/figures", list(figures.FAMILIES), tmp_path, capsys.readouterr().out)


def test_every_elementwise_activation_has_a_family():
    members = {
        activations.get(name).name.partition("(")[0] for known in figures.FAMILIES.values() for name in known.members
    }
    assert members == set(activations.names()) - {"polynorm"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("relu2", lambda x: (np.maximum(x, 0) ** 2, 2 * np.maximum(x, 0), 2.0 * (x > 0))),
        ("drelu", lambda x: (np.maximum(x, 0), 1.0 * (x > 0), 0 * x)),
        # E z^2, E z^4 and E z^6 of N(0, 1) are 1, 3 and 15.
        (
            "polynorm",
            lambda x: (
                (x + x**2 / 3**0.5 + x**3 / 15**0.5) / 3,
                (1 + 2 * x / 3**0.5 + 3 * x**2 / 15**0.5) / 3,
                (2 / 3**0.5 + 6 * x / 15**0.5) / 3,
            ),
        ),
    ],
)
def test_the_curves_are_the_function_and_its_derivatives(name, expected):
    found = figures.curves(name, -2.0, 2.0, points=8)
    for mine, true in zip(found, expected(np.linspace(-2, 2, 8)), strict=True):
        np.testing.assert_allclose(mine, true, atol=0.01)


def test_a_curve_is_broken_where_it_jumps_and_nowhere_else():
    x = np.linspace(-4, 4, 1000)
    for name, jumps in (("gelu_scale(s=0.05)", (0, 0, 0)), ("hard_swish", (0, 2, 2)), ("relu", (0, 1, 0))):
        found = [np.isnan(figures.broken(np.asarray(y))).sum() for y in figures.curves(name, -4.0, 4.0)]
        assert tuple(found) == jumps, name
    assert np.isnan(figures.broken(np.sign(x)))[499]


def test_styles_tell_activations_apart_also_without_colour_within_a_family():
    assert set(colours.STYLES) == set(activations.names())
    assert len(set(colours.STYLES.values())) == len(colours.STYLES)
    for family, known in figures.FAMILIES.items():
        found = [colours.style(name).colour for name in known.members]
        assert family == "gelu_scale" or len(set(found)) >= len(found) - 1


@pytest.fixture
def own():
    """A gated activation of a user's."""
    thrice = activations.Activation("thrice", jnp.abs, "3 v |x|", "ours", gated=True, value_fn=lambda v: 3 * v)
    return activations.register(thrice)


def test_a_style_is_that_of_the_name_whatever_its_parameters_and_a_new_activation_has_one(own):
    assert colours.style("celu(alpha=0.5)") == colours.style("celu") == colours.STYLES["celu"]
    assert colours.style("swish_1") == colours.STYLES["silu"]
    assert colours.style(own.name).colour in colours.PALETTE
    np.testing.assert_array_equal(figures.curves(own.name, -1.0, 1.0, points=2)[0], [3, 3])
    with pytest.raises(UserError, match="did you mean 'gelu'"):
        colours.style("gleu")
