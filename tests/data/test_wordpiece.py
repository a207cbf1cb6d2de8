"""WordPiece: BERT's way of cutting text, files of other people, the vocabulary of the project."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

import actlab.data
from actlab.data import tokenizer_kinds, tokenizers
from actlab.data.grammar import stories
from actlab.errors import UserError

PIECES = "[PAD] un ##aff ##able [UNK] [CLS] [SEP] [MASK] cafe , ! [ ] mask l".split()


def made(name: str) -> tokenizer_kinds.WordPieceTokenizer:
    tokenizer = tokenizers.make(name, Path(), ())
    assert isinstance(tokenizer, tokenizer_kinds.WordPieceTokenizer)
    return tokenizer


OWN = made("wordpiece")


@pytest.fixture
def vocabulary(tmp_path):
    def write(pieces=PIECES, end="\n"):
        path = tmp_path / "vocab.txt"
        path.write_bytes("".join(piece + end for piece in pieces).encode())
        return path

    return write


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("unaffable", ["un", "##aff", "##able"]),
        ("UNaffable,un!", ["un", "##aff", "##able", ",", "un", "!"]),
        ("Café", ["cafe"]),
        ("unaffablex", ["[UNK]"]),
        ("[MASK]", ["[", "mask", "]"]),
        ("", []),
    ],
)
def test_text_is_cut_as_bert_cuts_it(vocabulary, text, pieces):
    tokenizer = tokenizers.make(f"wordpiece:{vocabulary()}", Path(), ())
    assert [PIECES[i] for i in tokenizer.encode(text)] == pieces
    assert tokenizer.encode(text).dtype == np.int32


def test_marks_have_the_ids_of_their_lines(vocabulary):
    tokenizer = made(f"wordpiece:{vocabulary()}")
    assert tokenizer.specials == (5, 6, 0, 7, 4, None) and tokenizer.end_of_text == 6
    assert tokenizer.specials.ids() == (0, 4, 5, 6, 7)
    assert tokenizer.decode([5, 1, 2, 3, 9, 7, 6, 60_000]) == "[CLS] unaffable, [MASK] [SEP]"


@given(text=st.text())
def test_no_text_gives_a_mark(text):
    specials = OWN.specials
    assert not np.isin(OWN.encode(text), [specials.first, specials.last, specials.padding, specials.mask]).any()


def test_the_projects_own_knows_every_word_of_the_grammar():
    assert hashlib.sha256(tokenizers.OWN.read_bytes()).hexdigest() == tokenizers.OWN_SHA256
    assert OWN.vocab_size == 2048
    texts = [story.text for story in stories.stories(1, "train", 300)]
    ids = np.concatenate(OWN.encode_batch(texts))
    assert OWN.specials.unknown not in ids
    assert sum(len(text.encode()) for text in texts) / len(ids) > 3.9, "bytes per token"
    letters = lambda text: "".join(text.lower().split())
    assert all(letters(OWN.decode(OWN.encode(text))) == letters(text) for text in texts[:50])
    assert OWN.specials.unknown not in OWN.encode('Zyzzyva (n.) 1984: any ASCII will do; "quoted" ~too!')


def test_saved_and_loaded_it_is_the_same(tmp_path, vocabulary):
    for tokenizer in (OWN, made(f"wordpiece:{vocabulary().parent}")):
        tokenizer.save(tmp_path / "saved")
        again = tokenizers.load(tmp_path / "saved")
        assert (again.name, again.hash, again.vocab_size) == (tokenizer.name, tokenizer.hash, tokenizer.vocab_size)
    (tmp_path / "saved" / "vocab.txt").write_text("[PAD]\n")
    with pytest.raises(UserError, match="damaged"):
        tokenizers.load(tmp_path / "saved")


def test_line_ends_of_windows_and_a_missing_last_one_change_nothing(vocabulary):
    plain = made(f"wordpiece:{vocabulary()}").hash
    assert made(f"wordpiece:{vocabulary(end=chr(13) + chr(10))}").hash == plain
    path = vocabulary()
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    assert made(f"wordpiece:{path}").hash == plain
    # Of some vocabularies a piece is a line separator of Unicode.
    assert made(f"wordpiece:{vocabulary([*PIECES, chr(0x2028)])}").vocab_size == len(PIECES) + 1


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ([piece for piece in PIECES if piece != "[MASK]"], r"it lacks \[MASK\]"),
        ([*PIECES, "un"], "it has 'un' twice"),
        ([], "it lacks"),
    ],
)
def test_a_file_that_is_no_vocabulary_is_refused(vocabulary, pieces, words):
    with pytest.raises(UserError, match=words):
        made(f"wordpiece:{vocabulary(pieces)}")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ('{"do_lower_case": false}', r"do_lower_case=false in .*tokenizer_config.json"),
        ('{"do_lower_case": true, "strip_accents": false}', "strip_accents=false"),
        ('{"tokenize_chinese_chars": false}', "tokenize_chinese_chars=false"),
        ("{", r"cannot use .*tokenizer_config.json"),
        ("[]", r"cannot use .*tokenizer_config.json"),
        ('{"do_lower_case": true}', None),
        ('{"model_max_length": 512}', None),
    ],
)
def test_a_cased_vocabulary_is_refused(vocabulary, settings, words):
    path = vocabulary()
    (path.parent / "tokenizer_config.json").write_text(settings)
    for place in (path, path.parent):
        if words is None:
            assert made(f"wordpiece:{place}").vocab_size == len(PIECES)
            continue
        with pytest.raises(UserError, match=words):
            made(f"wordpiece:{place}")


def test_a_missing_file_and_a_wrong_name_are_refused(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        tokenizers.make(f"wordpiece:{tmp_path}/none.txt", tmp_path, ())
    with pytest.raises(UserError, match="wordpiece or wordpiece:PATH"):
        tokenizers.make("wordpieces", tmp_path, ())


def test_an_altered_vocabulary_of_the_project_is_noticed(monkeypatch, vocabulary):
    monkeypatch.setattr(tokenizers, "OWN", vocabulary())
    with pytest.raises(UserError, match="install actlab again"):
        made("wordpiece")


def test_a_cache_is_made_again_when_the_vocabulary_changed(tmp_path, write_texts, vocabulary):
    actlab.data.prepare("mine", tmp_path, source=write_texts(["un un"], ["mask", "un"]), progress=False)
    name = f"wordpiece:{vocabulary()}"
    first = actlab.data.open_tokens("mine", tmp_path, name, progress=False)
    assert first.train.tokens.tolist() == [6, 1, 1, 6]
    assert sorted([first.validation.tokens.tolist(), first.test.tokens.tolist()]) == [[6, 1, 6], [6, 13, 6]]
    vocabulary(PIECES[::-1])
    second = actlab.data.open_tokens("mine", tmp_path, name, progress=False)
    assert second.train.tokens.tolist() == [8, 13, 13, 8]
    assert second.fingerprint != first.fingerprint


@pytest.mark.parametrize("name", ["bytes", "bpe"])
def test_other_tokenizers_have_marks_beside_their_own_ids(name):
    tokenizer = tokenizer_kinds.ByteTokenizer() if name == "bytes" else tokenizers.train(["a story"] * 9, 260)
    first, last, padding, mask, unknown, end = tokenizer.specials
    assert first == last == tokenizer.end_of_text and unknown is end is None
    assert (padding, mask) == (tokenizer.vocab_size, tokenizer.vocab_size + 1)
    assert tokenizer.decode([padding, mask]) == ""
