"""The exception for errors that the user can fix."""

import difflib
from collections.abc import Iterable

_MOST = 50  # names in a list; a sweep may have a thousand runs


class UserError(ValueError):
    """A fault of the input, told in one sentence that names the field, the value and the fix.

    Commands print the sentence to standard error and exit with code 2; no traceback.
    """


def suggestion(name: str, valid: Iterable[str]) -> str:
    """The clause that offers the nearest valid name, else lists them, the first of very many."""
    valid = sorted(valid)
    near = difflib.get_close_matches(name.lower(), valid, n=3, cutoff=0.5)
    # Two letters that changed places are likelier than one too many: gleu is gelu, not glu.
    near.sort(key=lambda word: sorted(word) != sorted(name.lower()))
    if near:
        return f"did you mean {near[0]!r}?"
    more = f" and {len(valid) - _MOST:,} more" if len(valid) > _MOST else ""
    return f"valid: {', '.join(valid[:_MOST])}{more}."
