"""Trains what a config file names.

  python -m actlab.main --config=configs/tinystories_gelu.py:small
  python -m actlab.main --config=configs/tinystories_gelu.py --config.optimizer.learning_rate=3e-4 --workdir=runs/mine
  python -m actlab.main --config=configs/seed_study.py:small --dry_run
  python -m actlab.main --config=configs/tinystories_gelu.py --profile=trace

The same command again goes on where the last one stopped, or says that the work is done. Exit codes: 0 finished,
2 the input must change (one sentence says how), 143 stopped by SIGTERM after saving.
"""

import pathlib
import re
import sys
from collections.abc import Sequence

from absl import flags
from ml_collections import config_flags

from actlab import command
from actlab import config as config_lib
from actlab.errors import UserError

_CONFIG = config_flags.DEFINE_config_file("config", None, "Config file, with a preset after a colon.")
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the run; by default runs/CONFIG-FINGERPRINT.")
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Prints the plan and trains nothing.")
_PROFILE = flags.DEFINE_string("profile", None, "Folder for a trace of a few updates; prints the slowest operations.")


def parse(argv: Sequence[str]) -> list[str]:
    """Parses flags; whatever a config file or an override does wrong becomes a UserError."""
    for argument in argv[1:]:
        override = re.match(r"--?(?:no)?config\.([^=]*)", argument)
        if override:
            config_lib.require_path(override.group(1))
            if override.group(1) == "sweep":
                raise UserError("config.sweep cannot be set on the command line: set it in a config file.")
    try:
        return flags.FLAGS(argv)
    except (flags.Error, UserError):
        raise
    except Exception as error:
        raise UserError(f"--config: the config file fails with {type(error).__name__}: {error}") from error


def main(arguments: list[str]) -> int:
    """Validates the config before jax is imported; returns the exit code."""
    command.refuse(arguments)
    if _CONFIG.value is None:
        raise UserError("--config is missing: for example --config=configs/tinystories_gelu.py:small.")
    path = config_flags.get_config_filename(flags.FLAGS["config"])
    try:
        values = _CONFIG.value.to_dict()
    except OSError as error:
        raise UserError(f"--config={path} cannot be read: give the path of a config file.") from error
    except AttributeError as error:
        raise UserError(f"--config={path}: get_config must return a ConfigDict, such as config.default().") from error
    config = config_lib.from_mapping(values)

    from actlab.studies import session
    from actlab.training import processes

    processes.join()

    workdir = pathlib.Path(_WORKDIR.value) if _WORKDIR.value else None
    profile = pathlib.Path(_PROFILE.value) if _PROFILE.value else None
    # The fingerprint tells presets apart; their names would give one run two folders, since one is the default.
    label = pathlib.Path(path.partition(":")[0]).stem
    return session.run(config, label, workdir, sys.argv, _DRY_RUN.value, profile)


if __name__ == "__main__":
    command.run(main, parse)
