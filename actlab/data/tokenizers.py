"""Tokenizers: bytes, byte-level BPE trained here, GPT-2's, any other with vocab.json and merges.txt; all by name."""

import dataclasses
import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from actlab.data import folders, gpt2, wordpiece
from actlab.data.gpt2 import MERGES, MERGES_HEADER, VOCABULARY
from actlab.data.tokenizer import RECORD, Ids, Tokenizer
from actlab.errors import UserError

END_OF_TEXT = "<|endoftext|>"
SMALLEST_BPE = 257  # every byte and the end of text
TRAINING_BYTES = 20_000_000
PIECE_CHARACTERS = 1 << 16
BATCH_CHARACTERS = 1 << 21


class ByteTokenizer(Tokenizer):
    """One token per UTF-8 byte."""

    name = "bytes"
    vocab_size = 257
    end_of_text = 256

    @property
    def hash(self) -> str:
        """See Tokenizer."""
        return folders.digest([self.name, self.vocab_size])

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """See Tokenizer."""
        return [np.frombuffer(text.encode(), np.uint8).astype(np.int32) for text in texts]

    def decode(self, ids: Iterable[int] | np.ndarray) -> str:
        """See Tokenizer."""
        table = [bytes([i]) for i in range(256)] + [END_OF_TEXT.encode()]
        return b"".join(table[i] for i in ids if i < self.vocab_size).decode(errors="replace")

    def save(self, directory: Path) -> None:
        """See Tokenizer."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / RECORD).write_text(json.dumps({"name": self.name, "hash": self.hash}))


@dataclasses.dataclass(frozen=True, eq=False)
class BytePairTokenizer(Tokenizer):
    """GPT-2's kind: words cut by its pattern, bytes as printable characters, then merges."""

    name: str
    vocabulary: dict[str, int]
    merges: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        if sorted(self.vocabulary.values()) != list(range(len(self.vocabulary))):
            raise UserError(f"data.tokenizer={self.name!r} has ids that are not 0 to n-1: take another {VOCABULARY}.")
        if END_OF_TEXT not in self.vocabulary:
            raise UserError(f"data.tokenizer={self.name!r} lacks {END_OF_TEXT}: take another {VOCABULARY}.")
        missing = next((pair for pair in self.merges if "".join(pair) not in self.vocabulary), None)
        if missing:
            raise UserError(f"data.tokenizer={self.name!r} merges {missing}, not in {VOCABULARY}: take matching files.")

    @property
    def vocab_size(self) -> int:  # type: ignore[override]
        """Number of entries, the end of text among them."""
        return len(self.vocabulary)

    @property
    def end_of_text(self) -> int:  # type: ignore[override]
        """Id of the mark after each document."""
        return self.vocabulary[END_OF_TEXT]

    @property
    def hash(self) -> str:
        """See Tokenizer."""
        return folders.digest(["byte-level BPE", self.vocabulary, self.merges])

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """See Tokenizer."""
        pieces = [list(_pieces(text)) for text in texts]
        ids = self._encode_pieces([piece for group in pieces for piece in group])
        return [np.concatenate([next(ids) for _ in group] or [np.zeros(0, np.int32)]) for group in pieces]

    def decode(self, ids: Iterable[int] | np.ndarray) -> str:
        """See Tokenizer."""
        return self._library.decode([int(i) for i in ids], skip_special_tokens=False)

    def save(self, directory: Path) -> None:
        """See Tokenizer."""
        directory.mkdir(parents=True, exist_ok=True)
        ordered = dict(sorted(self.vocabulary.items(), key=lambda item: item[1]))
        (directory / VOCABULARY).write_text(json.dumps(ordered, ensure_ascii=False), encoding="utf-8")
        lines = [MERGES_HEADER, *(" ".join(pair) for pair in self.merges)]
        (directory / MERGES).write_text("\n".join(lines) + "\n", encoding="utf-8")
        (directory / RECORD).write_text(json.dumps({"name": self.name, "hash": self.hash}))

    def _encode_pieces(self, pieces: list[str]) -> Iterator[Ids]:
        for group in _groups(pieces):
            for encoding in self._library.encode_batch_fast(group, add_special_tokens=False):
                yield np.array(encoding.ids, np.int32)

    @functools.cached_property
    def _library(self) -> Any:
        from tokenizers import models

        # The end of text is an ordinary entry that no merge reaches, so that no text can spell it.
        return _byte_level(models.BPE(vocab=self.vocabulary, merges=list(self.merges)))


def check(name: str) -> None:
    """Refuses what no tokenizer is called."""
    if name not in ("bytes", "gpt2", "wordpiece") and not name.startswith(("bpe:", "dir:", "wordpiece:")):
        raise UserError(
            f"data.tokenizer={name!r} is not known: take bytes, bpe:SIZE, gpt2, dir:PATH, wordpiece or wordpiece:PATH."
        )
    if name.startswith("bpe:"):
        _bpe_size(name)


