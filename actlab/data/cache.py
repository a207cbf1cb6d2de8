"""Token caches: documents as token ids in flat files, with index, hashes and a fingerprint; labels of documents."""

import dataclasses
import functools
import hashlib
import json
from array import array
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int8, Int64, UInt

from actlab.data import preparing, sets, tokenizers
from actlab.data.datasets import Dataset
from actlab.data.sources import SPLITS
from actlab.data.tokenizer_kinds import Tokenizer
from actlab.errors import UserError
from actlab.files import digest, sha256, signed

BUILDER_VERSION = 2
_COUNTED = 2**24
META = "meta.json"
# Caches up to this size, TinyStories as bytes among them (4.4 GB), are hashed at each opening, which takes about a
# second per GiB. Of larger ones only the sizes are checked.
VERIFY_BYTES = 5 << 30


@dataclasses.dataclass(frozen=True)
class Split:
    """Tokens of a split: one end-of-text, then each document's tokens and an end-of-text."""

    name: str
    tokens: UInt[np.ndarray, "n_tokens"]
    starts: Int64[np.ndarray, "n_starts"]  # first token of each document, then n_tokens
    n_bytes: int  # of the documents as UTF-8, without end-of-texts
    nats: Float64[np.ndarray, "n_documents"] | None = None  # -log probability, of held-out text where known

    @property
    def n_documents(self) -> int:
        """How many documents there are."""
        return len(self.starts) - 1


@dataclasses.dataclass(frozen=True)
class Labels:
    """The label of each document, in their order; `hash` covers them and the names of the classes."""

    task: str
    classes: tuple[str, ...]
    train: Int8[np.ndarray, "n_train"]
    validation: Int8[np.ndarray, "n_validation"]
    test: Int8[np.ndarray, "n_test"]
    hash: str


@dataclasses.dataclass(frozen=True)
class Meta:
    """The record beside the tokens."""

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
        return digest([self.builder_version, self.source_hash, self.tokenizer_hash, dict(self.sums)])


@dataclasses.dataclass(frozen=True)
class TokenCache:
    """An opened token cache."""

    folder: Path
    meta: Meta
    train: Split
    validation: Split
    test: Split
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
        if self.labels is None:
            return self.meta.fingerprint
        return digest([self.meta.fingerprint, self.labels.hash])

    @functools.cached_property
    def bigrams(self) -> tuple[Int64[np.ndarray, "n_pairs"], Int64[np.ndarray, "n_pairs"]]:
        """Pairs of neighbouring training tokens, a V + b of token b behind a, rising, and how often each occurs.

        Of the first 2^24 tokens, which are enough for a baseline and sorted in seconds.
        """
        tokens = self.train.tokens[:_COUNTED].astype(np.int64)
        pairs, counts = np.unique(tokens[:-1] * self.vocab_size + tokens[1:], return_counts=True)
        return pairs, counts.astype(np.int64)

    @functools.cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer stored beside the tokens."""
        tokenizer = tokenizers.load(
            self.folder / "tokenizer", f"remove the folder {self.folder} and run the same command again"
        )
        if tokenizer.hash != self.meta.tokenizer_hash:
            raise preparing.damaged(self.folder / META, "the tokenizer has another hash")
        return tokenizer


def ensure(dataset: Dataset, tokenizer: str, directory: Path, *, task: str = "", show: bool = True) -> TokenCache:
    """The cache of a dataset, made at the first use and when text, vocabulary or builder changed since.

    With a `task` it has the labels of the documents.

    Raises:
        UserError: a damaged cache, or a tokenizer that is unknown or not prepared.
    """
    tokenizers.check(tokenizer)
    folder = folder_of(dataset.root, tokenizer)
    if tokenizer.startswith("dir:") and not folder.exists():
        folder = _of_equal_vocabulary(dataset, tokenizer, directory) or folder
    if not _is_current(folder, dataset, tokenizer, directory):
        with preparing.locked(directory, dataset.root.name, show=show):
            # Another process may have made it while this one waited.
            if not _is_current(folder, dataset, tokenizer, directory):
                preparing.clean(folder.parent)
                texts = (text for some in dataset.texts("train") for text in some)
                make(dataset, tokenizers.make(tokenizer, directory, texts), folder, show=show)
    tokens = open_cache(folder)
    return dataclasses.replace(tokens, labels=_labels(task, dataset, directory, show=show)) if task else tokens


def _of_equal_vocabulary(dataset: Dataset, tokenizer: str, directory: Path) -> Path | None:
    """A cache of the same tokens: a run keeps the tokenizer of its training, a bpe:SIZE, in a folder of its own."""
    folders = (folder_of(dataset.root, meta.tokenizer) for meta in caches(dataset.root, []))
    return next((folder for folder in folders if _is_current(folder, dataset, tokenizer, directory)), None)


def folder_of(root: Path, tokenizer: str) -> Path:
    """The folder of a cache below its dataset; vocabularies in a folder of the user's go by the hash of its path."""
    kind, _, rest = tokenizer.partition(":")
    is_path = kind in ("dir", "wordpiece")
    label = hashlib.sha256(str(Path(rest).resolve()).encode()).hexdigest()[:12] if is_path else rest
    return root / "tokens" / (f"{kind}-{label}" if rest else kind)


