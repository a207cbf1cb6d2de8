import itertools
import math
import random
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import actlab.data

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
def toy_grammar(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A stand-in for the story grammar: one to three letters of four, every choice uniform."""
    toy = types.ModuleType("actlab.data.story_grammar")

    def stories(seed: int, split: str, n: int) -> Iterator[SimpleNamespace]:
        generator = random.Random(f"{seed} {split}")
        for _ in itertools.repeat(None, n):
            text = "".join(generator.choices("abcd", k=generator.randint(1, 3)))
            yield SimpleNamespace(text=text, nats=math.log(3) + len(text) * math.log(4))

    toy.stories = stories  # type: ignore[attr-defined]
    toy.VERSION = "0.1-toy"  # type: ignore[attr-defined]
    toy.entropy_nats = lambda: math.log(3) + 2 * math.log(4)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, toy.__name__, toy)
    monkeypatch.setattr(actlab.data, "story_grammar", toy, raising=False)
    return toy
