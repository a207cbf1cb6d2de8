"""What a dataset is made from: the definition of a dataset, and how documents are read from text files."""

import dataclasses
import functools
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from actlab.data.preparing import digest, sha256
from actlab.errors import UserError

SPLITS = ("train", "validation", "test")
# Of every dataset, and the name of the folder of its files; changed text has another hash. Version 1 had no test split.
TFDS_VERSION = "2.0.0"
N_STORIES = 100_000
DOCUMENTS_PER_SHARD = 20_000
SHARD_BYTES = 64 << 20  # TFDS holds one shard in memory while it writes it

SEPARATOR = "<|endoftext|>"
TRAIN_FILE, VALIDATION_FILE = "train.txt", "valid.txt"
HELD_OUT_FRACTION = 0.05  # of the documents, for validation and test together
LAST_FRACTION = 0.1  # of a single document
MAX_DOCUMENT_BYTES = 1 << 30  # a TFDS example is a protocol buffer, which ends at 2 GiB

Example = dict[str, str | float]  # the "text", with its "nats" or its "label" where that is known
Documents = Callable[[], Iterator[str]]


@dataclasses.dataclass(frozen=True)
class Source:
    """Documents of all splits, ready to be written."""

    hash: str  # of the text
    licence: str
    description: str
    shards: Mapping[str, Sequence[int]]  # documents in each shard of a split
    examples: Callable[[str], Iterator[Example]]  # of a split
    unchanged: Callable[[], bool] = lambda: True  # asked after everything was read
    entropy_nats: float | None = None  # per document; where it is known, examples have their "nats"
    labelled: bool = False


@dataclasses.dataclass(frozen=True)
class Definition:
    """How a dataset is made; this one is made from .txt files, under any name. Modules of `sets` define others."""

    name: str
    n_stories: int = N_STORIES  # of a dataset that is generated
    needs: ClassVar[str] = f"{TRAIN_FILE} and {VALIDATION_FILE} with {SEPARATOR} alone on a line after each document"
    built_in: ClassVar[bool] = False  # whether it can be prepared at its first use, without files or a network
    tasks: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # classification tasks that documents have labels for

    @property
    def folder(self) -> str:
        """Name of its folder in the data directory."""
        return self.name

    def hint(self, directory: Path) -> str:
        """The command that prepares it from local files."""
        command = f"python -m actlab data prepare {self.name} --from=DIR --dir={directory}"
        return f"run `{command}`, where DIR holds {self.needs}"

    def hash(self, given: Path | None) -> str | None:
        """Hash of the text that it would be made from now; None where no folder was given."""
        return None if given is None else find_texts(given).hash

    def open(self, directory: Path, given: Path | None, *, show: bool) -> Source:
        """Opens the text in the given folder, or else what is built in or can be downloaded; writes only downloads.

        Raises:
          UserError: text that cannot be read, a split without documents, or no network to download it.
        """
        if given is None:
            raise UserError(f"data.name={self.name!r} is not prepared: {self.hint(directory)}.")
        return text_source(find_texts(given), licence="unknown", description=f"text files of {given.resolve().name}")

    def labels(self, task: str, split: str, dataset: Any) -> Iterable[int]:
        """The label of each document of a prepared `datasets.Dataset`, in their order."""
        return dataset.labels(split)


def even_shards(count: int) -> list[int]:
    """Sizes of the shards of so many short documents."""
    return [min(DOCUMENTS_PER_SHARD, count - done) for done in range(0, count, DOCUMENTS_PER_SHARD)]


@dataclasses.dataclass(frozen=True)
class TextFolder:
    """Text files that hold documents for all splits."""

    directory: Path
    files: tuple[Path, ...]

    @property
    def paired(self) -> bool:
        """Whether the files are train.txt and valid.txt."""
        return self.files[0].name == TRAIN_FILE

    @functools.cached_property
    def hash(self) -> str:
        """Hash of the contents of the files, in their order."""
        return digest(["paired" if self.paired else "mixed", *map(sha256, self.files)])

    def splits(self) -> Mapping[str, Documents]:
        """Readers of the three splits. The documents to be divided are read once, to know their hashes.

        valid.txt is halved into validation and test. Of other files the 5% of lowest hashes are held out and halved:
        at least two texts, so that each split has one, and never all. A text that stands alone is cut instead: the only
        one into its last tenth and what is before it, the only one that is held out into halves.

        Raises:
          UserError: a file is not UTF-8.
        """
        train, divided = ([self.files[0]], self.files[1:]) if self.paired else ((), self.files)
        hashes = sorted({text_hash(text) for text in documents(divided)})
        if self.paired:
            held_out = hashes
        elif len(hashes) > 1:
            n_low = sum(value < HELD_OUT_FRACTION * 2**64 for value in hashes)
            held_out = hashes[: min(max(n_low, 2), len(hashes) - 1)]
        else:
            first, last = _cut(next(documents(divided), ""), 1 - LAST_FRACTION)
            return {"train": _reader(first), **_halved(last)}
        highest = max(held_out, default=-1)

        def training() -> Iterator[str]:
            yield from documents(train)
            if not self.paired:
                yield from (text for text in documents(divided) if text_hash(text) > highest)

        split_of = halves(held_out)
        if split_of is None:
            kept = (text for text in documents(divided) if text_hash(text) <= highest)
            return {"train": training, **_halved(next(kept, ""))}

        def half(split: str) -> Iterator[str]:
            hashed = ((text, text_hash(text)) for text in documents(divided))
            return (text for text, value in hashed if value <= highest and split_of(value) == split)

        return {"train": training, **{split: functools.partial(half, split) for split in ("validation", "test")}}