def caches(root: Path, damaged: list[UserError]) -> Iterator[Meta]:
    """Records of the caches of a dataset, by folder name; errors of damaged ones are added to the list."""
    for path in sorted(root.glob(f"tokens/*/{META}")):
        if not path.parent.name.startswith(preparing.INCOMPLETE):
            try:
                yield read_meta(path.parent)
            except UserError as error:
                damaged.append(error)


def read_meta(folder: Path) -> Meta:
    """The record of a cache, checked against its own fingerprint."""
    path = folder / META
    meta = preparing.record(Meta, path)
    counts = (meta.n_documents, meta.n_tokens, meta.n_bytes)
    whole = all(one.keys() == set(SPLITS) for one in counts) and meta.sizes.keys() == meta.sums.keys()
    if not whole or meta.dtype not in ("uint16", "uint32"):
        raise preparing.damaged(path, "a split is missing")
    if meta.fingerprint != meta.expected_fingerprint():
        raise preparing.damaged(path, "its fingerprint does not match its contents")
    return meta


def open_cache(folder: Path) -> TokenCache:
    """Opens a cache.

    Raises:
        UserError: a file that is missing, cut short or altered.
    """
    meta = read_meta(folder)
    _verify(folder, meta)
    train, validation, test = (_open_split(folder, meta, split) for split in SPLITS)
    return TokenCache(folder, meta, train, validation, test)


def _open_split(folder: Path, meta: Meta, split: str) -> Split:
    tokens = np.memmap(_tokens_file(folder, split), dtype=meta.dtype, mode="r")
    starts = np.load(_starts_file(folder, split))
    if starts[-1] != len(tokens) or len(starts) != meta.n_documents[split] + 1:
        raise preparing.damaged(_starts_file(folder, split), "it does not match the tokens")
    path = _nats_file(folder, split)
    nats = np.load(path) if path.name in meta.sums else None
    return Split(f"{meta.name}/{split}", tokens, starts, meta.n_bytes[split], nats)


def make(dataset: Dataset, tokenizer: Tokenizer, folder: Path, *, show: bool = True) -> None:
    """Writes a cache; the caller holds the dataset's lock.

    Raises:
        UserError: the dataset is damaged.
    """
    dtype = "uint16" if tokenizer.vocab_size <= 1 << 16 else "uint32"
    total = sum(dataset.n_bytes.values())
    n_tokens: dict[str, int] = {}
    with preparing.fresh(folder) as draft:
        with preparing.track(f"bytes of {dataset.name} tokenized with {tokenizer.name}", total, show=show) as advance:
            for split in SPLITS:
                n_tokens[split] = _write_split(dataset, tokenizer, split, draft, dtype, advance)
        for split in SPLITS[1:] if dataset.entropy_nats is not None else ():
            np.save(_nats_file(draft, split), np.array(dataset.nats(split), np.float64))
        sums = {path.name: sha256(path) for path in sorted(draft.iterdir())}
        tokenizer.save(draft / "tokenizer")  # which has a hash of its own
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
            dtype=dtype,
            n_documents=dataset.n_documents,
            n_tokens=n_tokens,
            n_bytes=dataset.n_bytes,
            sizes={name: (draft / name).stat().st_size for name in sums},
            sums=sums,
            fingerprint="",
        )
        meta = dataclasses.replace(meta, fingerprint=meta.expected_fingerprint())
        (draft / META).write_text(json.dumps(signed(dataclasses.asdict(meta)), indent=2) + "\n")


