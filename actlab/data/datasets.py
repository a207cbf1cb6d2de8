"""Datasets prepared in a data directory: what is there, how one is made, how it is read back."""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from actlab.data import preparing, sets
from actlab.data.sources import FIELD, MOST_STORIES, N_STORIES, SPLITS, TFDS_VERSION, Definition
from actlab.errors import UserError, shown

STORY_GRAMMAR, TINY_STORIES = "story_grammar", "tiny_stories"
RECORD = "metadata.json"
RESERVED = ("auto", "downloads", "gpt2", "tokens")


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A prepared dataset with the splits "train", "validation" and "test"."""

    name: str
    root: Path
    source_hash: str
    licence: str
    description: str
    n_documents: Mapping[str, int]
    n_bytes: Mapping[str, int]  # of UTF-8 text
    entropy_nats: float | None  # per document, where it is known

    def texts(self, split: str) -> Iterator[list[str]]:
        """Documents of a split in their order, in batches."""
        for examples in self._examples(split):
            yield [example["text"].decode() for example in examples]

    def nats(self, split: str) -> list[float]:
        """-log probability of each document of a split, for a dataset whose entropy is known."""
        return [float(example["nats"]) for examples in self._examples(split) for example in examples]

    def labels(self, split: str) -> list[int]:
        """The label of each document of a split, for a dataset that has labels."""
        return [int(example["label"]) for examples in self._examples(split) for example in examples]

    def _examples(self, split: str) -> Iterator[list[dict[str, Any]]]:
        from actlab.data import builder  # imports TFDS, which takes seconds

        try:
            yield from builder.read(self.root / TFDS_VERSION, split)
        except (OSError, RuntimeError, ValueError, IndexError) as error:
            raise preparing.damaged(self.root / TFDS_VERSION, f"the {split} split cannot be read: {error}") from error


def find(name: str, directory: Path, *, n_stories: int = N_STORIES) -> Dataset | None:
    """The dataset of that name if it is prepared, without reading its documents."""
    root = directory / sets.definition(name, n_stories).folder
    return _load(root) if (root / TFDS_VERSION / RECORD).exists() else None


def prepared(directory: Path, damaged: list[UserError] | None = None) -> list[Dataset]:
    """Every dataset prepared in a data directory, by folder name; what is wrong with others is added to `damaged`.

    Raises:
        UserError: for one that is damaged, if no list is given.
    """
    found = []
    for path in sorted(directory.glob(f"*/{TFDS_VERSION}/{RECORD}")):
        try:
            found.append(_load(path.parents[1]))
        except UserError as error:
            if damaged is None:
                raise
            damaged.append(error)
    return found


def prepare(
    name: str,
    directory: Path,
    source: Path | None = None,
    *,
    n_stories: int = N_STORIES,
    field: str = FIELD,
    show: bool = True,
) -> tuple[Dataset, bool]:
    """Makes a dataset unless it is there; the second value says whether it was made now.

    Raises:
        UserError: a bad name, text that cannot be used, other text under the same name, no network, no place to write.
    """
    check_name(name)
    if type(n_stories) is not int or not 1 <= n_stories <= MOST_STORIES:
        raise UserError(f"n_stories={shown(n_stories)} is not a number of stories: ask for 1 to {MOST_STORIES:,}.")
    definition = sets.definition(name, n_stories, field)
    if existing := find(name, directory, n_stories=n_stories):
        return _same(existing, definition, source), False
    opened = definition.open(directory, source, show=show)
    with preparing.locked(directory, definition.folder, show=show):
        # Another process may have made it while this one waited.
        if existing := find(name, directory, n_stories=n_stories):
            return _same(existing, definition, source), False
        from actlab.data import builder  # imports TFDS, which takes seconds

        root = directory / definition.folder
        preparing.clean(root)
        with preparing.writing(directory):
            builder.build(definition, opened, directory, show=show)
        return _load(root), True


def check_name(name: str) -> None:
    """Refuses names that cannot be a folder, and reserved ones."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name):
        own = "; to read a file or a folder, write --text=PATH" if re.search(r"[./\\]", name) else ""
        raise UserError(
            f"data.name={name!r} cannot be used: take lower-case letters, digits and _, a letter first{own}."
        )
    if name in RESERVED or (name.startswith(STORY_GRAMMAR) and name != STORY_GRAMMAR):
        raise UserError(f"data.name={name!r} is reserved: take another name.")


def require_meant(name: str, directory: Path) -> None:
    """Refuses a name that is that of a known dataset but for its underscores, unless something is prepared under it."""
    for known in sets.known():
        if name != known.name and name.replace("_", "") == known.name.replace("_", "") and not find(name, directory):
            raise UserError(f"unknown data.name={name!r}: did you mean {known.name!r}?")


def _same(existing: Dataset, definition: Definition, source: Path | None) -> Dataset:
    """Refuses other text under the name of a dataset."""
    if definition.hash(source) not in (None, existing.source_hash):
        raise UserError(
            f"data.name={existing.name!r} in {existing.root} was made from other text: "
            "remove that folder or take another name."
        )
    return existing


def _load(root: Path) -> Dataset:
    path = root / TFDS_VERSION / RECORD
    found = preparing.record(Dataset, path, root=root)
    if not all(one.keys() == set(SPLITS) for one in (found.n_documents, found.n_bytes)):
        raise preparing.damaged(path, "a split is missing")
    return found
