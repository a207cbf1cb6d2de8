"""Pages in a real browser: figures draw, controls move them, tables sort and filter, links lead, nothing is loaded."""

import pytest
from chromium import WIDTHS

from actlab import activations
from actlab.report import activation_table, explorer
from actlab.report.page import (
    Cell,
    Choice,
    Code,
    Controls,
    Details,
    Figure,
    Rows,
    Section,
    Slider,
    Table,
    Text,
    Toggles,
)
from actlab.report.page.render import render

pytestmark = pytest.mark.browser
LANES = ("gelu", "relu</script><b>", "tanh")
HOSTILE = "</script><img src=x onerror=alert(1)>"
NAMES = ("relu", "tanh", "leaky_relu", "geglu")


@pytest.fixture(scope="module")
def pages(tmp_path_factory, six, study, workdirs):
    """Files by name: a page of blocks, reports of 1, 6 and 120 runs and of hostile names, and the explorer."""
    folder = tmp_path_factory.mktemp("pages")
    one = workdirs.write(folder / "one", workdirs.config_of({"model.activation": ("gelu",), "seed": (1,)}))
    hostile = workdirs.copied(six, folder / "w<b>", "results.csv", "config.json", "metrics.jsonl")
    for name in ("results.csv", "metrics.jsonl"):
        text = (hostile / name).read_text()
        (hostile / name).write_text(text.replace("relu-lr0.001-seed1", HOSTILE))
    texts = {
        name: workdirs.page(path) for name, path in (("one", one), ("six", six), ("study", study), ("hostile", hostile))
    }
    texts["explorer"] = explorer.page([explorer.facts(name) for name in NAMES])
    texts["blocks"] = render("A <page>", "lead", blocks())
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text)
    return {name: folder / f"{name}.html" for name in texts}


def blocks():
    rows = Rows(
        ("x", "y", "lane", "link"), [(x, x + n, lane, "more") for x in range(9) for n, lane in enumerate(LANES)]
    )
    x, y = ({"field": field, "type": "quantitative"} for field in "xz")
    lines = {
        "data": {"name": "d"},
        "width": "container",
        "params": [{"name": "shown", "value": []}, {"name": "scale", "value": 1}, {"name": "mark", "value": "a"}],
        "transform": [
            {"filter": "indexof(shown, datum.lane) >= 0"},
            {"calculate": "datum.y * scale * (mark == 'b' ? 2 : 1)", "as": "z"},
        ],
        "mark": {"type": "point", "tooltip": True},
        "encoding": {"x": x, "y": y | {"scale": {"domain": [0, 100]}}, "detail": {"field": "lane"}},
    }
    facet = {
        "data": {"name": "d"},
        "facet": {"field": "lane"},
        "spec": {"width": 200, "height": 60, "mark": "rect", "encoding": {"x": x}},
    }
    controls = Controls(
        (
            Toggles("shown", "lanes", LANES),
            Slider("scale", "scale", 0.5, 2.0, 0.5, 1.0),
            Choice("mark", "", ("a", "b"), "a"),
        )
    )
    cells = [
        [Cell("ten", link="more"), Cell("10", 10.0), "diverged"],
        [Cell("nine", link="table", words="=ten"), Cell("9", 9.0), "finished"],
        ["none", "-", "finished later"],
    ]
    table = Table("table", ("run", "loss", "a long heading " * 12), cells, "runs", filtered=True)
    return [
        Section("figures", "Figures", (controls, Figure("lines", lines, {"d": rows}, "alt of lines"))),
        Section("others", "Others", (Figure("facet", facet, {"d": rows}, "alt of facet", "caption"),)),
        Section("tables", "Tables", (table, Details("more", "more", (Text("unfolded"), Code("x" * 500))))),
    ]


def move(browser, selector, value):
    browser.run(
        "const one = document.querySelector(arguments[0]); one.value = arguments[1];"
        "one.dispatchEvent(new Event('input'))",
        selector,
        value,
    )


