"""Prepared folders: made under a lock, under a temporary name, then renamed; whole or absent."""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import filelock

from actlab.data.progress import say
from actlab.errors import UserError

INCOMPLETE = "incomplete."


def sha256(path: Path) -> str:
    """SHA-256 of a file's content, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest(value: Any) -> str:
    """SHA-256 of a JSON value, in hex."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file; a damaged one is a UserError that names it."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise damaged(path, str(error)) from error
    if not isinstance(value, dict):
        raise damaged(path, "not a JSON object")
    return value


def damaged(path: Path, reason: str) -> UserError:
    """The error that a prepared file is not what was written there."""
    return UserError(f"{path} is damaged ({reason}): remove the folder {path.parent} and run the same command again.")


@contextlib.contextmanager
def writing(directory: Path) -> Iterator[None]:
    """Tells a full or unwritable disk as a UserError that names the data directory, and a file elsewhere by its own."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        place = error.filename
        if isinstance(place, str) and not Path(place).absolute().is_relative_to(directory.absolute()):
            raise UserError(f"{place} cannot be used ({reason}): mend that and run the command again.") from error
        raise UserError(
            f"data.dir={str(directory)!r} cannot be written ({reason}): make it writable or name another folder."
        ) from error


@contextlib.contextmanager
def locked(directory: Path, name: str, *, show: bool) -> Iterator[None]:
    """Holds the lock of `name` in `directory`, however long another process holds it before.

    Raises:
      UserError: the directory cannot be written.
    """
    with writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(directory / f".{name}.lock")
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            say(f"waiting for another process that prepares {name} in {directory}", show=show)
            lock.acquire()
        try:
            yield
        finally:
            lock.release()


def clean(directory: Path) -> None:
    """Removes what killed processes left half-made; the caller holds the lock."""
    for path in directory.glob(f"{INCOMPLETE}*"):
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def fresh(target: Path) -> Iterator[Path]:
    """A new folder that becomes `target` at the end, or vanishes on an error; the caller holds the lock."""
    draft = target.with_name(INCOMPLETE + target.name)
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        yield draft
        _sync(draft)
        shutil.rmtree(target, ignore_errors=True)
        draft.rename(target)
        _flush(target.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _sync(folder: Path) -> None:
    for path in [*folder.rglob("*"), folder]:
        _flush(path)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
