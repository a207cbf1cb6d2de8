"""TensorBoard's event files of a cohort's runs: a copy of metrics.jsonl, written as it grows."""

import pathlib
import time
from collections.abc import Sequence
from typing import Any

# Not its SummaryWriter, which has a thread and a queue between processes for every run.
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto import event_pb2

from actlab.training.rows import Row
from actlab.training.scalars import scalars
from actlab.training.watcher import Past, Watcher

FLUSH_SECONDS = 10.0  # a flush waits for the disk, once for each run


class EventFiles(Watcher):
    """FOLDER/RUN/events.*, made anew from what is kept of metrics.jsonl when a session begins: each step is there once.

    Relative times are those of training, over all sessions.
    """

    def __init__(self, folder: pathlib.Path, names: Sequence[str]):
        self._folder, self._names = folder, names
        self._writers: dict[str, Any] = {}
        self._start = self._flushed = 0.0

    def on_begin(self, past: Past) -> None:
        """Replaces the files."""
        self._start = time.time() - max((row["seconds"] for row in past.kept), default=0.0)
        for name in self._names:
            place = self._folder / name
            place.mkdir(parents=True, exist_ok=True)
            for old in place.glob("events.*"):
                old.unlink()
            self._writers[name] = EventsWriter(str(place / "events"))
        self.on_rows(past.kept)

    def on_rows(self, rows: Sequence[Row]) -> None:
        """Appends an event per row."""
        for row in rows:
            self._writers[row["run"]].write_event(self._event(row))
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            for writer in self._writers.values():
                writer.flush()
            self._flushed = time.monotonic()

    def _event(self, row: Row) -> Any:
        values = [{"tag": tag, "simple_value": value} for tag, value in scalars(row).items()]
        event = event_pb2.Event  # pyright: ignore[reportAttributeAccessIssue]
        return event(wall_time=self._start + row["seconds"], step=row["step"], summary={"value": values})

    def on_end(self) -> None:
        """Closes the files."""
        for writer in self._writers.values():
            writer.close()
