"""The exception for errors that the user can fix, and how texts of the user's appear in what is printed."""

import difflib
import heapq
import operator
import re
from collections.abc import Iterable

_FEW = 10  # names that are listed whole
_NEAR = 0.65
_LONGEST_NAME = 100  # characters that are compared with valid names; the time grows with their square
_LONGEST = 1000  # characters of a sentence
_LONGEST_VALUE = 200  # characters of a value in it
_PATH = re.compile(r"[a-z_]\w*(\.[a-z_]\w*)+")  # of a field; a name such as relu-lr0.003 is none
# Bells, colours and cursors of a terminal, and halves of surrogate pairs, which cannot be printed at all.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class UserError(ValueError):
    """A fault of the input, told in one sentence that names the field, the value and the fix.

    Commands print the sentence to standard error and exit with code 2; no traceback.
    """


class UnsharedError(UserError):
    """An error that only this one of several processes may have; it exits without waiting for the others."""


def printable(text: str) -> str:
    """A text with control characters as escapes, `\\x1b`, but for line ends and tabs: a terminal would obey them."""
    return CONTROL.sub(lambda found: found[0] if found[0] in "\n\t" else repr(found[0])[1:-1], text)


def sentence(message: object) -> str:
    """A message as one line; of one that is far too long the beginning, which has the field, and the end, the fix."""
    line = " ".join(printable(str(message)).split())
    return line if len(line) <= _LONGEST else f"{line[:700]} [...] {line[-250:]}"


def shown(value: object) -> str:
    """The repr of a value, its beginning if it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python's limit on the digits of whole numbers
        return "a number of thousands of digits"
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """The valid name that was meant, or None if none is near.

    Of a path such as optimizer.learning_rate, the last name or its initials are enough.
    """
    name = name[:_LONGEST_NAME].lower()
    near = [word for likeness, word in _nearest(name, valid) if likeness >= _NEAR]
    # Two letters that changed places are likelier than one too many: gleu is gelu, not glu.
    return min(near, key=lambda word: sorted(word) != sorted(name), default=None)


def suggestion(name: str, valid: Iterable[str]) -> str:
    """The clause that offers the nearest valid name; where none is near, all names, of many the nearest three."""
    valid = sorted(valid)
    if near := nearest(name, valid):
        return f"did you mean {near!r}?"
    if len(valid) <= _FEW:
        return f"choose one of {', '.join(word or repr(word) for word in valid)}."
    first, second, third = (repr(word) for _, word in _nearest(name[:_LONGEST_NAME].lower(), valid))
    return f"choose another; the nearest of {len(valid):,} names are {first}, {second} and {third}."


def _nearest(name: str, valid: Iterable[str]) -> list[tuple[float, str]]:
    """The three nearest names with their likeness."""
    return heapq.nlargest(3, ((_likeness(name, word), word) for word in sorted(valid)), key=operator.itemgetter(0))


def _likeness(name: str, word: str) -> float:
    # Of paths the last names are compared, so that "optimizer." alone makes nothing similar; whole paths decide ties.
    typed, last = (one.rpartition(".")[2] if _PATH.fullmatch(one) else one for one in (name, word))
    if len(typed) > 1 and typed == "".join(part[:1] for part in last.split("_")):
        return 1.0
    same = difflib.SequenceMatcher(None, name, word).ratio()
    return difflib.SequenceMatcher(None, typed, last).ratio() + same / 1000
