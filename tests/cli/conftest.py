"""What the tests of the commands share."""

import commands
import pytest


@pytest.fixture
def refused(tmp_path, monkeypatch):
    """A function that calls a command in an empty folder; returns the sentence with which it refuses its words."""
    monkeypatch.chdir(tmp_path)

    def refused(main, *words) -> str:
        before = sorted(tmp_path.rglob("*"))
        code, _, error = commands.call(main, *words)
        assert (code, error.count("\n")) == (2, 1) and error.startswith("actlab: "), error
        assert sorted(tmp_path.rglob("*")) == before, "something was written"
        return error

    return refused
