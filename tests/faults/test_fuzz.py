"""Whatever stands in a file of a workdir that nothing vouches for: its readers read it, or refuse it in a sentence."""

import csv
import io
import json
import shutil

import pytest
from hypothesis import given, strategies as st
from mutations import mutations, quick, values_of

from actlab.analysis import comparison, results as results_lib, verdicts
from actlab.cli import verdict
from actlab.errors import UserError
from actlab.report import study
from actlab.workdir.records import Workdir

TABLES = ("config.json", "metrics.jsonl", "traces.jsonl", "results.csv", "test_documents.npz")


@pytest.fixture(scope="module")
def tables(workdirs, tmp_path_factory):
    """A finished sweep without its manifest."""
    folder = tmp_path_factory.mktemp("tables")
    for name in TABLES:
        shutil.copy(workdirs / "finished" / name, folder / name)
    return folder


def another_cell(content):
    """A table with one cell replaced."""
    odd = st.sampled_from(["", "nan", "inf", "-1", "1e400", "9" * 400, "x", "\x1b[2J", "relu", "0x1", "١"])

    @st.composite
    def changed(draw):
        rows = list(csv.reader(content.decode().splitlines()))
        row = draw(st.sampled_from(rows))
        row[draw(st.integers(0, len(row) - 1))] = draw(odd)
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(rows)
        return out.getvalue().encode()

    return changed()


def another_line(content):
    """Rows with a value of one of them replaced."""
    lines = content.splitlines(keepends=True)

    @st.composite
    def changed(draw):
        place = draw(st.integers(0, len(lines) - 1))
        line = draw(values_of(json.loads(lines[place])))
        return b"".join([*lines[:place], line + b"\n", *lines[place + 1 :]])

    return changed()


def others(name, content):
    """What may stand in a file instead."""
    kinds = [mutations(content), st.binary(max_size=200)]
    if name.endswith(".jsonl"):
        kinds.append(another_line(content))
    elif name.endswith(".csv"):
        kinds.append(another_cell(content))
    elif name.endswith(".json"):
        kinds.append(values_of(json.loads(content)))
    return st.one_of(kinds)


@quick
@given(chosen=st.data(), name=st.sampled_from(TABLES))
def test_any_tables_are_read_or_refused(tables, tmp_path_factory, chosen, name):
    folder = tmp_path_factory.mktemp("w")
    for other in TABLES:
        shutil.copy(tables / other, folder / other)
    (folder / name).write_bytes(chosen.draw(others(name, (tables / name).read_bytes())))
    try:
        comparison.compare(results_lib.read([folder]))
        study.read([folder])
    except UserError as error:
        assert "\n" not in str(error)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def decided(tables, tmp_path_factory):
    """A verdicts.json."""
    path = tmp_path_factory.mktemp("verdicts") / "verdicts.json"
    assert verdict.main([str(tables), f"--verdicts={path}"]) == 0
    return path.read_bytes()


@quick
@given(chosen=st.data())
def test_any_verdicts_are_replaced_or_refused(decided, tmp_path_factory, chosen):
    path = tmp_path_factory.mktemp("v") / "verdicts.json"
    path.write_bytes(chosen.draw(others(path.name, decided)))
    try:
        verdicts.write(path, (), {})
    except UserError as error:
        assert "\n" not in str(error)


@quick
@given(chosen=st.data())
def test_any_manifest_is_as_it_was_written_or_refused(workdirs, tmp_path_factory, chosen):
    content = (workdirs / "finished" / "manifest.json").read_bytes()
    folder = tmp_path_factory.mktemp("m")
    (folder / "manifest.json").write_bytes(chosen.draw(others("manifest.json", content)))
    try:
        assert Workdir(folder).manifest() == json.loads(content)
    except UserError as error:
        assert "\n" not in str(error)
