"""The console that every command prints to: a terminal's lines end between words, those of a file are whole."""

import math
import sys
import textwrap
from typing import Any

from rich.console import Console
from rich.text import Text

from actlab.errors import printable

_TABLE_WIDTH = 160  # where there is no terminal to ask
_INDENT = 12  # of a sentence's further lines, as wide as the names before the first


class Printable(Console):
    """A rich Console that escapes control characters: what a model or a file says must not move the cursor.

    Brackets and colons are printed as they are, not as markup: they may be of a path.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """As rich's; every text comes by here, also those in tables."""
        return super().render_str(printable(text), **options)

    def on_broken_pipe(self) -> None:
        """The exit code is that of the program; rich's would be 1, which some commands have for an answer."""
        raise


class Lines(Printable):
    """A rich Console that prints sentences: on a terminal no word is cut, not even a path longer than a line."""

    def print(self, *objects: Any, **options: Any) -> None:
        """As rich's."""
        if self.is_terminal and objects and all(isinstance(one, str) for one in objects):
            objects = ("\n".join(map(self._wrapped, " ".join(map(str, objects)).split("\n"))),)
            options = {"soft_wrap": True, **options}
        super().print(*objects, **options)

    def _wrapped(self, line: str) -> str:
        width, indent = max(self.width, 2 * _INDENT), " " * _INDENT
        return textwrap.fill(
            line,
            width,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
            replace_whitespace=False,
        )


class WarningsOnly(Console):
    """Prints only a session's warnings, each once."""

    def __init__(self, console: Console):
        super().__init__(quiet=True)
        self._console = console
        self._printed: set[str] = set()

    def print(self, *objects: Any, **options: Any) -> None:
        """As rich's."""
        said = str(objects[0]) if objects else ""
        if said.startswith("warning") and said not in self._printed:
            self._printed.add(said)
            self._console.print(*objects, **options)


def lines(stderr: bool = False, quiet: bool = False) -> Console:
    """Where sentences are printed, and the tables among them."""
    return _made(Lines, stderr, quiet=quiet, soft_wrap=not _is_terminal(stderr))


def tables() -> Console:
    """Where tables are printed."""
    return _made(Printable)


def counted(n: int, noun: str) -> str:
    """A number of things in words: 1 run, 2 runs."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _made(kind: type[Printable], stderr: bool = False, **options: Any) -> Printable:
    """As wide as the terminal; in a file or a pipe as wide as most tables."""
    return kind(stderr=stderr, width=None if _is_terminal(stderr) else _TABLE_WIDTH, **options)


def _is_terminal(stderr: bool) -> bool:
    stream = sys.stderr if stderr else sys.stdout
    return stream is not None and stream.isatty()  # None if it was closed, as by >&-


def duration(seconds: float) -> str:
    """A time in words that --budget reads, rounded up: 0.2s, 40s, 2m14s, 12m, 1.5h."""
    if seconds < 90:
        return f"{math.ceil(10 * seconds) / 10:g}s" if seconds < 10 else f"{math.ceil(seconds)}s"
    if seconds < 600:
        minutes, rest = divmod(math.ceil(seconds), 60)
        return f"{minutes}m{f'{rest}s' if rest else ''}"
    return f"{math.ceil(seconds / 60)}m" if seconds < 90 * 60 else f"{math.ceil(seconds / 360) / 10:g}h"
