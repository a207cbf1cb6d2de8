"""actlab: which activation should a Transformer use, at which learning rate, and how sure can we be?

The rooms of the Python API are imported when they are first used: `actlab.activations.get("gelu").fn(x)`. Type checkers
read their names from __init__.pyi.
"""

import importlib
from types import ModuleType

_ROOMS = ("activations", "analysis", "claims", "config", "data", "interop", "models", "sweeps", "training", "workdir")


def __getattr__(name: str) -> ModuleType:
    if name not in _ROOMS:
        raise AttributeError(f"module 'actlab' has no attribute {name!r}")
    return importlib.import_module(f"actlab.{name}")


def __dir__() -> list[str]:
    return [*globals(), *_ROOMS]
