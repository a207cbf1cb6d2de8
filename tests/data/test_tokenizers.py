import dataclasses
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from actlab.data import gpt2, tokenizer_kinds, tokenizers
from actlab.errors import UserError

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data"
CORPUS = [f"Once upon a time number {i} met the {i * i} of {i % 7} friends, and they played." for i in range(200)]
BYTES = tokenizer_kinds.ByteTokenizer()
TRAINED = tokenizers.train(CORPUS, 300)


@pytest.mark.parametrize("tokenizer", [BYTES, TRAINED], ids=["bytes", "bpe"])
@given(text=st.text())
def test_decode_undoes_encode(tokenizer, text):
    ids = tokenizer.encode(text)
    assert ids.dtype == np.int32
    assert tokenizer.decode(ids) == text
    assert tokenizer.end_of_text not in ids


@pytest.mark.parametrize("tokenizer", [BYTES, TRAINED], ids=["bytes", "bpe"])
def test_text_cannot_forge_the_end_of_text(tokenizer):
    text = "a<|endoftext|>b"
    ids = tokenizer.encode(text)
    assert tokenizer.end_of_text not in ids
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode([*ids.tolist(), tokenizer.end_of_text]) == text + "<|endoftext|>"


@pytest.mark.parametrize("tokenizer", [BYTES, TRAINED], ids=["bytes", "bpe"])
def test_ids_of_a_padded_vocabulary_give_no_text(tokenizer):
    a, b = int(tokenizer.encode("a")[0]), int(tokenizer.encode("b")[0])
    assert tokenizer.decode([a, tokenizer.vocab_size, b, 60_000]) == "ab"


def test_bytes_have_256_ids_and_the_end_of_text():
    assert (BYTES.vocab_size, BYTES.end_of_text) == (257, 256)
    assert BYTES.encode("é").tolist() == [0xC3, 0xA9]
    assert BYTES.decode([0xC3]) == "\ufffd"


def test_training_reaches_exactly_the_size():
    assert TRAINED.vocab_size == 300
    assert sorted(TRAINED.vocabulary.values()) == list(range(300))
    assert tokenizers.train(CORPUS, tokenizers.SMALLEST_BPE).vocab_size == 257
    assert len(TRAINED.encode(CORPUS[0])) < len(CORPUS[0].encode()) / 1.5


def test_training_reads_only_the_first_part(monkeypatch):
    monkeypatch.setattr(tokenizers, "TRAINING_BYTES", sum(map(len, CORPUS)))

    def endless():
        yield from CORPUS
        pytest.fail("read on")

    assert tokenizers.train(endless(), 300).hash == TRAINED.hash


@pytest.mark.parametrize("text", ["é" * 9, "aé" * 9, "ascii only"])
def test_the_first_part_is_counted_in_bytes_and_ends_with_a_whole_character(monkeypatch, text):
    monkeypatch.setattr(tokenizers, "TRAINING_BYTES", 7)
    read = "".join(tokenizers._prefix([text, text]))
    assert text.startswith(read) and 6 <= len(read.encode()) <= 7


def test_too_little_text_names_the_size_reached():
    with pytest.raises(UserError, match=r"bpe:4000' is too large.*gives (\d+) entries: take bpe:\1 or less") as error:
        tokenizers.train(CORPUS, 4000)
    reached = int(str(error.value).split("gives ")[1].split()[0])
    assert tokenizers.train(CORPUS, reached).vocab_size == reached


def test_training_is_the_same_in_another_process():
    program = (
        "from actlab.data import tokenizers\n"
        f"print(tokenizers.train({CORPUS!r}, 300).hash)"
    )  # fmt: skip
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert found == TRAINED.hash + "\n"


PARTS = ["word", " ", "\n", "\t", "it's", "9", "\u3000", ",", "\x1c", "  ", "\n\n"]
# Merges within every kind of run, white space too: a cut in the wrong place shows.
RUNS = tokenizers.train([a + b + c for a in PARTS for b in PARTS for c in PARTS] * 2, 330)


