"""SST-2 from GLUE's files, by TFDS or without it; what is wrong with a file is told by line."""

import itertools
import re
import zipfile

import pytest
import requests
import tensorflow_datasets as tfds
from tensorflow_datasets.core.download import download_manager

import actlab.data
from actlab.data import datasets, download, sst2
from actlab.errors import UserError

TRAIN = [("a fine film ", 1), ('dull , and "long', 0), ("hide new secretions", 0)]
DEV = [("it 's charming", 1)]


def write(folder, train=TRAIN, dev=DEV, header="sentence\tlabel"):
    folder.mkdir(exist_ok=True)
    for name, rows in (("train.tsv", train), ("dev.tsv", dev)):
        (folder / name).write_text("\n".join([header, *(f"{text}\t{label}" for text, label in rows)]) + "\n")
    return folder


def texts(dataset, split):
    return list(itertools.chain.from_iterable(dataset.texts(split)))


def test_files_become_a_dataset_with_labels(tmp_path):
    said = actlab.data.prepare("sst2", tmp_path / "data", source=write(tmp_path / "glue"), progress=False)
    assert "3 train and 1 validation documents" in said and "prepared now" in said
    dataset = datasets.find("sst2", tmp_path / "data")
    assert texts(dataset, "train") == [text.strip() for text, _ in TRAIN]
    tokens = actlab.data.open_tokens("sst2", tmp_path / "data", "bytes", task="sst2", progress=False)
    assert tokens.labels.train.tolist() == [1, 0, 0] and tokens.labels.validation.tolist() == [1]
    assert tokens.labels.classes == ("negative", "positive")
    again = actlab.data.prepare("sst2", tmp_path / "data", source=tmp_path / "glue", progress=False)
    assert "already prepared" in again
    with pytest.raises(UserError, match="made from other text"):
        actlab.data.prepare("sst2", tmp_path / "data", source=write(tmp_path / "other", dev=TRAIN), progress=False)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"train": [*TRAIN, ("good", 2)]}, r"train.tsv, line 5, has the label '2': it must be 0 or 1"),
        ({"dev": [("good", -1)]}, r"dev.tsv, line 2, has the label '-1'"),
        ({"dev": [("good", "yes")]}, r"dev.tsv, line 2, has the label 'yes'"),
        ({"dev": [("", 1)]}, r"dev.tsv, line 2, is not a sentence, a tab and a label"),
        ({"header": "label\tsentence"}, r"train.tsv, line 1, is not sentence and label"),
        ({"dev": []}, r"dev.tsv has no line after its header"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_by_line(tmp_path, changes, words):
    with pytest.raises(UserError, match=words):
        actlab.data.prepare("sst2", tmp_path / "data", source=write(tmp_path / "glue", **changes), progress=False)
    assert not (tmp_path / "data" / "sst2").exists()


def test_a_missing_file_is_named(tmp_path):
    (write(tmp_path / "glue") / "dev.tsv").unlink()
    with pytest.raises(UserError, match="lacks dev.tsv"):
        actlab.data.prepare("sst2", tmp_path / "data", source=tmp_path / "glue", progress=False)


def test_without_a_network_the_command_for_local_files_is_told(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(download, "_reachable", lambda address: bool(asked.append(address)))
    with pytest.raises(UserError, match=r"does not answer: run `python -m actlab.data prepare sst2 --from=DIR"):
        actlab.data.prepare("sst2", tmp_path, progress=False)
    assert asked == [sst2.HOST]


@pytest.mark.parametrize(
    "fault",
    [
        tfds.download.DownloadError("Failed to get the file. HTTP code: 503.\n"),
        download_manager.NonMatchingChecksumError("the file has a wrong checksum:\n* expected"),
        requests.ConnectionError("reset by peer"),
        OSError("timed out"),
        None,
    ],
)
def test_a_download_that_breaks_off_is_told_with_the_command_for_local_files(tmp_path, monkeypatch, fault):
    def download_(self, url):
        if fault is not None:
            raise fault
        return write(tmp_path / "glue") / "train.tsv"  # no zip file

    monkeypatch.setattr(tfds.download.DownloadManager, "download", download_)
    monkeypatch.setattr(download, "_reachable", lambda address: True)
    reason = "not a zip file" if fault is None else str(fault).splitlines()[0]
    with pytest.raises(UserError) as caught:
        actlab.data.prepare("sst2", tmp_path / "data", progress=False)
    assert type(caught.value) is UserError and "\n" not in str(caught.value)
    assert re.search(rf"SST-2\.zip broke off \(.*{reason}\): .* prepare sst2 --from=DIR", str(caught.value))
    assert datasets.find("sst2", tmp_path / "data") is None


def test_tfds_gives_the_same_dataset_as_the_files(tmp_path, monkeypatch):
    """GLUE's own builder of TFDS reads a zip file that was not fetched."""
    folder = write(tmp_path / "SST-2")
    (folder / "test.tsv").write_text("index\tsentence\n0\tunknown\n")
    archive = tmp_path / "SST-2.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in folder.iterdir():
            file.write(path, f"SST-2/{path.name}")
    manager = tfds.download.DownloadManager
    monkeypatch.setattr(manager, "download", lambda self, url: archive)
    monkeypatch.setattr(download, "_reachable", lambda address: True)
    actlab.data.prepare("sst2", tmp_path / "data", progress=False)
    actlab.data.prepare("sst2", tmp_path / "by_files", source=folder, progress=False)
    ours, theirs = (datasets.find("sst2", tmp_path / name) for name in ("data", "by_files"))
    assert texts(ours, "train") == texts(theirs, "train") and ours.labels("train") == theirs.labels("train")
    assert ours.source_hash == theirs.source_hash
