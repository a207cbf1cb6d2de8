"""The kinds of tokenizer: bytes, byte-level BPE, WordPiece, and any other of the library `tokenizers`.

Which of them a `data.tokenizer` means, and how its files are read, is in tokenizers.py.
"""

import abc
import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int32

from actlab.data.gpt2 import MERGES, MERGES_HEADER, VOCABULARY
from actlab.errors import UserError
from actlab.files import digest

RECORD = "tokenizer.json"  # of ours; transformers has another file of that name, whose copy here is called LIBRARY
LIBRARY = "library.json"
PIECES = "vocab.txt"  # a piece on each line
SETTINGS = "tokenizer_config.json"  # of transformers
THEIRS = "tokenizer.json"  # of transformers, in the format of the library `tokenizers`

END_OF_TEXT = "<|endoftext|>"
PADDING, UNKNOWN, FIRST, LAST, MASK = SPECIALS = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
MOST_TOKENS = 1 << 24
ORDINARY = "Once upon a time."
BATCH_CHARACTERS = 1 << 21
_LINE, _WORD = re.compile(r"\n\S"), re.compile(r"[ \n]\S")  # where a long text is cut

Ids = Int32[np.ndarray, "n"]


class Specials(NamedTuple):
    """Ids of the special tokens of an encoder's rows: `first`, a document, `last`, and padding up to the context.

    `end` stands between packed documents, if that is another one.
    """

    first: int
    last: int
    padding: int
    mask: int
    unknown: int | None = None
    end: int | None = None

    def ids(self) -> tuple[int, ...]:
        """All of them, each once, in ascending order."""
        return tuple(sorted({i for i in self if i is not None}))


class Tokenizer(abc.ABC):
    """Text to token ids and back; no text gives `end_of_text`, not even one that spells it."""

    lossless = True  # whether the text follows from its ids

    def __init__(self, name: str, vocab_size: int, end_of_text: int, source: Any) -> None:
        self.name, self.vocab_size, self.end_of_text = name, vocab_size, end_of_text
        self.hash = digest(source)  # of all that the ids depend on

    @abc.abstractmethod
    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """Token ids of each text."""

    @abc.abstractmethod
    def decode(self, ids: Iterable[int] | np.ndarray) -> str:
        """Text of token ids; bytes that are not UTF-8 become U+FFFD, ids beyond the vocabulary give nothing."""

    def encode(self, text: str) -> Ids:
        """Token ids of one text."""
        return self.encode_batch([text])[0]

    def save(self, directory: Path) -> None:
        """Writes the tokenizer to a folder, for `load`."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / RECORD).write_text(json.dumps({"name": self.name, "hash": self.hash}))

    @property
    def specials(self) -> Specials:
        """By default padding and mask are the two ids after the tokenizer's own, in a padded vocabulary."""
        return Specials(self.end_of_text, self.end_of_text, self.vocab_size, self.vocab_size + 1)


class ByteTokenizer(Tokenizer):
    """One token per UTF-8 byte."""

    def __init__(self) -> None:
        super().__init__("bytes", 257, 256, ["bytes", 257])

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """See Tokenizer."""
        return [np.frombuffer(text.encode(), np.uint8).astype(np.int32) for text in texts]

    def decode(self, ids: Iterable[int] | np.ndarray) -> str:
        """See Tokenizer."""
        table = [bytes([i]) for i in range(256)] + [END_OF_TEXT.encode()]
        return b"".join(table[i] for i in ids if i < self.vocab_size).decode(errors="replace")


class OfLibrary(Tokenizer):
    """Computed by the library `tokenizers`, which encodes the pieces of a batch in parallel."""

    _library: Any
    roles: Mapping[str, str]  # transformers' names of the special tokens
    least = 1 << 20  # characters; a longer text is cut before lines, or before words

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """See Tokenizer."""
        pieces = [list(_pieces(text, self.least)) for text in texts]
        encoded = (
            encoding
            for group in _groups([piece for parts in pieces for piece in parts])
            for encoding in self._library.encode_batch_fast(group, add_special_tokens=False)
        )
        ids = (np.array(encoding.ids, np.int32) for encoding in encoded)
        return [np.concatenate([next(ids) for _ in parts] or [np.zeros(0, np.int32)]) for parts in pieces]

    def decode(self, ids: Iterable[int] | np.ndarray) -> str:
        """See Tokenizer."""
        return self._library.decode([int(i) for i in ids], skip_special_tokens=False)

    def for_transformers(self) -> dict[str, str]:
        """The files from which transformers makes the same tokenizer, whatever the model; by name, as text.

        Without the name of a class it goes by the model: LLaMA's would cut the words of byte pairs in another way.
        """
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", **self.roles}
        return {THEIRS: self._library.to_str(), SETTINGS: json.dumps(settings, indent=2)}


