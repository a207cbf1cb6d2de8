"""The exception for errors that the user can fix."""

import difflib
import heapq
from collections.abc import Iterable

_FEW = 8  # names that are listed whole
_NEAR = 0.65


class UserError(ValueError):
    """A fault of the input, told in one sentence that names the field, the value and the fix.

    Commands print the sentence to standard error and exit with code 2; no traceback.
    """


def suggestion(name: str, valid: Iterable[str]) -> str:
    """The clause that offers the nearest valid name; where none is near, all of a few names, of many the nearest three.

    Of a path such as optimizer.learning_rate, the last name or its initials are enough.
    """
    name, valid = name.lower(), sorted(valid)
    likeness = {word: _likeness(name, word) for word in valid}
    nearest = heapq.nlargest(3, valid, key=likeness.__getitem__)
    near = [word for word in nearest if likeness[word] >= _NEAR]
    # Two letters that changed places are likelier than one too many: gleu is gelu, not glu.
    near.sort(key=lambda word: sorted(word) != sorted(name))
    if near:
        return f"did you mean {near[0]!r}?"
    if len(valid) <= _FEW:
        return f"valid: {', '.join(valid)}."
    first, second, third = map(repr, nearest)
    return f"the nearest of {len(valid):,} names are {first}, {second} and {third}."


def _likeness(name: str, word: str) -> float:
    last = word.rpartition(".")[2]
    typed = name.rpartition(".")[2]
    if len(typed) > 1 and typed == "".join(part[:1] for part in last.split("_")):
        return 1.0
    return max(difflib.SequenceMatcher(None, name, one).ratio() for one in (word, last))
