"""test_documents.npz: what the rows of traces.jsonl say, for the runs that have them."""

import numpy as np
import pytest

from actlab.analysis import results
from actlab.errors import UserError
from actlab.workdir import documents
from actlab.workdir.records import Workdir

TRACES = [
    {"run": "a", "step": 9, "kind": "steps", "loss": "", "grad_norm": ""},
    documents.row("b", 9, np.array([1.5, 2.25, 0.125]), np.array([3, 4, 1])),
    documents.row("c", 9, np.array([0.5, 0.25]), np.array([3, 4])),
]


def write(folder, traces, names):
    Workdir(folder).write_made(documents.made(traces, names))


def test_what_is_written_is_read_back_in_the_order_of_the_runs(tmp_path):
    write(tmp_path, TRACES, ["c", "a", "b"])
    found = results.documents(tmp_path)
    assert list(found) == ["c", "b"], "a has none"
    assert found["b"].nats.tolist() == [1.5, 2.25, 0.125] and found["b"].targets.tolist() == [3, 4, 1]
    assert found["c"].nats.tolist() == [0.5, 0.25, 0.0] and found["c"].targets.tolist() == [3, 4, 0]
    assert results.documents(tmp_path / "results.csv").keys() == found.keys(), "beside a table"


def test_without_rows_there_is_no_file(tmp_path):
    write(tmp_path, TRACES, ["a"])
    assert list(tmp_path.iterdir()) == [] and results.documents(tmp_path) == {}


@pytest.mark.parametrize("content", [b"", b"text", "cut"])
def test_a_damaged_file_is_named(tmp_path, content):
    write(tmp_path, TRACES, ["b"])
    path = tmp_path / "test_documents.npz"
    path.write_bytes(path.read_bytes()[:-40] if content == "cut" else content)
    with pytest.raises(UserError, match="test_documents.npz is damaged"):
        results.documents(tmp_path)