class BytePairTokenizer(OfLibrary):
    """GPT-2's kind: words cut by its pattern, bytes as printable characters, then merges."""

    roles: Mapping[str, str] = {"eos_token": END_OF_TEXT}
    least = 1 << 16

    def __init__(self, name: str, vocabulary: dict[str, int], merges: tuple[tuple[str, str], ...]) -> None:
        if sorted(vocabulary.values()) != list(range(len(vocabulary))):
            raise UserError(f"data.tokenizer={name!r} has ids that are not 0 to n-1: take another {VOCABULARY}.")
        if END_OF_TEXT not in vocabulary:
            raise UserError(f"data.tokenizer={name!r} lacks {END_OF_TEXT}: take another {VOCABULARY}.")
        missing = next((pair for pair in merges if "".join(pair) not in vocabulary), None)
        if missing:
            raise UserError(f"data.tokenizer={name!r} merges {missing}, not in {VOCABULARY}: take matching files.")
        super().__init__(name, len(vocabulary), vocabulary[END_OF_TEXT], ["byte-level BPE", vocabulary, merges])
        self.vocabulary, self.merges = vocabulary, merges

    def save(self, directory: Path) -> None:
        """See Tokenizer."""
        super().save(directory)
        ordered = dict(sorted(self.vocabulary.items(), key=lambda item: item[1]))
        (directory / VOCABULARY).write_text(json.dumps(ordered, ensure_ascii=False), encoding="utf-8")
        lines = [MERGES_HEADER, *(" ".join(pair) for pair in self.merges)]
        (directory / MERGES).write_text("\n".join(lines) + "\n", encoding="utf-8")

    @functools.cached_property
    def _library(self) -> Any:
        from tokenizers import models

        # The end of text is an ordinary entry that no merge reaches, so that no text can spell it.
        return byte_level(models.BPE(vocab=self.vocabulary, merges=list(self.merges)))


class WordPieceTokenizer(OfLibrary):
    """BERT's kind, uncased: accents dropped, words cut at spaces and punctuation, then greedily into pieces.

    Decoding cannot restore what was dropped: it gives lower case, and guesses the spaces around punctuation.
    """

    lossless = False
    roles: Mapping[str, str] = dict(
        zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIALS, strict=True)
    )

    def __init__(self, name: str, pieces: tuple[str, ...]) -> None:
        super().__init__(name, len(pieces), pieces.index(LAST), ["WordPiece, uncased", pieces])
        self.pieces = pieces
        self._ids = {piece: i for i, piece in enumerate(pieces)}

    @property
    def specials(self) -> Specials:
        """See Tokenizer."""
        padding, unknown, first, last, mask = (self._ids[piece] for piece in SPECIALS)
        return Specials(first, last, padding, mask, unknown)

    def save(self, directory: Path) -> None:
        """See Tokenizer."""
        super().save(directory)
        (directory / PIECES).write_text("".join(f"{piece}\n" for piece in self.pieces), encoding="utf-8")

    @functools.cached_property
    def _library(self) -> Any:
        import tokenizers
        from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

        library = tokenizers.Tokenizer(models.WordPiece(self._ids, unk_token=UNKNOWN))
        library.normalizer = normalizers.BertNormalizer(lowercase=True)  # type: ignore
        library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()  # type: ignore
        library.decoder = decoders.WordPiece()  # type: ignore
        ends = ((LAST, self._ids[LAST]), (FIRST, self._ids[FIRST]))
        library.post_processor = processors.BertProcessing(*ends)  # type: ignore
        return library


