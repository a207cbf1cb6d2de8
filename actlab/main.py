"""Trains the runs of a config file.

  python -m actlab.main --config=configs/tinystories_gelu.py:small
  python -m actlab.main --config=configs/tinystories_gelu.py --config.optimizer.learning_rate=3e-4 --workdir=runs/mine
  python -m actlab.main --config=configs/seed_study.py:small --dry_run
  python -m actlab.main --config=configs/seed_study.py:char --dry_run --target=h100
  python -m actlab.main --config=runs/mine/config.json --workdir=runs/mine_again    (the same runs once more)
  python -m actlab.main --config=runs/mine/config.json --run=relu-lr0.01-seed2    (one run of a sweep, by itself)
  python -m actlab.main --config=configs/tinystories_gelu.py:small --activations=mine.py --config.model.activation=mine
  python -m actlab.main --config=configs/tinystories_gelu.py:small --text=corpus/    (on one's own text)
  python -m actlab.main --config=my_study.py --workdir=runs/study --extend   (more seeds than it was begun with)
  python -m actlab.main --config=configs/tinystories_gelu.py --profile=trace

Without --workdir the folder is runs/CONFIG-FINGERPRINT. The same command again resumes where the last one stopped, or
says that the work is done. Exit codes: 0 finished, 2 the input must change (one sentence says how), and, stopped after
saving, 130 by Ctrl-C, 143 by SIGTERM and 129 by a terminal that hung up. A second Ctrl-C or SIGTERM ends it at once.
"""

from collections.abc import Sequence

from absl import flags

from actlab.__main__ import program
from actlab.cli import command
from actlab.config import overrides, sweep
from actlab.errors import UserError
from actlab.training import targets


@command.entry
def main(argv: Sequence[str]) -> int:
    """Validates the command line before jax is imported, then trains; returns the exit code."""
    given = flags.FlagValues()
    command.define_config(given)
    command.define_activations(given)
    command.define_training(given)
    flags.DEFINE_string("run", None, "Name of one run of a sweep.", flag_values=given)
    flags.DEFINE_bool("dry_run", False, "Prints the plan and trains nothing.", flag_values=given)
    flags.DEFINE_string(
        "target", None, "With --dry_run: plans for h100, h200, a100, v4, v5e or v6e, or v5e:8.", flag_values=given
    )
    flags.DEFINE_bool(
        "compilation_cache",
        True,
        "Keeps compiled programs in the user's cache folder.",
        flag_values=given,
    )
    command.define_path("profile", None, "Folder for a trace of a few updates; prints the slowest operations.", given)
    flags.DEFINE_bool(
        "fields", False, "Lists the fields of a config, with default, unit and purpose.", flag_values=given
    )
    source, changes, words = overrides.split(argv)
    command.parse(__doc__, words, given)
    if given.fields:
        print(command.listed_fields())
        return 0
    workdir = command.training_workdir(given)
    profile = command.output_folder("profile", given.profile) if given.profile else None
    if profile:
        command.refuse(given, ["workdir", "dry_run", "extend", "target"], "has no effect with --profile")
    target = targets.parse(given.target) if given.target is not None else None
    if target and not given.dry_run:
        raise UserError(f"--target={given.target} plans for devices that are not here: add --dry_run.")
    if target:
        target.require_compiler()  # before data is prepared
    command.register_activations(given.activations)
    request = overrides.read(source, changes)
    command.require_one_text(given, request)
    if given.run is not None:
        config = sweep.find(request.config, given.run, request.overridden).config
    else:
        overrides.require_effect(request)
        config = request.config
    command.require_known_activations(config)
    if target:
        targets.prepare()

    import jax

    from actlab.sweeps import session
    from actlab.training import devices

    if not given.compilation_cache:
        jax.config.update("jax_enable_compilation_cache", False)
    devices.join_processes()  # before anything asks jax for its devices
    config = command.with_text(given, config)
    if profile:
        session.profile(config, profile)
        return 0
    line = [*command.PYTHON, "actlab.main", *argv]
    return session.run(config, request.label, workdir, line, dry_run=given.dry_run, extend=given.extend, target=target)


if __name__ == "__main__":
    program(main)
