import dataclasses
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import actlab.data
from actlab.data import cache, datasets, preparing, tokenizer_kinds, tokenizers
from actlab.data.grammar import stories
from actlab.data.sets import story_grammar
from actlab.errors import UserError
from actlab.files import signed

ROOT = Path(__file__).parents[2]
TRAIN = ["one é", "", "two\nlines", "three"]
VALIDATION = ["four", "five"]


@pytest.fixture
def texts(write_texts) -> Path:
    return write_texts(TRAIN, VALIDATION)


@pytest.fixture
def opened(tmp_path, texts) -> cache.TokenCache:
    actlab.data.prepare("mine", tmp_path, source=texts, progress=False)
    return actlab.data.open_tokens("mine", tmp_path, "bytes", progress=False)


def test_the_stream_is_a_mark_then_documents_with_marks(opened):
    kept = [text.encode() for text in TRAIN if text]
    split = opened.train
    assert split.tokens.dtype == np.uint16
    assert split.tokens.tolist() == [256] + [token for text in kept for token in [*text, 256]]
    assert split.starts.tolist() == [1, *np.cumsum([len(text) + 1 for text in kept]) + 1]
    assert (split.n_documents, split.n_bytes) == (3, sum(map(len, kept)))
    assert split.starts[-1] == len(split.tokens)
    assert opened.validation.nats is None and opened.meta.entropy_nats is None
    for d in range(split.n_documents):
        document = split.tokens[split.starts[d] : split.starts[d + 1] - 1]
        assert opened.tokenizer.decode(document) == kept[d].decode()


def test_a_large_vocabulary_takes_32_bits(tmp_path, texts):
    small = tokenizers.train(TRAIN, 257)
    entries = [*list(small.vocabulary)[:256], *(f"entry {i}" for i in range(65280)), "<|endoftext|>"]
    tokenizer = tokenizer_kinds.BytePairTokenizer("dir:big", {entry: i for i, entry in enumerate(entries)}, ())
    dataset, _ = datasets.prepare("mine", tmp_path, texts, show=False)
    cache.make(dataset, tokenizer, tmp_path / "cache", show=False)
    tokens = cache.open_cache(tmp_path / "cache").train.tokens
    assert tokens.dtype == np.uint32
    assert tokens[0] == 1 << 16


def test_a_second_opening_gives_the_same_and_makes_nothing(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "make", lambda *args, **kwargs: pytest.fail("made again"))
    again = actlab.data.open_tokens("mine", tmp_path, "bytes", progress=False)
    assert again.fingerprint == opened.fingerprint
    assert len(again.fingerprint) == 64


