"""What a dataset is made from: the embedded grammar, TinyStories, or a folder of text files."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from actlab.data import download, folders, sst2, text_files
from actlab.errors import UserError

SPLITS = ("train", "validation")
STORY_GRAMMAR, TINY_STORIES = "story_grammar", "tiny_stories"

CORPUS_SEED = 20_240_917
N_STORIES = 100_000
N_VALIDATION_STORIES = 2_000
STORIES_PER_SHARD = 20_000
SHARD_BYTES = 64 << 20  # TFDS holds one shard in memory while it writes it

REVISION = "f54c09fd23315a6f9c86f9dc80f725de7d8f9c64"
TINY_STORIES_LICENCE = "CDLA-Sharing-1.0"
_BASE = f"datasets/roneneldan/TinyStories/resolve/{REVISION}/TinyStoriesV2-GPT4"
TINY_STORIES_FILES = {
    text_files.TRAIN_FILE: download.PublicFile(f"{_BASE}-train.txt", 2_230_000_000, TINY_STORIES_LICENCE),
    text_files.VALIDATION_FILE: download.PublicFile(f"{_BASE}-valid.txt", 22_502_601, TINY_STORIES_LICENCE, exact=True),
}

Example = dict[str, str | float]  # with its "nats" or its "label" where that is known


@dataclasses.dataclass(frozen=True)
class Source:
    """Documents of both splits, with what identifies them."""

    name: str
    folder: str  # below the data directory
    hash: str
    licence: str
    description: str
    shards: Mapping[str, Sequence[int]]  # documents in each shard of a split
    examples: Callable[[str], Iterator[Example]]
    current_hash: Callable[[], str]  # differs from `hash` once the source was changed
    entropy_nats: float | None = None  # per story; where it is known, examples carry their "nats"
    labelled: bool = False


def folder_of(name: str, n_stories: int) -> str:
    """The folder of a dataset below the data directory; the grammar has one for each version and size."""
    if name != STORY_GRAMMAR:
        return name
    from actlab.data import story_grammar

    version = "".join(c if c.isalnum() else "_" for c in story_grammar.VERSION)
    return f"{STORY_GRAMMAR}_v{version}_{n_stories}"


def hash_of(name: str, source: Path | None, n_stories: int) -> str | None:
    """Hash of what a dataset would be made from now; None where nothing was named to compare with."""
    if name == STORY_GRAMMAR:
        return _grammar_hash(n_stories)
    if source is not None and name == sst2.NAME:
        return sst2.read(source)[1]
    return None if source is None else text_files.find(source, paired=name == TINY_STORIES).hash


def open_source(name: str, directory: Path, source: Path | None, *, n_stories: int, show: bool) -> Source:
    """Opens what a dataset is made from; writes nothing but downloads.

    Raises:
      UserError: text that cannot be read or holds no documents, or no network to fetch it.
    """
    if name == STORY_GRAMMAR:
        return _grammar(n_stories)
    if name == sst2.NAME:
        return _sst2(directory, source, show=show)
    if name == TINY_STORIES:
        folder = source or _download(directory, show=show)
        description = "TinyStories (Eldan and Li 2023, arXiv:2305.07759)"
        return _text(name, folder, licence=TINY_STORIES_LICENCE, description=description, paired=True)
    if source is None:
        raise UserError(f"data.name={name!r} is not prepared: {prepare_hint(name, directory)}.")
    return _text(name, source, licence="unknown", description=f"text files of {source.resolve().name}", paired=False)


def prepare_hint(name: str, directory: Path) -> str:
    """The command that prepares a dataset from local files."""
    if name == sst2.NAME:
        return sst2.hint(directory)
    return (
        f"run `python -m actlab.data prepare {name} --from=DIR --dir={directory}`, where DIR holds "
        f"{text_files.TRAIN_FILE} and {text_files.VALIDATION_FILE} with {text_files.SEPARATOR} alone on a line "
        "after each document"
    )


def _grammar_hash(n_stories: int) -> str:
    from actlab.data import story_grammar

    return folders.digest([story_grammar.VERSION, CORPUS_SEED, n_stories, N_VALIDATION_STORIES])


def _grammar(n_stories: int) -> Source:
    from actlab.data import story_grammar

    counts = {"train": n_stories, "validation": N_VALIDATION_STORIES}

    def examples(split: str) -> Iterator[Example]:
        for story in story_grammar.stories(CORPUS_SEED, split, counts[split]):
            yield {"text": story.text, "nats": story.nats}

    return Source(
        name=STORY_GRAMMAR,
        folder=folder_of(STORY_GRAMMAR, n_stories),
        hash=_grammar_hash(n_stories),
        licence="Apache-2.0",
        description=f"stories from a grammar of known entropy, version {story_grammar.VERSION}",
        shards={split: _even_shards(count) for split, count in counts.items()},
        examples=examples,
        current_hash=lambda: _grammar_hash(n_stories),
        entropy_nats=float(story_grammar.entropy_nats()),
    )


def _sst2(directory: Path, source: Path | None, *, show: bool) -> Source:
    found, total = sst2.read(source) if source is not None else sst2.fetch(directory, show=show)
    return Source(
        name=sst2.NAME,
        folder=sst2.NAME,
        hash=total,
        licence=sst2.LICENCE,
        description=sst2.DESCRIPTION,
        shards={split: _even_shards(len(documents)) for split, documents in found.items()},
        examples=lambda split: iter(found[split]),
        current_hash=lambda: total,  # all of it was read before
        labelled=True,
    )


def _even_shards(count: int) -> list[int]:
    return [min(STORIES_PER_SHARD, count - done) for done in range(0, count, STORIES_PER_SHARD)]


def _text(name: str, folder: Path, *, licence: str, description: str, paired: bool) -> Source:
    texts = text_files.find(folder, paired=paired)
    splits = texts.splits()
    shards = {split: _shards(splits[split]()) for split in SPLITS}
    for split in SPLITS:
        if not shards[split]:
            raise UserError(f"--from={str(folder)!r} holds no text for the {split} split: add documents there.")

    def examples(split: str) -> Iterator[Example]:
        return ({"text": text} for text in splits[split]())

    def current_hash() -> str:
        return text_files.find(folder, paired=paired).hash

    return Source(name, name, texts.hash, licence, description, shards, examples, current_hash)


def _shards(texts: Iterable[str]) -> list[int]:
    counts, size = [], SHARD_BYTES
    for text in texts:
        if size >= SHARD_BYTES:
            counts.append(0)
            size = 0
        counts[-1] += 1
        size += len(text)
    return counts


def _download(directory: Path, *, show: bool) -> Path:
    folder = directory / "downloads" / TINY_STORIES
    advice = f"without a network {prepare_hint(TINY_STORIES, directory)}."
    if not all((folder / name).exists() for name in TINY_STORIES_FILES):
        download.require_network("TinyStories", advice, download.HUB)
    with folders.locked(directory, "downloads", show=show):
        for name, file in reversed(TINY_STORIES_FILES.items()):
            download.fetch(file, folder / name, advice=advice, show=show)
    return folder
