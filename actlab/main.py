"""Trains what a config file names.

  python -m actlab.main --config=configs/tinystories_gelu.py:small
  python -m actlab.main --config=configs/tinystories_gelu.py --config.optimizer.learning_rate=3e-4 --workdir=runs/mine
  python -m actlab.main --config=configs/seed_study.py:small --dry_run
  python -m actlab.main --config=runs/mine/config.json --workdir=runs/mine_again    (the same run once more)
  python -m actlab.main --config=runs/mine/config.json --run=relu-lr0.001-seed2     (one run of a sweep, by itself)
  python -m actlab.main --config=runs/mine/config.json:mine.py   (with an activation that mine.py registers)
  python -m actlab.main --config=configs/tinystories_gelu.py --profile=trace

Without --workdir the folder is runs/CONFIG-FINGERPRINT. The same command again goes on where the last one stopped, or
says that the work is done. Exit codes: 0 finished, 2 the input must change (one sentence says how), 130 and 143
stopped by SIGINT and SIGTERM after saving. Several processes that train together stop at SIGTERM only: a SIGINT ends
them at once, and the same command goes on from the last checkpoint.
"""

import pathlib
import sys

from absl import flags

from actlab import command, config_flag

_CONFIG = config_flag.define()
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of a run or a sweep.")
_RUN = flags.DEFINE_string("run", None, "Name of one run of a sweep.")
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Prints the plan and trains nothing.")
_PROFILE = flags.DEFINE_string("profile", None, "Folder for a trace of a few updates; prints the slowest operations.")


def main(arguments: list[str]) -> int:
    """Validates the config before jax is imported; returns the exit code."""
    command.refuse(arguments)
    config, path = config_flag.read()

    from actlab.studies import session, sweep
    from actlab.training import processes

    if _RUN.value:
        config = sweep.find(config, _RUN.value, config_flag.overrides()).config
    else:
        config_flag.require_effect(config)
    processes.join()

    workdir = pathlib.Path(_WORKDIR.value) if _WORKDIR.value else None
    profile = pathlib.Path(_PROFILE.value) if _PROFILE.value else None
    return session.run(config, config_flag.label(path), workdir, sys.argv, _DRY_RUN.value, profile)


if __name__ == "__main__":
    command.run(main, config_flag.parse)
