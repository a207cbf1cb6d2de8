"""Trains the cohorts of a sweep as jobs on many machines, waits for them and gathers their results.

  python -m actlab.launch --config=configs/seed_study.py --workdir=runs/study --executor=slurm --gpus=1 --time=8:00:00
  python -m actlab.launch --config=configs/seed_study.py:small --workdir=runs/study --executor=local --max_parallel=2

One job per cohort, in WORKDIR/jobs; what is gathered in WORKDIR is what actlab.main would have left there. Without
--workdir the folder is runs/CONFIG-FINGERPRINT. The same command again goes on: jobs that are done are not run again,
jobs in the queue are found there. Exit codes: 0 all jobs are done, 1 a job failed (its log is named), 2 the input must
change, 130 and 143 stopped by SIGINT and SIGTERM.
"""

import pathlib
import sys

from absl import flags

from actlab import command, config_flag
from actlab.errors import UserError, suggestion

_CONFIG = config_flag.define()
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of a run or a sweep.")
_EXECUTOR = flags.DEFINE_string("executor", None, "slurm, or local: processes of this machine.")
_MAX_PARALLEL = flags.DEFINE_integer(
    "max_parallel", None, "Most jobs at once, by default 1 for local and no limit for slurm.", lower_bound=1
)
_PARTITION = flags.DEFINE_string("partition", None, "SLURM's partition.")
_TIME = flags.DEFINE_string("time", None, "SLURM's time limit of a job, 5 minutes or more: jobs reaching it requeue.")
_GPUS = flags.DEFINE_integer("gpus", None, "GPUs of a SLURM job.", lower_bound=0)
_SBATCH = flags.DEFINE_multi_string("sbatch", [], "Another option of sbatch, without dashes: --sbatch=account=mine.")

EXECUTORS = ("local", "slurm")


def main(arguments: list[str]) -> int:
    """Validates flags and config before jax is imported; returns the exit code."""
    command.refuse(arguments)
    name = _executor_name()
    config, source = config_flag.read()
    config_flag.require_effect(config)

    import jax

    # The devices are the jobs'; this is not inherited by them.
    jax.config.update("jax_platforms", "cpu")

    from actlab.studies import launching

    local = name == "local"
    executor = launching.Local(_MAX_PARALLEL.value or 1) if local else launching.Slurm(_options(), _MAX_PARALLEL.value)
    workdir = pathlib.Path(_WORKDIR.value) if _WORKDIR.value else None
    code, label = config_flag.code(source), config_flag.label(source)
    return launching.run(config, code, label, workdir, executor, sys.argv)


def _executor_name() -> str:
    name = _EXECUTOR.value
    if name is None:
        raise UserError("--executor is missing: give --executor=local or --executor=slurm.")
    if name not in EXECUTORS:
        raise UserError(f"--executor={name} is not known: {suggestion(name, EXECUTORS)}")
    if name == "local" and _options():
        raise UserError(f"{_options()[0]} is of --executor=slurm alone: leave it out for --executor=local.")
    return name


def _options() -> list[str]:
    named = {"partition": _PARTITION.value, "time": _TIME.value, "gpus": _GPUS.value}
    given = [f"--{name}={value}" for name, value in named.items() if value is not None]
    return [*given, *(f"--{option}" for option in _SBATCH.value)]


if __name__ == "__main__":
    command.run(main, config_flag.parse)
