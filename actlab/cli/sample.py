"""Writes text with a trained decoder.

  python -m actlab sample runs/tinystories_gelu-1a2b3c4d --prompt="Once upon a time" --temperature=0.8

The newest valid checkpoint is used; --run names one run of a sweep.
"""

from collections.abc import Sequence

from absl import flags

from actlab.cli import command
from actlab.errors import UserError, printable


@command.entry
def main(argv: Sequence[str]) -> None:
    """Prints one document."""
    given = flags.FlagValues()
    command.define_run(given)
    flags.DEFINE_string("prompt", "", "Text that the document begins with.", flag_values=given)
    flags.DEFINE_float(
        "temperature", 1.0, "Divides the logits; 0 takes the likeliest token.", lower_bound=0, flag_values=given
    )
    flags.DEFINE_integer(
        "top_k", 0, "Samples from this many likeliest tokens only; 0 from all.", lower_bound=0, flag_values=given
    )
    flags.DEFINE_integer("seed", 0, "Seed of the random numbers.", 0, 2**31 - 1, flag_values=given)
    flags.DEFINE_integer("n_tokens", 256, "Most tokens to sample.", 1, 1_000_000, flag_values=given)
    workdir = command.parse_workdir(__doc__, argv, given)
    if not given.temperature < 1e6:  # at which every token is equally likely; also for nan
        raise UserError(f"--temperature={given.temperature} is not a finite number below 1,000,000: give one, or 0.")
    if not workdir:
        raise UserError("no workdir is given: name the folder of a run, python -m actlab sample runs/NAME.")

    command.register_activations(given.activations)
    from actlab.sweeps import trained

    run = trained.load(workdir, given.run)
    options = {"temperature": given.temperature, "top_k": given.top_k, "seed": given.seed, "n_tokens": given.n_tokens}
    print(printable(run.sample(prompt=given.prompt, **options)))
