"""The text of the arm `code` is the source files of named versions of packages."""

import json
import pathlib
from importlib import metadata

import commands
import optax
import pytest
import scripts

from actlab import data
from actlab.errors import UserError

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def script():
    return scripts.load(ROOT / "experiments/gates/python_code.py")


def test_each_source_file_is_a_document_that_can_be_prepared(script, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "VERSIONS", {"optax": metadata.version("optax")})
    out = tmp_path / "code.jsonl"
    commands.run(script.main, out)
    texts = [json.loads(line)["text"] for line in out.read_text().splitlines()]
    files = pathlib.Path(optax.__file__).parent.rglob("*.py")
    assert sorted(texts) == sorted(file.read_text(encoding="utf-8") for file in files)
    assert data.prepare_text(str(out), str(tmp_path / "data"))


def test_another_version_is_refused_and_nothing_is_written(script, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "VERSIONS", {"optax": "0.0.1"})
    with pytest.raises(UserError, match=r"0\.0\.1"):
        commands.run(script.main, tmp_path / "code.jsonl")
    assert not list(tmp_path.iterdir())