@given(st.lists(st.sampled_from(PARTS), max_size=60))
def test_long_texts_are_cut_where_no_token_changes(parts):
    text = "".join(parts)
    whole = RUNS.encode(text)
    assert "".join(tokenizer_kinds._pieces(text, 3)) == text
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer_kinds.BytePairTokenizer, "least", 3)
        assert RUNS.encode(text).tolist() == whole.tolist()


def test_a_long_line_is_cut_too():
    text = "word " * 10_000
    assert max(map(len, tokenizer_kinds._pieces(text, 1000))) < 3000
    assert "".join(tokenizer_kinds._pieces(text, 1000)) == text


def test_a_batch_is_its_texts_one_by_one(monkeypatch):
    texts = ["", *CORPUS[:20], "", "x\n" * 50]
    expected = [TRAINED.encode(text).tolist() for text in texts]
    monkeypatch.setattr(tokenizer_kinds.BytePairTokenizer, "least", 20)
    monkeypatch.setattr(tokenizer_kinds, "BATCH_CHARACTERS", 50)
    assert [ids.tolist() for ids in TRAINED.encode_batch(texts)] == expected


@pytest.mark.parametrize("tokenizer", [BYTES, TRAINED], ids=["bytes", "bpe"])
def test_a_saved_tokenizer_loads_the_same(tmp_path, tokenizer):
    tokenizer.save(tmp_path / "t")
    loaded = tokenizers.load(tmp_path / "t")
    assert (loaded.name, loaded.hash, loaded.vocab_size) == (tokenizer.name, tokenizer.hash, tokenizer.vocab_size)
    assert loaded.encode(CORPUS[3]).tolist() == tokenizer.encode(CORPUS[3]).tolist()


def test_a_tokenizer_is_kept_whole_and_once(tmp_path, monkeypatch):
    def killed(self, directory):
        (directory / "vocab.json").write_text("{")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tokenizer_kinds.BytePairTokenizer, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            tokenizers.keep(TRAINED, tmp_path / "t")
    assert not list(tmp_path.iterdir())
    tokenizers.keep(TRAINED, tmp_path / "t")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "t").iterdir()}
    tokenizers.keep(BYTES, tmp_path / "t")
    assert tokenizers.load(tmp_path / "t").hash == TRAINED.hash
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "t").iterdir()} == before


def test_an_altered_vocabulary_is_noticed(tmp_path):
    TRAINED.save(tmp_path)
    vocabulary = json.loads((tmp_path / "vocab.json").read_text())
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    with pytest.raises(UserError, match="damaged"):
        tokenizers.load(tmp_path)


def test_a_folder_of_vocabulary_files_is_a_tokenizer(tmp_path):
    TRAINED.save(tmp_path)
    for header in ("#version: 0.2\n", ""):
        merges = "\n".join(" ".join(pair) for pair in TRAINED.merges)
        (tmp_path / "merges.txt").write_text(header + merges, encoding="utf-8")
        assert tokenizers.make(f"dir:{tmp_path}", tmp_path, ()).hash == TRAINED.hash


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v | {"zz": 999}, "0 to n-1"),
        (lambda v: {("xx" if k == "<|endoftext|>" else k): i for k, i in v.items()}, "lacks <|endoftext|>"),
        (lambda v: {("qqqq" if i == 270 else k): i for k, i in v.items()}, "merges .* not in"),
        (lambda v: {("qqqq" if k == "z" else k): i for k, i in v.items()}, "lacks the byte 'z'"),
        (lambda v: {k: str(i) for k, i in v.items()}, "whole numbers"),
    ],
)
def test_vocabularies_that_do_not_fit_are_refused(tmp_path, change, message):
    TRAINED.save(tmp_path)
    (tmp_path / "vocab.json").write_text(json.dumps(change(TRAINED.vocabulary)))
    with pytest.raises(UserError, match=message.replace("|", r"\|")):
        tokenizers.make(f"dir:{tmp_path}", tmp_path, ())


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("vocab.json", b"{"),
        ("vocab.json", b"[]"),
        ("merges.txt", b"a b c"),
        ("merges.txt", b"\xff"),
        ("merges.txt", None),
    ],
)
def test_vocabulary_files_that_cannot_be_read_are_refused(tmp_path, file, content):
    TRAINED.save(tmp_path)
    (tmp_path / file).unlink()
    if content is not None:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(UserError, match=f"data.tokenizer='dir:{tmp_path}' cannot use {tmp_path}"):
        tokenizers.make(f"dir:{tmp_path}", tmp_path, ())


