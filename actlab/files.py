"""Writing files so that no reader sees a part of them."""

import os
import pathlib


def write_atomically(path: pathlib.Path, content: str | bytes) -> None:
    """Writes beside, syncs, renames: a reader sees the old file or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def flush(*paths: pathlib.Path) -> None:
    """Waits until the contents of files, and the names in folders, are on the disk."""
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
