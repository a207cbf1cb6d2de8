"""A folder of text files: documents read line by line, shared out between train and validation."""

import dataclasses
import functools
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from actlab.data.folders import digest, sha256
from actlab.errors import UserError

SEPARATOR = "<|endoftext|>"
TRAIN_FILE, VALIDATION_FILE = "train.txt", "valid.txt"
VALIDATION_FRACTION = 0.05
LAST_FRACTION = 0.1  # of the only document
MAX_DOCUMENT_BYTES = 1 << 30  # a TFDS example is a protocol buffer, which ends at 2 GiB

Documents = Callable[[], Iterator[str]]


@dataclasses.dataclass(frozen=True)
class TextFolder:
    """Text files that hold documents for both splits."""

    directory: Path
    files: tuple[Path, ...]

    @property
    def paired(self) -> bool:
        """Whether the folder says itself which text is for validation."""
        return self.files[0].name == TRAIN_FILE

    @functools.cached_property
    def hash(self) -> str:
        """Hash of the contents of the files, in their order."""
        return digest(["paired" if self.paired else "mixed", *map(sha256, self.files)])

    def splits(self) -> Mapping[str, Documents]:
        """Readers of the two splits; mixed files are read once to see how many documents there are.

        Raises:
          UserError: a file is not UTF-8.
        """
        if self.paired:
            train, validation = self.files
            return {"train": lambda: documents([train]), "validation": lambda: documents([validation])}
        everything = functools.partial(documents, self.files)
        lowest, highest = _hash_range(everything)
        if lowest == highest:
            return _cut(next(everything(), ""))
        held_out = functools.partial(_is_held_out, lowest=lowest, highest=highest)
        return {
            "train": lambda: (text for text in everything() if not held_out(_hash(text))),
            "validation": lambda: (text for text in everything() if held_out(_hash(text))),
        }


def find(directory: Path, *, paired: bool = False) -> TextFolder:
    """Looks which files of a folder will be read.

    Raises:
      UserError: the folder is missing or holds no text, or one of train.txt and valid.txt is missing
        (both, where `paired` asks for them).
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


def documents(files: Sequence[Path]) -> Iterator[str]:
    """Documents of the files in order, without the white space around them; empty ones are left out.

    Raises:
      UserError: a file is not UTF-8, or a document is longer than 1 GiB.
    """
    for path in files:
        for offset, raw in _raw_documents(path):
            text = _decode(path, offset, raw).removeprefix("\ufeff").strip()
            if text:
                yield text


def _raw_documents(path: Path) -> Iterator[tuple[int, bytes]]:
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


def _decode(path: Path, offset: int, raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is not UTF-8 at byte {offset + error.start}: convert the file to UTF-8 (for example with iconv)."
        ) from error


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def _hash_range(everything: Documents) -> tuple[int, int]:
    lowest, highest = 1 << 64, -1
    for text in everything():
        value = _hash(text)
        lowest, highest = min(lowest, value), max(highest, value)
    return lowest, max(lowest, highest)


def _is_held_out(value: int, *, lowest: int, highest: int) -> bool:
    # The lowest hash is always held out, the highest never: with two documents each split has one.
    return value == lowest or (value < VALIDATION_FRACTION * 2**64 and value != highest)


def _cut(text: str) -> Mapping[str, Documents]:
    """The only document, cut before its last tenth: between paragraphs, else lines, else words."""
    goal = int(len(text) * (1 - LAST_FRACTION))
    for mark in ("\n\n", "\n", " "):
        place = text.rfind(mark, int(len(text) * 0.8), goal + len(mark))
        if place > 0:
            break
    else:
        place = goal
    first, last = text[:place].strip(), text[place:].strip()
    return {"train": lambda: iter([first] if first else []), "validation": lambda: iter([last] if last else [])}
