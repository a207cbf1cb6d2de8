"""A workdir and its files: config.json, manifest.json, metrics.jsonl, traces.jsonl, test_documents.npz, results.csv.

The rows of a run survive any kill: at most the last line is cut short, readers leave it out, and a resume drops every
row after its checkpoint's step before it writes them again. So no row is ever there twice. Checkpoints and the manifest
hold counts and SHA-256 of the rows, so that lost and changed ones are noticed; see integrity.py.
"""

import collections
import contextlib
import csv
import errno
import hashlib
import io
import itertools
import json
import math
import os
import pathlib
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import filelock

from actlab import config as config_lib, files
from actlab.config import Config, sweep
from actlab.errors import UserError, shown
from actlab.files import is_signed, parse_json, read_json, reason_of, signed, write_atomically

Row = dict[str, Any]
Sealed = dict[str, list[Any]]  # by file: the number of rows, and the SHA-256 of their lines
METRICS, TRACES, RESULTS, MANIFEST = "metrics.jsonl", "traces.jsonl", "results.csv", "manifest.json"
# Of `actlab compare`: its record, and the workdir of the runs that it judges by.
COMPARISON, JUDGED = "comparison.json", "judgement"
SET_ASIDE = "set_aside"
# What a training writes beside config.json and manifest.json, which say that a folder is its own.
_MADE = (METRICS, TRACES, RESULTS, "test_documents.npz", "tokenizer", "checkpoints")
_LARGEST = 2**63  # larger whole numbers are no counts, and too large for arrays


