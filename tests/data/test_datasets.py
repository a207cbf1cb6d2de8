import dataclasses
import http.server
import itertools
import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

import actlab.data
from actlab.data import datasets, preparing, sets, sources
from actlab.data.grammar import stories
from actlab.data.preparing import PublicFile
from actlab.data.sets import story_grammar, tiny_stories
from actlab.data.sources import Definition, find_texts
from actlab.errors import UserError


def all_texts(dataset: datasets.Dataset, split: str) -> list[str]:
    return [text for some in dataset.texts(split) for text in some]


def read(path: Path) -> list[str]:
    return list(sources.documents([path]))


def test_documents_are_what_stands_between_separator_lines(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n<|endoftext|>\r\n\n <|endoftext|> \n<|endoftext|>x is text\nlast")
    assert read(path) == ["one\r\ntwo", "<|endoftext|>x is text\nlast"]


@pytest.mark.parametrize(("between", "n"), [("<|endoftext|>", 40), ("\n<|endoftext|>\n", 0)])
def test_a_separator_inside_of_documents_is_told(tmp_path, capsys, between, n):
    stories = (f"a story {number}.{between}another {number}." for number in range(40))
    (tmp_path / "x.txt").write_text("\n<|endoftext|>\n".join(stories))
    dataset, _ = datasets.prepare("mine", tmp_path / "data", source=tmp_path / "x.txt")
    told = f"warning: {n} of 40 documents have <|endoftext|> inside"
    assert (told in capsys.readouterr().err) == bool(n) and sum(dataset.n_documents.values()) == 80 - n


def test_text_that_is_not_utf8_is_named_with_its_byte(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"fine\n<|endoftext|>\nline\nbad \xff here\n<|endoftext|>\n")
    with pytest.raises(UserError, match=rf"{path} is not UTF-8 at byte {path.read_bytes().index(0xFF)}:"):
        read(path)


def test_a_dataset_reads_back_in_order_across_shards(tmp_path, write_texts, monkeypatch):
    monkeypatch.setattr(sources, "SHARD_BYTES", 100)
    train = [f"story {i} é" for i in range(100)]
    held_out = [f"held out {i}" for i in range(20)]
    folder = write_texts(train, held_out)
    dataset, made = datasets.prepare("mine", tmp_path / "data", folder, show=False)
    assert made
    assert all_texts(dataset, "train") == train
    validation, test = all_texts(dataset, "validation"), all_texts(dataset, "test")
    assert sorted(validation + test) == sorted(held_out)
    assert validation == [text for text in held_out if text not in test]
    assert dataset.n_documents == {"train": 100, "validation": len(validation), "test": len(test)}
    assert dataset.n_bytes["train"] == sum(len(text.encode()) for text in train)
    assert len(list((dataset.root / "2.0.0").glob("*train.array_record*"))) > 5


def test_files_without_a_pair_are_split_by_document(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    texts = [f"document {i}" for i in range(1000)]
    (folder / "b.txt").write_text("\n<|endoftext|>\n".join(texts[:500] + texts[:50]))
    (folder / "a.txt").write_text("\n<|endoftext|>\n".join(texts[500:]))
    dataset, _ = datasets.prepare("mine", tmp_path / "data", folder, show=False)
    train, validation, test = (all_texts(dataset, split) for split in sources.SPLITS)
    assert not set(train) & set(validation + test) and not set(validation) & set(test)
    assert sorted(train + validation + test) == sorted(texts + texts[:50])
    assert 10 <= len(set(validation)) <= 45 and 10 <= len(set(test)) <= 45
    assert train == [text for text in texts[500:] + texts[:500] + texts[:50] if text in set(train)]


def test_what_is_not_read_of_a_folder_is_listed_and_a_locked_folder_is_refused(tmp_path, monkeypatch):
    for name in ("data/a.txt", "data/sub/b.txt", "elsewhere/c.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("A story.\n")
    (tmp_path / "data/linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "data/gone.txt").symlink_to(tmp_path / "nowhere.txt")
    found = find_texts(tmp_path / "data")
    assert [path.name for path in found.divided] == ["a.txt", "b.txt"]
    assert sorted(path.name for path in found.unread) == ["gone.txt", "linked"]
    access = os.access  # of root everything may be read
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path / "data/sub" and access(path, mode))
    with pytest.raises(UserError, match="data/sub cannot be read: change its permissions"):
        find_texts(tmp_path / "data")


def test_ten_documents_fill_every_split(tmp_path):
    for i in range(10):
        (tmp_path / f"{i}.txt").write_text(f"book {i}")
    splits = find_texts(tmp_path).splits()
    found = [set(splits[split]()) for split in sources.SPLITS]
    assert all(found) and sum(map(len, found)) == len(set.union(*found)) == 10


def test_of_three_books_of_one_length_each_is_cut(tmp_path):
    for i in range(3):
        (tmp_path / f"{i}.txt").write_text("\n\n".join(f"Book {i}, verse {verse}." for verse in range(100)))
    assert [len(list(found())) for found in find_texts(tmp_path).splits().values()] == [3, 3, 3]


@pytest.mark.parametrize("is_held_out", [True, False])
@pytest.mark.parametrize("n", [2, 4, 30])
def test_where_whole_documents_would_be_much_or_little_of_the_text_each_is_cut(tmp_path, n, is_held_out):
    book = lambda name, size: "\n\n".join(f"Book {name}, verse {verse}." for verse in range(size))
    others = sorted((book(i, 20) for i in range(n - 1)), key=sources.text_hash)
    # As long as two hundred others, and held out or not by its hash.
    edge = sources.text_hash(others[min(1, n - 2)])
    candidates = (book(f"{i}th", 20 * 200) for i in itertools.count())
    long = next(text for text in candidates if (sources.text_hash(text) < edge) == is_held_out)
    books = [long, *others]
    for i, text in enumerate([*books, long]):  # of two that are equal one is cut
        (tmp_path / f"{i:02}.txt").write_text(text)
    train, validation, test = (list(found()) for found in find_texts(tmp_path).splits().values())
    assert ["\n\n".join(parts) for parts in zip(train, validation, test, strict=True)] == books
    assert 0.85 < sum(map(len, train)) / sum(map(len, books)) < 0.95


def test_parts_of_documents_that_are_equal_are_in_one_split(tmp_path):
    (tmp_path / "long.txt").write_text("\n\n".join(f"Verse {verse}." for verse in range(3000)))
    for i, word in enumerate(("the", "then", "thee", "tot", "toot", "heth", "that")):
        (tmp_path / f"{i}.txt").write_text(word * 8)
    parts = [list(found()) for found in find_texts(tmp_path).splits().values()]
    assert min(map(len, parts)) > 1 and sum(map(len, parts)) == len(set().union(*parts)), "every part once"


@pytest.mark.parametrize("held_out", ["valid.txt", "validation.txt", "dev.txt", "test.txt"])
def test_files_named_as_splits_are_those_splits(tmp_path, held_out):
    for name in ("train.txt", held_out):
        (tmp_path / name).write_text("\n<|endoftext|>\n".join(f"{name} {i}" for i in range(40)))
    splits = find_texts(tmp_path).splits()
    assert len(list(splits["train"]())) == 40 and all(text.startswith("train") for text in splits["train"]())
    assert all(text.startswith(held_out) for split in ("validation", "test") for text in splits[split]())
    (tmp_path / held_out).unlink()
    assert 30 < len(list(find_texts(tmp_path).splits()["train"]())) < 40, "of one file some is held out"


@pytest.mark.parametrize("name", ["train.txt", "valid.txt"])
def test_tiny_stories_is_made_of_two_files(tmp_path, name):
    (tmp_path / name).write_text("x")
    with pytest.raises(UserError, match="lacks (train|valid).txt"):
        datasets.prepare("tiny_stories", tmp_path / "data", tmp_path, show=False)


def test_tiny_stories_reads_no_file_beside_its_two(tmp_path, write_texts):
    folder = write_texts(["a"], ["b", "c"])
    (folder / "train_older.txt").write_text("d")
    dataset, made = datasets.prepare("tiny_stories", tmp_path / "data", folder, show=False)
    assert made and all_texts(dataset, "train") == ["a"]


def test_the_train_split_is_never_empty(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "HELD_OUT_FRACTION", 1.0)
    (tmp_path / "x.txt").write_text("\n<|endoftext|>\n".join(f"{sign} " * 50 for sign in "wxyz"))
    splits = find_texts(tmp_path).splits()
    assert [len(list(splits[split]())) for split in sources.SPLITS] == [4, 4, 4]


def test_the_only_document_gives_its_last_tenth_to_validation_and_test(tmp_path):
    (tmp_path / "play.txt").write_text("\n\n".join(f"Speech {i}." for i in range(100)))
    splits = find_texts(tmp_path).splits()
    (train,), (validation,), (test,) = (splits[split]() for split in sources.SPLITS)
    assert f"{train}\n\n{validation}\n\n{test}" == (tmp_path / "play.txt").read_text()
    assert 0.02 < len(validation) / len(train) < 0.08 and 0.02 < len(test) / len(train) < 0.08


@settings(max_examples=30)
@given(st.lists(st.text("abc", min_size=1, max_size=3), min_size=2, max_size=30))
def test_the_halves_of_a_validation_file_are_all_of_it_and_disjoint(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("paired")
    (folder / "train.txt").write_text("train")
    (folder / "valid.txt").write_text("\n<|endoftext|>\n".join(texts))
    splits = find_texts(folder).splits()
    validation, test = list(splits["validation"]()), list(splits["test"]())
    if len(set(texts)) > 1:
        assert validation and test and not set(validation) & set(test)
        assert sorted(validation + test) == sorted(texts)
    assert list(splits["train"]()) == ["train"]


@pytest.mark.parametrize(
    "written",
    [
        ("config.json", "metrics.jsonl", "tokenizer/vocab.txt"),
        ("comparison.json", "a.md"),
        ("2.0.0/metadata.json", "a.txt"),
        ("vocab.json", "merges.txt"),
    ],
)
def test_what_is_trained_beside_a_text_does_not_change_it(tmp_path, written):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/one.txt").write_text("a text")
    before = find_texts(tmp_path)
    for name in written:
        path = tmp_path / "runs/w" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    after = find_texts(tmp_path)
    assert after == before and [path.name for path in after.divided] == ["one.txt"]


def test_a_validation_file_is_halved_evenly_and_by_its_texts_alone(tmp_path, write_texts):
    texts = [f"story {i}" for i in range(2000)]
    splits, again = (find_texts(write_texts(["a"], some)).splits() for some in (texts, texts[::-1]))
    test = list(splits["test"]())
    assert 900 < len(test) < 1100
    assert set(again["test"]()) == set(test)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (None, "is not there: give a file or a folder"),
        ({}, "holds no text that can be read .it is empty"),
        ({"a.pdf": "x", "b.pdf": "x"}, "it has 2 .pdf files.: give files that end in .txt, .md"),
        ({"valid.txt": "x"}, "holds validation text alone .valid.txt.: put the training text beside it"),
        ({"dev.md": "x", "test.md": "x"}, "holds validation text alone .dev.md."),
        ({"train.txt": "x", "valid.txt": " \n<|endoftext|>\n"}, "no text for the validation split"),
        ({"a.txt": ""}, "holds no text: add documents"),
        ({"a.txt": "one"}, "no text for the "),
    ],
)
def test_unusable_folders_are_refused_and_nothing_is_written(tmp_path, files, message):
    folder = tmp_path / "texts"
    if files is not None:
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_text(content)
    with pytest.raises(UserError, match=message):
        datasets.prepare("mine", tmp_path / "data", folder, show=False)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "name", ["auto", "gpt2", "downloads", "tokens", "story_grammar_2", "A", "a-b", "../x", "", "1a"]
)
def test_names_that_mean_something_else_are_refused(tmp_path, write_texts, name):
    with pytest.raises(UserError, match="data.name="):
        datasets.prepare(name, tmp_path / "data", write_texts(["a"], ["b", "c"]), show=False)
    assert not (tmp_path / "data").exists()


def test_the_grammar_takes_no_folder(tmp_path, write_texts):
    with pytest.raises(UserError, match="built in"):
        datasets.prepare("story_grammar", tmp_path / "data", write_texts(["a"], ["b", "c"]), show=False)


def test_a_place_that_cannot_be_written_is_named(tmp_path, write_texts):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="data.dir=.*cannot be written"):
        datasets.prepare("mine", tmp_path / "file" / "data", write_texts(["a"], ["b", "c"]), show=False)


