"""The flag --activations: files that register activations of one's own, which are code and in no workdir."""

import hashlib
import importlib.util
import pathlib
import sys
from collections.abc import Sequence

from absl import flags

from actlab.errors import UserError


def define() -> flags.FlagHolder:
    """Defines the flag; called once by a command, before flags are parsed."""
    return flags.DEFINE_multi_string(
        "activations", [], "Python file that registers an activation of yours, its preset after a colon; repeatable."
    )


def run(files: Sequence[str]) -> None:
    """Runs each file, and its get_config where it has one, for what they register.

    Raises:
        UserError: for a file that cannot be read, or that fails.
    """
    for text in files:
        path, _, preset = text.partition(":")
        name = f"registers_activations_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None or not pathlib.Path(path).is_file():
            raise UserError(f"--activations={text} cannot be read: give the path of a Python file.")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # where dataclasses look for the module that they are in
        try:
            spec.loader.exec_module(module)
            if hasattr(module, "get_config"):
                module.get_config(*([preset] if preset else []))
        except Exception as error:
            told = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
            raise UserError(f"--activations={text} fails: {told}") from error
