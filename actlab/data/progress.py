"""Progress of long work: a bar on a terminal, plain lines elsewhere, always on standard error."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

LINE_SECONDS = 10.0


def say(message: str, *, show: bool = True) -> None:
    """Prints one line to standard error where `show` is set."""
    if show:
        print(f"actlab: {message}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def track(what: str, total: int, *, show: bool = True) -> Iterator[Callable[[int], None]]:
    """Gives a function that is told by how much the work went on; `total` is in the same units."""
    if not show:
        yield lambda amount: None
    elif sys.stderr.isatty():
        with _bar(what, total) as advance:
            yield advance
    else:
        say(what)
        yield _lines(what, total)


@contextlib.contextmanager
def _bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import Progress

    # redirect_stdout would send what a command prints to standard error.
    with Progress(console=Console(stderr=True), transient=True, redirect_stdout=False) as progress:
        task = progress.add_task(what, total=total)
        yield lambda amount: progress.advance(task, amount)


def _lines(what: str, total: int) -> Callable[[int], None]:
    done, told = 0, time.monotonic()

    def advance(amount: int) -> None:
        nonlocal done, told
        done += amount
        if time.monotonic() - told >= LINE_SECONDS:
            told = time.monotonic()
            say(f"{what}: {done:,} of {total:,}")

    return advance
