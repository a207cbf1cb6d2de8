"""Public files fetched over the network: announced, checked, with their sums kept beside them."""

import dataclasses
import hashlib
import os
import socket
import threading
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from actlab.data.folders import sha256
from actlab.data.progress import say, track
from actlab.errors import UserError

HUB = "https://huggingface.co"
CONNECT_SECONDS = 2.0
READ_SECONDS = 30.0
CHUNK = 1 << 20
SUMS = "SHA256SUMS"


@dataclasses.dataclass(frozen=True)
class PublicFile:
    """One file of the hub, with what the user is told before it is fetched."""

    address: str  # path below HUB
    size: int  # bytes; rough where not exact
    licence: str
    exact: bool = False

    @property
    def url(self) -> str:
        """Where the file lies."""
        return f"{HUB}/{self.address}"


def require_network(what: str, advice: str, address: str) -> None:
    """Tries an address for two seconds.

    Raises:
      UserError: no connection; the sentence ends in `advice`.
    """
    if not _reachable(address):
        raise UserError(f"{what} cannot be downloaded, {_host(address)} does not answer: {advice}")


def fetch(file: PublicFile, target: Path, *, advice: str, show: bool) -> None:
    """Brings a file to `target`, or checks the one that an earlier call brought there.

    Raises:
      UserError: no connection, a wrong size, or a file that changed since it was downloaded.
    """
    if target.exists() and target.name in _sums(target.parent):
        return _verify(target)
    require_network(target.name, advice, HUB)
    say(f"downloading {file.url} ({file.size / 1e6:,.1f} MB, licence {file.licence}) to {target}", show=show)
    partial = target.with_name(target.name + ".partial")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        total, size = _copy(file, partial, show=show)
    except (OSError, urllib.error.URLError) as error:
        raise UserError(
            f"the download of {file.url} broke off ({error}): run the same command again, or {advice}"
        ) from (error)
    if file.exact and size != file.size:
        raise UserError(f"{file.url} has {size:,} bytes where {file.size:,} are expected: {advice}")
    _record(target, total)
    os.replace(partial, target)


def _copy(file: PublicFile, partial: Path, *, show: bool) -> tuple[str, int]:
    total, size = hashlib.sha256(), 0
    with urllib.request.urlopen(file.url, timeout=READ_SECONDS) as response, partial.open("wb") as out:
        announced = int(response.headers.get("Content-Length") or file.size)
        with track(f"downloading {file.address.rsplit('/', 1)[-1]}", announced, show=show) as advance:
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
    lines = path.read_text().splitlines() if path.exists() else []
    return {name: total for total, name in (line.split("  ", 1) for line in lines)}


def _record(target: Path, total: str) -> None:
    sums = _sums(target.parent) | {target.name: total}
    draft = target.with_name(SUMS + ".partial")
    draft.write_text("".join(f"{value}  {name}\n" for name, value in sorted(sums.items())))
    os.replace(draft, target.with_name(SUMS))


def _verify(target: Path) -> None:
    if sha256(target) != _sums(target.parent)[target.name]:
        raise UserError(f"{target} changed since it was downloaded: remove it and run the same command again.")


def _host(address: str) -> str:
    return urllib.parse.urlsplit(address).hostname or address


def _door(address: str) -> tuple[str, int]:
    """Host and port of the first machine on the way to an address: a proxy where one is set."""
    way = urllib.parse.urlsplit(address)
    proxy = urllib.request.getproxies().get(way.scheme)
    if proxy and not urllib.request.proxy_bypass(_host(address)):
        way = urllib.parse.urlsplit(proxy if "//" in proxy else f"//{proxy}")
    return way.hostname or "", way.port or (80 if way.scheme == "http" else 443)


def _reachable(address: str) -> bool:
    found = threading.Event()

    def connect() -> None:
        try:
            socket.create_connection(_door(address), timeout=CONNECT_SECONDS).close()
            found.set()
        except OSError:
            pass

    # A name server that hangs cannot be timed out from inside, so a thread is left behind.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(CONNECT_SECONDS)
    return found.is_set()
