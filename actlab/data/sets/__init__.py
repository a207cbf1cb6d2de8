"""The datasets that actlab knows by name. Each module here defines one: DEFINITION makes the dataset of its name."""

import importlib
import pkgutil

from actlab.data.sources import FIELD, N_STORIES, Definition
from actlab.errors import UserError


def definition(name: str, n_stories: int = N_STORIES, field: str = FIELD) -> Definition:
    """The definition of a dataset: of the module of that name, or else of text files."""
    if name in (module.name for module in pkgutil.iter_modules(__path__)):
        return importlib.import_module(f"{__name__}.{name}").DEFINITION(name, n_stories, field)
    return Definition(name, n_stories, field)


def known() -> list[Definition]:
    """Every definition of this package."""
    return [definition(module.name) for module in pkgutil.iter_modules(__path__)]


def classes(task: str) -> tuple[str, ...]:
    """The names of a task's classes."""
    return next(one.tasks[task] for one in known() if task in one.tasks)


def dataset_of(task: str, name: str) -> str:
    """The dataset that `data.name` means where a task's labels are wanted.

    Raises:
      UserError: another dataset than the task's.
    """
    own = next(one.name for one in known() if task in one.tasks)
    if name not in ("auto", own):
        raise UserError(f"config.finetune.task={task!r} has no labels for data.name={name!r}: set data.name={own!r}.")
    return own
