"""Tokenizers by name: bytes, byte-level BPE trained here, GPT-2's, WordPiece, or those of a Hugging Face directory.

The project's WordPiece vocabulary, `vocab.txt` beside this file, was trained once by tools/train_wordpiece.py: the
`tokenizers` library does not train the same one twice.
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from actlab.data import gpt2, preparing
from actlab.data.gpt2 import MERGES, VOCABULARY
from actlab.data.tokenizer_kinds import (
    END_OF_TEXT,
    LAST,
    LIBRARY,
    PIECES,
    RECORD,
    SETTINGS,
    SPECIALS,
    THEIRS,
    BytePairTokenizer,
    ByteTokenizer,
    LibraryTokenizer,
    OfLibrary,
    Tokenizer,
    WordPieceTokenizer,
    byte_level,
    library_of,
)
from actlab.errors import UserError
from actlab.files import fault_of_path, read_file, read_json, sha256

SMALLEST_BPE = 257  # every byte and the end of text
TRAINING_BYTES = 20_000_000

WORDPIECE = "wordpiece"
OWN = Path(__file__).parent / PIECES
OWN_SHA256 = "4f7d727e81cd0c4031b048e2ea35fc1b2103feab484d435b69571db2615eb9c7"


def check(name: str) -> None:
    """Refuses an unknown name."""
    if name not in ("bytes", "gpt2", WORDPIECE) and not name.startswith(("bpe:", "dir:", f"{WORDPIECE}:")):
        raise UserError(
            f"unknown data.tokenizer={name!r}: take bytes, bpe:SIZE, gpt2, dir:PATH, wordpiece or wordpiece:PATH."
        )
    if name.startswith("bpe:"):
        _bpe_size(name)
    elif ":" in name and (fault := fault_of_path(name.partition(":")[2])):
        raise UserError(f"data.tokenizer={name!r}: the path {fault}: name a folder of a tokenizer.")


def make(name: str, directory: Path, texts: Iterable[str]) -> Tokenizer:
    """The tokenizer of that name; `texts` (a train split) are read only to train a bpe:SIZE.

    Raises:
        UserError: an unknown name, a bad size, too little text for the size, or files that are missing or damaged.
    """
    check(name)
    if name == "bytes":
        return ByteTokenizer()
    if name.startswith(WORDPIECE):
        return _wordpiece(name)
    if name == gpt2.NAME:
        return _byte_pairs(name, gpt2.folder(directory))
    if name.startswith("dir:"):
        return _of_folder(name, Path(name.removeprefix("dir:")))
    return train(texts, _bpe_size(name))


def size(name: str, directory: Path) -> int:
    """Number of tokens of the tokenizer of that name, before it is trained; raises UserError as `make`."""
    return _bpe_size(name) if name.startswith("bpe:") else make(name, directory, ()).vocab_size


def keep(tokenizer: Tokenizer, directory: Path) -> None:
    """Saves a tokenizer unless one is there, whole or not at all: other processes may read the folder meanwhile."""
    if not (directory / RECORD).is_file():
        with preparing.fresh(directory) as draft:
            tokenizer.save(draft)


def load(directory: Path, fix: str = "restore it") -> Tokenizer:
    """The tokenizer that `save` wrote; raises UserError for a damaged one, which ends with `fix`."""
    record = read_json(directory / RECORD, fix)
    name = str(record.get("name"))
    try:
        if name == "bytes":
            tokenizer = ByteTokenizer()
        elif name.startswith(WORDPIECE):
            tokenizer = _pieces_of(name, directory / PIECES)
        elif (directory / LIBRARY).is_file():
            tokenizer = _of_library(name, directory / LIBRARY)
        else:
            tokenizer = _byte_pairs(name, directory)
    except UserError as error:
        raise UserError(f"{directory} is damaged ({str(error).removesuffix('.')}): {fix}.") from error
    if tokenizer.hash != record.get("hash"):
        raise UserError(f"{directory} is damaged (the tokenizer has another hash): {fix}.")
    return tokenizer


def name_in(folder: Path) -> str | None:
    """The data.tokenizer that means the tokenizer of a Hugging Face directory, or of ours; None if it has none."""
    if (folder / PIECES).is_file():
        unlike = _unlike_ours(_json_object(folder / SETTINGS))
        if not (unlike and (folder / THEIRS).is_file()):
            return f"{WORDPIECE}:{folder}"
    if _json_object(folder / RECORD).get("name") == "bytes":
        return "bytes"
    # Whether they can be used is said where they are.
    return f"dir:{folder}" if any((folder / name).is_file() for name in (LIBRARY, MERGES, THEIRS)) else None


# What transformers may keep of a tokenizer.
FILES = (
    *(THEIRS, SETTINGS, "special_tokens_map.json", "added_tokens.json", "tokenizer.model"),
    *(VOCABULARY, MERGES, PIECES),
)


def for_transformers(folder: Path) -> dict[str, bytes]:
    """The files that transformers reads a folder's tokenizer from: their names there, and what they hold."""
    found = {name: (folder / name).read_bytes() for name in FILES if (folder / name).is_file()}
    if "hash" in _json_object(folder / RECORD):
        del found[RECORD]
        ours = load(folder)
        if isinstance(ours, OfLibrary):
            found |= {name: text.encode() for name, text in ours.for_transformers().items()}
    elif PIECES in found:
        # Otherwise transformers goes by the model: RoBERTa's would read word pieces as byte pairs, without a word.
        known = {"do_lower_case": True, **_json_object(folder / SETTINGS)}
        found[SETTINGS] = json.dumps({"tokenizer_class": "BertTokenizer", **known}, indent=2).encode()
    return found


