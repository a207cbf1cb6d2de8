"""What a dataset is made from: the definition of a dataset, and which documents of a user's files are which split."""

import collections
import dataclasses
import functools
import hashlib
import itertools
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from actlab.data import formats, preparing
from actlab.errors import UserError
from actlab.files import digest, sha256

SPLITS = ("train", "validation", "test")
# Of every dataset, and the name of the folder of its files; changed text has another hash. Version 1 had no test split.
TFDS_VERSION = "2.0.0"
N_STORIES, MOST_STORIES = 100_000, 10_000_000  # the latter are 8 GB, and take hours
DOCUMENTS_PER_SHARD = 20_000
SHARD_BYTES = 64 << 20  # TFDS holds one shard in memory while it writes it

SEPARATOR = formats.SEPARATOR
TRAIN_FILE, VALIDATION_FILE = "train.txt", "valid.txt"
HELD_OUT_FRACTION = 0.05  # of the documents, for validation and test together
LEAST_HELD_OUT, MOST_HELD_OUT = 0.01, 0.2  # of the text, in whole documents; else each is cut instead
LAST_FRACTION = 0.1  # of a document that is cut
FIELD = "text"  # of JSON lines, Parquet and Arrow
_ROLES = {"train": ("train", "training"), "validation": ("valid", "validation", "val", "dev"), "test": ("test",)}
_OUR_NOTES = re.compile(r"(state|dataset_info|dataset_dict)\.json|cache-.*\.arrow")  # of Hugging Face `datasets`
_OUR_FOLDERS = (
    ("config.json", "metrics.jsonl"),
    ("comparison.json",),
    (f"{TFDS_VERSION}/metadata.json",),
    ("vocab.json", "merges.txt"),
)

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
    """How a dataset is made; this one is made from text files, under any name. Modules of `sets` define others."""

    name: str
    n_stories: int = N_STORIES  # of a dataset that is generated
    field: str = FIELD  # of files whose documents have several
    needs: ClassVar[str] = "a text file or a folder of them"
    download: ClassVar[str] = ""  # its size, where it can be had
    built_in: ClassVar[bool] = False  # whether it can be prepared at its first use, without files or a network
    tasks: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # classification tasks that documents have labels for

    @property
    def folder(self) -> str:
        """Name of its folder in the data directory."""
        return self.name

    def hint(self, directory: Path) -> str:
        """The command that prepares it."""
        if self.download:
            command = f"actlab data prepare {self.name} --dir={shlex.quote(str(directory))}"
            return f"run `{command}`, which downloads {self.download}, or add --from=PATH, {self.needs}"
        command = f"actlab data prepare {self.name} --from=PATH --dir={shlex.quote(str(directory))}"
        return f"run `{command}`, where PATH is {self.needs}"

    def hash(self, given: Path | None) -> str | None:
        """Hash of the text that it would be made from now; None where no folder was given."""
        return None if given is None else find_texts(given, field=self.field).hash

    def open(self, directory: Path, given: Path | None, *, show: bool) -> Source:
        """Opens the text in the given folder, or else what is built in or can be downloaded; writes only downloads.

        Raises:
            UserError: text that cannot be read, a split without documents, or no network to download it.
        """
        if given is None:
            raise UserError(f"data.name={self.name!r} is not prepared: {self.hint(directory)}.")
        texts = find_texts(given, field=self.field)
        preparing.say(texts.summary, show=show)
        about = f"text files of {given.resolve().name}"
        return text_source(self, texts, licence="unknown", description=about, show=show)

    def labels(self, task: str, split: str, dataset: Any) -> Iterable[int]:
        """The label of each document of a prepared `datasets.Dataset`, in their order."""
        return dataset.labels(split)


def even_shards(count: int) -> list[int]:
    """Sizes of the shards of so many short documents."""
    return [min(DOCUMENTS_PER_SHARD, count - done) for done in range(0, count, DOCUMENTS_PER_SHARD)]


