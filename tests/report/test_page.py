"""A page's text: escaped, self-contained, the same twice."""

import itertools
import os
import pathlib
import re
import subprocess
import sys

import markupsafe
import pytest
from pages import content

from actlab.report.page import (
    Cell,
    Choice,
    Code,
    Controls,
    Details,
    Figure,
    Listing,
    Records,
    Rows,
    Section,
    Side,
    Slider,
    Swatch,
    Table,
    Text,
    Toggles,
)
from actlab.report.page.render import compact, render

HOSTILE = "</script><script>alert(1)</script>&\"'<!--"
SPEC = {"mark": "point", "data": {"name": "d"}}


def everywhere(*texts: str) -> str:
    """A page with texts, one after the other, in every place that takes one."""
    text = itertools.cycle(texts)
    cells = [[Cell(next(text), swatch=Swatch(next(text)))]]
    records = Records("records", (next(text), next(text)), {next(text): (next(text), next(text))})
    rows = {"d": Rows((next(text),), [(next(text),)])}
    toggles = Toggles(next(text), next(text), (next(text), next(text)))
    choice = Choice(next(text), next(text), (next(text),), "")
    blocks = (
        Text(next(text)),
        Listing((next(text),)),
        Code(next(text), next(text)),
        Figure("figure", {**SPEC, "title": next(text)}, rows, next(text), next(text)),
        Controls((toggles, choice, Slider(next(text), next(text), 0, 1, 1, 0))),
        Table("table", (next(text),), cells, next(text), filtered=True, follows={next(text): 0}, links=[next(text)]),
        records,
        Details("details", next(text), (Text(next(text)),)),
        Side(((next(text), Text(next(text))),)),
    )
    bar = Controls((Toggles(next(text), next(text), (next(text),)),))
    return render(next(text), next(text), [Section("s", next(text), blocks)], bar)


def test_no_text_gets_out_of_its_place():
    html = everywhere(HOSTILE)
    assert HOSTILE not in html
    assert html.count("<script") == everywhere("harmless").count("<script")
    assert html.count("</script") == everywhere("harmless").count("</script")


def test_every_text_is_there():
    texts = [f"<{number}>" for number in range(38)]
    html = everywhere(*texts)
    assert [text for text in texts if markupsafe.escape(text) not in html and json_escape(text) not in html] == []
    assert html.count("&lt;0&gt;") == 1, "there are fewer texts than places"


def json_escape(text: str) -> str:
    return text.replace("<", "\\u003c").replace(">", "\\u003e")


def test_a_table_is_packed_by_columns_with_what_they_sort_by():
    dashed, solid = Swatch("#0072b2", (4.0, 1.5)), Swatch("red")
    cells = [
        [Cell("gelu", swatch=dashed), Cell("1.2", 1.2), Cell("1,000", 1000), "a"],
        [Cell("relu", swatch=solid), "-", Cell("2", 2), "b"],
    ]
    html = render("", "", [Section("s", "", (Table("t", ("name", "loss", "count", "at"), cells, links=("u", "v")),))])
    packed = content(html, "t")
    assert packed["texts"] == [["gelu", "relu"], ["1.2", "-"], ["1,000", "2"], ["a", "b"]]
    assert packed["orders"] == [None, "texts", [1000, 2], None]
    assert packed["swatches"] == [[["#0072b2", "8 3"], ["red", ""]], None, None, None] and packed["links"] == ["u", "v"]


def test_values_that_repeat_are_kept_once():
    rows = [(step, name) for step in range(20) for name in ("relu", "gelu")]
    page = render("", "", [Section("s", "", (Figure("f", SPEC, {"d": Rows(("step", "name"), rows)}, "alt"),))])
    steps, names = content(page, "f")["data"]["d"]["values"]
    assert names == {"of": ["relu", "gelu"], "at": [0, 1] * 20}
    assert steps == [step for step, _ in rows], "not where each stands twice only"


def test_it_loads_nothing():
    html = everywhere("harmless")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy and "default-src 'none'" in policy[1] and "unsafe-eval" not in policy[1]
    body = re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)
    assert not re.search(r"(src|href)=\"(?!#|data:)", body) and "url(" not in body and "@import" not in body


def test_it_is_the_same_twice_and_without_figures_small():
    # Sets of texts have another order in another process.
    line = [sys.executable, "-c", "import test_page; print(test_page.everywhere(*'abcdefgh'), end='')"]
    paths = os.pathsep.join([str(pathlib.Path(__file__).parent), *sys.path])
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths}
        again = subprocess.run(line, env=environment, capture_output=True, text=True, check=True)
        assert again.stdout == everywhere(*"abcdefgh")
    assert len(render("a", "", [])) < 30_000 < len(everywhere("a"))


def test_two_places_of_one_name_are_refused():
    with pytest.raises(ValueError, match="'one'"):
        inner = Details("d", "", (Code(""), Records("r", (), {"one": ()})))
        render("", "", [Section("one", "", ()), Section("two", "", (inner,))])


def test_numbers_are_short_and_what_is_none_is_null():
    rows = [(1 / 3, float("nan"), float("inf"), "text", 7, None, 4.0)]
    assert compact(rows) == [[0.33333, None, None, "text", 7, None, 4]]
