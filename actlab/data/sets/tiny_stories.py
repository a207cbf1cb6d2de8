"""TinyStories: short stories for children, written by GPT-4 (Eldan and Li 2023, arXiv:2305.07759)."""

from pathlib import Path
from typing import ClassVar

from actlab.data import preparing
from actlab.data.preparing import PublicFile
from actlab.data.sources import SEPARATOR, TRAIN_FILE, VALIDATION_FILE, Definition, Source, find_texts, text_source

REVISION = "f54c09fd23315a6f9c86f9dc80f725de7d8f9c64"
LICENCE = "CDLA-Sharing-1.0"
_HUB = f"https://huggingface.co/datasets/roneneldan/TinyStories/resolve/{REVISION}/TinyStoriesV2-GPT4"
FILES = {
    TRAIN_FILE: PublicFile(f"{_HUB}-train.txt", 2_230_000_000, LICENCE, exact=False),
    VALIDATION_FILE: PublicFile(f"{_HUB}-valid.txt", 22_502_601, LICENCE),
}


class TinyStories(Definition):
    """The second version, of GPT-4 alone."""

    needs: ClassVar = (
        f"a folder of {TRAIN_FILE} and {VALIDATION_FILE} with {SEPARATOR} alone on a line behind a document"
    )
    download: ClassVar = "2.3 GB"

    def hash(self, given: Path | None) -> str | None:
        """See Definition."""
        return None if given is None else find_texts(given, paired=True).hash

    def open(self, directory: Path, given: Path | None, *, show: bool) -> Source:
        """See Definition."""
        advice = f"give the files by --from=PATH, {self.needs}."
        folder = given or preparing.download(self.name, FILES, directory, advice=advice, show=show)
        description = "TinyStories (Eldan and Li 2023, arXiv:2305.07759)"
        texts = find_texts(folder, paired=True)
        return text_source(self, texts, licence=LICENCE, description=description, show=show)


DEFINITION = TinyStories
