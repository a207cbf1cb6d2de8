"""Trains the programs of a sweep as jobs on many machines, waits for them and gathers their results.

  python -m actlab launch --config=configs/seed_study.py --workdir=runs/study --executor=slurm --gpus=1 --time=8:00:00
  python -m actlab launch --config=configs/seed_study.py:small --workdir=runs/study --executor=local --max_parallel=2

One job per program, in WORKDIR/jobs; their results are gathered in WORKDIR, as actlab.main would leave them. Without
--workdir the folder is runs/CONFIG-FINGERPRINT. The same command again continues: finished jobs are not run again,
queued jobs are found in the queue. --extend also trains runs that were added to the sweep since the workdir was begun.
Exit codes: 0 all jobs are done, 1 a job failed (its log is named), 2 the input must change, 129, 130 and 143
stopped by SIGHUP, SIGINT and SIGTERM.
"""

from collections.abc import Sequence

from absl import flags

from actlab.cli import command
from actlab.config import overrides
from actlab.errors import UserError, suggestion

EXECUTORS = ("local", "slurm")


@command.entry
def main(argv: Sequence[str]) -> int:
    """Validates the command line before jax is imported, then launches the jobs; returns the exit code."""
    given = flags.FlagValues()
    command.define_config(given)
    command.define_activations(given)
    command.define_training(given)
    flags.DEFINE_string("executor", None, "slurm, or local: processes of this machine.", flag_values=given)
    flags.DEFINE_integer(
        "max_parallel",
        None,
        "Most jobs at once, by default 1 for local and no limit for slurm.",
        lower_bound=1,
        flag_values=given,
    )
    flags.DEFINE_string("partition", None, "SLURM's partition.", flag_values=given)
    flags.DEFINE_string(
        "time", None, "SLURM's time limit of a job, 5 minutes or more: jobs reaching it requeue.", flag_values=given
    )
    flags.DEFINE_integer("gpus", None, "GPUs of a SLURM job.", lower_bound=0, flag_values=given)
    flags.DEFINE_multi_string(
        "sbatch", [], "Another option of sbatch, without dashes: --sbatch=account=mine.", flag_values=given
    )
    source, changes, words = overrides.split(argv)
    command.parse(__doc__, words, given)
    workdir = command.training_workdir(given)
    options = [given[name].serialize() for name in ("partition", "time", "gpus") if given[name].present]
    options += [f"--{option}" for option in given.sbatch]
    _require_executor(given.executor, options)
    command.register_activations(given.activations)
    request = overrides.read(source, changes)
    overrides.require_effect(request)
    command.require_one_text(given, request)
    command.require_known_activations(request.config)

    import jax

    # The accelerators are for the jobs; they do not inherit this setting.
    jax.config.update("jax_platforms", "cpu")

    from actlab.sweeps import launching

    local = given.executor == "local"
    executor = launching.Local(given.max_parallel or 1) if local else launching.Slurm(options, given.max_parallel)
    line = [*command.PYTHON, "actlab", "launch", *argv]
    files = tuple(filter(None, (request.code, *given.activations)))
    return launching.run(
        command.with_text(given, request.config), files, request.label, workdir, executor, line, given.extend
    )


def _require_executor(name: str | None, options: Sequence[str]) -> None:
    if name is None:
        raise UserError("--executor is missing: give --executor=local or --executor=slurm.")
    if name not in EXECUTORS:
        raise UserError(f"unknown --executor={name}: {suggestion(name, EXECUTORS)}")
    if name == "local" and options:
        raise UserError(f"{options[0]} is for --executor=slurm only: leave it out for --executor=local.")
