"""A workdir: what a run leaves behind. config.json, manifest.json, metrics.jsonl, results.csv."""

import csv
import json
import os
import pathlib
import tempfile
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import filelock

from actlab import config as config_lib
from actlab.config import Config
from actlab.errors import UserError
from actlab.files import write_atomically
from actlab.training.rows import Row, RowFile

TIME_FIELDS = ("tokens_per_second", "seconds")  # the only fields of a metrics row that differ between equal runs


class Workdir:
    """The folder of a run or a sweep, held by one process at a time. Whole files are written atomically, metrics row
    by row. Of many processes that train together only the one that `writes` changes anything.
    """

    def __init__(self, path: pathlib.Path, writes: bool = True):
        self.path = path
        self._writes = writes
        self._lock = filelock.FileLock(path / ".lock")
        self._metrics = RowFile(path / "metrics.jsonl", writes)
        self._traces = RowFile(path / "traces.jsonl", writes)

    def check(self, config: Config) -> None:
        """Looks whether a run could use the folder, before work is spent on its data; writes nothing.

        Raises:
            UserError: if it cannot be written or belongs to another config.
        """
        self._refuse_other_config(config)
        place = next(place for place in (self.path, *self.path.absolute().parents) if place.exists())
        if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
            raise UserError(f"--workdir={self.path} cannot be written (for {place}): take another.")

    def open(self, config: Config) -> None:
        """Takes the folder for a run; creates it where there is none.

        Raises:
            UserError: as check, or if the folder is in use by another process.
        """
        self.check(config)
        if not self._writes:
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
        except filelock.Timeout as error:
            raise UserError(
                f"--workdir={self.path} is in use by another process: wait for it or take another."
            ) from error
        except OSError as error:
            raise UserError(f"--workdir={self.path} cannot be written ({error.strerror}): take another.") from error
        if not (self.path / "config.json").exists():
            write_atomically(self.path / "config.json", config_lib.to_json(config))

    def close(self) -> None:
        """Flushes metrics and lets other processes in."""
        try:
            self._metrics.close()
        finally:
            try:
                self._traces.close()
            finally:
                self._lock.release()

    def is_in_use(self) -> bool:
        """Whether a process holds the folder at this moment."""
        if not self.path.is_dir():
            return False
        try:
            with self._lock.acquire(timeout=0):
                return False
        except filelock.Timeout:
            return True

    def _refuse_other_config(self, config: Config) -> None:
        known = self.path / "config.json"
        if not known.is_file():
            return
        theirs = config_lib.load(known)
        path = config_lib.first_difference(config, theirs)
        if path:
            ours, other = config_lib.flat(config)[path], config_lib.flat(theirs)[path]
            raise UserError(
                f"--workdir={self.path} belongs to another config: config.{path} is {other!r} there and {ours!r} here; "
                "take another workdir, or the config that began it."
            )

    def manifest(self) -> dict[str, Any]:
        """What manifest.json holds; empty before the first session."""
        path = self.path / "manifest.json"
        return json.loads(path.read_text()) if path.is_file() else {}

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

        At step 0 none is kept: its evaluation is done again too.
        """
        self._traces.begin(step, names)
        return self._metrics.begin(step, names)

    def append_metrics(self, rows: Iterable[Row]) -> None:
        """Appends rows to metrics.jsonl; a number that is not finite becomes null, which JSON can hold."""
        self._metrics.append(rows)

    def append_traces(self, rows: Iterable[Row]) -> None:
        """Appends rows to traces.jsonl."""
        self._traces.append(rows)

    def sync(self) -> None:
        """Forces the rows to disk: before a checkpoint of their step is, lest a resume lack them."""
        self._metrics.sync()
        self._traces.sync()

    def results(self) -> list[dict[str, str]]:
        """The rows of results.csv; empty where there is none."""
        path = self.path / "results.csv"
        return list(csv.DictReader(path.read_text().splitlines())) if path.is_file() else []

    def write_results(self, rows: list[Row]) -> None:
        """Replaces results.csv; a row from before there was a column has nothing there."""
        if not self._writes:
            return
        header = dict.fromkeys(name for row in sorted(rows, key=len, reverse=True) for name in row)
        with tempfile.SpooledTemporaryFile(mode="w+", newline="") as buffer:
            writer = csv.DictWriter(buffer, header, restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
            buffer.seek(0)
            write_atomically(self.path / "results.csv", buffer.read())