@pytest.mark.parametrize("name", ["bpe:", "bpe:256", "bpe:x", "bpe:-1", "bpe:1e3", "bpe", "byte", "", "wordpieces"])
def test_names_that_are_no_tokenizer_are_refused(tmp_path, name):
    with pytest.raises(UserError, match=f"data.tokenizer={name!r} has no usable size|unknown data.tokenizer={name!r}"):
        tokenizers.make(name, tmp_path, CORPUS)


def test_gpt2_must_be_prepared_first(tmp_path):
    with pytest.raises(UserError, match="prepare gpt2 --from=DIR"):
        tokenizers.make("gpt2", tmp_path, ())


def test_gpt2_files_are_checked_by_their_sums(tmp_path, monkeypatch):
    source = tmp_path / "source"
    TRAINED.save(source)
    content = {name: (source / name).read_bytes() for name in gpt2.FILES}
    with pytest.raises(UserError, match="not GPT-2's file"):
        gpt2.prepare(tmp_path / "data", source, show=False)
    assert not (tmp_path / "data").exists()
    for name, value in content.items():
        ours = dataclasses.replace(gpt2.FILES[name], sha256=hashlib.sha256(value).hexdigest())
        monkeypatch.setitem(gpt2.FILES, name, ours)
    (source / "merges.txt").write_bytes(content["merges.txt"].split(b"\n", 1)[1])
    assert gpt2.prepare(tmp_path / "data", source, show=False) is True
    assert gpt2.prepare(tmp_path / "data", source, show=False) is False
    assert tokenizers.make("gpt2", tmp_path / "data", ()).hash == TRAINED.hash
    (tmp_path / "data" / "gpt2" / "merges.txt").write_bytes(b"")
    with pytest.raises(UserError, match="damaged"):
        tokenizers.make("gpt2", tmp_path / "data", ())


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.exists(), reason="needs ../shared")
def test_gpt2_gives_the_known_ids(tmp_path):
    gpt2.prepare(tmp_path, SHARED / "gpt2", show=False)
    tokenizer = tokenizers.make("gpt2", tmp_path, ())
    assert (tokenizer.vocab_size, tokenizer.end_of_text) == (50257, 50256)
    assert tokenizer.encode("Hello, world!").tolist() == [15496, 11, 995, 0]
    assert tokenizer.encode("Hello world").tolist() == [15496, 995]
    assert tokenizer.encode("Once upon a time").tolist() == [7454, 2402, 257, 640]
    assert tokenizer.encode(" the the").tolist() == [262, 262]
    forged = tokenizer.encode("<|endoftext|>")
    assert forged.tolist() == [27, 91, 437, 1659, 5239, 91, 29]


def of_llama(folder):
    """A tokenizer.json as LLaMA has it: no words, spaces as a letter, bytes where a character is unknown."""
    from tokenizers import Tokenizer, decoders, models, normalizers, trainers

    library = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    library.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    undone = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    library.decoder = decoders.Sequence(undone)
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=special, show_progress=False)
    library.train_from_iterator([*CORPUS, "</s>"], trainer)
    folder.mkdir(exist_ok=True)
    library.save(str(folder / "tokenizer.json"))
    settings = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "unk_token": "<unk>", "pad_token": None}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def of_cased_bert(folder):
    """A tokenizer.json and a vocab.txt as cased BERT has them."""
    from tokenizers import BertWordPieceTokenizer

    library = BertWordPieceTokenizer(lowercase=False)
    library.train_from_iterator(CORPUS, vocab_size=120, show_progress=False)
    folder.mkdir(exist_ok=True)
    library.save(str(folder / "tokenizer.json"))
    library.save_model(str(folder))
    roles = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "mask_token": "[MASK]"}
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False, **roles, "unk_token": "[UNK]"}))
    return folder


