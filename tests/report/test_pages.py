"""Reports in a real browser: every figure draws, lanes switch, tables sort and filter, nothing is loaded."""

import pytest
from chromium import WIDTHS

from actlab.report.report import build

HOSTILE = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def pages(tmp_path_factory, six, study, workdirs):
    """Pages of 1, 6 and 120 runs, and of a folder whose names are hostile."""
    folder = tmp_path_factory.mktemp("pages")
    one = workdirs.write(folder / "one", workdirs.config_of({"model.activation": ("gelu",), "seed": (1,)}))
    hostile = workdirs.copied(six, folder / "w<b>", "results.csv", "config.json", "metrics.jsonl")
    for name in ("results.csv", "metrics.jsonl"):
        text = (hostile / name).read_text()
        quoted = HOSTILE.replace('"', '\\"')
        (hostile / name).write_text(text.replace("relu-lr0.001-seed1", f"{quoted}"))
    for name, path in (("one", one), ("six", six), ("study", study), ("hostile", hostile)):
        (folder / f"{name}.html").write_text(build([path], n_samples=0))
    return folder


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["one", "six", "study", "hostile"])
def test_it_draws_fits_and_loads_nothing(browser, pages, name, width):
    page = pages / f"{name}.html"
    browser.open(page, width, "dark" if width == 820 else "light")
    assert browser.empty_figures() == []
    assert browser.overflow() <= 0
    assert browser.complaints() == []
    assert browser.requests() == [page.as_uri()]
    alternatives = browser.run("return [...document.querySelectorAll('.drawing')].map((one) => one.ariaLabel)")
    assert len(alternatives) >= 6 and all(len(text) > 20 for text in alternatives)


def _lines(browser):
    """How many curves the training figure shows."""
    return browser.run("return document.querySelectorAll('#training-figure .mark-line path').length")


def _wait_for_lines(browser, count):
    browser.wait(f"return document.querySelectorAll('#training-figure .mark-line path').length === {count}")


def test_lanes_are_switched_off_and_on(browser, pages):
    browser.open(pages / "study.html")
    assert _lines(browser) == 10  # two activations at five rates
    browser.click("#training [data-param=activations] input[value=relu]")
    _wait_for_lines(browser, 5)
    browser.click("#training [data-param=rates] input[value='0.01']")
    _wait_for_lines(browser, 4)
    browser.click("#training [data-param=activations] input[value=relu]")
    _wait_for_lines(browser, 8)
    browser.run(
        "const one = document.querySelector('#training [data-param=shown]');"
        "one.value = 'every run'; one.dispatchEvent(new Event('input'))"
    )
    _wait_for_lines(browser, 48)
    browser.click("#training [data-param=seeds] input[value='6']")
    _wait_for_lines(browser, 40)


def test_a_condition_and_a_measure_are_chosen(browser, pages):
    browser.open(pages / "study.html")
    before = browser.run("return document.querySelector('#layers-figure svg').outerHTML")
    browser.run(
        "const one = document.querySelector('#layers [data-param=metric]');"
        "one.value = 'D6 permanently dead units'; one.dispatchEvent(new Event('input'))"
    )
    browser.wait("return document.querySelector('#layers-figure svg').outerHTML !== arguments[0]", before)
    assert browser.empty_figures() == []


def _shown(browser):
    return browser.run(
        "return [...document.querySelectorAll('#runs-table tbody tr')].filter((row) => !row.hidden)"
        ".map((row) => row.cells[0].textContent)"
    )


def test_runs_are_filtered_sorted_and_reached(browser, pages):
    browser.open(pages / "study.html")
    assert len(_shown(browser)) == 120
    browser.type("#runs-table input", "diverged warmup_steps=20")
    assert len(_shown(browser)) == 3
    browser.type("#runs-table input", " ")
    column = browser.run(
        "return [...document.querySelectorAll('#runs-table th')]"
        ".findIndex((one) => one.textContent === 'final loss') + 1"
    )
    browser.click(f"#runs-table th:nth-child({column}) button")
    first, last = _shown(browser)[0], _shown(browser)[-1]
    assert first.startswith("gelu-lr0.001") and last.startswith("relu-lr0.01")
    browser.click("#runs-table tbody tr:first-child a")
    assert browser.run("return document.querySelector(location.hash).open")
    assert first in browser.run("return document.querySelector(location.hash).textContent")


def test_a_number_of_the_ranking_leads_to_its_runs(browser, pages):
    browser.open(pages / "study.html")
    browser.click("#ranking table tbody tr:first-child a")
    shown = _shown(browser)
    assert len(shown) == 6 and all(name.startswith("gelu-lr0.001") and name.endswith("warmup_steps0") for name in shown)


def test_a_hostile_name_is_shown_as_it_is(browser, pages):
    browser.open(pages / "hostile.html")
    assert HOSTILE in _shown(browser)
    assert browser.run("return document.querySelectorAll('img').length") == 0


def test_it_prints_in_light(browser, pages, tmp_path):
    browser.open(pages / "six.html", scheme="dark", media="print")
    assert browser.run("return getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    browser.print(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").stat().st_size > 50_000