def _write_split(
    dataset: Dataset, tokenizer: Tokenizer, split: str, draft: Path, dtype: str, advance: Callable[[int], None]
) -> int:
    """Writes the tokens and the index of a split; returns the number of tokens."""
    starts, n_bytes = array("q", [1]), 0  # an array, since a list of millions of numbers takes five times the memory
    little_endian = np.dtype(dtype).newbyteorder("<")  # the same file, and so fingerprint, on every machine
    with _tokens_file(draft, split).open("wb") as file:
        file.write(np.array([tokenizer.end_of_text]).astype(little_endian).tobytes())
        for texts in dataset.texts(split):
            for ids in tokenizer.encode_batch(texts):
                file.write(np.append(ids, tokenizer.end_of_text).astype(little_endian).tobytes())
                starts.append(starts[-1] + len(ids) + 1)
            size = sum(len(text.encode()) for text in texts)
            n_bytes += size
            advance(size)
    if (len(starts) - 1, n_bytes) != (dataset.n_documents[split], dataset.n_bytes[split]):
        raise preparing.damaged(dataset.root / split, f"the {split} split is not what was prepared")
    np.save(_starts_file(draft, split), np.frombuffer(starts, np.int64))
    return starts[-1]


def _tokens_file(folder: Path, split: str) -> Path:
    return folder / f"{split}.tokens"


def _starts_file(folder: Path, split: str) -> Path:
    return folder / f"{split}_starts.npy"


def _nats_file(folder: Path, split: str) -> Path:
    return folder / f"{split}_nats.npy"


def _verify(folder: Path, meta: Meta) -> None:
    for name, size in meta.sizes.items():
        path = folder / name
        if not path.is_file():
            raise preparing.damaged(path, "it is missing")
        if path.stat().st_size != size:
            raise preparing.damaged(path, f"{path.stat().st_size:,} bytes, but {size:,} were written")
    if sum(meta.sizes.values()) > VERIFY_BYTES:
        return
    for name, expected in meta.sums.items():
        if sha256(folder / name) != expected:
            raise preparing.damaged(folder / name, "its content changed")


def _is_current(folder: Path, dataset: Dataset, tokenizer: str, directory: Path) -> bool:
    if not folder.exists():
        return False
    meta = read_meta(folder)
    same_vocabulary = True  # but for files that may change under one name
    if tokenizer.startswith(("dir:", "wordpiece")):
        same_vocabulary = tokenizers.make(tokenizer, directory, ()).hash == meta.tokenizer_hash
    return same_vocabulary and (meta.source_hash, meta.builder_version) == (dataset.source_hash, BUILDER_VERSION)


def _labels(task: str, dataset: Dataset, directory: Path, *, show: bool) -> Labels:
    """The labels of a dataset, written at the first use."""
    folder, classes = dataset.root / "labels" / task, sets.of_task(task).tasks[task]

    def is_current() -> bool:
        return folder.exists() and preparing.read_json(folder / META).get("source_hash") == dataset.source_hash

    if not is_current():
        with preparing.locked(directory, dataset.root.name, show=show):
            if not is_current():
                _write_labels(task, len(classes), dataset, folder)
    sums = preparing.read_json(folder / META).get("sums")
    sums = sums if isinstance(sums, dict) else {}
    arrays = {}
    for split in SPLITS:
        path = folder / f"{split}.npy"
        if not path.is_file() or sha256(path) != sums.get(split):
            raise preparing.damaged(path, "its content changed")
        arrays[split] = np.load(path)
    return Labels(task, classes, **arrays, hash=digest([task, classes, sums]))


def _write_labels(task: str, n_classes: int, dataset: Dataset, folder: Path) -> None:
    with preparing.fresh(folder) as draft:
        sums = {}
        for split in SPLITS:
            found = np.array(list(sets.definition(dataset.name).labels(task, split, dataset)), np.int64)
            n_documents = dataset.n_documents[split]
            if len(found) != n_documents:
                raise preparing.damaged(dataset.root / split, f"{len(found)} labels for {n_documents} documents")
            outside = np.flatnonzero((found < 0) | (found >= n_classes))
            if len(outside):
                raise UserError(
                    f"document {outside[0] + 1} of the {split} split of {dataset.name} has the label "
                    f"{found[outside[0]]}, but the classes of {task} are 0 to {n_classes - 1}: correct the source, "
                    f"remove {dataset.root} and prepare it again."
                )
            np.save(draft / f"{split}.npy", found.astype(np.int8))
            sums[split] = sha256(draft / f"{split}.npy")
        meta = {"source_hash": dataset.source_hash, "sums": sums}
        (draft / META).write_text(json.dumps(meta, indent=2) + "\n")
