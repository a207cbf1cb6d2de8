"""A workdir and its files: config.json, manifest.json, metrics.jsonl, traces.jsonl, test_documents.npz, results.csv.

The rows of a run survive any kill: at most the last line is cut short, readers leave it out, and a resume drops every
row after its checkpoint's step before it writes them again. So no row is ever there twice.
"""

import contextlib
import csv
import io
import json
import math
import os
import pathlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import filelock

from actlab import config as config_lib
from actlab.config import Config, sweep
from actlab.errors import UserError
from actlab.files import write_atomically

Row = dict[str, Any]
TIME_FIELDS = ("tokens_per_second", "seconds")  # the only fields of a metrics row that differ between equal runs


class Workdir:
    """The folder of a run or a sweep, locked by one process at a time.

    Whole files are written atomically, metrics and traces row by row. When several processes train together, only the
    one with `writes` changes anything.
    """

    def __init__(self, path: pathlib.Path, writes: bool = True):
        self.path = path
        self._writes = writes
        self._lock = filelock.FileLock(path / ".lock")
        self._metrics = RowFile(path / "metrics.jsonl", writes)
        self._traces = RowFile(path / "traces.jsonl", writes)

    def check(self, config: Config, extend: bool = False) -> None:
        """Checks that a run could use the folder, before any work is spent on its data; writes nothing.

        With `extend` the config may have more runs than the one that began it, of the same design.

        Raises:
            UserError: if it cannot be written or belongs to another config.
        """
        self._refuse_other_config(config, extend)
        # The folder itself may not exist yet: then the nearest one above it must be writable.
        place = next(place for place in (self.path, *self.path.absolute().parents) if place.exists())
        if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
            raise UserError(f"--workdir={self.path} cannot be written (because of {place}): choose another folder.")

    def open(self, config: Config, extend: bool = False) -> None:
        """Locks the folder for a run, and creates it if it does not exist. The config of an extension replaces its own.

        Raises:
            UserError: as check, or if the folder is in use by another process.
        """
        self.check(config, extend)
        if not self._writes:
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            # The system releases the lock when the process ends, however it ends.
            self._lock.acquire(timeout=0)
        except filelock.Timeout as error:
            raise UserError(
                f"--workdir={self.path} is in use by another process: wait for it, or choose another folder."
            ) from error
        except OSError as error:
            raise UserError(
                f"--workdir={self.path} cannot be written ({error.strerror}): choose another folder."
            ) from error
        known = self.path / "config.json"
        if not known.exists() or sweep.extends(config, config_lib.load(known)):
            write_atomically(known, config_lib.to_json(config))

    def close(self) -> None:
        """Closes the files and releases the lock, even if rows cannot be flushed because the disk is full."""
        with contextlib.ExitStack() as last:
            last.callback(self._lock.release)
            last.callback(self._traces.close)
            self._metrics.close()

    def is_in_use(self) -> bool:
        """Whether another process has locked the folder."""
        if not self.path.is_dir():
            return False
        try:
            with self._lock.acquire(timeout=0):
                return False
        except filelock.Timeout:
            return True

    def _refuse_other_config(self, config: Config, extend: bool) -> None:
        known = self.path / "config.json"
        if not known.is_file():
            return
        theirs = config_lib.load(known)
        path = config_lib.first_difference(config, theirs)
        if path == "sweep" and sweep.extends(config, theirs):
            if extend:
                return
            ours, other = len(sweep.expand(config)), len(sweep.expand(theirs))
            raise UserError(
                f"--workdir={self.path} has {other} of the {ours} runs of config.sweep: add --extend to train the "
                "others in it too, or choose another workdir."
            )
        if path:
            ours, other = config_lib.flat(config)[path], config_lib.flat(theirs)[path]
            raise UserError(
                f"--workdir={self.path} belongs to another config: config.{path} is {other!r} there and {ours!r} here; "
                "choose another workdir, or use the config that began it."
            )

    def manifest(self) -> dict[str, Any]:
        """The content of manifest.json; empty before the first session."""
        path = self.path / "manifest.json"
        try:
            return json.loads(path.read_text()) if path.is_file() else {}
        except ValueError as error:
            raise UserError(f"{path} is not JSON ({error}): restore the file, or remove it.") from error

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Replaces manifest.json."""
        if self._writes:
            write_atomically(self.path / "manifest.json", json.dumps(manifest, indent=2) + "\n")

    def metrics(self) -> list[Row]:
        """All complete rows of metrics.jsonl."""
        return self._metrics.read()

    def traces(self) -> list[Row]:
        """All complete rows of traces.jsonl; traces.py reads them."""
        return self._traces.read()

    def begin(self, step: int, names: Collection[str]) -> list[Row]:
        """Drops the runs' rows after `step`, which a resume writes again; returns the metrics that are kept.

        At step 0 all rows go, since the evaluation of step 0 is repeated as well.
        """
        self._traces.begin(step, names)
        return self._metrics.begin(step, names)

    def append_metrics(self, rows: Iterable[Row]) -> None:
        """Appends rows to metrics.jsonl."""
        self._metrics.append(rows)

    def append_traces(self, rows: Iterable[Row]) -> None:
        """Appends rows to traces.jsonl."""
        self._traces.append(rows)

    def sync(self) -> None:
        """Forces the rows to disk, before their step is checkpointed: a resume does not write them again."""
        self._metrics.sync()
        self._traces.sync()

    def write_documents(self, content: bytes) -> None:
        """Replaces test_documents.npz; documents.py makes its content."""
        if self._writes:
            write_atomically(self.path / "test_documents.npz", content)

    def results(self) -> list[dict[str, str]]:
        """The rows of results.csv; empty if the file does not exist."""
        path = self.path / "results.csv"
        return read_table(path) if path.is_file() else []

    def write_results(self, rows: list[Row]) -> None:
        """Replaces results.csv. Rows of an older version may lack columns: those cells are empty."""
        if not self._writes:
            return
        # The row with most columns sets their order.
        header = dict.fromkeys(name for row in sorted(rows, key=len, reverse=True) for name in row)
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, header, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_atomically(self.path / "results.csv", buffer.getvalue())


def read_table(path: pathlib.Path) -> list[dict[str, str]]:
    """The rows of a CSV file with a header.

    Raises:
        UserError: for a file that is not such a table, or a row with more or fewer cells than columns.
    """
    try:
        rows = list(csv.DictReader(path.read_text().splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} cannot be read as a table ({error}): give a results.csv.") from error
    for number, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise UserError(f"{path} line {number} has more or fewer cells than there are columns: restore the file.")
    return rows


def read(path: pathlib.Path, *fields: str) -> list[Row]:
    """All complete rows of a file, none if it does not exist; a last line cut short by a kill is left out.

    Raises:
        UserError: for a line that is not a JSON object with `run`, an integer `step` and these fields; it names the
            line.
    """
    lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
    whole = [line for line in lines if line.endswith(b"\n")]
    return [_row(path, number, line, ("run", "step", *fields)) for number, line in enumerate(whole, start=1)]


def is_cut_short(path: pathlib.Path) -> bool:
    """Whether the file ends within a line, as after a kill."""
    content = path.read_bytes() if path.is_file() else b""
    return bool(content) and not content.endswith(b"\n")


def _row(path: pathlib.Path, number: int, line: bytes, fields: tuple[str, ...]) -> Row:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise UserError(f"{path} line {number} is not JSON: remove the line, or restore the file.") from error
    missing = [name for name in fields if not isinstance(row, dict) or name not in row]
    if missing:
        raise UserError(f"{path} line {number} lacks the field {missing[0]!r}: name a file that actlab.main wrote.")
    if not isinstance(row["step"], int):
        raise UserError(f"{path} line {number}: step={row['step']!r} is not an integer: restore the file.")
    return row


class RowFile:
    """One JSON object per line, each with a `run` and a `step`; only the process with `writes` changes the file."""

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
            # Rewritten whole, which also removes a line that was cut short.
            write_atomically(self._path, "".join(_line(row) for row in kept))
            self._file = self._path.open("a")
        return [row for row in kept if row["run"] in names]

    def append(self, rows: Iterable[Row]) -> None:
        """Appends rows. Numbers that are not finite become null, because JSON has no NaN."""
        if self._writes:
            self._file.writelines(_line(row) for row in rows)
            # To the system, so that readers see them and a killed process loses none; sync() is for the disk.
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
    infinite = [key for key, value in row.items() if isinstance(value, float) and not math.isfinite(value)]
    return json.dumps(row | dict.fromkeys(infinite)) + "\n"
