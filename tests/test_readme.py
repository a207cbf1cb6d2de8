"""Links lead somewhere, and the picture of the README is the one that its rows give."""

import pathlib
import re

import numpy as np
import pytest
import scripts

from actlab.report.page.render import to_svg

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = [*ROOT.glob("*.md"), *(page for name in ("docs", "experiments") for page in (ROOT / name).rglob("*.md"))]
WORDS = re.compile(r">([^<>\s][^<>]*)</text>")
NUMBER = re.compile(r"-?\d+\.\d+|-?\d+")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page):
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    files = [link.partition("#")[0] for link in links if not link.startswith(("http", "#"))]
    assert [file for file in files if not (page.parent / file).exists()] == []


def test_the_picture_is_told_in_words():
    ((text, file),) = re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", README)
    assert (ROOT / file).stat().st_size < 150_000
    losses = [f"{name} {loss:.3f}" for name, loss in picture().lowest("fan_in").items()]
    assert len(losses) == 5 and ", ".join(losses) in " ".join(text.split())


def picture():
    return scripts.load(ROOT / "experiments/initialisation/figure.py")


def test_the_picture_is_what_its_command_draws():
    """The same words, and the same curves but for rounding."""
    drawn, kept = to_svg(picture().figure()), (ROOT / "experiments/initialisation/figure.svg").read_text()
    assert NUMBER.sub("", drawn) == NUMBER.sub("", kept)
    assert WORDS.findall(drawn) == WORDS.findall(kept) and "learning rate" in WORDS.findall(kept)
    numbers = [np.asarray(NUMBER.findall(text), np.float64) for text in (drawn, kept)]
    np.testing.assert_allclose(*numbers, atol=0.11)