def shown(browser, table):
    """The texts of the rows that a table shows."""
    return browser.run(
        "return [...document.querySelectorAll(arguments[0])].filter((row) => row.checkVisibility())"
        ".map((row) => [...row.cells].map((cell) => cell.textContent.trim()))",
        f"#{table} tbody tr",
    )


def first(browser, table="table"):
    return [row[0] for row in shown(browser, table)]


@pytest.mark.parametrize("name", ["blocks", "one", "six", "study", "hostile", "explorer"])
def test_a_page_draws_fits_and_loads_nothing(browser, pages, name):
    for width, scheme in zip(WIDTHS, ("light", "dark", "light"), strict=True):
        browser.open(pages[name], width, scheme)
        assert browser.empty_figures() == []
        assert browser.overflow() <= 0
        assert browser.complaints() == []
        assert browser.requests() == [pages[name].as_uri()]


def test_the_network_is_cut(browser, pages):
    """The log that the other tests read does see requests, and the policy forbids them."""
    browser.open(pages["blocks"])
    browser.run("document.body.append(Object.assign(new Image(), {src: 'http://localhost:9/x.png'}))")
    assert any("localhost:9" in line for line in browser.complaints())


def test_each_control_moves_the_figure(browser, pages):
    marks = "[...document.querySelectorAll('#lines .mark-symbol path')]"

    def wait(condition):
        browser.wait(f"const y = {marks}.map((one) => one.getBoundingClientRect().y); return {condition}")

    browser.open(pages["blocks"])
    wait("y.length === 27")
    browser.click("#figures input[value=gelu]")
    wait("y.length === 18")
    browser.click("#figures [data-all='']")
    wait("y.length === 0")
    browser.click("#figures [data-all=true]")
    wait("y.length === 27")
    for selector, value in (("#figures select", "b"), ("#figures [type=range]", "2")):
        highest = browser.run(f"return Math.min(...{marks}.map((one) => one.getBoundingClientRect().y))")
        move(browser, selector, value)
        wait(f"Math.min(...y) < {highest} - 5")
    assert browser.run("return document.querySelector('#figures output').value") == "2"


def test_a_facet_has_as_many_columns_as_fit(browser, pages):
    for width, columns in ((390, 1), (1440, 3)):
        browser.open(pages["blocks"], width)
        layout = browser.run("return document.querySelector('#facet .drawing').dataset.layout")
        assert int(layout.split(" x ")[0]) == columns
        drawn, given = browser.run(
            "return ['#facet svg', '#facet'].map((one) => document.querySelector(one).clientWidth)"
        )
        assert 0.8 * given < drawn <= given


def test_a_table_sorts_and_filters_and_links_lead(browser, pages):
    browser.open(pages["blocks"])
    for expected in (["nine", "ten", "none"], ["ten", "nine", "none"]):
        browser.click("#table th:nth-child(2) button")
        assert first(browser) == expected
    assert browser.run("return document.querySelector('#table th:nth-child(2)').ariaSort") == "descending"
    for words, expected in (("finished", ["nine", "none"]), ("=finished", ["nine"]), ("FIN later", ["none"])):
        browser.type("#table input", words + " ")
        assert first(browser) == expected
    browser.type("#table input", " ")
    browser.click("#table tbody tr:nth-child(2) a")
    assert first(browser) == ["ten"]
    assert not browser.run("return document.querySelector('#more').open")
    browser.click("#table tbody tr:nth-child(1) a")
    browser.wait("return document.querySelector('#more').open")  # its event comes after the click