@dataclasses.dataclass(frozen=True)
class TextFiles:
    """Files that hold documents for all splits.

    With `train`, `divided` are the held-out documents, to be halved; without, all documents. `unread` files are there
    too, but not read. `field` has the text of documents that have several.
    """

    given: Path
    train: tuple[Path, ...]
    divided: tuple[Path, ...]
    unread: tuple[Path, ...] = ()
    field: str = FIELD

    @property
    def paired(self) -> bool:
        """Whether the files say which documents are held out."""
        return bool(self.train)

    @functools.cached_property
    def hash(self) -> str:
        """Hash of the contents of the files, in their order, and of what says how they are read."""
        files = (*self.train, *self.divided)
        parts = ["paired" if self.paired else "mixed", *map(sha256, files)]
        if self.paired and len(files) > 2:
            parts.append(str(len(self.train)))
        if any(map(formats.is_structured, files)):
            parts += [*map(formats.format_of, files), self.field]
        return digest(parts)

    @property
    def summary(self) -> str:
        """What is read, and what is not, in a sentence."""
        held_out = f", held out: {_listed(self.divided)}" if self.paired else ""
        unread = f"; not read: {_listed(self.unread)}" if self.unread else ""
        return f"{self.given}: reading {_listed(self.train or self.divided)}{held_out}{unread}"

    def splits(self) -> Mapping[str, Documents]:
        """Readers of the three splits. The documents to be divided are read once, to know their hashes.

        valid.txt is halved into validation and test, and its texts are left out of train.txt; the only one in it is cut
        into halves. Of other files the 5% of lowest hashes are held out and halved: at least two texts, so that each
        split has one. Where that is less than a hundredth of all text, or more than a fifth, as of few documents, each
        is cut instead, and its last tenth is held out.

        Raises:
            UserError: a file is not UTF-8.
        """
        # As an array, since a list of millions of numbers takes ten times the memory.
        known = ((text_hash(text), len(text)) for text in documents(self.divided, self.field))
        found = np.fromiter(known, [("hash", np.uint64), ("size", np.int64)])
        held_out = np.unique(found["hash"])
        if not self.paired:
            n_low = int((held_out < HELD_OUT_FRACTION * 2.0**64).sum())
            held_out = held_out[: max(n_low, 2)]
            share = found["size"][np.isin(found["hash"], held_out)].sum() / max(1, found["size"].sum())
            if not LEAST_HELD_OUT <= share <= MOST_HELD_OUT:
                return {split: functools.partial(self._cut_documents, split) for split in SPLITS}
        split_of = halves(held_out.tolist())

        def whole(split: str) -> Iterator[str]:
            files = self.train if self.paired and split == "train" else self.divided
            return (text for text in documents(files, self.field) if split_of.get(text_hash(text), "train") == split)

        splits: dict[str, Documents] = {split: functools.partial(whole, split) for split in SPLITS}
        if len(split_of) < 2:
            parts = _cut(next(documents(self.divided, self.field), ""), 0.5)
            for split, part in zip(SPLITS[1:], parts, strict=True):
                splits[split] = functools.partial(iter, [part] if part else [])
        return splits

    def _cut_documents(self, split: str) -> Iterator[str]:
        """The part of each different document that belongs to a split. Of equal parts the first alone counts."""
        seen: set[int] = set()
        for text in documents(self.divided, self.field):
            if (key := text_hash(text)) in seen:
                continue
            seen.add(key)
            first, last = _cut(text, 1 - LAST_FRACTION)
            for name, part in zip(SPLITS, (first, *_cut(last, 0.5)), strict=True):
                if part and (key := text_hash(f"part {part}")) not in seen:
                    seen.add(key)
                    if name == split:
                        yield part


def find_texts(given: Path, *, paired: bool = False, field: str = FIELD) -> TextFiles:
    """The files that will be read: one file, or those of a folder and of the folders in it.

    Files whose names, or whose folders' names, begin with train and with valid, validation, val or dev (else test) are
    those splits. Otherwise all are divided. `paired` wants train.txt and valid.txt.

    Raises:
        UserError: nothing that can be read, one of train.txt and valid.txt is missing, or a field for plain text.
    """
    found, others = _files(given, paired)
    if paired:
        train, divided = [given / TRAIN_FILE], [given / VALIDATION_FILE]
        if missing := [path for path in (*train, *divided) if path not in found]:
            raise UserError(f"{str(given)!r} lacks {missing[0].name}: put the text of that split there.")
    else:
        train, divided = _splits(found, given)
    if not divided:
        there = f"it has {_listed(others)}" if others else "it is empty"
        raise UserError(
            f"{str(given)!r} holds no text that can be read ({there}): give files that end in "
            f"{', '.join(formats.READERS)}."
        )
    for path in (*train, *divided):
        if not os.access(path, os.R_OK):
            raise UserError(f"{path} cannot be read: change its permissions.")
    if field != FIELD and not any(map(formats.is_structured, (*train, *divided))):
        raise UserError(f"field={field!r} has no effect on {str(given)!r}, which is plain text: leave it out.")
    read = {*train, *divided}
    unread = [*others, *(path for path in found if path not in read)]
    return TextFiles(given, tuple(train), tuple(divided), tuple(unread), field)


def _files(given: Path, paired: bool) -> tuple[list[Path], list[Path]]:
    """The files that may be read, and those that cannot."""
    if given.is_file() and not paired:
        return ([given], []) if formats.format_of(given) else ([], [given])
    if not given.is_dir():
        wanted = "the folder that holds train.txt and valid.txt" if paired else "a file or a folder of text"
        raise UserError(f"{str(given)!r} is not {'a folder' if paired else 'there'}: give {wanted}.")
    is_ours = functools.cache(_is_ours)
    seen = [path for path in sorted(given.glob("*" if paired else "**/*")) if _is_visible(path, given, is_ours)]
    for folder in (given, *(path for path in seen if path.is_dir() and not paired)):
        if not os.access(folder, os.R_OK | os.X_OK):
            raise UserError(f"{folder} cannot be read: change its permissions.")
    found = [path for path in seen if path.is_file() and formats.format_of(path)]
    # Links to folders are not followed.
    others = [path for path in seen if not formats.format_of(path) and path.is_file()]
    return found, others + [path for path in seen if path.is_symlink() and not path.is_file()]


