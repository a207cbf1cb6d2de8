"""Preparing files: progress, hashes, locks, folders that are whole or absent, checked downloads."""

import contextlib
import dataclasses
import hashlib
import http.client
import os
import shutil
import socket
import sys
import threading
import time
import typing
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import filelock

from actlab import files
from actlab.errors import UserError, sentence

LINE_SECONDS = 10.0
INCOMPLETE = "incomplete."
CONNECT_SECONDS = 2.0
READ_SECONDS = 30.0
CHUNK = 1 << 20
SUMS = "SHA256SUMS"

Record = TypeVar("Record")


def say(message: str, *, show: bool = True) -> None:
    """Prints one line to standard error if `show` is set."""
    if show:
        print(f"actlab: {sentence(message)}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def track(what: str, total: int, *, show: bool = True) -> Iterator[Callable[[int], None]]:
    """Yields a function that reports progress, in the units of `total`: a bar on a terminal, lines elsewhere."""
    if not show:
        yield lambda amount: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import Progress

        # redirect_stdout would send what a command prints to standard error.
        with Progress(console=Console(stderr=True), transient=True, redirect_stdout=False) as progress:
            task = progress.add_task(what, total=total)
            yield lambda amount: progress.advance(task, amount)
    else:
        say(what)
        yield _lines(what, total)


def _lines(what: str, total: int) -> Callable[[int], None]:
    done, told = 0, time.monotonic()

    def advance(amount: int) -> None:
        nonlocal done, told
        done += amount
        if time.monotonic() - told >= LINE_SECONDS:
            told = time.monotonic()
            say(f"{what}: {done:,} of {total:,}")

    return advance


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a prepared file; raises UserError for a damaged one."""
    return files.read_json(path, f"remove the folder {path.parent} and run the same command again")


def record(kind: type[Record], path: Path, **more: Any) -> Record:
    """The dataclass of a record in a file.

    Raises:
        UserError: a damaged file, a field that is missing or unknown, or a record that is not as it was signed.
    """
    values = read_json(path)
    if not files.is_signed(values):
        raise damaged(path, "it was changed")
    own = {name: value for name, value in values.items() if name != files.DIGEST}
    if strange := own.keys() ^ (typing.get_type_hints(kind).keys() - more.keys()):
        raise damaged(path, f"the field {min(strange)} is missing or unknown")
    return kind(**own, **more)


def damaged(path: Path, reason: str) -> UserError:
    """The error for a prepared file that differs from what was written."""
    return UserError(f"{path} is damaged ({reason}): remove the folder {path.parent} and run the same command again.")


@contextlib.contextmanager
def writing(directory: Path) -> Iterator[None]:
    """Turns an OSError into a UserError: for a file elsewhere it names the file, else the data directory."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        place = error.filename
        if isinstance(place, str) and not Path(place).absolute().is_relative_to(directory.absolute()):
            raise UserError(f"{place} cannot be used ({reason}): repair it and run the command again.") from error
        raise UserError(
            f"data.dir={str(directory)!r} cannot be written ({reason}): make room there, or name another folder."
        ) from error


@contextlib.contextmanager
def locked(directory: Path, name: str, *, show: bool) -> Iterator[None]:
    """Holds the lock of `name` in a data directory; waits as long as another process holds it.

    Raises:
        UserError: the directory cannot be written.
    """
    with writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
        file = directory / f".{name}.lock"
        file.touch()  # where no file can be made, the lock would be waited for without end
        lock = filelock.FileLock(file)
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
    """Removes incomplete folders that killed processes left; the caller holds the lock."""
    for path in directory.glob(f"{INCOMPLETE}*"):
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def fresh(target: Path) -> Iterator[Path]:
    """A new folder that becomes `target` at the end and vanishes on an error; the caller holds the lock."""
    draft = target.with_name(INCOMPLETE + target.name)
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        yield draft
        # Contents reach the disk before the name does: after a power cut a folder is whole or absent.
        files.flush(*draft.rglob("*"), draft)
        shutil.rmtree(target, ignore_errors=True)
        draft.rename(target)
        files.flush(target.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@dataclasses.dataclass(frozen=True)
class PublicFile:
    """A file on the network, with what the user is told before it is downloaded."""

    url: str
    size: int  # bytes
    licence: str
    exact: bool = True  # whether the size is exact
    sha256: str | None = None


def download(name: str, files: Mapping[str, PublicFile], directory: Path, *, advice: str, show: bool) -> Path:
    """The folder in the data directory to which public files were downloaded, now or before.

    Raises:
        UserError: no connection (the sentence ends in `advice`), a wrong size or hash, or a file that changed since.
    """
    folder = directory / "downloads" / name
    missing = [file for target, file in files.items() if not (folder / target).exists()]
    if missing:  # checked before anything is written
        host = urllib.parse.urlsplit(missing[0].url).hostname
        if not _reachable(missing[0].url):
            raise UserError(f"{name} cannot be downloaded, {host} does not answer: {advice}")
    with locked(directory, "downloads", show=show):
        # The smallest first: what is wrong with the network or the source shows before gigabytes are fetched.
        for target, file in sorted(files.items(), key=lambda item: item[1].size):
            _fetch(file, folder / target, advice=advice, show=show)
    return folder


def _fetch(file: PublicFile, target: Path, *, advice: str, show: bool) -> None:
    recorded = _sums(target.parent)
    if target.exists() and target.name in recorded:
        if files.sha256(target) != recorded[target.name]:
            raise UserError(f"{target} changed since it was downloaded: remove it and run the same command again.")
        return
    say(f"downloading {file.url} ({file.size / 1e6:,.1f} MB, licence {file.licence}) to {target}", show=show)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".partial")
    try:
        total, size = _copy(file, partial, show=show)
    except (OSError, http.client.HTTPException) as error:
        raise UserError(
            f"the download of {file.url} broke off ({error}): run the same command again, or {advice}"
        ) from error
    if file.exact and size != file.size:
        raise UserError(f"{file.url} has {size:,} bytes, not the expected {file.size:,}: {advice}")
    if file.sha256 not in (None, total):
        raise UserError(f"{file.url} has the SHA-256 {total}, not the expected {file.sha256}: {advice}")
    # The sum first: a file in its place without a sum would be downloaded again.
    draft = target.with_name(SUMS + ".partial")
    draft.write_text("".join(f"{value}  {name}\n" for name, value in sorted({**recorded, target.name: total}.items())))
    os.replace(draft, target.with_name(SUMS))
    os.replace(partial, target)


def _copy(file: PublicFile, partial: Path, *, show: bool) -> tuple[str, int]:
    """Downloads to `partial`; returns the SHA-256 and the size."""
    total, size = hashlib.sha256(), 0
    with urllib.request.urlopen(file.url, timeout=READ_SECONDS) as response, partial.open("wb") as out:
        announced = int(response.headers.get("Content-Length") or file.size)
        with track(f"downloading {file.url.rsplit('/', 1)[-1]}", announced, show=show) as advance:
            while chunk := response.read(CHUNK):
                out.write(chunk)
                total.update(chunk)
                size += len(chunk)
                advance(len(chunk))
        if response.headers.get("Content-Length") and size != announced:
            raise OSError(f"{size:,} of {announced:,} bytes came")
        out.flush()
        os.fsync(out.fileno())
    return total.hexdigest(), size


def _sums(folder: Path) -> dict[str, str]:
    path = folder / SUMS
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    return {name: total for total, gap, name in (line.partition("  ") for line in lines) if gap}


def _reachable(url: str) -> bool:
    """Whether the first machine on the way to a URL, a proxy where one is set, answers within two seconds."""
    way = urllib.parse.urlsplit(url)
    proxy = urllib.request.getproxies().get(way.scheme)
    if proxy and not urllib.request.proxy_bypass(way.hostname or ""):
        way = urllib.parse.urlsplit(proxy if "//" in proxy else f"//{proxy}")
    address = way.hostname or "", way.port or (80 if way.scheme == "http" else 443)
    found = threading.Event()

    def connect() -> None:
        try:
            socket.create_connection(address, timeout=CONNECT_SECONDS).close()
            found.set()
        except OSError:
            pass

    # A name server that hangs cannot be timed out from inside, so a thread is left behind.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(CONNECT_SECONDS)
    return found.is_set()
