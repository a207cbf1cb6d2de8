"""Files that are run by their path, such as a study.py, as modules."""

import importlib.util
import pathlib
import types


def load(path: pathlib.Path) -> types.ModuleType:
    """Runs a file, anew every time."""
    name = "_".join(path.with_suffix("").parts[-2:])
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