@pytest.mark.parametrize("make", [of_llama, of_cased_bert])
def test_the_tokenizer_of_a_directory_is_read_kept_and_given_back(tmp_path, make):
    import tokenizers as library

    folder = make(tmp_path / "theirs")
    name = tokenizers.name_in(folder)
    assert name == f"dir:{folder}"
    ours = tokenizers.make(name, tmp_path, ())
    theirs = library.Tokenizer.from_file(str(folder / "tokenizer.json"))
    for text in (CORPUS[3], "Ω and ß, \n\n  THE end"):
        assert ours.encode(text).tolist() == theirs.encode(text, add_special_tokens=False).ids
    assert ours.decode(ours.encode(CORPUS[3])) == CORPUS[3]
    ours.save(tmp_path / "kept")
    kept = tokenizers.load(tmp_path / "kept")
    assert (kept.hash, kept.end_of_text, kept.specials) == (ours.hash, ours.end_of_text, ours.specials)
    assert tokenizers.make(f"dir:{tmp_path / 'kept'}", tmp_path, ()).hash == ours.hash
    given_back = tmp_path / "back"
    given_back.mkdir()
    for file, content in tokenizers.for_transformers(tmp_path / "kept").items():
        (given_back / file).write_bytes(content)
    assert tokenizers.make(f"dir:{given_back}", tmp_path, ()).hash == ours.hash


def test_the_special_tokens_of_a_directory_have_their_parts(tmp_path):
    llama = tokenizers.make(f"dir:{of_llama(tmp_path / 'llama')}", tmp_path, ())
    assert (llama.end_of_text, llama.specials.unknown) == (2, 0)
    assert llama.specials.mask >= llama.vocab_size, "it has none of its own"
    bert = tokenizers.make(f"dir:{of_cased_bert(tmp_path / 'bert')}", tmp_path, ())
    held = (tmp_path / "bert" / "vocab.txt").read_text().split("\n")
    assert [held[i] for i in bert.specials if i is not None] == ["[CLS]", "[SEP]", "[PAD]", "[MASK]", "[UNK]"]


@pytest.mark.parametrize(("make", "text"), [(of_llama, "a</s>b"), (of_cased_bert, "a [MASK] b")])
def test_a_text_that_spells_a_special_token_is_only_text(tmp_path, make, text):
    tokenizer = tokenizers.make(f"dir:{make(tmp_path / 'm')}", tmp_path, ())
    assert not {tokenizer.end_of_text, tokenizer.specials.mask} & set(tokenizer.encode(text).tolist())


def of_t5(folder):
    """A tokenizer.json as T5 has it: a Unigram model with the special tokens among its pieces."""
    from tokenizers import Tokenizer, models

    characters = [(character, -5.0) for character in sorted({*"".join(CORPUS), *"ab<>/s"})]
    library = Tokenizer(models.Unigram([("<unk>", 0.0), ("</s>", 0.0), ("<pad>", 0.0), *characters], unk_id=0))
    library.add_special_tokens(["<unk>", "</s>", "<pad>"])
    folder.mkdir(exist_ok=True)
    library.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>", "pad_token": "<pad>"}))
    return folder


def test_special_pieces_of_unigram_are_no_part_of_a_text(tmp_path):
    tokenizer = tokenizers.make(f"dir:{of_t5(tmp_path / 't5')}", tmp_path, ())
    ids = tokenizer.encode("a</s>b<pad>")
    assert not {0, tokenizer.end_of_text, tokenizer.specials.padding} & set(ids.tolist())
    assert tokenizer.decode(ids).replace(" ", "") == "a</s>b<pad>" and tokenizer.end_of_text == 1