def make(name: str, directory: Path, texts: Iterable[str]) -> Tokenizer:
    """The tokenizer of that name; `texts` (a train split) are read only to train a bpe:SIZE.

    Raises:
      UserError: an unknown name, a bad size, too little text for the size, or files that are missing or damaged.
    """
    check(name)
    if name == "bytes":
        return ByteTokenizer()
    if name.startswith(wordpiece.NAME):
        return wordpiece.make(name)
    if name == "gpt2":
        return _from_files(name, gpt2.folder(directory))
    if name.startswith("dir:"):
        return _from_files(name, Path(name.removeprefix("dir:")))
    return train(texts, _bpe_size(name))


def size(name: str, directory: Path) -> int:
    """Number of tokens of the tokenizer of that name, before it is trained; raises UserError as `make`."""
    check(name)
    return _bpe_size(name) if name.startswith("bpe:") else make(name, directory, ()).vocab_size


def keep(tokenizer: Tokenizer, directory: Path) -> None:
    """Saves a tokenizer where none is yet, whole or not at all: others may read the folder meanwhile."""
    if not (directory / RECORD).is_file():
        with folders.fresh(directory) as draft:
            tokenizer.save(draft)


def load(directory: Path) -> Tokenizer:
    """The tokenizer that `save` wrote; a damaged one is a UserError."""
    record = folders.read_json(directory / RECORD)
    name = str(record.get("name"))
    try:
        tokenizer = _saved(name, directory)
    except UserError as error:
        raise folders.damaged(directory / RECORD, str(error)) from error
    if tokenizer.hash != record.get("hash"):
        raise folders.damaged(directory / RECORD, "the tokenizer has another hash")
    return tokenizer


def _saved(name: str, directory: Path) -> Tokenizer:
    if name == "bytes":
        return ByteTokenizer()
    if name.startswith(wordpiece.NAME):
        return wordpiece.read(name, directory / wordpiece.VOCABULARY)
    return _from_files(name, directory)


def train(texts: Iterable[str], size: int) -> BytePairTokenizer:
    """Byte-level BPE of exactly `size` entries, from the first 20 MB of text."""
    from tokenizers import models, pre_tokenizers, trainers

    library = _byte_level(models.BPE())
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


def _from_files(name: str, folder: Path) -> BytePairTokenizer:
    try:
        vocabulary = json.loads((folder / VOCABULARY).read_bytes())
        if not isinstance(vocabulary, dict) or not all(isinstance(i, int) for i in vocabulary.values()):
            raise ValueError(f"{VOCABULARY} does not map entries to whole numbers")
        merges = tuple(_merges((folder / MERGES).read_bytes().decode()))
    except (OSError, ValueError) as error:
        raise UserError(
            f"data.tokenizer={name!r} cannot use {folder} ({error}): put matching {VOCABULARY} and {MERGES} there."
        ) from error
    tokenizer = BytePairTokenizer(name, vocabulary, merges)
    _check_bytes(name, vocabulary)
    return tokenizer


def _check_bytes(name: str, vocabulary: Mapping[str, int]) -> None:
    from tokenizers import pre_tokenizers

    # The library leaves out of the text, without a word, what has no entry.
    missing = sorted(set(pre_tokenizers.ByteLevel.alphabet()) - set(vocabulary))
    if missing:
        raise UserError(f"data.tokenizer={name!r} lacks the byte {missing[0]!r}: take a byte-level {VOCABULARY}.")


def _merges(text: str) -> Iterator[tuple[str, str]]:
    # The header is optional; a reader that always skips one line loses the first merge.
    for line in text.splitlines():
        if line.startswith("#version") or not line:
            continue
        left, _, right = line.partition(" ")
        if not left or not right or " " in right:
            raise ValueError(f"{MERGES} has {line!r}, which is not a merge")
        yield left, right


def _byte_level(model: Any) -> Any:
    import tokenizers
    from tokenizers import decoders, pre_tokenizers

    library = tokenizers.Tokenizer(model)
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)  # type: ignore
    library.decoder = decoders.ByteLevel()  # type: ignore
    return library


def _bpe_size(name: str) -> int:
    digits = name.removeprefix("bpe:")
    if not re.fullmatch(r"[0-9]{1,7}", digits) or int(digits) < SMALLEST_BPE:
        raise UserError(f"data.tokenizer={name!r} has no usable size: take {SMALLEST_BPE} or more, as in bpe:1024.")
    return int(digits)


def _prefix(texts: Iterable[str]) -> Iterator[str]:
    size = 0
    for text in texts:
        yield text[: TRAINING_BYTES - size]
        size += len(text.encode())
        if size >= TRAINING_BYTES:
            return


def _pieces(text: str) -> Iterator[str]:
    """Cuts a long text where its tokens do not change: before the last line break before a word."""
    start = 0
    while len(text) - start > PIECE_CHARACTERS:
        cut = re.compile(r"\n\S").search(text, start + PIECE_CHARACTERS)
        if cut is None:
            break
        yield text[start : cut.start()]
        start = cut.start()
    if start < len(text):
        yield text[start:]


def _groups(pieces: list[str]) -> Iterator[list[str]]:
    """Pieces in order, about as many at a time as the library can encode in 100 MB."""
    group, size = [], 0
    for piece in pieces:
        group.append(piece)
        size += len(piece)
        if size >= BATCH_CHARACTERS:
            yield group
            group, size = [], 0
    if group:
        yield group
