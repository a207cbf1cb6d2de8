"""A file of rows, one JSON object a line, that is never wrong by more than what a kill cut short."""

import json
import math
import os
import pathlib
from collections.abc import Collection, Iterable
from typing import Any

from actlab.errors import UserError
from actlab.files import write_atomically

Row = dict[str, Any]


def read(path: pathlib.Path, *fields: str) -> list[Row]:
    """All complete rows of a file, none where there is no file; a last line cut short by a kill is left out.

    Raises:
        UserError: for a line that is no JSON object with `run`, `step` (a whole number) and these fields; it names the
            line.
    """
    lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
    whole = [line for line in lines if line.endswith(b"\n")]
    return [_row(path, number, line, ("run", "step", *fields)) for number, line in enumerate(whole, start=1)]


def is_cut_short(path: pathlib.Path) -> bool:
    """Whether the file's last line lacks its end, as a kill leaves it."""
    content = path.read_bytes() if path.is_file() else b""
    return bool(content) and not content.endswith(b"\n")


def _row(path: pathlib.Path, number: int, line: bytes, fields: tuple[str, ...]) -> Row:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise UserError(
            f"{path} line {number} is not JSON: remove the line, or restore the file from where it was written."
        ) from error
    missing = [name for name in fields if not isinstance(row, dict) or name not in row]
    if missing:
        raise UserError(
            f"{path} line {number} has no {missing[0]!r}, so it is no row of a run: give a file that actlab.main wrote."
        )
    if not isinstance(row["step"], int):
        raise UserError(f"{path} line {number}: step={row['step']!r} is no whole number: restore the file.")
    return row


class RowFile:
    """Rows of runs, each with a `run` and a `step`; of many processes only the one that `writes` changes the file."""

    def __init__(self, path: pathlib.Path, writes: bool):
        self._path, self._writes = path, writes
        self._file: Any = None

    def read(self) -> list[Row]:
        """All complete rows; a last line cut short by a kill is left out."""
        return read(self._path)

    def begin(self, step: int, names: Collection[str]) -> list[Row]:
        """Drops the runs' rows after `step`, at step 0 all of them, and opens the file; returns those kept."""
        kept = [row for row in self.read() if row["run"] not in names or (step and row["step"] <= step)]
        self.close()
        if self._writes:
            write_atomically(self._path, "".join(_line(row) for row in kept))
            self._file = self._path.open("a")
        return [row for row in kept if row["run"] in names]

    def append(self, rows: Iterable[Row]) -> None:
        """Appends rows; a number that is not finite becomes null, which JSON can hold."""
        if self._writes:
            self._file.writelines(_line(row) for row in rows)
            self._file.flush()

    def sync(self) -> None:
        """Forces the rows to disk."""
        if self._writes:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Flushes the rows."""
        if self._file:
            self._file.close()


def _line(row: Row) -> str:
    finite = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()
    }
    return json.dumps(finite) + "\n"