def test_other_text_under_the_same_name_is_refused(tmp_path, write_texts):
    datasets.prepare("mine", tmp_path, write_texts(["a"], ["b", "c"]), show=False)
    other = write_texts(["a"], ["c", "d"], name="other")
    with pytest.raises(UserError, match="made from other text: remove that folder"):
        datasets.prepare("mine", tmp_path, other, show=False)
    assert datasets.prepare("mine", tmp_path, write_texts(["a"], ["b", "c"], name="same"), show=False)[1] is False


def test_text_that_changes_while_it_is_read_leaves_nothing(tmp_path, write_texts, monkeypatch):
    folder = write_texts(["a"], ["b", "c"])
    opened = Definition.open

    def then_change(*args, **kwargs):
        source = opened(*args, **kwargs)
        (folder / "train.txt").write_text("changed")
        return source

    monkeypatch.setattr(Definition, "open", then_change)
    with pytest.raises(UserError, match="changed while it was read"):
        datasets.prepare("mine", tmp_path / "data", folder, show=False)
    assert not any((tmp_path / "data" / "mine").iterdir())


def test_damaged_records_are_noticed(tmp_path, write_texts):
    dataset, _ = datasets.prepare("mine", tmp_path, write_texts(["a" * 1000] * 100, ["b", "c"]), show=False)
    (path,) = (dataset.root / "2.0.0").glob("*train.array_record*")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match="is damaged"):
        all_texts(dataset, "train")


