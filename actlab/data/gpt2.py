"""GPT-2's vocabulary files: checked against their public sums, kept in the data directory."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from actlab.data import download, folders
from actlab.errors import UserError

NAME = "gpt2"
VOCABULARY, MERGES = "vocab.json", "merges.txt"
MERGES_HEADER = "#version: 0.2"

_BASE = "openai-community/gpt2/resolve/main"
FILES = {
    VOCABULARY: download.PublicFile(f"{_BASE}/{VOCABULARY}", 1_042_301, "MIT", exact=True),
    MERGES: download.PublicFile(f"{_BASE}/{MERGES}", 456_318, "MIT", exact=True),
}
SHA256 = {
    VOCABULARY: "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    MERGES: "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
}


def folder(directory: Path) -> Path:
    """The folder of the prepared files, whose sums are right.

    Raises:
      UserError: the files are not prepared, or damaged.
    """
    target = directory / NAME
    if not target.is_dir():
        raise UserError(f"data.tokenizer={NAME!r} is not prepared in {directory}: {_advice(directory)}")
    for name in FILES:
        path = target / name
        if not path.is_file() or folders.sha256(path) != SHA256[name]:
            raise folders.damaged(path, "not the GPT-2 file")
    return target


def prepare(directory: Path, source: Path | None = None, *, show: bool = True) -> bool:
    """Puts the files into the data directory; whether that was done now.

    Raises:
      UserError: files that are missing or not GPT-2's, no network to fetch them, or no place to write.
    """
    if (directory / NAME).exists():
        folder(directory)
        return False
    contents = {name: _read(source / name) for name in FILES} if source else _download(directory, show=show)
    with folders.locked(directory, NAME, show=show):
        if (directory / NAME).exists():
            return False
        with folders.fresh(directory / NAME) as draft:
            for name, content in contents.items():
                (draft / name).write_bytes(content)
    return True


def _read(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(
            f"--from lacks {path} ({error.strerror}): give the folder with {' and '.join(FILES)}."
        ) from error
    # Some copies of the merges lack the header that the public file has.
    if path.name == MERGES and not content.startswith(b"#version"):
        content = f"{MERGES_HEADER}\n".encode() + content
    if hashlib.sha256(content).hexdigest() != SHA256[path.name]:
        raise UserError(f"{path} is not GPT-2's file (its SHA-256 differs): take the public one.")
    return content


def _download(directory: Path, *, show: bool) -> Mapping[str, bytes]:
    advice = _advice(directory)
    place = directory / "downloads" / NAME
    if not all((place / name).exists() for name in FILES):
        download.require_network("GPT-2's vocabulary", advice, download.HUB)
    with folders.locked(directory, "downloads", show=show):
        for name, file in FILES.items():
            download.fetch(file, place / name, advice=advice, show=show)
    return {name: _read(place / name) for name in FILES}


def _advice(directory: Path) -> str:
    return (
        f"run `python -m actlab.data prepare {NAME} --from=DIR --dir={directory}`, "
        f"where DIR holds {VOCABULARY} and {MERGES}."
    )