def test_opening_imports_neither_tfds_nor_tensorflow_nor_jax(opened, tmp_path):
    program = (
        "import sys, actlab.data\n"
        f"cache = actlab.data.open_tokens('mine', {str(tmp_path)!r}, 'bytes')\n"
        "cache.tokenizer.decode(cache.train.tokens)\n"
        "print({'tensorflow_datasets', 'tensorflow', 'tokenizers', 'jax'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout == "set()\n"


def test_the_fingerprint_follows_text_and_tokenizer(tmp_path, write_texts):
    def fingerprint(folder: Path, tokenizer: str) -> str:
        actlab.data.prepare("mine", folder, source=folder / "texts", progress=False)
        return actlab.data.open_tokens("mine", folder, tokenizer, progress=False).fingerprint

    for name, train in (("a", ["same text"]), ("b", ["same text"]), ("c", ["same texu"])):
        (tmp_path / name).mkdir()
        write_texts(train, ["held"], name=f"{name}/texts")
    a, b, c = (fingerprint(tmp_path / name, "bytes") for name in "abc")
    assert a == b != c
    assert fingerprint(tmp_path / "a", "bpe:257") != a


@pytest.mark.parametrize("name", ["train.tokens", "validation.tokens", "train_starts.npy", "meta.json"])
def test_damage_is_noticed_and_named(opened, tmp_path, name):
    path = opened.folder / name
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[-5] ^= 1
    for damaged in (flipped, whole[:-2], None):
        path.write_bytes(damaged) if damaged else path.unlink()
        with pytest.raises(UserError, match=f"{name} .*: remove the folder {opened.folder} and run"):
            actlab.data.open_tokens("mine", tmp_path, "bytes", progress=False)


def test_large_caches_are_checked_by_size(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "VERIFY_BYTES", 0)
    path = opened.folder / "train.tokens"
    content = path.read_bytes()
    path.write_bytes(content[:-2] + b"xx")
    actlab.data.open_tokens("mine", tmp_path, "bytes", progress=False)
    path.write_bytes(content + b"xx")
    with pytest.raises(UserError, match="train.tokens is damaged"):
        actlab.data.open_tokens("mine", tmp_path, "bytes", progress=False)


def test_an_altered_record_is_noticed(opened, tmp_path):
    path = opened.folder / "meta.json"
    record = json.loads(path.read_text())
    for field in ("source_hash", "tokenizer_hash", "fingerprint"):
        path.write_text(json.dumps(record | {field: "0" * 64}))
        with pytest.raises(UserError, match="meta.json is damaged"):
            actlab.data.open_tokens("mine", tmp_path, "bytes", progress=False)


def test_an_altered_stored_tokenizer_is_noticed(tmp_path, texts):
    actlab.data.prepare("mine", tmp_path, source=texts, progress=False)
    opened = actlab.data.open_tokens("mine", tmp_path, "bpe:257", progress=False)
    path = opened.folder / "tokenizer" / "vocab.json"
    path.write_text(path.read_text().replace('"a": 64', '"a": 65').replace('"b": 65', '"b": 64'))
    with pytest.raises(UserError, match="damaged") as refused:
        _ = actlab.data.open_tokens("mine", tmp_path, "bpe:257", progress=False).tokenizer
    (folder,) = re.findall(r"remove the folder (\S+) and", str(refused.value))
    shutil.rmtree(folder)
    assert actlab.data.open_tokens("mine", tmp_path, "bpe:257", progress=False).tokenizer.hash


def test_another_tokenizer_in_the_place_of_the_stored_one_is_noticed(tmp_path, texts):
    actlab.data.prepare("mine", tmp_path, source=texts, progress=False)
    ours, other = (actlab.data.open_tokens("mine", tmp_path, f"bpe:{size}", progress=False) for size in (257, 258))
    shutil.rmtree(ours.folder / "tokenizer")
    shutil.copytree(other.folder / "tokenizer", ours.folder / "tokenizer")
    with pytest.raises(UserError, match="meta.json is damaged.*the tokenizer has another hash"):
        _ = actlab.data.open_tokens("mine", tmp_path, "bpe:257", progress=False).tokenizer


def test_text_shorter_than_a_window_is_refused_before_its_tokens_are_written(tmp_path, texts):
    actlab.data.prepare("mine", tmp_path, source=texts, progress=False)
    n_bytes = sum(len(text.encode()) + 1 for text in TRAIN if text) + 1
    with pytest.raises(UserError, match=f"data.name='mine' .* {n_bytes} tokens.*model.context={n_bytes}"):
        actlab.data.open_tokens("mine", tmp_path, "bytes", context=n_bytes, progress=False)
    assert not (tmp_path / "mine" / "tokens").exists()
    assert actlab.data.open_tokens("mine", tmp_path, "bytes", context=n_bytes - 1, progress=False)


def test_new_text_makes_new_tokens(opened, tmp_path, write_texts):
    shutil.rmtree(opened.folder.parents[1] / "2.0.0")
    actlab.data.prepare("mine", tmp_path, source=write_texts(["new"], ["held"], name="new"), progress=False)
    assert actlab.data.open_tokens("mine", tmp_path, "bytes", progress=False).train.n_documents == 1


def test_tokens_of_an_older_version_are_made_again(opened, tmp_path):
    meta = cache.read_meta(opened.folder)
    (opened.folder / "test.tokens").unlink()
    older = dataclasses.replace(meta, builder_version=1)
    older = dataclasses.replace(older, fingerprint=older.expected_fingerprint())
    (opened.folder / "meta.json").write_text(json.dumps(signed(dataclasses.asdict(older))))
    again = actlab.data.open_tokens("mine", tmp_path, "bytes", progress=False)
    assert again.fingerprint == opened.fingerprint and again.test.n_documents == 1


def test_an_error_while_tokenizing_leaves_nothing(tmp_path, texts, monkeypatch):
    dataset, _ = datasets.prepare("mine", tmp_path, texts, show=False)
    monkeypatch.setattr(datasets.Dataset, "texts", lambda self, split: iter([["other text"]]))
    with pytest.raises(UserError, match="split is not what was prepared"):
        cache.ensure(dataset, "bytes", tmp_path, show=False)
    assert list((dataset.root / "tokens").iterdir()) == []


def test_a_changed_vocabulary_folder_makes_new_tokens(tmp_path, texts):
    actlab.data.prepare("mine", tmp_path, source=texts, progress=False)
    fingerprints = []
    for size in (260, 270):
        tokenizers.train(["the cat and the dog and the bird and the dogs"] * 9, size).save(tmp_path / "vocabulary")
        opened = actlab.data.open_tokens("mine", tmp_path, f"dir:{tmp_path / 'vocabulary'}", progress=False)
        assert opened.vocab_size == size
        fingerprints.append(opened.fingerprint)
    assert len(set(fingerprints)) == 2


def test_a_folder_is_whole_or_absent(tmp_path):
    target = tmp_path / "x"
    with preparing.fresh(target) as draft:
        (draft / "old").write_text("")
        assert not target.exists()
    with pytest.raises(RuntimeError), preparing.fresh(target) as draft:
        (draft / "new").write_text("")
        raise RuntimeError
    assert [path.name for path in target.iterdir()] == ["old"]
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_the_grammar_is_there_at_first_use_with_its_nats(tmp_path, few_stories):
    opened = actlab.data.open_tokens("auto", tmp_path, "bytes", n_stories=20, progress=False)
    assert (opened.name, opened.train.n_documents, opened.validation.n_documents) == ("story_grammar", 20, few_stories)
    for name, split in (("validation", opened.validation), ("test", opened.test)):
        drawn = stories.stories(story_grammar.CORPUS_SEED, name, few_stories)
        assert split.nats is not None and split.nats.dtype == np.float64
        assert split.nats.tolist() == [story.nats for story in drawn]
    assert opened.train.nats is None
    assert opened.meta.entropy_nats == stories.entropy_nats()
