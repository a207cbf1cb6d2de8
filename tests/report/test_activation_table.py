"""The table of properties, as the command prints it."""

import math

import commands
import pytest

from actlab import activations
from actlab.activations import Enclosure
from actlab.cli import activations as command
from actlab.errors import UserError
from actlab.report import activation_table


def printed(*arguments):
    """The cells by name and heading, and the whole text."""
    out = commands.run(command.main, *arguments)
    assert max(map(len, out.splitlines())) <= 160
    return {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.strip()}, out


@pytest.mark.slow
def test_every_activation_has_a_line():
    rows, _ = printed()
    assert list(rows)[3 : 3 + len(activations.names())] == list(activations.names())


def test_a_line_tells_the_properties():
    rows, out = printed("--names=gelu,relu,gelu_tanh_jax,identity,selu")
    #                          inf f, at, inf f', sup f', sup |f''|, limits, mean, var, kurt, gains, f' < 0, dead below
    assert rows["gelu"][:7] == ["-0.16997", "-0.75179", "-0.12890", "1.12890", "0.79788", "0,", "∞"]
    assert rows["gelu"][7:13] == ["0.2821", "0.3456", "6.085", "1.534", "1.481", "22.6%"]
    assert rows["relu"][:8] == ["0", "≤", "0", "0", "1", "0", "0,", "∞"] and rows["relu"][-1] == "0"
    assert rows["gelu_tanh_jax"][-1] == "-3.062" and rows["identity"][:2] == ["-∞", "–"]
    assert rows["selu"][7:12] == ["0", "1", "2.503", "1", "0.966"]
    assert "N(0, 1²)" in out and "certified" in out


def test_names_and_scale_choose_what_is_shown():
    rows, out = printed("--names=swish_1, gelu_scale(s=0.25), silu", "--scale=2")
    assert "silu" in rows and "gelu_scale" not in rows and "gelu" not in rows and "N(0, 2²)" in out
    # One quarter of gelu's minimum, and four times its curvature.
    assert "-0.04249" in out and "3.19154" in out
    assert rows["silu"][-2] == "26.1%" and out.count("26.1%") == 1, "two names of one function are one row"


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (-0.1699713, -0.1699711, "-0.16997"),
        (0.1234449, 0.1234451, "0.1234"),
        (-1e-15, 1e-15, "0.00000"),
        (-2e-25, 0.0, "0.00000"),
        (0.5, 0.5, "0.5"),
        (-0.0, 0.0, "0"),
        (7.97884560e8, 7.97884561e8, "7.9788e+08"),
        (1.234449e-9, 1.234451e-9, "1.234e-09"),
        (math.inf, math.inf, "∞"),
        (-math.inf, -math.inf, "-∞"),
        (-0.7, 0.8, "-0.7…0.8"),
        (3.0, math.inf, "3…∞"),
    ],
)
def test_only_digits_that_both_ends_agree_on_are_shown(low, high, text):
    assert activation_table.certified(Enclosure(low, high)) == text


def test_a_place_is_a_point_a_side_or_nowhere():
    inf = math.inf
    places = {"≤ -3": (-inf, -3.0), "≥ 1": (1.0, inf), "all": (-inf, inf), "-1.27846": (-1.2784646, -1.2784645)}
    assert [activation_table.place(Enclosure(*ends)) for ends in places.values()] == list(places)
    assert activation_table.place(None) == "–"


def test_a_number_that_is_none_or_not_a_number_is_a_dash():
    texts = [activation_table.number(value) for value in (None, math.nan, -math.inf, -0.0, 1e30)]
    assert texts == ["–", "–", "-∞", "0", "1e+30"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--names=relu,gleu"], "--names='gleu'.* did you mean 'gelu'"),
        (["--names="], "--names is empty"),
        (["--names=gelu_scale(s=-1)"], "out of range"),
        (["--scale=0"], "scale=0.0 is not a finite positive number"),
        (["--scale=nan"], "scale=nan is not a finite positive number"),
        (["--plot=x", "--scale=2"], "--scale=2.0 cannot be combined with --plot"),
        (["--plot=/dev/null/x"], "--plot=/dev/null/x cannot be created"),
        (["--plot="], "--plot is empty: name a folder"),
        (["names=relu"], "write --names=relu"),
        (["--scale=wide"], "--scale=wide is not valid"),
        (["--nmaes=gelu"], "did you mean 'names'"),
    ],
)
def test_bad_input_is_refused(arguments, words):
    with pytest.raises(UserError, match=words):
        printed(*arguments)
