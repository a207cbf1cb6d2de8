"""The datasets that actlab knows by name. Each module here defines one: DEFINITION makes the dataset of its name."""

import importlib
import pkgutil

from actlab.data.sources import FIELD, N_STORIES, Definition


def definition(name: str, n_stories: int = N_STORIES, field: str = FIELD) -> Definition:
    """The definition of a dataset: of the module of that name, or else of text files."""
    if name in (module.name for module in pkgutil.iter_modules(__path__)):
        return importlib.import_module(f"{__name__}.{name}").DEFINITION(name, n_stories, field)
    return Definition(name, n_stories, field)


def known() -> list[Definition]:
    """Every definition of this package."""
    return [definition(module.name) for module in pkgutil.iter_modules(__path__)]


def of_task(task: str) -> Definition:
    """The definition of the dataset that has the labels of a task."""
    return next(one for one in known() if task in one.tasks)
