"""Texts in every format that is read: the same documents from each, and a sentence for what cannot be read."""

import gzip
import json
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from pyarrow import parquet

from actlab.data import datasets, formats
from actlab.data.sources import SPLITS, find_texts
from actlab.errors import UserError

TEXTS = [f"Story {i}: ümlaut, \U0001f600.\n\nIt ends." for i in range(300)]


def lines(texts, field="text"):
    return "".join(json.dumps({"id": i, field: text}) + "\n" for i, text in enumerate(texts)).encode()


def compressed(data):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


def write(path, texts, field="text"):
    """In the format of the path's name, compressed ones in two parts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    middle, suffix = len(texts) // 2, formats.format_of(path)
    table = pa.table({"id": range(len(texts)), field: texts})
    if suffix in (".txt", ".md"):
        path.write_text("\n<|endoftext|>\n".join(texts))
    elif suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=100)
    elif suffix == ".arrow":
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=70)
    else:
        pack = {".jsonl": bytes, ".jsonl.gz": gzip.compress, ".jsonl.zst": compressed}[suffix]
        path.write_bytes(pack(lines(texts[:middle], field)) + pack(lines(texts[middle:], field)))
    return path


@pytest.mark.parametrize("suffix", formats.READERS)
def test_a_file_of_any_format_gives_its_documents_and_the_same_splits(tmp_path, suffix):
    path = write(tmp_path / f"some{suffix}", TEXTS)
    assert list(formats.documents(path)) == TEXTS
    plain = find_texts(write(tmp_path / "plain.txt", TEXTS)).splits()
    splits = find_texts(path).splits()
    for split in SPLITS:
        assert list(splits[split]()) == list(plain[split]())


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".arrow"])
def test_the_text_is_in_the_field_that_is_named(tmp_path, suffix):
    path = write(tmp_path / f"some{suffix}", TEXTS[:3], "content")
    assert list(formats.documents(path, "content")) == TEXTS[:3]
    with pytest.raises(UserError, match=r"no field 'text': choose one of content, id\. Set it with --field=NAME"):
        list(formats.documents(path))
    with pytest.raises(UserError, match="field 'id' is not a text but int"):
        list(formats.documents(path, "id"))
    assert find_texts(path, field="id").hash != find_texts(path).hash


def test_a_column_of_categories_is_text_if_they_are(tmp_path):
    columns = {"text": ["a", "b", "a"], "id": [1, 2, 1]}
    table = pa.table({name: pa.array(values).dictionary_encode() for name, values in columns.items()})
    parquet.write_table(table, path := tmp_path / "some.parquet")
    assert list(formats.documents(path)) == columns["text"]
    with pytest.raises(UserError, match="field 'id' is not a text but int64"):
        list(formats.documents(path, "id"))


def test_a_column_of_views_is_text_and_two_of_one_name_are_refused(tmp_path):
    views = pa.array(["a", "b"], pa.string_view())
    parquet.write_table(pa.table({"text": views}), path := tmp_path / "some.parquet")
    assert list(formats.documents(path)) == ["a", "b"]
    parquet.write_table(pa.table([views, views], names=["text", "text"]), path)
    with pytest.raises(UserError, match="has 2 columns 'text': rename all but one"):
        list(formats.documents(path))


def test_a_mark_of_utf_8_before_a_separator_is_no_document(tmp_path):
    (path := tmp_path / "a.txt").write_text("\ufeff<|endoftext|>\none\n<|endoftext|>\ntwo\n")
    assert list(formats.documents(path)) == ["one", "two"]


def test_a_field_of_plain_text_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("One.")
    with pytest.raises(UserError, match=r"field='story' has no effect on .* plain text: leave it out"):
        find_texts(tmp_path, field="story")
    assert find_texts(tmp_path).divided
    (tmp_path / "b.jsonl").write_text('{"story": "Two."}')
    assert find_texts(tmp_path, field="story").divided


@settings(max_examples=30)
@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5), min_size=1, max_size=8))
def test_empty_and_missing_texts_are_left_out_in_every_format(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("x")
    expected = [one for text in texts if (one := (text or "").removeprefix("\ufeff").strip())]
    for suffix in (".jsonl", ".parquet", ".arrow"):
        assert list(formats.documents(write(folder / f"a{suffix}", texts))) == expected


def test_a_column_that_is_not_utf8_is_told_in_a_sentence(tmp_path):
    offsets, data = np.array([0, 4], np.int32).tobytes(), b"caf\xe9"
    column = pa.StringArray.from_buffers(1, pa.py_buffer(offsets), pa.py_buffer(data))
    parquet.write_table(pa.table({"text": column}), tmp_path / "a.parquet")
    with pytest.raises(UserError, match="a.parquet has text that is not UTF-8"):
        list(formats.documents(tmp_path / "a.parquet"))


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("a.jsonl", b'{"text": "x"}\n\n{"text": ', "a.jsonl line 3 is not JSON"),
        ("a.jsonl", b'{"text": "x"}\n{"text": \n', r"a.jsonl line 2 is not JSON \(column 9"),
        ("a.jsonl", b"[" * 100_000, "line 1 is nested too deeply"),
        ("a.jsonl", b'["x"]', "line 1 is not a JSON object"),
        ("a.jsonl", b'{"text": "\\ud800"}', "half of a surrogate pair"),
        ("a.jsonl", b'{"text": "\xff"}', "line 1 is not JSON"),
        ("a.jsonl.gz", gzip.compress(lines(TEXTS))[:-20], "is damaged after line"),
        ("a.jsonl.gz", b"no gzip", "is damaged after line 0"),
        ("a.jsonl.zst", compressed(lines(TEXTS))[:-200], "is damaged after line"),
        ("a.jsonl.zst", b"no zstd", "is damaged after line 0"),
        ("a.parquet", b"PAR1", "a.parquet is damaged"),
        ("a.arrow", b"no arrow", "a.arrow is damaged"),
        ("a.arrow", b"ARROW1\0\0\xff\xff\xff\xff", "write it as Parquet"),
        ("a.jsonl", b'{"text": "x"}\n{}', "line 2 has no fields"),
        ("a.jsonl", b'{"text": "x"}\n{"id": 1}', "line 2 has no field 'text': complete or remove the line"),
        ("a.txt", "text".encode("utf-16-le"), "not UTF-8 but perhaps UTF-16: convert it"),
        ("a.md", b"good\n\xff", "is not UTF-8 at byte 5"),
        ("a.pdf", b"x", "give a file that ends in .txt, .md"),
    ],
)
def test_what_cannot_be_read_is_told_in_a_sentence(tmp_path, name, data, told):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UserError, match=told):
        list(formats.documents(tmp_path / name))


@pytest.mark.parametrize(
    ("train", "held_out"),
    [
        ("train/data-00000-of-00001.arrow", "validation/data-00000-of-00001.arrow"),
        ("data/train-00000.parquet", "data/dev-00000.parquet"),
        ("train.jsonl", "test.jsonl"),
    ],
)
def test_files_named_for_a_split_are_that_split(tmp_path, train, held_out):
    write(tmp_path / train, TEXTS[:200])
    write(tmp_path / held_out, TEXTS[200:])
    (tmp_path / "train" / "state.json").parent.mkdir(exist_ok=True)
    (tmp_path / "train" / "state.json").write_text("{}")
    (tmp_path / "LICENSE").write_text("free")
    found = find_texts(tmp_path)
    assert [path.name for path in found.unread] == ["LICENSE"] and "not read: LICENSE" in found.summary
    splits = found.splits()
    assert list(splits["train"]()) == TEXTS[:200]
    assert sorted([*splits["validation"](), *splits["test"]()]) == sorted(TEXTS[200:])


def test_a_folder_of_notes_is_read_with_the_folders_in_it_but_not_hidden_ones(tmp_path, capsys):
    for name in ("a.md", "deep/er/b.md", ".git/c.md", "c.txt"):
        write(tmp_path / "notes" / name, [f"{name} {i}" for i in range(10)])
    (tmp_path / "notes" / "picture.png").write_bytes(b"\x89")
    assert "reading 2 .md and 1 .txt files; not read: picture.png" in find_texts(tmp_path / "notes").summary
    write(tmp_path / "more" / "d.jsonl", [])
    for name in ("a.md", "b.md", "c.txt"):
        write(tmp_path / "more" / name, [name])
    assert "reading 2 .md, 1 .txt and 1 .jsonl files" in find_texts(tmp_path / "more").summary
    dataset, _ = datasets.prepare("mine", tmp_path / "data", tmp_path / "notes", show=True)
    assert sum(dataset.n_documents.values()) == 30 and "not read: picture.png" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".jsonl.zst", ".parquet", ".arrow"])
def test_a_large_file_is_read_as_a_stream(tmp_path, suffix):
    rng = np.random.default_rng(0)
    texts = [rng.integers(97, 123, 20_000, np.uint8).tobytes().decode() for _ in range(2000)]
    path = write(tmp_path / f"large{suffix}", texts)
    del texts
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    size = most = 0
    for text in formats.documents(path):
        size += len(text)
        most = max(most, pa.total_allocated_bytes() - before)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size == 40_000_000 and peak + most < 18_000_000
