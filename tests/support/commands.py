"""Commands called in this process."""

import contextlib
import io
from collections.abc import Callable, Sequence

from actlab.errors import UserError


def call(main: Callable[[Sequence[str]], int], *words: object) -> tuple[int, str, str]:
    """The exit code of a command, and what it writes to standard output and standard error."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as error:
        code = main([str(word) for word in words])
    return code, out.getvalue(), error.getvalue()


def run(main: Callable[[Sequence[str]], int], *words: object) -> str:
    """What a command prints that ends with exit code 0.

    Raises:
        UserError: with the sentence that it prints for exit code 2.
    """
    code, out, error = call(main, *words)
    if code == 2:
        assert error.startswith("actlab: ") and error.count("\n") == 1, error
        raise UserError(error)
    assert code == 0, error
    return out
