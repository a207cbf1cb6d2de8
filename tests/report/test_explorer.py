"""The explorer's page: its numbers are the library's, its curves pass through the formulas, its bytes are the same."""

import itertools
import math
import re
import types

import commands
import jax.numpy as jnp
import numpy as np
import pytest
from pages import cells, content, points, unpacked

from actlab import activations
from actlab.cli import activations as command
from actlab.errors import UserError
from actlab.report import charts, explorer
from actlab.report.explorer import tables
from actlab.report.explorer.facts import SCALES, curves

# A kink, a smooth one, one with parameters, a gated one, a vector-valued one.
NAMES = ("relu", "tanh", "leaky_relu", "geglu", "polynorm")


def run(*arguments):
    return commands.run(command.main, *arguments)


@pytest.fixture(scope="module")
def known():
    return [explorer.facts(name) for name in NAMES]


@pytest.fixture(scope="module")
def page(known):
    return explorer.page(known)


def data(page, figure):
    """Rows of a figure as the page has them."""
    return [types.SimpleNamespace(**row) for row in points(page, figure)]


def close(found, true, digits):
    if found is None or not math.isfinite(true):
        return not math.isfinite(true) and (found is None or abs(found) > 1e300)
    return abs(found - true) <= 10.0**-digits * abs(true) + 1e-9


@pytest.mark.parametrize("name", NAMES)
def test_moments_of_table_and_figure_are_the_librarys(page, name):
    rows = {numbers[1]: numbers[2:] for texts, numbers in cells(page, "numbers") if texts[0] == name}
    marks = {(row.quantity, row.s): row.y for row in data(page, "scales") if row.activation == name}
    assert tuple(rows) == SCALES and len(marks) == 6 * len(SCALES)
    for scale in (0.1, 0.7, 1.0, 4.0):
        true = activations.moments(name, scale)
        expected = {
            "mean": true.mean,
            "variance": true.variance,
            "E f²": true.second_moment,
            "forward gain": true.forward_gain,
            "backward gain": true.backward_gain,
            "P(f′ < 0)": true.negative_slope_share,
        }
        for shown, (quantity, value) in zip(rows[scale], expected.items(), strict=True):
            assert close(shown, value, 5), (scale, quantity)
            assert close(marks[quantity, scale], value, 4), (scale, quantity)


@pytest.mark.parametrize("name", NAMES)
def test_the_table_of_properties_is_the_librarys(page, name):
    texts, numbers = next(row for row in cells(page, "properties-table") if row[0][0] == name)
    true = activations.properties(name)
    extrema = (true.minimum, true.slope_infimum, true.slope_supremum, true.curvature_supremum)
    assert all(close(number, value.value, 5) for number, value in zip(numbers[1:8:2], extrema, strict=True))
    assert close(numbers[9], true.limit_left, 5) and close(numbers[10], true.limit_right, 5)
    assert texts[11] == (", ".join(f"{kink:g}" for kink in true.kinks) or "-")


def test_places_are_points_sides_or_nowhere(page):
    places = {texts[0]: texts[2::2][:4] for texts, _ in cells(page, "properties-table")}
    assert places["relu"] == ["≤ 0", "≤ 0", "≥ 0", "all"]
    assert places["tanh"] == ["-", "-", "0.00000", "0.65848"]
    assert places["geglu"][0] == "-0.75179"


def test_dead_zones_are_the_librarys_and_flushed_numbers_are_zero(page):
    zones = {tuple(texts[:2]): (texts[2:], numbers[2:]) for texts, numbers in cells(page, "zones-table")}
    assert {name for name, _ in zones} == set(NAMES) - {"polynorm"} and len(zones) == 12
    for (name, dtype), (texts, numbers) in zones.items():
        true = activations.dead_zones(name)[dtype]
        for shown, end in zip(numbers, (true.value_below, true.gradient_below, true.gradient_above), strict=True):
            assert shown is None if end is None else shown == pytest.approx(end, rel=1e-5, abs=1e-30)
        assert name != "relu" or texts == ["0", "0", "-"]
    bars = {(row.activation, row.dtype): (row.low, row.high) for row in data(page, "alive")}
    assert {name for name, _ in bars} == {"relu", "tanh", "geglu"}
    assert bars["tanh", "bfloat16"] == (-44.5, 44.5) and bars["geglu", "bfloat16"] == (-13.375, 100)


