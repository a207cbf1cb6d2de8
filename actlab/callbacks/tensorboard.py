"""TensorBoard: event files of a program's runs, a copy of metrics.jsonl that is written as it grows."""

import pathlib
import time
from collections.abc import Sequence
from typing import Any

# SummaryWriter would start a thread and a multiprocessing queue for every run.
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto import event_pb2

from actlab.callbacks import Callback, ResumeContext, scalars
from actlab.workdir.records import Row

FLUSH_SECONDS = 10.0  # a flush waits for the disk, for each run


class EventFiles(Callback):
    """FOLDER/RUN/events.*, rewritten from the kept rows of metrics.jsonl when a session begins: no step appears twice.

    Times are relative to the start of training, over all sessions.
    """

    def __init__(self, folder: pathlib.Path, names: Sequence[str]):
        self._folder, self._names = folder, names
        self._writers: dict[str, Any] = {}
        self._start = self._flushed = 0.0

    def on_begin(self, resumed: ResumeContext) -> None:
        """Replaces the files by new ones with the kept rows."""
        self._start = time.time() - max((row["seconds"] for row in resumed.kept), default=0.0)
        for name in self._names:
            place = self._folder / name.replace("/", "_")  # a name may hold the path of a checkpoint
            place.mkdir(parents=True, exist_ok=True)
            for old in place.glob("events.*"):
                old.unlink()
            self._writers[name] = EventsWriter(str(place / "events"))
        self.on_rows(resumed.kept)

    def on_rows(self, rows: Sequence[Row]) -> None:
        """Appends one event per row."""
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
