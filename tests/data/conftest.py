from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from actlab.data.sets import story_grammar

WriteTexts = Callable[..., Path]


@pytest.fixture
def write_texts(tmp_path: Path) -> WriteTexts:
    """Writes a folder with train.txt and valid.txt."""

    def write(train: Iterable[str], validation: Iterable[str], name: str = "texts") -> Path:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        for file, texts in (("train.txt", train), ("valid.txt", validation)):
            (folder / file).write_text("".join(f"{text}\n<|endoftext|>\n" for text in texts), encoding="utf-8")
        return folder

    return write


@pytest.fixture
def few_stories(monkeypatch: pytest.MonkeyPatch) -> int:
    """The story grammar has few stories of validation and of test."""
    monkeypatch.setattr(story_grammar, "N_HELD_OUT_STORIES", 10)
    return 10
