"""SST-2, the sentiment of phrases and sentences of film reviews (Socher et al. 2013), as GLUE has it."""

import contextlib
import dataclasses
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from actlab.data import download, folders
from actlab.errors import UserError

NAME = "sst2"
CLASSES = ("negative", "positive")
FILES = {"train": "train.tsv", "validation": "dev.tsv"}
COLUMNS = ("sentence", "label")
LICENCE = "unknown"
DESCRIPTION = "GLUE's SST-2 (Socher et al. 2013; Wang et al. 2018, arXiv:1804.07461)"
HOST = "https://dl.fbaipublicfiles.com"  # where TFDS takes GLUE from

Documents = list[dict[str, str | float]]


def read(folder: Path) -> tuple[dict[str, Documents], str]:
    """The documents of train.tsv and dev.tsv, GLUE's own files, by split, and a hash of them.

    Raises:
      UserError: a missing file, another header or nothing after it, a line without its two fields, text that is not
        UTF-8, or a label other than 0 and 1, with file and line.
    """
    paths = {split: folder / name for split, name in FILES.items()}
    for path in paths.values():
        if not path.is_file():
            raise UserError(
                f"--from={str(folder)!r} lacks {path.name}: put GLUE's {' and '.join(FILES.values())} there."
            )
    found = {split: list(_documents(path)) for split, path in paths.items()}
    return found, folders.digest([NAME, found])


def fetch(directory: Path, *, show: bool) -> tuple[dict[str, Documents], str]:
    """The same by way of TFDS, which downloads 7 MB; its copy stays in the data directory.

    Raises:
      UserError: no network, or a download that breaks off or is not the file that TFDS knows.
    """
    import tensorflow_datasets as tfds
    from tensorflow_datasets.text import glue  # noqa: F401  TFDS does not find the builder without it

    with folders.locked(directory, "downloads", show=show), _quiet(tfds):
        builder = tfds.builder("glue/sst2", data_dir=str(_place(directory)), file_format="array_record")
        if not Path(builder.data_dir).exists():
            download.require_network("GLUE's SST-2", f"{hint(directory)}.", address=HOST)
            config = tfds.download.DownloadConfig(force_checksums_validation=True)
            splits = builder._split_generators  # type: ignore[attr-defined]
            builder._split_generators = lambda dl_manager: splits(_Unzipping(dl_manager, directory))  # type: ignore
            builder.download_and_prepare(download_dir=str(directory / "downloads"), download_config=config)
        source: Any = {split: builder.as_data_source(split) for split in FILES}  # pyright: ignore[reportCallIssue]
        found = {split: [_example(one) for one in source[split]] for split in FILES}
    return found, folders.digest([NAME, found])


def hint(directory: Path) -> str:
    """The command that prepares SST-2 from local files."""
    return (
        f"run `python -m actlab.data prepare {NAME} --from=DIR --dir={directory}`, where DIR holds GLUE's "
        f"{' and '.join(FILES.values())}"
    )


@dataclasses.dataclass(frozen=True)
class _Unzipping:
    """A download manager of TFDS for one zip file, which TFDS itself can only unpack with TensorFlow."""

    manager: Any
    directory: Path

    def download_and_extract(self, url: str) -> str:
        folder = _place(self.directory) / "unzipped"
        with _told(url, self.directory), zipfile.ZipFile(self.manager.download(url)) as archive:
            archive.extractall(folder)
        return str(folder)


@contextlib.contextmanager
def _told(url: str, directory: Path) -> Iterator[None]:
    """Tells what may befall a download as a UserError; the network's errors are OSErrors, like a full disk's."""
    import tensorflow_datasets as tfds
    from tensorflow_datasets.core.download.download_manager import NonMatchingChecksumError

    try:
        yield
    except (OSError, tfds.download.DownloadError, NonMatchingChecksumError, zipfile.BadZipFile) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"the download of {url} broke off ({reason}): run the same command again, or {hint(directory)}."
        ) from error


def _place(directory: Path) -> Path:
    """Where TFDS keeps its copy."""
    return directory / "downloads" / "tfds"


def _example(example: Any) -> dict[str, str | float]:
    return {"text": example["sentence"].decode().strip(), "label": int(example["label"])}


@contextlib.contextmanager
def _quiet(tfds: Any) -> Iterator[None]:
    tfds.disable_progress_bar()
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def _documents(path: Path) -> Iterator[dict[str, str | float]]:
    try:
        lines = path.read_bytes().decode().removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 at byte {error.start}: convert it.") from error
    if tuple(lines[0].strip().split("\t")) != COLUMNS:
        raise UserError(f"{path}, line 1, is not {' and '.join(COLUMNS)} with a tab between: take GLUE's file.")
    if len(lines) == 1:
        raise UserError(f"{path} has no line after its header: take GLUE's file.")
    for number, line in enumerate(lines[1:], 2):
        text, tab, label = line.rpartition("\t")
        if not tab or not text.strip():
            raise UserError(f"{path}, line {number}, is not a sentence, a tab and a label: mend it.")
        if label.strip() not in ("0", "1"):
            raise UserError(f"{path}, line {number}, has the label {label!r}: it must be 0 or 1.")
        yield {"text": text.strip(), "label": int(label)}
