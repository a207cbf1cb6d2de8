"""Writing a whole directory at once, over nothing but one that was written the same way."""

import contextlib
import json
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator

from actlab.errors import UserError

OURS = ("config.json", "model.safetensors", "vocab.json", "merges.txt", "vocab.txt")


@contextlib.contextmanager
def replacing(target: pathlib.Path, record: str) -> Iterator[pathlib.Path]:
    """A new folder that becomes `target` at the end, or vanishes on an error.

    Raises:
        UserError: where `target` holds anything but files of ours, with `record` in config.json, or cannot be written.
    """
    target = target.absolute()
    _require_ours(target, record)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        place = pathlib.Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            (place / "new").mkdir()
            yield place / "new"
            _sync(place / "new")
            if target.exists():
                os.rename(target, place / "old")
            os.rename(place / "new", target)
        finally:
            shutil.rmtree(place, ignore_errors=True)
    except OSError as error:
        raise UserError(
            f"{target} cannot be written ({error.strerror or error}): make room, or take another folder."
        ) from error


def _require_ours(target: pathlib.Path, record: str) -> None:
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    try:
        ours = record in json.loads((target / "config.json").read_bytes())
        strange = [path.name for path in sorted(target.iterdir()) if path.name not in OURS]
    except (OSError, ValueError, TypeError):
        ours, strange = False, []
    if not ours or strange:
        what = f"holds {strange[0]}" if strange else "is there"
        raise UserError(f"{target} {what} and was not written by this command: take another folder.")


def _sync(folder: pathlib.Path) -> None:
    for path in [*folder.iterdir(), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