def train(texts: Iterable[str], size: int) -> BytePairTokenizer:
    """Byte-level BPE of exactly `size` entries, from the first 20 MB of text."""
    from tokenizers import models, pre_tokenizers, trainers

    library = byte_level(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=size - 1,  # without the end of text, added below
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
        min_frequency=2,
    )
    library.train_from_iterator(_prefix(texts), trainer)
    model = json.loads(library.to_str())["model"]
    reached = len(model["vocab"]) + 1
    if reached != size:
        raise UserError(
            f"data.tokenizer='bpe:{size}' is too large for this text, which gives {reached} entries: "
            f"take bpe:{reached} or less, or more text."
        )
    return BytePairTokenizer(
        name=f"bpe:{size}",
        vocabulary=model["vocab"] | {END_OF_TEXT: size - 1},
        merges=tuple((left, right) for left, right in model["merges"]),
    )


def _bpe_size(name: str) -> int:
    digits = name.removeprefix("bpe:")
    if not re.fullmatch(r"[0-9]{1,7}", digits) or int(digits) < SMALLEST_BPE:
        raise UserError(
            f"data.tokenizer={name!r} has no usable size: take {SMALLEST_BPE} to 9,999,999, as in bpe:1024."
        )
    return int(digits)


def _of_folder(name: str, folder: Path) -> Tokenizer:
    """The tokenizer that a folder holds: ours, or that of a Hugging Face directory."""
    if (folder / LIBRARY).is_file():
        return _of_library(name, folder / LIBRARY)
    theirs = folder / THEIRS
    if theirs.is_file() and not _is_gpt2(theirs):
        return _of_library(name, theirs)
    if not theirs.is_file() and not (folder / VOCABULARY).is_file():
        raise UserError(
            f"data.tokenizer={name!r}: {folder} has no {THEIRS}, nor {VOCABULARY} and {MERGES}: name one that has."
        )
    return _byte_pairs(name, folder)


def _is_gpt2(path: Path) -> bool:
    """Whether a tokenizer.json is our own record, or of GPT-2's kind, which needs only vocab.json and merges.txt."""
    found = _json_object(path)
    if "name" in found and "model" not in found:
        return True
    words = found.get("pre_tokenizer")
    if not isinstance(words, dict):
        return False
    plain = found.get("normalizer") is None and words.get("type") == "ByteLevel"
    files = all((path.parent / name).is_file() for name in (VOCABULARY, MERGES))
    vocabulary = _json_object(path.parent / VOCABULARY) if files else {}
    whole = END_OF_TEXT in vocabulary
    # Tokens that were added to it, or another end of text, stand in the other files alone.
    added = found.get("added_tokens")
    for one in added if isinstance(added, list) else ():
        whole = whole and isinstance(one, dict) and vocabulary.get(str(one.get("content"))) == one.get("id")
    end = _json_object(path.with_name(SETTINGS)).get("eos_token", END_OF_TEXT)
    whole = whole and END_OF_TEXT == (end.get("content") if isinstance(end, dict) else end)
    return whole and plain and words.get("use_regex", True) and not words.get("add_prefix_space", False)


def _json_object(path: Path) -> dict[str, Any]:
    try:
        return read_json(path, "")
    except UserError:
        return {}


def _of_library(name: str, path: Path) -> LibraryTokenizer:
    """The tokenizer of a tokenizer.json, with the special tokens that the files beside it name."""
    try:
        text = read_file(path, "take another directory").decode()
    except UnicodeDecodeError as error:
        raise UserError(f"data.tokenizer={name!r} cannot use {path} ({error}): take another directory.") from error
    roles: dict[str, str] = {}
    for beside in (path.with_name("special_tokens_map.json"), path.with_name(SETTINGS)):
        if not beside.is_file():
            continue
        for role, token in _settings(name, beside).items():
            token = token.get("content") if isinstance(token, dict) else token
            if role not in _ROLES or token is None:
                continue
            if not isinstance(token, str) or not token.isprintable():
                raise UserError(
                    f"data.tokenizer={name!r}: {role} in {beside} is not a token: use the file that belongs to it."
                )
            roles[role] = token
    if not roles.keys() & {"eos_token", "sep_token"}:
        library = library_of(name, text)
        if end := next((token for token in _ENDS if library.token_to_id(token) is not None), None):
            roles["eos_token"] = end
    return LibraryTokenizer(name, text, roles)


