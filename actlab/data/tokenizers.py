"""Tokenizers by name: bytes, byte-level BPE trained here, GPT-2's, WordPiece, or those of a Hugging Face directory.

The project's WordPiece vocabulary, `vocab.txt` beside this file, was trained once by tools/train_wordpiece.py: the
`tokenizers` library does not train the same one twice.
"""

import abc
import functools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int32

from actlab.data import gpt2, preparing
from actlab.data.gpt2 import MERGES, MERGES_HEADER, VOCABULARY
from actlab.errors import UserError
from actlab.files import digest, fault_of_path, read_file, read_json, sha256

RECORD = "tokenizer.json"  # of ours; transformers has another file of that name, whose copy here is called LIBRARY
LIBRARY = "library.json"
END_OF_TEXT = "<|endoftext|>"
SMALLEST_BPE = 257  # every byte and the end of text
TRAINING_BYTES = 20_000_000
MOST_TOKENS = 1 << 24
ORDINARY = "Once upon a time."
BATCH_CHARACTERS = 1 << 21
_LINE, _WORD = re.compile(r"\n\S"), re.compile(r"[ \n]\S")  # where a long text is cut

WORDPIECE = "wordpiece"
PIECES = "vocab.txt"  # a piece on each line
SETTINGS = "tokenizer_config.json"  # of transformers
THEIRS = "tokenizer.json"  # of transformers, in the format of the library `tokenizers`
OWN = Path(__file__).parent / PIECES
OWN_SHA256 = "4f7d727e81cd0c4031b048e2ea35fc1b2103feab484d435b69571db2615eb9c7"
PADDING, UNKNOWN, FIRST, LAST, MASK = SPECIALS = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"

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


class _OfLibrary(Tokenizer):
    """Computed by the library `tokenizers`, which encodes the pieces of a batch in parallel."""

    _library: Any
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


class BytePairTokenizer(_OfLibrary):
    """GPT-2's kind: words cut by its pattern, bytes as printable characters, then merges."""

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
        return _byte_level(models.BPE(vocab=self.vocabulary, merges=list(self.merges)))


class WordPieceTokenizer(_OfLibrary):
    """BERT's kind, uncased: accents dropped, words cut at spaces and punctuation, then greedily into pieces.

    Decoding cannot restore what was dropped: it gives lower case, and guesses the spaces around punctuation.
    """

    lossless = False

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
        from tokenizers import decoders, models, normalizers, pre_tokenizers

        library = tokenizers.Tokenizer(models.WordPiece(self._ids, unk_token=UNKNOWN))
        library.normalizer = normalizers.BertNormalizer(lowercase=True)  # type: ignore
        library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()  # type: ignore
        library.decoder = decoders.WordPiece()  # type: ignore
        return library


class LibraryTokenizer(_OfLibrary):
    """Any tokenizer of the library `tokenizers`, with the special tokens that transformers keeps beside it.

    A document of more than `least` characters is cut before lines or words, which may change a token at each cut.
    """

    lossless = False  # most normalise; none says so

    def __init__(self, name: str, text: str, roles: dict[str, str]) -> None:
        self._text, self._roles = text, roles
        self._library = _library_of(name, text)
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
        (directory / SETTINGS).write_text(json.dumps(self._roles), encoding="utf-8")


def check(name: str) -> None:
    """Refuses an unknown name."""
    if name not in ("bytes", "gpt2", WORDPIECE) and not name.startswith(("bpe:", "dir:", f"{WORDPIECE}:")):
        raise UserError(
            f"Unknown data.tokenizer={name!r}: take bytes, bpe:SIZE, gpt2, dir:PATH, wordpiece or wordpiece:PATH."
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
    check(name)
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
    paths = {name: folder / name for name in FILES if (folder / name).is_file()}
    if "model" not in _json_object(folder / THEIRS):  # our own record
        paths.pop(THEIRS, None)
    if (folder / LIBRARY).is_file():
        paths[THEIRS] = folder / LIBRARY
    found = {name: path.read_bytes() for name, path in paths.items()}
    if PIECES in found:
        # Otherwise transformers goes by the model: RoBERTa's would read word pieces as byte pairs, without a word.
        known = {"do_lower_case": True, **_json_object(folder / SETTINGS)}
        found[SETTINGS] = json.dumps({"tokenizer_class": "BertTokenizer", **known}, indent=2).encode()
    return found


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


def _bpe_size(name: str) -> int:
    digits = name.removeprefix("bpe:")
    if not re.fullmatch(r"[0-9]{1,7}", digits) or int(digits) < SMALLEST_BPE:
        raise UserError(f"data.tokenizer={name!r} has no usable size: take {SMALLEST_BPE} or more, as in bpe:1024.")
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
    """Whether a tokenizer.json is our own record, or of GPT-2's kind, for which vocab.json and merges.txt do."""
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
        library = _library_of(name, text)
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


def _library_of(name: str, text: str) -> Any:
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


def _byte_level(model: Any) -> Any:
    import tokenizers
    from tokenizers import decoders, pre_tokenizers

    library = tokenizers.Tokenizer(model)
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)  # type: ignore
    library.decoder = decoders.ByteLevel()  # type: ignore
    return library


def _prefix(texts: Iterable[str]) -> Iterator[str]:
    size = 0
    for text in texts:
        yield text[: TRAINING_BYTES - size]
        size += len(text.encode())
        if size >= TRAINING_BYTES:
            return


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


def _pieces_of(name: str, path: Path) -> WordPieceTokenizer:
    try:
        # Not splitlines: a piece may be a character that it takes for the end of a line.
        text = read_file(path, "name another").decode()
    except (UserError, UnicodeDecodeError) as error:
        raise _unusable(name, path, str(error).removesuffix(".")) from error
    pieces = tuple(line.removesuffix("\r") for line in text.removesuffix("\n").split("\n"))
    missing = [piece for piece in SPECIALS if piece not in pieces]
    if missing:
        raise _unusable(name, path, f"it lacks {missing[0]}")
    if len(set(pieces)) < len(pieces):
        twice = next(piece for i, piece in enumerate(pieces) if piece in pieces[:i])
        raise _unusable(name, path, f"it has {twice!r} twice")
    return WordPieceTokenizer(name, pieces)


def _unusable(name: str, path: Path, reason: str) -> UserError:
    remedy = f"name a {PIECES} of BERT's kind, or its folder"
    return UserError(f"data.tokenizer={name!r} cannot use {path} ({reason}): {remedy}.")