class Workdir:
    """The folder of a run or a sweep, locked by one process at a time.

    Whole files are written atomically, metrics and traces row by row. When several processes train together, only the
    one with `writes` changes anything.
    """

    def __init__(self, path: pathlib.Path, writes: bool = True):
        self.path = path
        self._writes = writes
        self._lock = filelock.FileLock(path / ".lock")
        self._metrics = RowFile(path / METRICS, "split", writes)
        self._traces = RowFile(path / TRACES, "kind", writes)

    def check(self, config: Config, extend: bool = False) -> None:
        """Checks that a run could use the folder, before any work is spent on its data; writes nothing.

        With `extend` the config may have more runs than the one that began it, of the same design.

        Raises:
            UserError: if it cannot be written or read, belongs to another config or to a comparison, or has files of
                these names that are not of a training.
        """
        if "[" in str(self.path.absolute()):  # orbax takes a path for a pattern
            raise UserError(
                f"--workdir={self.path.absolute()} has a [, so that no checkpoint could be read: choose another folder."
            )
        if (self.path / COMPARISON).is_file():
            raise UserError(f"--workdir={self.path} belongs to a comparison: choose another workdir.")
        self._refuse_other_config(config, extend)
        if not any((self.path / name).exists() for name in ("config.json", MANIFEST)):
            # A training would write over them.
            if foreign := next((name for name in _MADE if (self.path / name).exists()), None):
                raise UserError(
                    f"--workdir={self.path} has {foreign}, which no training wrote, since config.json and {MANIFEST} "
                    "are missing: choose another folder."
                )
        # The folder itself may not exist yet: then the nearest one above it must be writable.
        place = next(place for place in (self.path, *self.path.absolute().parents) if place.exists())
        if not place.is_dir():
            raise UserError(f"--workdir={self.path} cannot be written, since {place} is a file: choose another folder.")
        if not os.access(place, os.W_OK | os.X_OK):
            raise UserError(
                f"--workdir={self.path} cannot be written, since {place} may not be changed: choose another folder."
            )

    def open(self, config: Config, extend: bool = False) -> None:
        """Locks the folder for a run, and creates it if it does not exist. The config of an extension replaces its own.

        Raises:
            UserError: as check, or if the folder is in use by another process.
        """
        self.check(config, extend)
        if not self._writes:
            return
        self.lock()
        known = self.path / "config.json"
        if not known.exists() or sweep.extends(config, config_lib.load(known)):
            # In this order, so that after a kill between the two the same command goes on.
            if manifest := self.manifest():
                self.write_manifest({**manifest, "config": config_lib.fingerprint(config)})
            write_atomically(known, config_lib.to_json(config))

    def lock(self) -> None:
        """Creates the folder and locks it until `close`; raises UserError if another process has locked it."""
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

    def close(self) -> None:
        """Closes the files and releases the lock, even if rows cannot be flushed because the disk is full."""
        with contextlib.ExitStack() as last:
            last.callback(self._lock.release)
            last.callback(self._traces.close)
            self._metrics.close()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """A context in which a file that cannot be written is a UserError."""
        try:
            yield
        except OSError as error:
            if error.errno == errno.EPIPE or not _can_print():
                raise  # of standard output: see actlab.__main__.program
            raise UserError(
                f"{error.filename or self.path} cannot be written ({reason_of(error)}): make room, or remove what is "
                "in the way, then run the same command, which resumes."
            ) from error

    def is_in_use(self) -> bool:
        """Whether another process has locked the folder."""
        if not self.path.is_dir():
            return False
        try:
            with self._lock.acquire(timeout=0):
                return False
        except filelock.Timeout:
            return True
        except OSError:  # a folder that one may only read
            return False

    def _refuse_other_config(self, config: Config, extend: bool) -> None:
        known = self.path / "config.json"
        if not known.exists():
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
        if path == "sweep" and {run.name for run in sweep.expand(config)} == {run.name for run in sweep.expand(theirs)}:
            raise UserError(
                f"--workdir={self.path} has the runs of config.sweep in another order: write its axes and values in "
                f"the order that {known} has."
            )
        if path:
            ours, other = (repr(config_lib.flat(one)[path]) for one in (config, theirs))
            if path == "sweep":
                axes, others = dict(config.sweep), dict(theirs.sweep)
                axis = next(axis for axis in [*others, *axes] if others.get(axis) != axes.get(axis))
                ours, other = (str(one.get(axis, "not swept")) for one in (axes, others))
                path = f"sweep.{axis}"
            # The schedule depends on the number of steps.
            longer = (
                " and, to train on from its weights, set finetune.from_checkpoint" if path == "train.n_steps" else ""
            )
            raise UserError(
                f"--workdir={self.path} belongs to another config: config.{path} is {other} there and {ours} here; "
                f"use the config that began it, or choose another workdir{longer}."
            )

    def manifest(self) -> dict[str, Any]:
        """The content of manifest.json; empty before the first session.

        Raises:
            UserError: for a file that is not as it was written.
        """
        path = self.path / MANIFEST
        if not path.exists():
            return {}
        fix = (
            "restore the file; if that is not possible remove it, and the next session makes it anew and keeps what is "
            "trained, unless --extend added runs"
        )
        manifest = read_json(path, fix)
        if not is_signed(manifest):
            raise UserError(f"{path} was changed, or is not a manifest: {fix}.")
        return manifest

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Replaces manifest.json."""
        if self._writes:
            write_atomically(self.path / MANIFEST, json.dumps(signed(dict(manifest)), indent=2) + "\n")

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

    def sealed(self) -> Sealed:
        """What the rows of the runs are that `begin` named last."""
        return {METRICS: self._metrics.sealed(), TRACES: self._traces.sealed()}

    def digests(
        self, parts: Mapping[str, tuple[Collection[str], int]], known: Collection[str]
    ) -> tuple[dict[str, Sealed], list[str]]:
        """By part, what its rows are up to a step; and the files with lines that are not rows of `known` runs.

        `parts` has the names of a part's runs and the step.
        """
        found = {file.name: file.digests(parts, known) for file in (self._metrics, self._traces)}
        sealed = {part: {name: by_part[part] for name, (by_part, _) in found.items()} for part in parts}
        return sealed, [name for name, (_, has_strange) in found.items() if has_strange]

    def keep_only(self, names: Collection[str]) -> None:
        """Drops lines that are not rows of these runs."""
        for file in (self._metrics, self._traces):
            file.keep_only(names)

    def set_aside(self, *names: str) -> None:
        """Copies files that are about to be mended into set_aside/, beside what an earlier session put there."""
        folder = self.path / SET_ASIDE
        for name in names if self._writes else ():
            if (self.path / name).is_file():
                folder.mkdir(exist_ok=True)
                number = itertools.count(2)
                copy = folder / name
                while copy.exists():
                    copy = folder / f"{next(number)}-{name}"
                shutil.copyfile(self.path / name, copy)

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

    def results(self) -> list[dict[str, str]]:
        """The rows of results.csv; empty if the file does not exist."""
        path = self.path / RESULTS
        return read_table(path) if path.exists() else []

    def write_made(self, made: Mapping[str, bytes]) -> None:
        """Replaces files that are made from rows, after manifest.json has their SHA-256; they are written in order."""
        if not self._writes:
            return
        manifest = self.manifest()
        if manifest:
            # With that of the file before: a kill between the two writes leaves one of both.
            for name, content in made.items():
                now = sha256_if_file(self.path / name)
                known = [one for one in manifest.get("files", {}).get(name, ()) if one == now]
                new = hashlib.sha256(content).hexdigest()
                manifest.setdefault("files", {})[name] = list(dict.fromkeys([*known, new]))
            self.write_manifest(manifest)
        for name, content in made.items():
            write_atomically(self.path / name, content)


def by_run(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows of each run, in their order."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["run"], []).append(row)
    return groups


def sha256_if_file(path: pathlib.Path) -> str | None:
    """SHA-256 of a file, in hex; None if there is no regular file."""
    return files.sha256(path) if path.is_file() else None


def table(rows: Sequence[Row]) -> bytes:
    """Rows as CSV. Those of an older version may lack columns: their cells are empty."""
    # The row with most columns sets their order.
    header = dict.fromkeys(name for row in sorted(rows, key=len, reverse=True) for name in row)
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, header, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue().encode()


def read_table(path: pathlib.Path) -> list[dict[str, str]]:
    """The rows of a CSV file with a header.

    Raises:
        UserError: for a file that is not such a table, or a row with more or fewer cells than columns.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            rows, names = list(reader), reader.fieldnames or []
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} cannot be read as a table ({error}): give a results.csv.") from error
    columns = collections.Counter(names)
    if twice := [name for name, count in columns.items() if count > 1]:
        raise UserError(f"{path} has {columns[twice[0]]} columns {twice[0]!r}: keep the right one.")
    for number, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise UserError(f"{path} line {number} has more or fewer cells than there are columns: restore the file.")
    return rows