def _settings(name: str, path: Path) -> dict[str, Any]:
    """A JSON object; raises UserError for anything else."""
    try:
        return read_json(path, "use the file that belongs to the tokenizer")
    except UserError as error:
        raise UserError(f"data.tokenizer={name!r} cannot use what is there: {error}") from error


_ROLES = ("bos_token", "eos_token", "cls_token", "sep_token", "pad_token", "mask_token", "unk_token")
_ENDS = (END_OF_TEXT, "</s>", "<|end_of_text|>", "<eos>", LAST)  # where no file names one


def _byte_pairs(name: str, folder: Path) -> BytePairTokenizer:
    """The tokenizer of the vocab.json and merges.txt in a folder."""
    from tokenizers import pre_tokenizers

    try:
        vocabulary = read_json(folder / VOCABULARY, "take another")
        if not all(type(i) is int for i in vocabulary.values()):
            raise ValueError(f"{VOCABULARY} does not map entries to whole numbers")
        merges = tuple(_merges(read_file(folder / MERGES, "take another").decode()))
    except ValueError as error:
        raise UserError(
            f"data.tokenizer={name!r} cannot use {folder} ({error}): put matching {VOCABULARY} and {MERGES} there."
        ) from error
    tokenizer = BytePairTokenizer(name, vocabulary, merges)
    # The library silently drops bytes that have no entry.
    missing = sorted(set(pre_tokenizers.ByteLevel.alphabet()) - set(vocabulary))
    if missing:
        raise UserError(f"data.tokenizer={name!r} lacks the byte {missing[0]!r}: take a byte-level {VOCABULARY}.")
    return tokenizer


def _merges(text: str) -> Iterator[tuple[str, str]]:
    # The header is optional; a reader that always skips one line loses the first merge.
    for line in text.splitlines():
        if line.startswith("#version") or not line:
            continue
        left, _, right = line.partition(" ")
        if not left or not right or " " in right:
            raise ValueError(f"{MERGES} has {line!r}, which is not a merge")
        yield left, right


def _prefix(texts: Iterable[str]) -> Iterator[str]:
    left = TRAINING_BYTES
    for text in texts:
        part = text.encode()[:left]
        yield part.decode(errors="ignore")  # without the bytes of a cut character
        left -= len(part)
        if not left:
            return


def _wordpiece(name: str) -> WordPieceTokenizer:
    """The project's own, or that of a `wordpiece:PATH`: an uncased vocab.txt or its folder."""
    if name == WORDPIECE:
        if sha256(OWN) != OWN_SHA256:
            raise UserError(f"{OWN} is not the vocabulary of this project: install actlab again.")
        return _pieces_of(name, OWN)
    path = Path(name.removeprefix(f"{WORDPIECE}:"))
    path = path / PIECES if path.is_dir() else path
    settings = path.with_name(SETTINGS)
    found = _settings(name, settings) if settings.exists() else {}
    if unlike := _unlike_ours(found):
        raise UserError(
            f"data.tokenizer={name!r} has {unlike}=false in {settings}, but text is lower-cased, without accents, and "
            f"Chinese is cut into characters here: take an uncased {PIECES}, or dir:{path.parent} with its {THEIRS}."
        )
    return _pieces_of(name, path)


def _unlike_ours(settings: dict[str, Any]) -> str:
    """The first of BERT's settings that our WordPiece does not follow; "" if there is none."""
    known = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")
    return next((name for name in known if settings.get(name) is False), "")


_REMEDY = f"name a {PIECES} of BERT's kind, or its folder"


def _pieces_of(name: str, path: Path) -> WordPieceTokenizer:
    try:
        # Not splitlines: a piece may be a character that it takes for the end of a line.
        text = read_file(path, _REMEDY).decode()
    except UserError as error:
        raise UserError(f"data.tokenizer={name!r}: {error}") from error
    except UnicodeDecodeError as error:
        raise _unusable(name, path, str(error)) from error
    pieces = tuple(line.removesuffix("\r") for line in text.removesuffix("\n").split("\n"))
    missing = [piece for piece in SPECIALS if piece not in pieces]
    if missing:
        raise _unusable(name, path, f"it lacks {missing[0]}")
    if len(set(pieces)) < len(pieces):
        twice = next(piece for i, piece in enumerate(pieces) if piece in pieces[:i])
        raise _unusable(name, path, f"it has {twice!r} twice")
    return WordPieceTokenizer(name, pieces)


def _unusable(name: str, path: Path, reason: str) -> UserError:
    return UserError(f"data.tokenizer={name!r} cannot use {path} ({reason}): {_REMEDY}.")
