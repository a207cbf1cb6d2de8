"""The TFDS builder that writes and reads every dataset. Importing this module imports TFDS, which takes seconds."""

import contextlib
import errno
import functools
import io
import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from actlab.data.preparing import track
from actlab.data.sources import SPLITS, TFDS_VERSION, Definition, Source
from actlab.errors import UserError
from actlab.files import signed

READ_DOCUMENTS = 256


class TextBuilder(tfds.core.ShardBasedBuilder):
    """Writes documents in their order.

    TFDS's GeneratorBasedBuilder keeps a whole split in memory and from 1 GB on needs TensorFlow for its temporary
    files, so TinyStories cannot be built with it; this one holds a single shard.
    """

    VERSION = tfds.core.Version(TFDS_VERSION)

    def __init__(
        self, *, definition: Definition, source: Source, directory: Path, advance: Callable[[int], None]
    ) -> None:
        self.name = definition.folder  # pyright: ignore[reportAttributeAccessIssue]
        self._dataset = definition.name
        self._source = source
        self._advance = advance
        self._record = tfds.core.MetadataDict(
            name=definition.name,
            source_hash=source.hash,
            licence=source.licence,
            description=source.description,
            entropy_nats=source.entropy_nats,
            n_documents=dict.fromkeys(SPLITS, 0),
            n_bytes=dict.fromkeys(SPLITS, 0),
        )
        super().__init__(data_dir=str(directory))

    def _info(self) -> tfds.core.DatasetInfo:
        features: dict[str, Any] = {"text": tfds.features.Text()}
        if self._source.entropy_nats is not None:
            # As a plain scalar TFDS would store float64 in 32 bits.
            features["nats"] = tfds.features.Tensor(shape=(), dtype=np.float64, encoding="bytes")
        if self._source.labelled:
            features["label"] = tfds.features.Scalar(dtype=np.int64)
        return tfds.core.DatasetInfo(
            builder=self,
            description=self._source.description,
            license=self._source.licence,
            features=tfds.features.FeaturesDict(features),
            metadata=self._record,
            disable_shuffling=True,
        )

    def _download_and_prepare(self, dl_manager: Any, download_config: Any = None) -> None:
        super()._download_and_prepare(dl_manager, download_config)
        self._record.update(signed(dict(self._record)))  # TFDS writes it after this
        if not self._source.unchanged():
            raise UserError(f"the text of data.name={self._dataset!r} changed while it was read: run again.")

    def _shard_iterators_per_split(self, dl_manager: Any) -> dict[str, list[Callable[[], Iterator[Any]]]]:
        # The shards of a split share one reader: TFDS writes them one after the other, so a text is read once.
        read = {split: self._counted(split) for split in SPLITS}
        shards = self._source.shards
        return {split: [functools.partial(itertools.islice, read[split], n) for n in shards[split]] for split in SPLITS}

    def _counted(self, split: str) -> Iterator[tuple[int, dict[str, str | float]]]:
        for number, example in enumerate(self._source.examples(split)):
            self._record["n_documents"][split] += 1
            self._record["n_bytes"][split] += len(str(example["text"]).encode())
            self._advance(1)
            yield number, example


def build(definition: Definition, source: Source, directory: Path, *, show: bool) -> None:
    """Writes a dataset below `directory`; the caller holds the lock.

    Raises:
        UserError: the source changed while it was read.
    """
    total = sum(sum(counts) for counts in source.shards.values())
    tfds.disable_progress_bar()
    with track(f"preparing {definition.name}", total, show=show) as advance, contextlib.redirect_stdout(io.StringIO()):
        # TFDS prints, and requires a folder for downloads even where there are none.
        with tempfile.TemporaryDirectory() as unused:
            builder = TextBuilder(definition=definition, source=source, directory=directory, advance=advance)
            try:
                builder.download_and_prepare(file_format="array_record", download_dir=unused)
            except RuntimeError as error:  # of array_record, which has no other for a file it cannot write
                if "failed" not in str(error):
                    raise
                raise OSError(errno.EIO, str(error).partition(";")[0]) from error


def read(folder: Path, split: str) -> Iterator[list[dict[str, Any]]]:
    """Examples of a split in their order, in batches; text comes as bytes."""
    source = tfds.builder_from_directory(folder).as_data_source(split)  # pyright: ignore[reportCallIssue]
    for start in range(0, len(source), READ_DOCUMENTS):
        yield source.__getitems__(range(start, min(start + READ_DOCUMENTS, len(source))))