def _splits(found: Sequence[Path], given: Path) -> tuple[list[Path], list[Path]]:
    """Training files, and those that are divided: the held-out ones, or all if the names tell no two splits."""
    roles: dict[str | None, list[Path]] = collections.defaultdict(list)
    for path in found:
        roles[_role(path, given)].append(path)
    train, held_out = roles["train"], roles["validation"] or roles["test"]
    if given.is_dir() and roles["validation"] and not set(found) - {*roles["validation"], *roles["test"]}:
        raise UserError(
            f"{str(given)!r} holds validation text alone ({_listed(roles['validation'])}): put the training text "
            "beside it as train.txt, or rename it to have it divided."
        )
    if train and held_out:
        return train, held_out
    return [], [path for path in found if path not in roles["test"]] or list(found)


def _is_visible(path: Path, folder: Path, is_ours: Callable[[Path], bool]) -> bool:
    """Whether no part of its name is hidden, and neither it nor a folder of it was written by this program."""
    inner = path.relative_to(folder)
    hidden = any(part.startswith(".") for part in inner.parts)
    ours = any(is_ours(folder / parent) for parent in list(inner.parents)[:-1])
    return not hidden and not ours and not _OUR_NOTES.fullmatch(path.name)


def _is_ours(folder: Path) -> bool:
    """Whether it is a workdir, comparison, prepared dataset or vocabulary, none of which is text to train on."""
    return any(all((folder / name).is_file() for name in names) for names in _OUR_FOLDERS)


def _role(path: Path, folder: Path) -> str | None:
    """The split that the first word of a file's name, or of a folder's, names."""
    parts = path.relative_to(folder).parts if path != folder else (path.name,)
    for part in reversed(parts):
        word = re.split(r"[-_.]", part.lower())[0]
        for role, words in _ROLES.items():
            if word in words:
                return role
    return None


def _listed(files: Sequence[Path]) -> str:
    """One file by its name, several by their number and kinds."""
    if len(files) == 1:
        return files[0].name
    kinds = collections.Counter(formats.format_of(path) or path.suffix or "other" for path in files)
    *most, last = (f"{count} {kind}" for kind, count in kinds.most_common(4))
    return " and ".join([*([", ".join(most)] if most else []), last]) + " files"


def text_source(definition: Definition, texts: TextFiles, *, licence: str, description: str, show: bool) -> Source:
    """The documents of text files. Warns of documents that hold the separator, since two may be meant.

    Raises:
        UserError: a split without documents, or text that is not UTF-8.
    """
    splits = texts.splits()
    n_holding = 0

    def counted(split: str) -> Iterator[str]:
        nonlocal n_holding
        for text in splits[split]():
            n_holding += SEPARATOR in text
            yield text

    shards = {split: _shards(counted(split)) for split in SPLITS}
    if n_holding:
        preparing.say(
            f"warning: {n_holding:,} of {sum(itertools.chain(*shards.values())):,} documents have {SEPARATOR} inside; "
            "it separates documents only on a line of its own in .txt and .md",
            show=show,
        )
    if not any(shards.values()):
        raise UserError(f"{str(texts.given)!r} holds no text: add documents to it, or name another file or folder.")
    for split in SPLITS:
        if not shards[split]:
            raise UserError(
                f"{str(texts.given)!r} has no text for the {split} split that is not in another: add documents."
            )

    return Source(
        hash=texts.hash,
        licence=licence,
        description=description,
        shards=shards,
        examples=lambda split: ({"text": text} for text in splits[split]()),
        unchanged=lambda: definition.hash(texts.given) == texts.hash,
    )


def documents(files: Sequence[Path], field: str = FIELD) -> Iterator[str]:
    """Documents of the files in order; see formats.documents."""
    return itertools.chain.from_iterable(formats.documents(path, field) for path in files)


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


def halves(hashes: Iterable[int]) -> dict[int, str]:
    """Which texts, by their hashes, are validation and which test.

    The last bit decides, which does not depend on the order of hashes. Only the lowest hash is always validation and
    the highest always test, so that of two texts or more each has one.
    """
    split_of = {value: ("validation", "test")[value & 1] for value in hashes}
    if split_of:
        split_of |= {max(split_of): "test", min(split_of): "validation"}
    return split_of


def _cut(text: str, share: float) -> tuple[str, str]:
    """A document's first part, about that share of it, and the rest.

    It is cut between paragraphs, else lines, else words, else where that share ends.
    """
    goal = int(len(text) * share)
    for mark in ("\n\n", "\n", " "):
        place = text.rfind(mark, int(len(text) * (share - LAST_FRACTION)), goal + len(mark))
        if place > 0:
            break
    else:
        place = goal
    return text[:place].strip(), text[place:].strip()