def find_texts(directory: Path, *, paired: bool = False) -> TextFolder:
    """The files of a folder that will be read: train.txt and valid.txt, or else, unless `paired`, all .txt files.

    Raises:
      UserError: the folder is missing or holds no text, or one of train.txt and valid.txt is missing.
    """
    if not directory.is_dir():
        raise UserError(f"--from={str(directory)!r} is not a folder: give the folder that holds the .txt files.")
    pair = [directory / TRAIN_FILE, directory / VALIDATION_FILE]
    present = [path for path in pair if path.is_file()]
    files = pair if present or paired else sorted(path for path in directory.glob("*.txt") if path.is_file())
    if not files:
        raise UserError(f"--from={str(directory)!r} holds no .txt file: put the text there.")
    for path in files:
        if not path.is_file():
            raise UserError(f"--from={str(directory)!r} lacks {path.name}: put the text of that split there.")
        if not os.access(path, os.R_OK):
            raise UserError(f"{path} cannot be read: change its permissions.")
    return TextFolder(directory, tuple(files))


def text_source(texts: TextFolder, *, licence: str, description: str) -> Source:
    """The documents of text files.

    Raises:
      UserError: a split without documents, or text that is not UTF-8.
    """
    splits = texts.splits()
    shards = {split: _shards(splits[split]()) for split in SPLITS}
    for split in SPLITS:
        if not shards[split]:
            raise UserError(
                f"--from={str(texts.directory)!r} holds no text for the {split} split: add documents there."
            )

    def examples(split: str) -> Iterator[Example]:
        return ({"text": text} for text in splits[split]())

    def unchanged() -> bool:
        return find_texts(texts.directory, paired=texts.paired).hash == texts.hash

    return Source(texts.hash, licence, description, shards, examples, unchanged)


def documents(files: Sequence[Path]) -> Iterator[str]:
    """Documents of the files in order, without the white space around them; empty ones are left out.

    Raises:
      UserError: a file is not UTF-8, or a document is longer than 1 GiB.
    """
    for path in files:
        for offset, raw in _raw_documents(path):
            try:
                text = raw.decode().removeprefix("\ufeff").strip()
            except UnicodeDecodeError as error:
                raise UserError(
                    f"{path} is not UTF-8 at byte {offset + error.start}: convert it (for example with iconv)."
                ) from error
            if text:
                yield text


def _raw_documents(path: Path) -> Iterator[tuple[int, bytes]]:
    """(offset, bytes) of what is between separator lines."""
    separator, start, end, lines = SEPARATOR.encode(), 0, 0, []
    with path.open("rb") as file:
        for line in file:
            end += len(line)
            if line.strip() == separator:
                yield start, b"".join(lines)
                start, lines = end, []
                continue
            lines.append(line)
            if end - start > MAX_DOCUMENT_BYTES:
                raise UserError(f"{path} has a document over 1 GiB at byte {start}: divide it by lines {SEPARATOR}.")
    yield start, b"".join(lines)


def _shards(texts: Iterable[str]) -> list[int]:
    counts, size = [], SHARD_BYTES
    for text in texts:
        if size >= SHARD_BYTES:
            counts.append(0)
            size = 0
        counts[-1] += 1
        size += len(text)
    return counts


def text_hash(text: str) -> int:
    """The first 64 bits of a text's SHA-256, which say what split it belongs to."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def halves(hashes: Iterable[int]) -> Callable[[int], str] | None:
    """Which texts, by their hashes, are validation and which test; None for fewer than two different texts.

    The last bit decides, which does not depend on the order of hashes. Only the lowest hash is always validation and
    the highest always test, so that each has a text.
    """
    known = set(hashes)
    if len(known) < 2:
        return None
    always = {min(known): "validation", max(known): "test"}
    return lambda value: always.get(value) or ("validation", "test")[value & 1]


def _cut(text: str, share: float) -> tuple[str, str]:
    """A document's first part, about that share of it, and the rest: cut between paragraphs, else lines, else words."""
    goal = int(len(text) * share)
    for mark in ("\n\n", "\n", " "):
        place = text.rfind(mark, int(len(text) * (share - LAST_FRACTION)), goal + len(mark))
        if place > 0:
            break
    else:
        place = goal
    return text[:place].strip(), text[place:].strip()


def _halved(text: str) -> Mapping[str, Documents]:
    validation, test = _cut(text, 0.5)
    return {"validation": _reader(validation), "test": _reader(test)}


def _reader(text: str) -> Documents:
    """Of a single document, none if it is empty."""
    return lambda: iter([text] if text else [])