def _whole_lines(path: pathlib.Path) -> list[bytes]:
    lines = path.read_bytes().split(b"\n") if path.is_file() else []
    return [line + b"\n" for line in lines[:-1]]


def is_cut_short(path: pathlib.Path) -> bool:
    """Whether the file ends within a line, as after a kill."""
    content = path.read_bytes() if path.is_file() else b""
    return bool(content) and not content.endswith(b"\n")


def _can_print() -> bool:
    """Whether standard output can be written; what it could not take it still holds."""
    try:
        if sys.stdout:  # None if it was closed, as by >&-
            sys.stdout.flush()
    except OSError:
        return False
    return True


def _row(path: pathlib.Path, number: int, line: bytes, field: str) -> Row:
    row = parse_json(line, f"{path} line {number}", "remove the line, or restore the file")
    missing = [name for name in ("run", "step", field) if name not in row]
    if missing:
        raise UserError(f"{path} line {number} lacks the field {missing[0]!r}: name a file that a training wrote.")
    if type(row["step"]) is not int or not 0 <= row["step"] < _LARGEST:
        raise UserError(f"{path} line {number}: step={shown(row['step'])} is not a number of steps: restore the file.")
    for name in ("run", field):
        if not isinstance(row[name], str):
            raise UserError(f"{path} line {number}: {name}={row[name]!r} is not a string: restore the file.")
    if "split" in row:
        for name, value in row.items():
            is_number = type(value) in (float, type(None)) or type(value) is int and abs(value) < _LARGEST
            if name not in ("run", "split", "status") and not is_number:
                raise UserError(f"{path} line {number}: {name}={shown(value)} is not a number: restore the file.")
    return row


