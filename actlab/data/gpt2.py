"""GPT-2's vocabulary files: checked against their public hashes, kept in the data directory."""

import hashlib
import shlex
from pathlib import Path

from actlab.data import preparing
from actlab.data.preparing import PublicFile
from actlab.errors import UserError
from actlab.files import read_file, sha256

NAME = "gpt2"
VOCABULARY, MERGES = "vocab.json", "merges.txt"
MERGES_HEADER = "#version: 0.2"

_HUB = "https://huggingface.co/openai-community/gpt2/resolve/main"
FILES = {
    VOCABULARY: PublicFile(
        f"{_HUB}/{VOCABULARY}",
        1_042_301,
        "MIT",
        sha256="196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    ),
    MERGES: PublicFile(
        f"{_HUB}/{MERGES}",
        456_318,
        "MIT",
        sha256="1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
    ),
}


def folder(directory: Path) -> Path:
    """The folder of the prepared files, after a check of their hashes.

    Raises:
        UserError: the files are not prepared, or damaged.
    """
    target = directory / NAME
    if not target.is_dir():
        raise UserError(f"data.tokenizer={NAME!r} is not prepared in {directory}: {_advice(directory)}")
    for name, file in FILES.items():
        path = target / name
        if not path.is_file() or sha256(path) != file.sha256:
            raise preparing.damaged(path, "not the GPT-2 file")
    return target


def prepare(directory: Path, source: Path | None = None, *, show: bool = True) -> bool:
    """Puts the files into the data directory, from a folder or the network; returns whether that was done now.

    Raises:
        UserError: files that are missing or not GPT-2's, no network to fetch them, or no place to write.
    """
    if (directory / NAME).exists():
        folder(directory)
        return False
    if source is None:
        source = preparing.download(NAME, FILES, directory, advice=_advice(directory), show=show)
    contents = {name: _read(source / name) for name in FILES}
    with preparing.locked(directory, NAME, show=show):
        if (directory / NAME).exists():
            return False
        with preparing.fresh(directory / NAME) as draft:
            for name, content in contents.items():
                (draft / name).write_bytes(content)
    return True


def _read(path: Path) -> bytes:
    if not path.exists():
        raise UserError(f"--from lacks {path}: give the folder with {' and '.join(FILES)}.")
    content = read_file(path, f"give the folder with {' and '.join(FILES)}")
    # Some copies of the merges lack the header that the public file has.
    if path.name == MERGES and not content.startswith(b"#version"):
        content = f"{MERGES_HEADER}\n".encode() + content
    if hashlib.sha256(content).hexdigest() != FILES[path.name].sha256:
        raise UserError(f"{path} is not GPT-2's file (its SHA-256 differs): take the public one.")
    return content


def _advice(directory: Path) -> str:
    return (
        f"run `python -m actlab data prepare {NAME} --from=DIR --dir={shlex.quote(str(directory))}`, "
        f"where DIR holds {VOCABULARY} and {MERGES}."
    )