@pytest.mark.parametrize("changed", ["added", "end"])
def test_what_was_added_to_gpt2s_files_is_read_from_tokenizer_json(tmp_path, changed):
    from tokenizers import AddedToken, Tokenizer, decoders, models as library_models, pre_tokenizers

    ours = tokenizers.train(CORPUS, 265)
    ours.save(tmp_path)
    library = Tokenizer(library_models.BPE(vocab=ours.vocabulary, merges=list(ours.merges)))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens(["<|endoftext|>"])
    library.save(str(tmp_path / "tokenizer.json"))
    assert tokenizers.make(f"dir:{tmp_path}", tmp_path, ()).hash == ours.hash, "nothing was added"
    end = "." if changed == "end" else "<|endoftext|>"
    if changed == "added":
        library.add_tokens([AddedToken("<sep>", normalized=False)])
    library.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": end}))
    found = tokenizers.make(f"dir:{tmp_path}", tmp_path, ())
    assert found.end_of_text == library.token_to_id(end)
    assert changed == "end" or library.token_to_id("<sep>") in found.encode("a<sep>b")


def test_a_long_document_is_cut_before_lines_only(tmp_path, monkeypatch):
    tokenizer = tokenizers.make(f"dir:{of_llama(tmp_path / 'm')}", tmp_path, ())
    text = "\n".join(CORPUS)
    whole = tokenizer.decode(tokenizer.encode(text))
    monkeypatch.setattr(tokenizer_kinds.LibraryTokenizer, "least", 500)
    assert tokenizer.decode(tokenizer.encode(text)).replace(" \n", "\n") == whole.replace(" \n", "\n")


WORDS = {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "decoder": None}


WHOLE = json.dumps({**WORDS, "model": {"type": "WordLevel", "vocab": {"a": 0, "</s>": 1}, "unk_token": "a"}})


@pytest.mark.parametrize(
    ("written", "settings", "told"),
    [
        ("{", {}, "not one that the library"),
        ("[" * 100_000, {}, "not one that the library"),
        ('{"model": {"type": "BPE"}}', {}, "not one that the library"),
        (json.dumps({**WORDS, "model": {"type": "WordLevel", "vocab": {"</s>": -1}, "unk_token": "a"}}), {}, "library"),
        (json.dumps({**WORDS, "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}), {}, "no end of a"),
        (
            json.dumps({**WORDS, "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}),
            {"eos_token": "</s>"},
            "names '</s>' as eos_token",
        ),
        (
            json.dumps({**WORDS, "model": {"type": "WordLevel", "vocab": {"a": 0, "</s>": 2**30}, "unk_token": "a"}}),
            {},
            "the id 1,073,741,824",
        ),
        (
            json.dumps({**WORDS, "model": {"type": "WordLevel", "vocab": {"</s>": 0}, "unk_token": "a"}}),
            {},
            "cannot read 'Once upon a time.'",
        ),
        (json.dumps({**WORDS, "pre_tokenizer": [{"type": "ByteLevel"}], "model": {"type": "BPE"}}), {}, "not one that"),
        (json.dumps({**WORDS, "model": {"type": "BPE", "vocab": {"</s>": 0}, "merges": []}}), {}, "gives no token"),
        (WHOLE, {"eos_token": 3}, "eos_token in .* is not a token"),
        (WHOLE, {"eos_token": "\ud800"}, "eos_token in .* is not a token"),
        (WHOLE, [], "not a JSON object"),
    ],
)
def test_a_hostile_tokenizer_is_refused_in_a_sentence(tmp_path, written, settings, told):
    (tmp_path / "tokenizer.json").write_text(written)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(UserError, match=told) as caught:
        tokenizers.make(f"dir:{tmp_path}", tmp_path, ())
    assert "\n" not in str(caught.value)


def test_the_mark_between_documents_is_special_where_it_is_not_the_separator(tmp_path):
    vocabulary = {"a": 0, "</s>": 1, "[SEP]": 2, "[CLS]": 3}
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "a"}
    (tmp_path / "tokenizer.json").write_text(json.dumps({**WORDS, "model": model}))
    roles = {"eos_token": "</s>", "sep_token": "[SEP]", "cls_token": "[CLS]"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(roles))
    found = tokenizers.make(f"dir:{tmp_path}", tmp_path, ())
    assert (found.end_of_text, found.specials.last, found.specials.first) == (1, 2, 3)
    assert {1, 2, 3} <= set(found.specials.ids())
