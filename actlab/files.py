"""Reading JSON of any origin, and writing files so that no reader sees a part of them."""

import contextlib
import errno
import hashlib
import json
import os
import pathlib
import stat
from typing import Any

from actlab.errors import CONTROL, UserError

LARGEST = 64 << 20  # bytes of a JSON file; of a vocabulary of 256,000 entries it is 33 MB
DIGEST = "sha256"
_DEEPEST = 64  # objects and lists in each other; the deepest of ours has 5
_NAME, _PATH = 240, 4000  # bytes of a file's name and of a path: what Linux takes, less for our names beside it


def fault_of_path(text: str) -> str:
    """Why no file can have this path, or should; empty if one can."""
    if not text.strip():
        return "is empty"
    if CONTROL.search(text):
        return "has a control character"
    if text.startswith("~"):
        return "begins with ~, which the shell left as it is"
    if len(text.encode()) > _PATH or max(len(name.encode()) for name in text.split("/")) > _NAME:
        return f"has a name of more than {_NAME} bytes, or {_PATH} in all"
    return ""


def at_colon(text: str) -> tuple[str, str, str]:
    """As `text.partition(":")`, a path and what follows it, FILE.py:PRESET. A path that exists may have colons."""
    if os.path.exists(text):
        return text, "", ""
    path, colon, rest = text.rpartition(":")
    return (path, colon, rest) if os.path.exists(path) else text.partition(":")


def read_file(path: pathlib.Path, fix: str) -> bytes:
    """The content of a file that somebody names; a device or a pipe, which may never end, is none.

    Raises:
        UserError: for a file that cannot be read or is larger than 64 MiB; it ends with `fix`.
    """
    try:
        status = path.stat()
        is_file, size = stat.S_ISREG(status.st_mode), status.st_size
        content = path.read_bytes() if is_file and size <= LARGEST else b""
    except (OSError, ValueError) as error:  # ValueError for a path with a NUL
        raise UserError(f"{path} cannot be read ({reason_of(error)}): {fix}.") from error
    if not is_file:
        raise UserError(f"{path} is not a regular file: {fix}.")
    if size > LARGEST:
        raise UserError(f"{path} has {size:,} bytes, and at most {LARGEST:,} are read: {fix}.")
    return content


def read_json(path: pathlib.Path, fix: str) -> dict[str, Any]:
    """The JSON object in a file, ours or another's.

    Raises:
        UserError: for a file that cannot be read, is larger than 64 MiB or is not a JSON object; it ends with `fix`.
    """
    return parse_json(read_file(path, fix), str(path), fix)


def parse_json(content: bytes | str, where: str, fix: str) -> dict[str, Any]:
    """The JSON object in a text that is at `where`.

    Raises:
        UserError: for anything else, with the line if it is not the first; it ends with `fix`.
    """
    try:
        value = json.loads(content.decode("utf-8-sig") if isinstance(content, bytes) else content)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        raise UserError(f"{where} is not JSON ({line}column {error.colno}: {error.msg}): {fix}.") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{where} is not JSON (byte {error.start + 1} is not UTF-8): {fix}.") from error
    except RecursionError as error:
        raise UserError(f"{where} is nested too deeply: {fix}.") from error
    except ValueError as error:  # Python's limit on the digits of whole numbers
        raise UserError(f"{where} has a number of thousands of digits: {fix}.") from error
    if not isinstance(value, dict):
        raise UserError(f"{where} is not a JSON object: {fix}.")
    if _is_deep(value):
        raise UserError(f"{where} is nested too deeply: {fix}.")
    return value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        inner = (part.values() if isinstance(part, dict) else part for part in level)
        level = [part for parts in inner for part in parts if isinstance(part, (dict, list))]
        if not level:
            return False
    return True


def reason_of(error: Exception) -> str:
    """What went wrong with a file, in a few words."""
    return str(getattr(error, "strerror", None) or error)


def signed(value: dict[str, Any]) -> dict[str, Any]:
    """An object with a digest of its other values, by which a reader sees that it is whole and unchanged."""
    return {**value, DIGEST: _digest(value)}


def is_signed(value: dict[str, Any]) -> bool:
    """Whether an object is as `signed` made it."""
    return value.get(DIGEST) == _digest(value)


def _digest(value: dict[str, Any]) -> str:
    return digest({key: part for key, part in value.items() if key != DIGEST})


def digest(value: Any) -> str:
    """SHA-256 of a JSON value, in hex."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def sha256(path: pathlib.Path) -> str:
    """SHA-256 of a file's content, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(path: pathlib.Path, content: str | bytes) -> None:
    """Writes beside, syncs, renames: a reader sees the old file or the new one, never a part.

    Raises:
        OSError: if it cannot be written, or if there is something that is not a regular file, such as /dev/full.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "there is something that is not a regular file", str(path))
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:  # of a full disk it names no file
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error


def flush(*paths: pathlib.Path) -> None:
    """Waits until the contents of files, and the names in folders, are on the disk."""
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def n_cores() -> int | None:
    """CPU cores that this process may use; None if that is not known."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def cpuinfo() -> str:
    """What Linux says of the first CPU; empty elsewhere."""
    try:
        return pathlib.Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    except OSError:
        return ""
