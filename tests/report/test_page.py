"""A page's text: escaped, self-contained, the same twice."""

import itertools
import re

import markupsafe
import pytest

from actlab.report.page import (
    Cell,
    Choice,
    Code,
    Controls,
    Details,
    Figure,
    Listing,
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
    cells = [[next(text), Cell(next(text), link=next(text), words=next(text), swatch=Swatch(next(text)))]]
    rows = {"d": Rows((next(text),), [(next(text),)])}
    toggles = Toggles(next(text), next(text), (next(text), next(text)))
    choice = Choice(next(text), next(text), (next(text),), "")
    blocks = (
        Text(next(text)),
        Listing((next(text),)),
        Code(next(text), next(text)),
        Figure("figure", {**SPEC, "title": next(text)}, rows, next(text), next(text)),
        Controls((toggles, choice, Slider(next(text), next(text), 0, 1, 1, 0))),
        Table("table", (next(text),), cells, next(text), filtered=True, follows={next(text): 0}),
        Details("details", next(text), (Text(next(text)),)),
        Side(((next(text), Text(next(text))),)),
    )
    return render(next(text), next(text), [Section("s", next(text), blocks)])


def test_no_text_gets_out_of_its_place():
    html = everywhere(HOSTILE)
    assert HOSTILE not in html
    assert html.count("<script") == everywhere("harmless").count("<script")
    assert html.count("</script") == everywhere("harmless").count("</script")


def test_every_text_is_there():
    texts = [f"<{number}>" for number in range(33)]
    html = everywhere(*texts)
    assert [text for text in texts if markupsafe.escape(text) not in html and json_escape(text) not in html] == []
    assert html.count("&lt;0&gt;") == 1, "there are fewer texts than places"


def json_escape(text: str) -> str:
    return text.replace("<", "\\u003c").replace(">", "\\u003e")


def test_numbers_stand_under_their_headings_and_curves_have_their_dashes():
    dashed, solid = Swatch("#0072b2", (4.0, 1.5)), Swatch("red")
    cells = [[Cell("gelu", swatch=dashed), Cell("1.2", 1.2)], [Cell("relu", swatch=solid), "-"]]
    html = render("", "", [Section("s", "", (Table("t", ("name", "loss"), cells),))])
    assert re.findall(r"<th scope=\"col\"( class=\"number\")?>", html) == ["", ' class="number"']
    assert re.findall(r'stroke="([^"]*)"( stroke-dasharray="[^"]*")?', html) == [
        ("#0072b2", ' stroke-dasharray="8 3"'),
        ("red", ""),
    ]


def test_it_loads_nothing():
    html = everywhere("harmless")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy and "default-src 'none'" in policy[1] and "unsafe-eval" not in policy[1]
    body = re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)
    assert not re.search(r"(src|href)=\"(?!#|data:)", body) and "url(" not in body and "@import" not in body


def test_it_is_the_same_twice_and_without_figures_small():
    assert everywhere("a") == everywhere("a")
    assert len(render("a", "", [])) < 30_000 < len(everywhere("a"))


def test_two_places_of_one_name_are_refused():
    with pytest.raises(ValueError, match="'one'"):
        inner = Details("d", "", (Code(""), Details("one", "", ())))
        render("", "", [Section("one", "", ()), Section("two", "", (inner,))])


def test_numbers_are_short_and_what_is_none_is_null():
    rows = [(1 / 3, float("nan"), float("inf"), "text", 7, None, 4.0)]
    assert compact(rows) == [[0.33333, None, None, "text", 7, None, 4]]
