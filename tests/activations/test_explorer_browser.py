"""The explorer in a real browser: curves follow the picker, numbers the slider, tables sort, nothing is loaded."""

import pytest
from chromium import WIDTHS

from actlab import activations
from actlab.activations import explorer, table

NAMES = ("relu", "tanh", "leaky_relu", "geglu")
FIRST = ["relu", "tanh"]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("explorer") / "page.html"
    path.write_text(explorer.page([explorer.facts(name) for name in NAMES]))
    return path


def rows(browser, name):
    """Texts of the rows that a table shows."""
    return browser.run(
        "return [...document.querySelectorAll(arguments[0])].filter((row) => row.checkVisibility())"
        ".map((row) => [...row.cells].map((cell) => cell.textContent.trim()))",
        f"#{name} tbody tr",
    )


def move(browser, selector, value):
    browser.run(
        "const one = document.querySelector(arguments[0]); one.value = arguments[1];"
        "one.dispatchEvent(new Event('input'))",
        selector,
        value,
    )


def wait_for_lines(browser, figure, names):
    """Until the figure's legend names these, and it has a line for each."""
    browser.wait(
        "const all = (selector) => [...document.querySelectorAll(`#${arguments[0]} ${selector}`)];"
        "const named = all('.role-legend-label text').map((text) => text.textContent).filter(Boolean);"
        "const lines = all('.mark-line path').filter((path) => path.getBoundingClientRect().width > 0);"
        "const style = (line) => ['stroke', 'stroke-dasharray'].map((name) => line.getAttribute(name)).join();"
        "const styles = new Set(lines.map(style));"
        "return named.join() === arguments[1].join() && styles.size === arguments[1].length",
        figure,
        names,
    )


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_draws_fits_and_loads_nothing(browser, page, width, scheme):
    browser.open(page, width, scheme)
    assert browser.empty_figures() == []
    assert browser.overflow() <= 0
    cut = "return [...document.querySelectorAll('.drawing')].map((one) => one.scrollWidth - one.clientWidth)"
    assert max(browser.run(cut)) <= 0
    assert browser.complaints() == []
    assert browser.requests() == [page.as_uri()]


def test_picking_shows_and_hides_curves_and_rows(browser, page):
    browser.open(page)
    shown = lambda: [row[0] for row in rows(browser, "numbers")]  # noqa: E731
    for figure in ("curves", "scales"):
        wait_for_lines(browser, figure, FIRST)
    assert shown() == FIRST
    browser.click("#explore input[value=geglu]")
    browser.click("#explore input[value=relu]")
    for figure in ("curves", "scales"):
        wait_for_lines(browser, figure, ["tanh", "geglu"])
    assert shown() == ["tanh", "geglu"]
    browser.click("#explore input[value=tanh]")
    browser.click("#explore input[value=geglu]")
    wait_for_lines(browser, "curves", [])
    assert shown() == [] and browser.complaints() == []


def test_the_slider_moves_the_numbers_to_those_that_were_computed(browser, page):
    browser.open(page)
    place = "return document.querySelector('#scales .mark-rule.role-mark line').getBoundingClientRect().x"
    before = browser.run(place)
    for scale in (0.1, 0.3, 2.7, 4.0):
        move(browser, "#explore [data-param=scale]", scale)
        browser.wait(f"{place} {'<' if scale < 1 else '>'} {before}")
        expected = [activations.moments(name, scale) for name in FIRST]
        for row, true in zip(rows(browser, "numbers"), expected, strict=True):
            values = (true.second_moment, true.forward_gain, true.backward_gain, true.negative_slope_share)
            assert row[:2] == [true.name, f"{scale:g}"]
            assert row[3:] == [table.number(value) for value in (true.variance, *values)]


def test_the_reach_cuts_the_curves(browser, page):
    browser.open(page)
    labels = "[...document.querySelectorAll('#curves .role-axis-label text')].map((one) => one.textContent)"
    assert not browser.run(f"return {labels}.includes('8')")
    move(browser, "#explore [data-param=reach]", 8)
    browser.wait(f"return {labels}.includes('8')")


def test_the_dtype_chooses_bars_and_rows(browser, page):
    browser.open(page)
    low = "return document.querySelector('#alive .mark-rect path[aria-label*=tanh]').getBoundingClientRect().x"
    before = browser.run(low)
    zones = {row[0]: row[1:] for row in rows(browser, "zones-table")}
    assert list(zones) == list(NAMES) and zones["tanh"] == ["bfloat16", "-", "-44.5", "44.5"]
    move(browser, "#zones select", "float16")
    browser.wait(f"{low} > {before}")
    assert {row[0]: row[1:] for row in rows(browser, "zones-table")}["tanh"] == ["float16", "-", "-9.359", "9.359"]


def test_the_table_of_properties_sorts_and_leads_to_formulas(browser, page):
    browser.open(page)
    browser.click("#properties-table th:nth-child(2) button")
    assert [row[0] for row in rows(browser, "properties-table")] == ["leaky_relu", "tanh", "geglu", "relu"]
    browser.click("#properties-table tbody tr:nth-child(3) a")
    assert rows(browser, "formulas-table")[0][:2] == ["geglu", "gelu(xW) ⊙ xV"]
    assert len(rows(browser, "formulas-table")) == 1


def test_it_prints(browser, page, tmp_path):
    browser.open(page, media="print")
    assert browser.overflow() <= 0
    browser.print(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").stat().st_size > 10_000