# Other gates have the formulas of functions that are tried themselves.
@pytest.mark.parametrize("name", [name for name in activations.names() if not activations.get(name).gated])
def test_curves_are_the_function_and_each_the_slope_of_the_one_before(name):
    record, known = activations.get(name), activations.properties(name)
    found = [np.asarray(points) for points in curves(known)]
    quarters = np.arange(-8, 8.25, 0.25)
    assert all(len(points) <= 600 and set(quarters) <= set(points[:, 0]) for points in found)
    if record.elementwise:
        x, y = found[0].T
        # 5e-4 of thinning, and what float32 leaves.
        between = np.linspace(-8, 8, 1025, dtype=np.float32)
        np.testing.assert_allclose(np.interp(between, x, y), record.fn(jnp.asarray(between)), atol=6e-4)
    for below, above in itertools.pairwise(found):
        for left, right in itertools.pairwise(quarters):
            inside = above[(left <= above[:, 0]) & (above[:, 0] <= right)]
            inside = inside[np.isfinite(inside[:, 1])]
            start, end = below[below[:, 0] == left][-1, 1], below[below[:, 0] == right][0, 1]
            jumps = np.isnan(below[(left < below[:, 0]) & (below[:, 0] < right), 1]).any()
            # From the last point at one end to the first at the other: a jump at an end has several.
            sides = inside[np.flatnonzero(inside[:, 0] == left)[-1] : np.flatnonzero(inside[:, 0] == right)[0] + 1]
            assert jumps or np.trapezoid(sides[:, 1], sides[:, 0]) == pytest.approx(end - start, abs=2e-4)


@pytest.mark.parametrize("name", ["gelu", "selu", "hard_swish", "xielu"])
def test_kinks_and_extrema_are_points(name):
    known = activations.properties(name)
    f, slope, curvature = (set(np.asarray(points)[:, 0]) for points in curves(known))
    assert known.minimum_at is None or known.minimum_at.value in f
    assert {place.value for place in (known.slope_infimum_at, known.slope_supremum_at) if place} <= slope
    assert set(known.kinks) <= slope & curvature


def test_a_jump_breaks_the_line_between_its_two_sides():
    at_zero = [[y for x, y in points if x == 0] for points in curves(activations.properties("relu"))]
    assert at_zero[0] == [0] and at_zero[2] == [0]
    assert [at_zero[1][0], at_zero[1][2]] == [0, 1] and math.isnan(at_zero[1][1])


def test_every_formula_is_plain_text():
    plain = {name: tables.plain(activations.get(name).formula) for name in activations.names()}
    assert [text for text in plain.values() if set(text) & set("\\{}")] == []
    assert plain["relu2"] == "max(0, x)²" and plain["sigmoid"] == "σ(x) = 1 / (1 + e⁻ˣ)"
    assert plain["geglu_tanh"] == "gelu_tanh(xW) ⊙ xV" and plain["celu"].endswith("(e^(x/α) - 1)")
    assert plain["gelu_tanh"] == "x/2 (1 + tanh(√(2/π)(x + 0.044715 x³)))"
    assert tables.plain(r"\sinh x") == r"\sinh x"


def test_formulas_come_with_sources_and_defaults(page):
    rows = {texts[0]: texts[1:] for texts, _ in cells(page, "formulas-table")}
    assert rows["leaky_relu"] == ["x if x > 0 else a x", "Maas et al. 2013", "slope = 0.01", ""]
    assert rows["polynorm"][2].endswith("bias = 0 initially, trained")
    swatches = unpacked(content(page, "formulas-table")["swatches"][0])
    colours = dict(zip(rows, (swatch[0] for swatch in swatches), strict=True))
    assert colours == {name: charts.STYLES[name].colour for name in rows}


def test_each_activation_can_be_picked_once():
    groups = explorer._picker(activations.names(), ("relu",))
    assert sorted(name for group in groups for name in group.options) == sorted(activations.names())
    assert "tanh" in next(group.options for group in groups if group.label == "sigmoids")
    assert {group.param for group in groups} == {"shown"} and all(group.options for group in groups)


def test_the_page_is_small_and_the_same_twice(known, page):
    assert explorer.page(known) == page and len(page.encode()) < 5e6
    again = [explorer.facts(name) for name in NAMES]
    assert explorer.page(again) == page


def test_the_command_writes_the_file_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(activations, "names", lambda: ("relu", "tanh"))
    path = tmp_path / "page.html"
    path.write_text("old")
    assert run(f"--html={path}") == f"{path}\n" and "<h1>2 activations</h1>" in path.read_text()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--html=nowhere/page.html"], "--html=nowhere/page.html"),
        (["--html=."], "--html=."),
        (["--html="], "--html is empty"),
        (["--html=x.html", "--scale=2"], "--scale=2.0"),
        (["--html=x.html", "--plot=x"], "--plot=x"),
    ],
)
def test_bad_input_is_refused_before_anything_is_computed(arguments, words, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(explorer, "facts", lambda name: pytest.fail("computed"))
    with pytest.raises(UserError, match=re.escape(words)):
        run(*arguments)
    assert list(tmp_path.iterdir()) == []
