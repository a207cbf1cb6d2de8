"""Which copies of metrics.jsonl a config asks for, for those who watch from elsewhere."""

import importlib.util
import pathlib
from collections.abc import Mapping

from actlab.config import Config
from actlab.errors import UserError
from actlab.training.watcher import Watcher


def require(config: Config) -> None:
    """Raises UserError if a package is missing that the config asks for."""
    wanted = {
        "log.tensorboard": (config.log.tensorboard, "tensorboardX", "tensorboard"),
        "log.wandb_project": (config.log.wandb_project, "wandb", "wandb"),
    }
    for path, (value, package, extra) in wanted.items():
        if value and importlib.util.find_spec(package) is None:
            raise UserError(
                f"config.{path}={value!r} needs the package {package}: pip install -c constraints.txt "
                f"-e '.[{extra}]', or leave the field out."
            )


def require_login(config: Config) -> None:
    """Raises UserError if rows are to be sent to who does not know the user; for the process that sends them."""
    if config.log.wandb_project:
        from actlab.training import weights_and_biases

        weights_and_biases.require_login(config.log.wandb_project)


def watchers(config: Config, workdir: pathlib.Path, configs: Mapping[str, Config]) -> list[Watcher]:
    """Those that copy the rows of a cohort's runs, whose `configs` are given by name."""
    found: list[Watcher] = []
    # Each file needs its package.
    if config.log.tensorboard:
        from actlab.training.tensorboard import EventFiles

        found.append(EventFiles(workdir / "tensorboard", tuple(configs)))
    if config.log.wandb_project:
        from actlab.training.weights_and_biases import WandbRuns

        found.append(WandbRuns(config.log.wandb_project, workdir, configs))
    return found
