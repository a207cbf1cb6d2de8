"""A workdir: rows are never lost or doubled, a foreign config or a second process is refused."""

import errno
import json

import pytest

from actlab import config as config_lib
from actlab.errors import UserError
from actlab.files import write_atomically
from actlab.workdir import documents, records
from actlab.workdir.records import Workdir


@pytest.fixture
def workdir(tmp_path, tiny):
    workdir = Workdir(tmp_path / "w")
    workdir.open(tiny)
    yield workdir
    workdir.close()


def row(step, loss=1.0):
    return {"run": "a", "step": step, "split": "train", "loss": loss, "seconds": 0.5}


def test_config_json_holds_every_field(workdir, tiny):
    text = (workdir.path / "config.json").read_text()
    assert config_lib.from_json(text) == tiny


def test_rows_after_the_step_of_a_resume_are_dropped_and_written_once(workdir):
    workdir.begin(0, ["a"])
    workdir.append_metrics([row(1), row(2), row(3)])
    kept = workdir.begin(2, ["a"])
    assert [entry["step"] for entry in kept] == [1, 2]
    workdir.append_metrics([row(3)])
    assert [entry["step"] for entry in workdir.metrics()] == [1, 2, 3]


def test_a_start_from_step_0_begins_an_empty_file(workdir):
    workdir.begin(0, ["a"])
    workdir.append_metrics([row(0)])
    assert workdir.begin(0, ["a"]) == [] and workdir.metrics() == []


def test_a_loss_that_is_not_finite_is_null_in_valid_json(workdir):
    workdir.begin(0, ["a"])
    workdir.append_metrics([row(1, float("nan")), row(2, float("inf"))])
    for line in (workdir.path / "metrics.jsonl").read_text().splitlines():
        assert json.loads(line, parse_constant=lambda name: pytest.fail(name))["loss"] is None


def test_results_come_back_as_written_also_rows_of_a_version_that_had_fewer_columns(workdir):
    rows = [{"run": "a", "loss": 1}, {"run": "b", "objective": "next_token", "loss": 0.1 + 0.2}]
    workdir.write_made({records.RESULTS: records.table(rows)})
    assert workdir.results() == [
        {"run": "a", "objective": "", "loss": "1"},
        {"run": "b", "objective": "next_token", "loss": "0.30000000000000004"},
    ]


def test_a_table_of_any_text_comes_back(tmp_path):
    rows = [{"run": "a", "tokenizer": "dir:\u2028x\ny"}, {"run": "b", "tokenizer": '"'}]
    for mark in (b"", b"\xef\xbb\xbf"):  # which Excel writes
        (tmp_path / "results.csv").write_bytes(mark + records.table(rows))
        assert records.read_table(tmp_path / "results.csv") == rows
    (tmp_path / "results.csv").write_text("")
    assert records.read_table(tmp_path / "results.csv") == []
    (tmp_path / "results.csv").write_text("run,loss,loss\na,1,2\n")
    with pytest.raises(UserError, match="results.csv has 2 columns 'loss': keep the right one"):
        records.read_table(tmp_path / "results.csv")


def test_another_config_is_refused_by_its_first_field_that_differs(workdir, tiny):
    other = config_lib.replace(tiny, **{"optimizer.learning_rate": 0.5, "model.activation": "relu"})
    with pytest.raises(UserError, match=r"config\.model\.activation.*'gelu'.*'relu'"):
        Workdir(workdir.path).open(other)


def test_a_second_process_is_refused(workdir, tiny):
    with pytest.raises(UserError, match="in use"):
        Workdir(workdir.path).open(tiny)


def test_a_folder_that_may_only_be_read_is_not_in_use(workdir, monkeypatch):
    assert Workdir(workdir.path, writes=False).is_in_use()
    reader = Workdir(workdir.path, writes=False)

    def refused(**_):
        raise PermissionError(errno.EACCES, "Permission denied", ".lock")

    monkeypatch.setattr(reader._lock, "acquire", refused)
    assert not reader.is_in_use()


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_place_that_cannot_be_written_is_refused(tmp_path, tiny, place):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        Workdir(tmp_path / place).check(tiny)