def test_the_grammar_keeps_each_storys_exact_probability(tmp_path, few_stories):
    dataset, _ = datasets.prepare("story_grammar", tmp_path, n_stories=30, show=False)
    for split in ("validation", "test"):
        drawn = list(stories.stories(story_grammar.CORPUS_SEED, split, few_stories))
        assert all_texts(dataset, split) == [story.text for story in drawn]
        assert dataset.nats(split) == [story.nats for story in drawn]
    assert dataset.entropy_nats == stories.entropy_nats()
    datasets.prepare("story_grammar", tmp_path, n_stories=20, show=False)
    assert [one.n_documents["train"] for one in datasets.prepared(tmp_path)] == [20, 30], "side by side"
    with pytest.raises(UserError, match="n_stories=0"):
        datasets.prepare("story_grammar", tmp_path, n_stories=0, show=False)


COUNTING = """
from actlab.data.sources import Definition, Source

class Counting(Definition):
    built_in = True
    tasks = {"parity": ("even", "odd")}

    def hash(self, given):
        return "of numbers"

    def open(self, directory, given, *, show):
        examples = lambda split: ({"text": f"{split} {i}", "label": i % 2} for i in range(5))
        shards = {"train": [5], "validation": [5], "test": [5]}
        return Source(self.hash(given), "none", "numbers", shards, examples, labelled=True)

DEFINITION = Counting
"""