class RowFile:
    """One JSON object per line, each with a `run`, a `step` and a `field` of text; only the process with `writes`
    changes the file.
    """

    def __init__(self, path: pathlib.Path, field: str, writes: bool):
        self._path, self._field, self._writes = path, field, writes
        self.name = path.name
        self._file: Any = None
        self._n_rows, self._digest = 0, hashlib.sha256()

    def read(self) -> list[Row]:
        """All complete rows, none if the file does not exist; a last line cut short by a kill is left out.

        Raises:
            UserError: for a line that is not a JSON object with `run`, an integer `step` and the field; it names the
                line.
        """
        lines = enumerate(_whole_lines(self._path), start=1)
        return [_row(self._path, number, line, self._field) for number, line in lines]

    def _rows(self) -> Iterator[tuple[Row | None, bytes]]:
        """The rows with their lines, None for a line that is no row."""
        for line in _whole_lines(self._path):
            try:
                yield _row(self._path, 0, line, self._field), line
            except UserError:
                yield None, line

    def begin(self, step: int, names: Collection[str]) -> list[Row]:
        """Drops the runs' rows after `step`, at step 0 all of them, and opens the file; returns those kept."""
        kept = [
            (row, line)
            for row, line in self._rows()
            if row and (row["run"] not in names or (step and row["step"] <= step))
        ]
        self.close()
        if self._writes:
            # Rewritten whole, which also removes a line that was cut short.
            write_atomically(self._path, b"".join(line for _, line in kept))
            self._file = self._path.open("ab")
        own = [(row, line) for row, line in kept if row["run"] in names]
        self._n_rows, self._digest = len(own), hashlib.sha256(b"".join(line for _, line in own))
        return [row for row, _ in own]

    def append(self, rows: Iterable[Row]) -> None:
        """Appends rows. Numbers that are not finite become null, because JSON has no NaN.

        Raises:
            UserError: if the file was removed meanwhile: what is written to it is lost.
        """
        if self._writes:
            # Somebody may have begun a new file of that name.
            if not self._path.exists() or os.fstat(self._file.fileno()).st_nlink == 0:
                raise UserError(
                    f"{self._path} was removed while this training wrote it, which ends here: what it had trained is "
                    "lost; run its command again with an empty --workdir."
                )
            lines = [_line(row) for row in rows]
            self._n_rows += len(lines)
            self._digest.update(b"".join(lines))
            self._file.write(b"".join(lines))
            # To the system, so that readers see them and a killed process loses none; sync() is for the disk.
            self._file.flush()

    def sealed(self) -> list[Any]:
        """[number, SHA-256] of the rows of the runs that `begin` named."""
        return [self._n_rows, self._digest.hexdigest()]

    def digests(
        self, parts: Mapping[str, tuple[Collection[str], int]], known: Collection[str]
    ) -> tuple[dict[str, list[Any]], bool]:
        """By part, [number, SHA-256] of its runs' rows up to its step; and whether there are lines of no known run."""
        part_of = {name: part for part, (names, _) in parts.items() for name in names}
        counts, hashes = dict.fromkeys(parts, 0), {part: hashlib.sha256() for part in parts}
        is_strange = False
        for row, line in self._rows():
            is_strange = is_strange or row is None or row["run"] not in known
            part = part_of.get(row["run"]) if row else None
            if row and part is not None and row["step"] <= parts[part][1]:
                counts[part] += 1
                hashes[part].update(line)
        return {part: [counts[part], hashes[part].hexdigest()] for part in parts}, is_strange

    def keep_only(self, names: Collection[str]) -> None:
        """Drops lines that are not rows of these runs."""
        found = list(self._rows())
        kept = [line for row, line in found if row and row["run"] in names]
        if self._writes and len(kept) < len(found):
            write_atomically(self._path, b"".join(kept))

    def sync(self) -> None:
        """Forces the rows to disk."""
        if self._writes:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Flushes the rows."""
        if self._file:
            self._file.close()


def _line(row: Row) -> bytes:
    infinite = [key for key, value in row.items() if isinstance(value, float) and not math.isfinite(value)]
    return (json.dumps(row | dict.fromkeys(infinite)) + "\n").encode()
