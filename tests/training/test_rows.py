"""A file of rows: what a kill cut short is left out, what is no row is named by its line."""

import pytest

from actlab.errors import UserError
from actlab.training import rows

GOOD = '{"run": "a", "step": 1, "split": "train"}\n'


@pytest.mark.parametrize("tail", ['{"run": "a", "st', '{"run": "a", "step": 2, "split": "train"}'])
def test_a_last_line_without_its_end_is_left_out(tmp_path, tail):
    path = tmp_path / "metrics.jsonl"
    path.write_text(GOOD + tail)
    assert [row["step"] for row in rows.read(path, "split")] == [1]
    assert rows.is_cut_short(path)


@pytest.mark.parametrize("content", ["", GOOD])
def test_a_whole_file_is_not_cut_short(tmp_path, content):
    path = tmp_path / "metrics.jsonl"
    path.write_text(content)
    assert not rows.is_cut_short(path)
    assert not rows.is_cut_short(tmp_path / "missing") and rows.read(tmp_path / "missing") == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("run,step", "is not JSON"),
        ("\xff", "is not JSON"),
        ("[1]", "no 'run'"),
        ('{"run": "a"}', "no 'step'"),
        ('{"run": "a", "step": 1}', "no 'split'"),
    ],
)
def test_a_foreign_line_is_named_by_its_number(tmp_path, line, words):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes((GOOD + line + "\n" + GOOD).encode("latin-1"))
    with pytest.raises(UserError, match=f"metrics.jsonl line 2 .*{words}"):
        rows.read(path, "split")
