"""A page in a real browser: figures draw, controls move them, tables sort and filter, links lead, nothing is loaded."""

import pytest
from chromium import WIDTHS

from actlab.page import (
    Cell,
    Choice,
    Code,
    Controls,
    Details,
    Figure,
    Rows,
    Section,
    Slider,
    Swatch,
    Table,
    Text,
    Toggles,
    render,
)

LANES = ("gelu", "relu</script><b>", "tanh")
X = {"field": "x", "type": "quantitative"}
Y = {"field": "z", "type": "quantitative", "scale": {"domain": [0, 100]}}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    rows = Rows(
        ("x", "y", "lane", "link"), [(x, x + n, lane, "more") for x in range(9) for n, lane in enumerate(LANES)]
    )
    lines = {
        "data": {"name": "d"},
        "width": "container",
        "params": [{"name": "shown", "value": []}, {"name": "scale", "value": 1}, {"name": "mark", "value": "a"}],
        "transform": [
            {"filter": "indexof(shown, datum.lane) >= 0"},
            {"calculate": "datum.y * scale * (mark == 'b' ? 2 : 1)", "as": "z"},
        ],
        "mark": {"type": "point", "tooltip": True},
        "encoding": {"x": X, "y": Y, "detail": {"field": "lane"}},
    }
    facet = {
        "data": {"name": "d"},
        "facet": {"field": "lane"},
        "spec": {"width": 200, "height": 60, "mark": "rect", "encoding": {"x": X}},
    }
    controls = Controls(
        (
            Toggles("shown", "lanes", LANES, swatches={"gelu": Swatch("#0072b2", (4.0, 1.5))}),
            Slider("scale", "scale", 0.5, 2.0, 0.5, 1.0),
            Choice("mark", "mark", ("a", "b"), "a"),
        )
    )
    cells = [
        [Cell("ten", link="more"), Cell("10", 10.0), "diverged"],
        [Cell("nine", link="table", words="=ten"), Cell("9", 9.0), "finished"],
        ["none", "-", "finished later"],
    ]
    sections = [
        Section("figures", "Figures", (controls, Figure("lines", lines, {"d": rows}, "alt of lines"))),
        Section("others", "Others", (Figure("facet", facet, {"d": rows}, "alt of facet", "caption"),)),
        Section(
            "tables",
            "Tables",
            (
                Table("table", ("run", "loss", "a long heading " * 12), cells, "runs", filtered=True),
                Details("more", "more", (Text("unfolded"), Code("x" * 500))),
            ),
        ),
    ]
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(render("A <page>", "lead", sections))
    return path


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_draws_fits_and_loads_nothing(browser, page, width, scheme):
    browser.open(page, width, scheme)
    assert browser.empty_figures() == []
    assert browser.overflow() <= 0
    assert browser.complaints() == []
    assert browser.requests() == [page.as_uri()]


def test_the_network_is_cut(browser, page):
    """The log that the other tests read does see requests, and the policy forbids them."""
    browser.open(page)
    browser.run("document.body.append(Object.assign(new Image(), {src: 'http://localhost:9/x.png'}))")
    assert any("localhost:9" in line for line in browser.complaints())


def test_each_control_moves_the_figure(browser, page):
    def wait(condition):
        marks = "[...document.querySelectorAll('#lines .mark-symbol path')]"
        browser.wait(f"const y = {marks}.map((one) => one.getBoundingClientRect().y); return {condition}")

    def move(selector, value):
        browser.run(
            "const one = document.querySelector(arguments[0]); one.value = arguments[1];"
            "one.dispatchEvent(new Event('input'))",
            selector,
            value,
        )

    browser.open(page)
    wait("y.length === 27")
    browser.click("#figures input[value=gelu]")
    wait("y.length === 18")
    browser.click("#figures [data-all='']")
    wait("y.length === 0")
    browser.click("#figures [data-all=true]")
    wait("y.length === 27")
    for selector, value in (("#figures select", "b"), ("#figures [type=range]", "2")):
        highest = browser.run(
            "return Math.min(...[...document.querySelectorAll('#lines .mark-symbol path')]"
            ".map((one) => one.getBoundingClientRect().y))"
        )
        move(selector, value)
        wait(f"Math.min(...y) < {highest} - 5")
    assert browser.run("return document.querySelector('#figures output').value") == "2"


def test_facets_take_the_columns_that_fit(browser, page):
    for width, columns in ((390, 1), (1440, 3)):
        browser.open(page, width)
        layout = browser.run("return document.querySelector('#facet .drawing').dataset.layout")
        assert int(layout.split(" x ")[0]) == columns
        drawn, given = browser.run(
            "return ['#facet svg', '#facet'].map((one) => document.querySelector(one).clientWidth)"
        )
        assert 0.8 * given < drawn <= given


def _first_column(browser):
    return browser.run(
        "return [...document.querySelectorAll('#table tbody tr')].filter((row) => !row.hidden)"
        ".map((row) => row.cells[0].textContent)"
    )


def test_a_table_sorts_by_number_and_what_is_none_stays_last(browser, page):
    browser.open(page)
    for expected in (["nine", "ten", "none"], ["ten", "nine", "none"]):
        browser.click("#table th:nth-child(2) button")
        assert _first_column(browser) == expected
    assert browser.run("return document.querySelector('#table th:nth-child(2)').ariaSort") == "descending"


def test_a_table_filters_by_words_and_by_whole_cells(browser, page):
    browser.open(page)
    for words, expected in (("finished", ["nine", "none"]), ("=finished", ["nine"]), ("FIN later", ["none"]), ("", 3)):
        browser.type("#table input", words + " ")
        assert _first_column(browser) == expected or len(_first_column(browser)) == expected
    assert browser.run("return document.querySelector('#table output').value") == "3 rows"


def test_links_unfold_and_filter(browser, page):
    browser.open(page)
    browser.click("#table tbody tr:nth-child(2) a")
    assert _first_column(browser) == ["ten"]
    assert not browser.run("return document.querySelector('#more').open")
    browser.click("#table tbody tr:nth-child(1) a")
    browser.wait("return document.querySelector('#more').open")  # its event comes after the click


def test_a_mark_leads_to_its_place(browser, page):
    browser.open(page)
    browser.run(
        "document.querySelector('#lines .mark-symbol path').dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    assert browser.run("return location.hash") == "#more"


def test_it_prints(browser, page, tmp_path):
    browser.open(page, media="print")
    assert browser.overflow() <= 0
    assert browser.run("return getComputedStyle(document.querySelector('.search')).display") == "none"
    browser.print(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").stat().st_size > 10_000
