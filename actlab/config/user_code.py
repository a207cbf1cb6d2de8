"""Runs a Python file of the user's: a config, a study.py, or a file that registers activations."""

import contextlib
import hashlib
import pathlib
import sys
import traceback
import types
from collections.abc import Iterator
from typing import Any

from actlab.errors import UserError
from actlab.files import at_colon, fault_of_path, read_file


def run(path: str, given: str) -> types.ModuleType:
    """The module that a file makes; errors name the file as it was `given`, such as --config=mine.py.

    Raises:
        UserError: for a file that cannot be read or that fails, with the line.
    """
    if fault := fault_of_path(path):
        raise UserError(f"{given} cannot be read, because the path {fault}: give the path of a Python file.")
    try:
        text = read_file(pathlib.Path(path), "give the path of a Python file")
    except UserError as error:
        raise UserError(f"{given}: {error}") from error
    # It may import what lies beside it, or in the current folder, however actlab was started.
    for place in (pathlib.Path(path).absolute().parent, pathlib.Path.cwd()):
        if str(place) not in sys.path:
            sys.path.append(str(place))
    # Each file has a name of its own: dataclasses look up the module of a class in sys.modules.
    module = types.ModuleType(f"actlab_user_{hashlib.sha256(path.encode()).hexdigest()[:12]}")
    module.__file__ = path
    sys.modules[module.__name__] = module
    with _failures(path, given):
        # Not importlib, which writes bytecode beside the file and may take it for current after a quick edit.
        exec(compile(text, path, "exec"), vars(module))
    return module


def get_config(source: str, given: str, *, required: bool = True) -> Any:
    """What get_config of a file returns, called with the preset after the colon if there is one.

    Raises:
        UserError: as `run`, and for a file without get_config if it is `required`.
    """
    path, colon, preset = at_colon(source)
    module = run(path, given)
    if not hasattr(module, "get_config"):
        if required:
            raise UserError(f"{given}: the file defines no get_config: add one that returns a ConfigDict.")
        return None
    with _failures(path, given):
        return module.get_config(*([preset] if colon else []))


@contextlib.contextmanager
def _failures(path: str, given: str) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        raise UserError(f"{given}: {error}") from error
    except (Exception, SystemExit) as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        told: Any = error  # an error of a file or of an import names it
        if isinstance(error, SyntaxError) and error.filename == path and error.lineno:
            lines.append(error.lineno)  # of a file that was not run
            told = error.msg
        elif isinstance(error, (KeyError, SystemExit)):  # str would quote a key
            told = error.args[0] if error.args else ""
        where = f", line {lines[-1]}," if lines else ""
        try:
            told = " ".join(str(told).split())
        except Exception:  # of an exception of the file's own, which cannot even be printed
            told = ""
        raise UserError(f"{given}: the file{where} fails with {type(error).__name__}: {told}; correct it.") from error