def test_a_mark_leads_to_its_place(browser, pages):
    browser.open(pages["blocks"])
    browser.run(
        "document.querySelector('#lines .mark-symbol path').dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    assert browser.run("return location.hash") == "#more"


def test_curves_of_a_report_are_switched_off_and_on(browser, pages):
    def wait(count):
        browser.wait(f"return document.querySelectorAll('#training-figure .mark-line path').length === {count}")

    browser.open(pages["study"])
    wait(10)  # two activations at five rates
    browser.click("#training [data-param=activations] input[value=relu]")
    wait(5)
    browser.click("#training [data-param=rates] input[value='0.01']")
    wait(4)
    move(browser, "#training [data-param=shown]", "every run")
    wait(24)
    browser.click("#training [data-param=seeds] input[value='6']")
    wait(20)
    before = browser.run("return document.querySelector('#layers-figure svg').outerHTML")
    move(browser, "#layers [data-param=metric]", "D6 permanently dead units")
    browser.wait("return document.querySelector('#layers-figure svg').outerHTML !== arguments[0]", before)
    assert browser.empty_figures() == []


def test_runs_of_a_report_are_filtered_and_reached(browser, pages):
    browser.open(pages["study"])
    assert len(first(browser, "runs-table")) == 120
    browser.type("#runs-table input", "diverged warmup_steps=20")
    names = first(browser, "runs-table")
    assert len(names) == 3
    browser.click("#runs-table tbody tr:not([hidden]) a")
    assert browser.run("return document.querySelector(location.hash).open")
    assert names[0] in browser.run("return document.querySelector(location.hash).textContent")
    browser.click("#ranking table tbody tr:first-child a")
    names = first(browser, "runs-table")
    assert len(names) == 6 and all(name.startswith("gelu-lr0.001") and name.endswith("warmup_steps0") for name in names)
    browser.open(pages["hostile"])
    assert HOSTILE in first(browser, "runs-table")
    assert browser.run("return document.querySelectorAll('img').length") == 0


def test_picking_an_activation_shows_its_curves_and_rows(browser, pages):
    def wait(figure, names):
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

    browser.open(pages["explorer"])
    wait("curves", ["relu", "tanh"])
    browser.click("#explore input[value=geglu]")
    browser.click("#explore input[value=relu]")
    for figure in ("curves", "scales"):
        wait(figure, ["tanh", "geglu"])
    assert first(browser, "numbers") == ["tanh", "geglu"]
    browser.click("#explore input[value=tanh]")
    browser.click("#explore input[value=geglu]")
    wait("curves", [])
    assert first(browser, "numbers") == [] and browser.complaints() == []


def test_the_controls_of_the_explorer_choose_numbers_reach_and_dtype(browser, pages):
    browser.open(pages["explorer"])
    place = "return document.querySelector('#scales .mark-rule.role-mark line').getBoundingClientRect().x"
    before = browser.run(place)
    move(browser, "#explore [data-param=scale]", 2.7)
    browser.wait(f"{place} > {before}")
    for row, name in zip(shown(browser, "numbers"), ("relu", "tanh"), strict=True):
        true = activations.moments(name, 2.7)
        values = (true.variance, true.second_moment, true.forward_gain, true.backward_gain, true.negative_slope_share)
        assert row[:2] == [name, "2.7"] and row[3:] == [activation_table.number(value) for value in values]
    labels = "[...document.querySelectorAll('#curves .role-axis-label text')].map((one) => one.textContent)"
    assert not browser.run(f"return {labels}.includes('8')")
    move(browser, "#explore [data-param=reach]", 8)
    browser.wait(f"return {labels}.includes('8')")
    low = "return document.querySelector('#alive .mark-rect path[aria-label*=tanh]').getBoundingClientRect().x"
    before = browser.run(low)
    move(browser, "#zones select", "float16")
    browser.wait(f"{low} > {before}")
    assert {row[0]: row[1:] for row in shown(browser, "zones-table")}["tanh"] == ["float16", "-", "-9.359", "9.359"]


@pytest.mark.parametrize("name", ["blocks", "six", "explorer"])
def test_it_prints_on_white_paper(browser, pages, name, tmp_path):
    browser.open(pages[name], scheme="dark", media="print")
    assert browser.run("return getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.overflow() <= 0
    browser.print(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").stat().st_size > 10_000
