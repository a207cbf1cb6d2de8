"""actlab: which activation should a Transformer use, at which learning rate, and how sure can we be?

    answer = actlab.compare(["relu", "gelu"], budget="20m")
    run = actlab.train("configs/tinystories_gelu.py:small", seed=2)    # actlab.load(WORKDIR) reads it again

These and the packages are imported when they are first used: `actlab.activations.get("gelu").fn(x)`. Type checkers read
their names from __init__.pyi.
"""

import importlib as _importlib
from typing import Any as _Any

_CALLS = ("compare", "load", "train")
_PACKAGES = tuple("activations analysis claims config data interop models sweeps training workdir".split())
__all__ = [*_CALLS, *_PACKAGES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> _Any:
    if name in _CALLS:
        return getattr(_importlib.import_module("actlab.api"), name)
    if name == "__version__":
        metadata = _importlib.import_module("importlib.metadata")
        try:
            return metadata.version("actlab")
        except metadata.PackageNotFoundError as error:
            raise AttributeError("actlab is not installed, and has no version") from error
    if name not in _PACKAGES:
        raise AttributeError(f"module 'actlab' has no attribute {name!r}")
    return _importlib.import_module(f"actlab.{name}")


def __dir__() -> list[str]:
    return [*__all__]
