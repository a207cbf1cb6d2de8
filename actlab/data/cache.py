"""Token caches: a dataset's documents as token ids in flat files, with an index, sums and a fingerprint."""

import dataclasses
import functools
import hashlib
import json
from array import array
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from jaxtyping import Float64, Int64, UInt

from actlab.data import folders, tokenizers
from actlab.data.datasets import Dataset
from actlab.data.labels import Labels
from actlab.data.progress import track
from actlab.data.sources import SPLITS
from actlab.data.tokenizers import Tokenizer

BUILDER_VERSION = 1
META = "meta.json"
NATS = "validation_nats.npy"
VERIFY_BYTES = 1 << 30  # files up to this in all are hashed at each opening, larger ones only measured


@dataclasses.dataclass(frozen=True)
class Split:
    """Tokens of a split: one end-of-text, then each document's tokens and an end-of-text."""

    name: str
    tokens: UInt[np.ndarray, "n_tokens"]
    starts: Int64[np.ndarray, "n_starts"]  # first token of each document, then n_tokens
    n_bytes: int  # of the documents as UTF-8, end marks not counted

    @property
    def n_documents(self) -> int:
        """How many documents there are."""
        return len(self.starts) - 1


@dataclasses.dataclass(frozen=True)
class Meta:
    """What is written beside the tokens."""

    builder_version: int
    name: str
    source_hash: str
    licence: str
    description: str
    entropy_nats: float | None
    tokenizer: str
    tokenizer_hash: str
    vocab_size: int
    dtype: str
    n_documents: Mapping[str, int]
    n_tokens: Mapping[str, int]
    n_bytes: Mapping[str, int]
    sizes: Mapping[str, int]
    sums: Mapping[str, str]
    fingerprint: str

    def expected_fingerprint(self) -> str:
        """Hash of all that a training run can see of the data."""
        return folders.digest([self.builder_version, self.source_hash, self.tokenizer_hash, dict(self.sums)])


@dataclasses.dataclass(frozen=True)
class TokenCache:
    """An opened token cache."""

    folder: Path
    meta: Meta
    train: Split
    validation: Split
    validation_nats: Float64[np.ndarray, "n_documents"] | None  # -log probability, where it is known
    labels: Labels | None = None

    @property
    def name(self) -> str:
        """Name of the dataset."""
        return self.meta.name

    @property
    def vocab_size(self) -> int:
        """Number of token ids, the end of text among them."""
        return self.meta.vocab_size

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hex, over the content hashes of text, tokenizer, tokens, builder version and labels."""
        return (
            self.meta.fingerprint if self.labels is None else folders.digest([self.meta.fingerprint, self.labels.hash])
        )

    @property
    def entropy_nats(self) -> float | None:
        """Entropy per document in nats, where it is known."""
        return self.meta.entropy_nats

    @functools.cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer stored beside the tokens."""
        tokenizer = tokenizers.load(self.folder / "tokenizer")
        if tokenizer.hash != self.meta.tokenizer_hash:
            raise folders.damaged(self.folder / META, "the tokenizer has another hash")
        return tokenizer


def folder_of(root: Path, tokenizer: str) -> Path:
    """The folder of a cache below its dataset; other people's vocabularies go by the hash of their path."""
    kind, _, rest = tokenizer.partition(":")
    is_path = kind in ("dir", "wordpiece")
    label = hashlib.sha256(str(Path(rest).resolve()).encode()).hexdigest()[:12] if is_path else rest
    return root / "tokens" / (f"{kind}-{label}" if rest else kind)


def read_meta(folder: Path) -> Meta:
    """The record of a cache, checked against its own fingerprint."""
    path = folder / META
    try:
        meta = Meta(**folders.read_json(path))
    except TypeError as error:
        raise folders.damaged(path, str(error)) from error
    if meta.fingerprint != meta.expected_fingerprint():
        raise folders.damaged(path, "its fingerprint is not that of its contents")
    return meta


def open_cache(folder: Path) -> TokenCache:
    """Opens a cache.

    Raises:
      UserError: a file that is missing, cut short or altered.
    """
    meta = read_meta(folder)
    _verify(folder, meta)
    train, validation = (_open_split(folder, meta, split) for split in SPLITS)
    nats = np.load(folder / NATS) if NATS in meta.sums else None
    return TokenCache(folder, meta, train, validation, nats)


def make(dataset: Dataset, tokenizer: Tokenizer, folder: Path, *, show: bool = True) -> None:
    """Writes a cache; the caller holds the dataset's lock.

    Raises:
      UserError: the dataset is damaged.
    """
    dtype = "uint16" if tokenizer.vocab_size <= 1 << 16 else "uint32"
    total = sum(dataset.n_bytes.values())
    n_tokens: dict[str, int] = {}
    with folders.fresh(folder) as draft:
        with track(f"tokenizing {dataset.name} with {tokenizer.name}, bytes", total, show=show) as advance:
            for split in SPLITS:
                n_tokens[split] = _write_split(dataset, tokenizer, split, draft, dtype, advance)
        if dataset.entropy_nats is not None:
            np.save(draft / NATS, np.array(dataset.nats("validation"), np.float64))
        sums = {path.name: folders.sha256(path) for path in sorted(draft.iterdir())}
        sizes = {name: (draft / name).stat().st_size for name in sums}
        tokenizer.save(draft / "tokenizer")
        meta = _meta(dataset, tokenizer, dtype=dtype, n_tokens=n_tokens, sizes=sizes, sums=sums)
        (draft / META).write_text(json.dumps(dataclasses.asdict(meta), indent=2) + "\n")


