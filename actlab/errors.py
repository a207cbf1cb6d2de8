"""The one exception that means: the user can mend this."""

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """A fault of the input, told in one sentence that names the field, the value and the fix.

    Commands print the sentence to standard error and exit with code 2; no traceback.
    """


def suggestion(name: str, valid: Iterable[str]) -> str:
    """The clause that offers the nearest valid name, else lists them all."""
    valid = sorted(valid)
    near = difflib.get_close_matches(name.lower(), valid, n=3, cutoff=0.5)
    # Two letters that changed places are likelier than one too many: gleu is gelu, not glu.
    near.sort(key=lambda word: sorted(word) != sorted(name.lower()))
    return f"did you mean {near[0]!r}?" if near else f"valid: {', '.join(valid)}."