@pytest.mark.parametrize(
    "name", ["results.csv", "metrics.jsonl", "traces.jsonl", documents.FILE, "tokenizer", "checkpoints"]
)
def test_files_of_somebody_else_are_not_written_over(tmp_path, tiny, name):
    own = tmp_path / name
    own.write_text("my,own")
    (tmp_path / "notes.txt").write_text("which nothing here would touch")
    workdir = records.Workdir(tmp_path)
    with pytest.raises(UserError, match=f"has {name}, which no training wrote"):
        workdir.open(tiny)
    assert own.read_text() == "my,own" and len([*tmp_path.iterdir()]) == 2
    (tmp_path / records.MANIFEST).write_text("{}")  # its config.json is lost, and made again
    workdir.check(tiny)
    (tmp_path / records.MANIFEST).unlink()
    own.unlink()
    workdir.open(tiny)
    workdir.close()
    own.write_text("ours")
    workdir.check(tiny)


def test_a_place_from_which_no_checkpoint_could_be_read_is_refused(tmp_path, tiny):
    """Orbax takes a path for a pattern: what it saves below such a folder, it does not find."""
    for place in ("runs[1]", "runs[1]/relu"):
        with pytest.raises(UserError, match=r"has a \[, so that no checkpoint could be read"):
            Workdir(tmp_path / place).check(tiny)


def test_fields_that_are_still_open_are_no_difference(workdir, tiny):
    still_open = {"model.vocab_size": None, "model.d_ff": None, "data.name": "auto"}
    Workdir(workdir.path).check(config_lib.replace(tiny, **still_open))
    with pytest.raises(UserError, match="config.model.norm"):
        Workdir(workdir.path).check(config_lib.replace(tiny, **still_open, **{"model.norm": "rmsnorm"}))


GOOD = '{"run": "a", "step": 1, "split": "train"}\n'


@pytest.mark.parametrize("tail", ["", '{"run": "a", "st', '{"run": "a", "step": 2, "split": "train"}'])
def test_a_last_line_without_its_end_is_left_out(workdir, tail):
    path = workdir.path / "metrics.jsonl"
    assert not records.is_cut_short(path) and workdir.metrics() == [], "missing"
    path.write_text(GOOD + tail)
    assert records.is_cut_short(path) == bool(tail)
    assert [row["step"] for row in workdir.metrics()] == [1]
    workdir.begin(1, ["a"])
    assert path.read_text() == GOOD, "a session begins with whole lines"
    path.write_text("")
    assert not records.is_cut_short(path)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("run,step", "JSON"),
        ("\xff", "JSON"),
        ("[1]", "not a JSON object"),
        ("[" * 100_000, "nested too deeply"),
        ('{"run": ' + "[" * 70 + "]" * 70 + "}", "nested too deeply"),
        ('{"run": "a", "step": ' + "1" * 5000 + "}", "digits"),
        ('{"run": 3, "step": 1, "split": "train"}', "run=3 is not a string"),
        ('{"run": "a", "step": true, "split": "train"}', "step=True is not a number of steps"),
        ('{"run": "a", "step": 1, "split": "train", "loss": "x"}', "loss='x' is not a number"),
        ('{"run": "a"}', "'step'"),
        ('{"run": "a", "step": 1}', "'split'"),
    ],
)
def test_a_foreign_line_is_named_by_its_number(tmp_path, line, words):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes((GOOD + line + "\n" + GOOD).encode("latin-1"))
    with pytest.raises(UserError, match=rf"metrics.jsonl line 2\b.*{words}"):
        Workdir(tmp_path).metrics()


def test_a_file_for_which_there_is_no_room_is_named_and_leaves_nothing(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_atomically(tmp_path / "a.json", "{}")
    assert caught.value.filename == str(tmp_path / "a.json") and not list(tmp_path.iterdir())