def _meta(dataset: Dataset, tokenizer: Tokenizer, **measured: Any) -> Meta:
    meta = Meta(
        builder_version=BUILDER_VERSION,
        name=dataset.name,
        source_hash=dataset.source_hash,
        licence=dataset.licence,
        description=dataset.description,
        entropy_nats=dataset.entropy_nats,
        tokenizer=tokenizer.name,
        tokenizer_hash=tokenizer.hash,
        vocab_size=tokenizer.vocab_size,
        n_documents=dataset.n_documents,
        n_bytes=dataset.n_bytes,
        fingerprint="",
        **measured,
    )
    return dataclasses.replace(meta, fingerprint=meta.expected_fingerprint())


def _write_split(
    dataset: Dataset, tokenizer: Tokenizer, split: str, draft: Path, dtype: str, advance: Callable[[int], None]
) -> int:
    """Writes the tokens and the index of a split; returns the number of tokens."""
    starts, n_bytes = array("q", [1]), 0
    with _tokens_file(draft, split).open("wb") as file:
        _append(file, np.array([tokenizer.end_of_text]), dtype)
        for texts in dataset.texts(split):
            for ids in tokenizer.encode_batch(texts):
                _append(file, np.append(ids, tokenizer.end_of_text), dtype)
                starts.append(starts[-1] + len(ids) + 1)
            size = sum(len(text.encode()) for text in texts)
            n_bytes += size
            advance(size)
    if (len(starts) - 1, n_bytes) != (dataset.n_documents[split], dataset.n_bytes[split]):
        raise folders.damaged(dataset.root / split, f"the {split} split is not what was prepared")
    np.save(_starts_file(draft, split), np.frombuffer(starts, np.int64))
    return starts[-1]


def _append(file: BinaryIO, ids: np.ndarray, dtype: str) -> None:
    file.write(ids.astype(f"<{np.dtype(dtype).str[1:]}").tobytes())


def _tokens_file(folder: Path, split: str) -> Path:
    return folder / f"{split}.tokens"


def _starts_file(folder: Path, split: str) -> Path:
    return folder / f"{split}_starts.npy"


def _verify(folder: Path, meta: Meta) -> None:
    for name, size in meta.sizes.items():
        path = folder / name
        if not path.is_file():
            raise folders.damaged(path, "it is missing")
        if path.stat().st_size != size:
            raise folders.damaged(path, f"{path.stat().st_size:,} bytes where {size:,} were written")
    if sum(meta.sizes.values()) > VERIFY_BYTES:
        return
    for name, expected in meta.sums.items():
        if folders.sha256(folder / name) != expected:
            raise folders.damaged(folder / name, "its content changed")


def _open_split(folder: Path, meta: Meta, split: str) -> Split:
    tokens = np.memmap(_tokens_file(folder, split), dtype=meta.dtype, mode="r")
    starts = np.load(_starts_file(folder, split))
    if starts[-1] != len(tokens) or len(starts) != meta.n_documents[split] + 1:
        raise folders.damaged(_starts_file(folder, split), "it does not fit the tokens")
    return Split(f"{meta.name}/{split}", tokens, starts, meta.n_bytes[split])


def caches(root: Path) -> Iterator[Meta]:
    """Records of the caches of a dataset, by folder name."""
    for path in sorted(root.glob(f"tokens/*/{META}")):
        if not path.parent.name.startswith(folders.INCOMPLETE):
            yield read_meta(path.parent)


def ensure(dataset: Dataset, tokenizer: str, directory: Path, *, show: bool = True) -> TokenCache:
    """The cache of a dataset, made at the first use or when text, vocabulary or builder changed since.

    Raises:
      UserError: a damaged cache, or a tokenizer that cannot be had.
    """
    tokenizers.check(tokenizer)
    folder = folder_of(dataset.root, tokenizer)
    if not _is_current(folder, dataset, tokenizer, directory):
        with folders.locked(directory, dataset.root.name, show=show):
            if not _is_current(folder, dataset, tokenizer, directory):
                folders.clean(folder.parent)
                make(dataset, _tokenizer(dataset, tokenizer, directory), folder, show=show)
    return open_cache(folder)


def _tokenizer(dataset: Dataset, name: str, directory: Path) -> Tokenizer:
    texts = (text for some in dataset.texts("train") for text in some)
    return tokenizers.make(name, directory, texts)


def _is_current(folder: Path, dataset: Dataset, tokenizer: str, directory: Path) -> bool:
    if not folder.exists():
        return False
    meta = read_meta(folder)
    same_vocabulary = True
    if tokenizer.startswith(("dir:", "wordpiece")):
        same_vocabulary = tokenizers.make(tokenizer, directory, ()).hash == meta.tokenizer_hash
    return same_vocabulary and (meta.source_hash, meta.builder_version) == (dataset.source_hash, BUILDER_VERSION)


__all__ = ["Meta", "Split", "TokenCache", "caches", "ensure", "make", "open_cache", "read_meta"]