def test_a_known_dataset_with_labels_is_one_module(tmp_path, monkeypatch):
    (tmp_path / "counting.py").write_text(COUNTING)
    monkeypatch.setattr(sets, "__path__", [*sets.__path__, str(tmp_path)])
    tokens = actlab.data.open_tokens("counting", tmp_path / "data", "bytes", progress=False)
    assert actlab.data.resolve_name("auto", tmp_path / "data", "parity") == "counting"
    labelled = actlab.data.open_tokens("auto", tmp_path / "data", "bytes", task="parity", progress=False)
    monkeypatch.delitem(sys.modules, "actlab.data.sets.counting")
    assert tokens.name == labelled.name == "counting" and tokens.train.n_documents == 5
    assert labelled.labels is not None and labelled.labels.validation.tolist() == [0, 1, 0, 1, 0]


STORIES = {"train": b"one\n<|endoftext|>\ntwo\n<|endoftext|>\n", "valid": b"three\n<|endoftext|>\n"}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[http.server.HTTPServer]:
    """A server on this machine that has a TinyStories of three stories."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = STORIES[self.path.removesuffix(".txt").rsplit("-", 1)[-1]]
            self.send_response(200)
            self.send_header("Content-Length", str(len(content) + self.server.lost))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    server.lost = 0  # bytes that are announced and do not come
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/stories"
    small = PublicFile(f"{url}-valid.txt", len(STORIES["valid"]), "MIT")
    files = {"train.txt": PublicFile(f"{url}-train.txt", 2_230_000_000, "MIT", exact=False), "valid.txt": small}
    monkeypatch.setattr(tiny_stories, "FILES", files)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield server
    server.shutdown()
    server.server_close()


def test_a_download_is_announced_and_its_sums_are_kept(tmp_path, hub, monkeypatch, capsys):
    dataset, _ = datasets.prepare("tiny_stories", tmp_path)
    assert all_texts(dataset, "train") == ["one", "two"]
    said = capsys.readouterr().err
    assert "stories-train.txt (2,230.0 MB, licence MIT)" in said
    kept = tmp_path / "downloads" / "tiny_stories"
    assert {path.name for path in kept.iterdir()} == {"train.txt", "valid.txt", "SHA256SUMS"}
    (kept / "train.txt").write_bytes(b"another")
    monkeypatch.setattr(datasets, "find", lambda *args, **kwargs: None)
    with pytest.raises(UserError, match="train.txt changed"):
        datasets.prepare("tiny_stories", tmp_path, show=False)


@pytest.mark.parametrize("expected", [{"size": 7}, {"sha256": "0" * 64}])
def test_a_download_of_the_wrong_size_or_hash_is_not_kept(tmp_path, hub, monkeypatch, expected):
    wrong = dataclasses.replace(tiny_stories.FILES["valid.txt"], **expected)
    monkeypatch.setitem(tiny_stories.FILES, "valid.txt", wrong)
    with pytest.raises(UserError, match="not the expected"):
        datasets.prepare("tiny_stories", tmp_path, show=False)
    assert not (tmp_path / "downloads" / "tiny_stories" / "valid.txt").exists()
    assert datasets.prepared(tmp_path) == []


def test_a_download_that_breaks_off_is_not_kept(tmp_path, hub):
    hub.lost = 3
    with pytest.raises(UserError, match="--from=PATH, a folder of train.txt"):
        datasets.prepare("tiny_stories", tmp_path, show=False)
    assert not list(tmp_path.rglob("train.txt")) and datasets.prepared(tmp_path) == []
    hub.lost = 0
    assert all_texts(datasets.prepare("tiny_stories", tmp_path, show=False)[0], "train") == ["one", "two"]


@pytest.mark.parametrize("hang", [False, True])
def test_without_a_network_tiny_stories_fails_at_once(tmp_path, monkeypatch, hang):
    monkeypatch.setattr(preparing, "CONNECT_SECONDS", 0.2)
    refused, returned = threading.Event(), []

    def connect(*args, **kwargs):
        if hang:
            returned.append(refused.wait(60))  # as a name server that never answers; no time-out reaches it
        raise OSError("no route")

    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(UserError, match="--from=PATH, a folder of train.txt"):
        datasets.prepare("tiny_stories", tmp_path / "data", show=False)
    assert not returned, "while the name server hangs"
    refused.set()
    assert not (tmp_path / "data").exists()


def test_a_text_that_is_held_out_is_not_trained_on_wherever_it_stands(tmp_path, write_texts):
    folder = write_texts(["one", "two", "three", "two"], ["two", "four", "five"])
    actlab.data.prepare("mine", tmp_path / "data", source=folder, progress=False)
    dataset = datasets.find("mine", tmp_path / "data")
    assert all_texts(dataset, "train") == ["one", "three"]
    assert sorted(all_texts(dataset, "validation") + all_texts(dataset, "test")) == ["five", "four", "two"]
