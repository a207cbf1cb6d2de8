"""SST-2: the sentiment of phrases and sentences of film reviews (Socher et al. 2013), as GLUE has it.

The labels of GLUE's own test split are not public, so its validation file is halved into validation and test.
"""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from actlab.data import preparing
from actlab.data.preparing import PublicFile
from actlab.data.sources import SPLITS, Definition, Example, Source, even_shards, halves, text_hash
from actlab.errors import UserError
from actlab.files import digest

TRAIN_FILE, DEV_FILE = FILES = "train.tsv", "dev.tsv"
COLUMNS = ("sentence", "label")
LICENCE = "unknown"
ARCHIVE = "SST-2.zip"
ZIP = PublicFile(
    f"https://dl.fbaipublicfiles.com/glue/data/{ARCHIVE}",
    7_439_277,
    LICENCE,
    sha256="d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa",
)


class SST2(Definition):
    """GLUE's files, each line a sentence and its label."""

    needs: ClassVar = f"a folder of GLUE's {' and '.join(FILES)}"
    download: ClassVar = "7 MB"
    tasks: ClassVar = {"sst2": ("negative", "positive")}

    def hash(self, given: Path | None) -> str | None:
        """See Definition."""
        return None if given is None else self._hash(_read(given))

    def open(self, directory: Path, given: Path | None, *, show: bool) -> Source:
        """See Definition."""
        folder: Path | zipfile.Path | None = given
        if folder is None:
            advice = f"give the files by --from=PATH, {self.needs}."
            downloads = preparing.download(self.name, {ARCHIVE: ZIP}, directory, advice=advice, show=show)
            folder = zipfile.Path(downloads / ARCHIVE, "SST-2/")
        found = _read(folder)
        return Source(
            hash=self._hash(found),
            licence=LICENCE,
            description="GLUE's SST-2 (Socher et al. 2013; Wang et al. 2018, arXiv:1804.07461)",
            shards={split: even_shards(len(examples)) for split, examples in found.items()},
            examples=lambda split: iter(found[split]),
            labelled=True,
        )

    def _hash(self, found: dict[str, list[Example]]) -> str:
        return digest([self.name, found])


def _read(folder: Path | zipfile.Path) -> dict[str, list[Example]]:
    """The documents of the splits; a sentence that the validation file has twice is in one of its halves only.

    Raises:
        UserError: a missing file, another header or nothing after it, a line without its two fields, text that is not
            UTF-8, a label other than 0 and 1, or a validation file of a single sentence; names the file and the line.
    """
    for name in FILES:
        if not (folder / name).is_file():
            raise UserError(f"--from={str(folder)!r} lacks {name}: put GLUE's {' and '.join(FILES)} there.")
    found: dict[str, list[Example]] = {split: [] for split in SPLITS}
    found["train"] += _examples(folder / TRAIN_FILE)
    held_out = list(_examples(folder / DEV_FILE))
    split_of = halves(map(_hash, held_out))
    if len(split_of) < 2:
        raise UserError(f"{folder / DEV_FILE} has one sentence, too few for validation and test: take GLUE's file.")
    for example in held_out:
        found[split_of[_hash(example)]].append(example)
    return found


def _hash(example: Example) -> int:
    return text_hash(str(example["text"]))


def _examples(path: Path | zipfile.Path) -> Iterator[Example]:
    try:
        lines = path.read_bytes().decode("utf-8-sig").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 at byte {error.start}: convert it.") from error
    if tuple(lines[0].strip().split("\t")) != COLUMNS:
        raise UserError(f"{path}, line 1, is not {' and '.join(COLUMNS)} with a tab between: take GLUE's file.")
    if len(lines) == 1:
        raise UserError(f"{path} has no line after its header: take GLUE's file.")
    for number, line in enumerate(lines[1:], 2):
        text, tab, label = line.rpartition("\t")
        if not tab or not text.strip():
            raise UserError(f"{path}, line {number}, is not a sentence, a tab and a label: correct it.")
        if label.strip() not in ("0", "1"):
            raise UserError(f"{path}, line {number}, has the label {label!r}: it must be 0 or 1.")
        yield {"text": text.strip(), "label": int(label)}


DEFINITION = SST2
