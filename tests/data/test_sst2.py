"""SST-2 from GLUE's files or its archive; errors name the file and the line."""

import itertools
import zipfile

import pytest

import actlab.data
from actlab.data import datasets, preparing
from actlab.errors import UserError
from actlab.files import sha256

TRAIN = [("a fine film ", 1), ('dull , and "long', 0), ("hide new secretions", 0)]
DEV = [("it 's charming", 1), ("a mess", 0), ("fun", 1), ("it 's charming", 1)]


def write(folder, train=TRAIN, dev=DEV, header="sentence\tlabel"):
    folder.mkdir(exist_ok=True)
    for name, rows in (("train.tsv", train), ("dev.tsv", dev)):
        (folder / name).write_text("\n".join([header, *(f"{text}\t{label}" for text, label in rows)]) + "\n")
    return folder


def texts(dataset, split):
    return list(itertools.chain.from_iterable(dataset.texts(split)))


def test_files_become_a_dataset_with_labels(tmp_path):
    said = actlab.data.prepare("sst2", tmp_path / "data", source=write(tmp_path / "glue"), progress=False)
    assert "3 train, " in said and "prepared now" in said
    dataset = datasets.find("sst2", tmp_path / "data")
    assert texts(dataset, "train") == [text.strip() for text, _ in TRAIN]
    tokens = actlab.data.open_tokens("sst2", tmp_path / "data", "bytes", task="sst2", progress=False)
    assert tokens.labels.train.tolist() == [1, 0, 0]
    halves = []
    for split in ("validation", "test"):
        half = list(zip(texts(dataset, split), getattr(tokens.labels, split).tolist(), strict=True))
        assert half, split
        halves.append(half)
    assert sorted(halves[0] + halves[1]) == sorted(DEV) and not set(halves[0]) & set(halves[1])
    assert tokens.labels.classes == ("negative", "positive")
    marked = write(tmp_path / "marked", header="\ufeffsentence\tlabel")  # as spreadsheets write UTF-8
    for source in (tmp_path / "glue", marked):
        assert "already prepared" in actlab.data.prepare("sst2", tmp_path / "data", source=source, progress=False)
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
        ({"dev": DEV[:1] * 2}, r"dev.tsv has one sentence, too few for validation and test"),
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
    monkeypatch.setattr(preparing, "_reachable", lambda url: False)
    with pytest.raises(UserError, match=r"--from=PATH, a folder of GLUE"):
        actlab.data.prepare("sst2", tmp_path / "data", progress=False)
    assert not (tmp_path / "data").exists()


def test_the_archive_gives_the_same_dataset_as_its_files(tmp_path, monkeypatch):
    folder = write(tmp_path / "SST-2")
    archive = tmp_path / "data" / "downloads" / "sst2" / "SST-2.zip"
    archive.parent.mkdir(parents=True)
    with zipfile.ZipFile(archive, "w") as file:
        for path in folder.iterdir():
            file.write(path, f"SST-2/{path.name}")
    (archive.parent / "SHA256SUMS").write_text(f"{sha256(archive)}  SST-2.zip\n")
    actlab.data.prepare("sst2", tmp_path / "data", progress=False)
    actlab.data.prepare("sst2", tmp_path / "by_files", source=folder, progress=False)
    one, two = (datasets.find("sst2", tmp_path / name) for name in ("data", "by_files"))
    assert one is not None and two is not None and one.source_hash == two.source_hash
    assert texts(one, "train") == texts(two, "train") and one.labels("train") == two.labels("train") == [1, 0, 0]
