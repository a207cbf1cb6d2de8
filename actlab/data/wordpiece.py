"""WordPiece: BERT's pieces of lower-cased words, from a vocab.txt with a piece on each line.

The project's own vocabulary, `vocab.txt` beside this file, was trained once with the `tokenizers` library, which does
not train the same one twice; experiments/train_wordpiece.py is how.
"""

import dataclasses
import functools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from actlab.data import folders
from actlab.data.tokenizer import RECORD, Ids, Specials, Tokenizer
from actlab.errors import UserError

NAME = "wordpiece"
VOCABULARY = "vocab.txt"
SETTINGS = "tokenizer_config.json"  # of transformers
OWN = Path(__file__).parent / VOCABULARY
OWN_SHA256 = "4f7d727e81cd0c4031b048e2ea35fc1b2103feab484d435b69571db2615eb9c7"
PADDING, UNKNOWN, FIRST, LAST, MASK = SPECIALS = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"


@dataclasses.dataclass(frozen=True, eq=False)
class WordPieceTokenizer(Tokenizer):
    """BERT's kind, uncased: accents dropped, words cut at spaces and punctuation, then greedily into pieces.

    What it drops it cannot give back: decoding gives lower case, and spaces around punctuation are a guess.
    """

    name: str
    pieces: tuple[str, ...]
    lossless = False

    @property
    def vocab_size(self) -> int:  # type: ignore[override]
        """Number of pieces."""
        return len(self.pieces)

    @property
    def end_of_text(self) -> int:  # type: ignore[override]
        """BERT's mark after each document."""
        return self._ids[LAST]

    @property
    def specials(self) -> Specials:
        """See Tokenizer."""
        padding, unknown, first, last, mask = (self._ids[piece] for piece in SPECIALS)
        return Specials(first, last, padding, mask, unknown)

    @property
    def hash(self) -> str:
        """See Tokenizer."""
        return folders.digest(["WordPiece, uncased", self.pieces])

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """See Tokenizer."""
        encodings = self._library.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, np.int32) for encoding in encodings]

    def decode(self, ids: Iterable[int] | np.ndarray) -> str:
        """See Tokenizer."""
        return self._library.decode([int(i) for i in ids], skip_special_tokens=False)

    def save(self, directory: Path) -> None:
        """See Tokenizer."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / VOCABULARY).write_text("".join(f"{piece}\n" for piece in self.pieces), encoding="utf-8")
        (directory / RECORD).write_text(json.dumps({"name": self.name, "hash": self.hash}))

    @functools.cached_property
    def _ids(self) -> dict[str, int]:
        return {piece: i for i, piece in enumerate(self.pieces)}

    @functools.cached_property
    def _library(self) -> Any:
        import tokenizers
        from tokenizers import decoders, models, normalizers, pre_tokenizers

        library = tokenizers.Tokenizer(models.WordPiece(self._ids, unk_token=UNKNOWN))
        library.normalizer = normalizers.BertNormalizer(lowercase=True)  # type: ignore
        library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()  # type: ignore
        library.decoder = decoders.WordPiece()  # type: ignore
        return library


def make(name: str) -> WordPieceTokenizer:
    """The project's own, or that of a `wordpiece:PATH`, an uncased vocab.txt or the folder of one.

    Raises:
      UserError: a file that is missing, is no vocabulary, is cased by the settings beside it, or is not the one that
        this project was released with.
    """
    if name == NAME:
        if folders.sha256(OWN) != OWN_SHA256:
            raise folders.damaged(OWN, "not the vocabulary of this project")
        return read(name, OWN)
    path = Path(name.removeprefix(f"{NAME}:"))
    path = path / VOCABULARY if path.is_dir() else path
    _check_uncased(name, path.with_name(SETTINGS))
    return read(name, path)


def _check_uncased(name: str, settings: Path) -> None:
    try:
        found = json.loads(settings.read_bytes()) if settings.is_file() else {}
    except (OSError, ValueError) as error:
        raise _unusable(name, settings, str(error)) from error
    if isinstance(found, dict) and found.get("do_lower_case") is False:
        raise UserError(
            f"data.tokenizer={name!r} is cased, as {settings} says, but text is lower-cased here: take an uncased "
            f"{VOCABULARY}."
        )


def read(name: str, path: Path) -> WordPieceTokenizer:
    """The tokenizer of a file; raises UserError as `make`."""
    try:
        # Not splitlines: a piece may be a character that it takes for the end of a line.
        pieces = tuple(line.removesuffix("\r") for line in path.read_bytes().decode().removesuffix("\n").split("\n"))
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(name, path, str(error)) from error
    missing = [piece for piece in SPECIALS if piece not in pieces]
    if missing:
        raise _unusable(name, path, f"it lacks {missing[0]}")
    if len(set(pieces)) < len(pieces):
        twice = next(piece for i, piece in enumerate(pieces) if piece in pieces[:i])
        raise _unusable(name, path, f"it has {twice!r} twice")
    return WordPieceTokenizer(name, pieces)


def _unusable(name: str, path: Path, reason: str) -> UserError:
    remedy = f"name a {VOCABULARY} of BERT's kind, or its folder"
    return UserError(f"data.tokenizer={name!r} cannot use {path} ({reason}): {remedy}.")