class LibraryTokenizer(OfLibrary):
    """Any tokenizer of the library `tokenizers`, with the special tokens that transformers keeps beside it.

    A document of more than `least` characters is cut before lines or words, which may change a token at each cut.
    """

    lossless = False  # most normalise; none says so

    def __init__(self, name: str, text: str, roles: dict[str, str]) -> None:
        self._text, self.roles = text, roles
        self._library = library_of(name, text)
        ids = {role: self._library.token_to_id(token) for role, token in roles.items()}
        if unknown := [role for role, found in ids.items() if found is None]:
            raise UserError(
                f"data.tokenizer={name!r}: {SETTINGS} names {roles[unknown[0]]!r} as {unknown[0]}, which {THEIRS} "
                "lacks: take files that belong together."
            )
        ends = [ids[role] for role in ("eos_token", "sep_token", "bos_token") if role in ids]
        if not ends:
            raise UserError(
                f"data.tokenizer={name!r} names no end of a text: add eos_token or sep_token to {SETTINGS} beside "
                f"{THEIRS}."
            )
        self._ids = ids
        try:
            gives = self._library.encode(ORDINARY, add_special_tokens=False).ids
        except Exception as error:  # of the library's own, by kind of tokenizer
            raise UserError(
                f"data.tokenizer={name!r} cannot read {ORDINARY!r} ({error}): take another directory."
            ) from error
        if not gives:
            raise UserError(f"data.tokenizer={name!r} gives no token for {ORDINARY!r}: take another directory.")
        largest = max(self._library.get_vocab(with_added_tokens=True).values())
        if largest >= MOST_TOKENS:
            raise UserError(
                f"data.tokenizer={name!r} has the id {largest:,}: at most {MOST_TOKENS:,} are supported; take another "
                "directory."
            )
        super().__init__(name, 1 + largest, ends[0], ["library", json.loads(text), roles])

    @property
    def specials(self) -> Specials:
        """See Tokenizer. What a decoder's tokenizer lacks is as there."""
        ids, default = self._ids, super().specials
        first = ids.get("cls_token", ids.get("bos_token", self.end_of_text))
        last = ids.get("sep_token", self.end_of_text)
        padding, mask = ids.get("pad_token", default.padding), ids.get("mask_token", default.mask)
        end = None if self.end_of_text in (first, last) else self.end_of_text
        return Specials(first, last, padding, mask, ids.get("unk_token"), end)

    def save(self, directory: Path) -> None:
        """See Tokenizer."""
        super().save(directory)
        (directory / LIBRARY).write_text(self._text, encoding="utf-8")
        (directory / SETTINGS).write_text(json.dumps(self.roles), encoding="utf-8")

    def for_transformers(self) -> dict[str, str]:
        """See OfLibrary; as it was read, with the tokens that it adds to a text."""
        return super().for_transformers() | {THEIRS: self._text}


def library_of(name: str, text: str) -> Any:
    """The library's tokenizer of a tokenizer.json; raises UserError for one that it cannot read."""
    import tokenizers

    try:
        library = tokenizers.Tokenizer.from_str(_without_special_pieces(text))
    except BaseException as error:  # the library raises Exception, and panics in Rust with a BaseException of its own
        if isinstance(error, (KeyboardInterrupt, SystemExit, MemoryError)):
            raise
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"data.tokenizer={name!r}: its {THEIRS} is not one that the library tokenizers reads ({reason}): take "
            "another directory."
        ) from error
    library.no_padding()
    library.no_truncation()
    # A text that spells a special token is no special token.
    library.encode_special_tokens = True
    return library


def _without_special_pieces(text: str) -> str:
    """A tokenizer.json in which no text is cut into special tokens: Unigram has them among its pieces, as the best."""
    found = json.loads(text)
    model, added = (found.get(key) if isinstance(found, dict) else None for key in ("model", "added_tokens"))
    if not isinstance(model, dict) or model.get("type") != "Unigram" or not isinstance(added, list):
        return text
    special = {one["content"] for one in added if one.get("special")}
    unknown = model.get("unk_id")
    pieces = enumerate(model["vocab"])
    model["vocab"] = [[piece, -1e6 if piece in special and i != unknown else score] for i, (piece, score) in pieces]
    return json.dumps(found)


def byte_level(model: Any) -> Any:
    """The library's tokenizer that cuts words by GPT-2's pattern and spells bytes as printable characters."""
    import tokenizers
    from tokenizers import decoders, pre_tokenizers

    library = tokenizers.Tokenizer(model)
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)  # type: ignore
    library.decoder = decoders.ByteLevel()  # type: ignore
    return library


def _pieces(text: str, least: int) -> Iterator[str]:
    """Cuts a long text where GPT-2's tokens do not change: before the last line break before a word."""
    start = 0
    while len(text) - start > least:
        # Of white space before a word, GPT-2's pattern always leaves the last character to a token of its own, and a
        # space to the word. Text without line breaks is cut at spaces: a piece takes 150 times its size to encode.
        cut = _LINE.search(text, start + least, start + 2 * least) or _WORD.search(text, start + least)
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
