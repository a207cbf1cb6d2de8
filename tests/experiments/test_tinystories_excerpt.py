"""The excerpt of TinyStories that studies were trained on comes out of the whole, to the byte."""

import pathlib
import random
import re

import commands
import pytest
import scripts

from actlab import data
from actlab.errors import UserError

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = ROOT / "experiments/tinystories_excerpt"
SHARED = ROOT.parent / "shared/data/tinystories"
SEPARATOR = "\n<|endoftext|>\n"


@pytest.fixture(scope="module")
def make():
    return scripts.load(FOLDER / "make.py")


def test_listed_stories_are_found_in_any_order_and_written_in_theirs(make, tmp_path, monkeypatch):
    source, out, listed = tmp_path / "all", tmp_path / "some/of_it", tmp_path / "stories.csv"
    source.mkdir()
    stories = ["Ben ran.", "Tom ate.\n\nIt was good.", "The cat sat.", "A pig."]
    (source / "train.txt").write_text(SEPARATOR.join(stories))
    (source / "valid.txt").write_text(SEPARATOR.join(["Sue sang.", "A dog dug."]) + SEPARATOR)
    wanted = {"train": ["Sue sang.", "Tom ate.\n\nIt was good."], "validation": ["The cat sat."]}
    rows = [f"{split},{make.digest(story)}" for split, stories in wanted.items() for story in stories]
    listed.write_text("\n".join(["split,sha256", *rows]))
    monkeypatch.setattr(make, "LISTED", listed)
    make.main([str(source), str(out)])
    assert (out / "train.txt").read_text() == "".join(story + SEPARATOR for story in wanted["train"])
    assert (out / "valid.txt").read_text() == "".join(story + SEPARATOR for story in wanted["validation"])


def test_of_text_that_lacks_stories_nothing_is_written(make, tmp_path):
    (tmp_path / "train.txt").write_text("Ben ran.")
    (tmp_path / "valid.txt").write_text("Sue sang.")
    with pytest.raises(UserError, match="lacks 5,635 of the 5,635 stories"):
        commands.run(make.main, tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(UserError, match="FROM and TO are missing"):
        commands.run(make.main, tmp_path)


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="needs ../shared")
def test_the_excerpt_has_the_fingerprint_of_the_studies(make, tmp_path):
    whole = tmp_path / "whole"
    whole.mkdir()
    stories = [story for name in ("train", "valid") for story in (SHARED / f"{name}.txt").read_text().split(SEPARATOR)]
    random.Random(0).shuffle(stories)
    (whole / "train.txt").write_text(SEPARATOR.join(stories[:4000]))
    (whole / "valid.txt").write_text(SEPARATOR.join([*stories[4000:], "One more."]))
    make.main([str(whole), str(tmp_path / "excerpt")])
    for name in ("train.txt", "valid.txt"):
        assert (tmp_path / "excerpt" / name).read_bytes() == (SHARED / name).read_bytes()
    data.prepare("tiny_stories", tmp_path / "data", source=tmp_path / "excerpt", progress=False)
    tokens = data.open_tokens("tiny_stories", tmp_path / "data", "bytes", progress=False)
    # The studies before there was a test split have another fingerprint, of the same files.
    page = (ROOT / "experiments/initialisation/README.md").read_text()
    assert [tokens.fingerprint[:12]] == re.findall(r"fingerprint\s+`(\w+)`", page)
