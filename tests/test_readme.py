"""README says what is there: links lead somewhere, the picture is the one its rows give, the map has every file."""

import io
import pathlib
import re

import matplotlib
import numpy as np
import pytest
import scripts

from actlab.activations import figures

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = [path for path in ROOT.rglob("*.md") if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)]
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
    losses = [f"{row['activation']} {float(row['final_loss']):.3f}" for row in picture().runs()]
    assert len(losses) == 5 and ", ".join(losses) in " ".join(text.split())
    assert f"floor of {float(picture().runs()[0]['floor']):.3f}" in " ".join(text.split())


def picture():
    return scripts.load(ROOT / "experiments/first_runs/figure.py")


def test_the_picture_is_what_its_command_draws():
    """The same words and, but for the last digits of another machine's floats, the same curves."""
    with matplotlib.rc_context(figures.SETTINGS):
        file = io.StringIO()
        picture().draw().savefig(file, format="svg", metadata={"Date": None})
    drawn, kept = file.getvalue(), (ROOT / "experiments/first_runs/figure.svg").read_text()
    assert NUMBER.sub("", drawn) == NUMBER.sub("", kept)
    assert WORDS.findall(drawn) == WORDS.findall(kept) and "1.180" in WORDS.findall(kept)
    numbers = [np.asarray(NUMBER.findall(text), np.float64) for text in (drawn, kept)]
    np.testing.assert_allclose(*numbers, atol=0.01)


@pytest.mark.parametrize("room", [".", "training", "studies", "interop"])
def test_the_map_has_every_file_of_the_rooms_that_it_lists(room):
    listed = README.partition("## Map")[2].partition("## Decisions")[0]
    files = [path.name for path in (ROOT / "actlab" / room).glob("*.py") if path.name != "__init__.py"]
    assert [name for name in files if name not in listed and (name, room) != ("__main__.py", "interop")] == []


def test_the_map_has_every_room_and_no_file_that_is_gone():
    listed = README.partition("## Map")[2].partition("## Decisions")[0].partition("configs/")[0]
    rooms = {path.parent.name for path in (ROOT / "actlab").glob("*/__init__.py")}
    assert [room for room in rooms if f"{room}/" not in listed] == []
    there = {path.name for path in (ROOT / "actlab").rglob("*.py")}
    assert [name for name in re.findall(r"[\w]+\.py", listed) if name not in there] == []
