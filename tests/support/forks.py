"""A server that imports actlab once and forks a process per command; one that is told to is killed at its n-th event.

Events are what a kill may fall between: fsyncs, renames, appended rows (half a line may be written), saves and seals,
before and after each. Lines of standard input are {"argv": words of actlab.main, "kill": number or null, "log": path};
the answers are {"code": exit status, "events": how many there were}.
"""

import json
import os
import pathlib
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import actlab.main
from actlab.sweeps import session  # noqa: F401 - all that a session imports, but no device is asked for
from actlab.training.checkpoint import Checkpoints
from actlab.workdir.records import RowFile, _line


class Events:
    """Counts events over all threads; at the one that is chosen the process kills itself."""

    def __init__(self, chosen: int | None, told: pathlib.Path):
        self._chosen, self._told = chosen, told
        self._n, self._lock = 0, threading.Lock()

    def happen(self, instead: Callable[[], Any] = lambda: None) -> None:
        """Counts one; `instead` is what is done before the kill."""
        with self._lock:
            if self._n == self._chosen:
                instead()
                os.kill(os.getpid(), signal.SIGKILL)
            self._n += 1
            self._told.write_text(str(self._n))

    def around(self, owner: Any, name: str) -> None:
        """Makes the beginning and the end of a function events."""
        whole = getattr(owner, name)

        def watched(*words: Any, **options: Any) -> Any:
            self.happen()
            try:
                return whole(*words, **options)
            finally:
                self.happen()

        setattr(owner, name, watched)

    def within_append(self) -> None:
        """Makes it an event that half of the appended lines are in the file."""
        whole = RowFile.append

        def append(rows_file: RowFile, rows: Any) -> None:
            rows = list(rows)
            lines = b"".join(map(_line, rows))

            def half() -> None:
                rows_file._file.write(lines[: len(lines) // 2])
                rows_file._file.flush()

            self.happen(half)
            whole(rows_file, rows)
            self.happen()

        RowFile.append = append  # type: ignore[method-assign]


def child(argv: Sequence[str], chosen: int | None, log: pathlib.Path) -> int:
    """Runs a command in this process, with its output in a file."""
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    events = Events(chosen, log.with_suffix(".events"))
    for owner, name in ((os, "fsync"), (os, "replace"), (os, "rename"), (Checkpoints, "save")):
        events.around(owner, name)
    events.around(Checkpoints, "_wait_and_seal")
    events.within_append()
    return actlab.main.main(list(argv))


def serve() -> None:
    """Answers until standard input ends."""
    for line in sys.stdin:
        asked = json.loads(line)
        log = pathlib.Path(asked["log"])
        log.with_suffix(".events").write_text("0")
        pid = os.fork()
        if not pid:
            code = 70
            try:
                code = child(asked["argv"], asked["kill"], log)
            finally:
                sys.stdout.flush()
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        n_events = int(log.with_suffix(".events").read_text() or 0)
        print(json.dumps({"code": os.waitstatus_to_exitcode(status), "events": n_events}), flush=True)


if __name__ == "__main__":
    serve()
