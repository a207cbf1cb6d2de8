"""Gives a trained model another activation: the loss before, after, with its mean folded in, and healed by training.

  python -m actlab swap gpt2/ --to=relu --text=notes.txt                         in all blocks, without training
  python -m actlab swap gpt2/ --to=relu --text=notes.txt --fold --steps=200     healed by 200 updates
  python -m actlab swap runs/NAME --to=gelu_tanh --blocks=2                      in the first 2 blocks of a run

Model, tokenizer and activation come from the directory. In a gated model --to is the gate's: relu turns swiglu into
reglu. --fold keeps the mean output of every swapped layer, by its bias. The model is written to WORKDIR/model for
transformers' from_pretrained. Healing uses AdamW at 1e-4, 8 windows of 256 tokens an update, which
--config.optimizer.learning_rate=3e-5, --config.data.batch_size=16 and --config.model.context=512 change.
"""

import hashlib
import pathlib
import re
from collections.abc import Sequence

from absl import flags

from actlab.cli import command
from actlab.console import lines
from actlab.errors import UserError


@command.entry
def main(argv: Sequence[str]) -> int:
    """Prints the losses and writes the model; returns the exit code."""
    given = flags.FlagValues()
    command.define_model(given)
    flags.DEFINE_string("to", None, "The new activation; of a gated model its gate.", flag_values=given)
    flags.DEFINE_string("blocks", "all", "Number of blocks that get it, from the input on, or all.", flag_values=given)
    flags.DEFINE_bool("fold", False, "Keep the mean output of swapped layers, by their biases.", flag_values=given)
    flags.DEFINE_integer("steps", 0, "Training updates after the swap.", lower_bound=0, flag_values=given)
    command.define_path("workdir", None, "Folder to train in.", given)
    name, request = command.parse_model(__doc__, argv, given)
    if given.workdir:
        command.output_folder("workdir", given.workdir)
    if given.to is None:
        raise UserError("--to is missing: name the new activation, for example --to=relu.")
    if not given.activations:
        command.require_activation(given.to, "--to")

    from actlab import config as config_lib
    from actlab.sweeps import existing

    command.register_activations(given.activations)
    console = lines()
    start = existing.open_model(name)
    to, blocks = existing.counterpart(start, given.to), _blocks(given.blocks, start.model.n_layers)
    config = existing.config_of(start, request.config, request.overridden, given.text, given.field, console)
    source = pathlib.Path(name).resolve()
    label = re.sub(r"[^\w.]+", "_", f"swap-{source.name}-{given.to}").strip("_")
    asked = f"{source} {to} {blocks} {given.fold} {given.steps} {config_lib.fingerprint(config)}"
    workdir = pathlib.Path(given.workdir or f"runs/{label}-{hashlib.sha256(asked.encode()).hexdigest()[:8]}")
    line = [*command.PYTHON, "actlab", "swap", *argv]
    found = existing.swap(start, config, to, blocks, given.fold, given.steps, workdir, line, console)
    console.print()
    for index, (stage, loss) in enumerate(found.losses.items()):
        change = "" if not index else f"  {loss - found.losses['before']:+.4f}"
        console.print(f"{'' if index else 'loss':<11} {stage:<8} {loss:.4f} {found.unit}{change}")
    if found.family:
        console.print(f"model       {workdir / 'model'}, as {found.family}: transformers' from_pretrained reads it")
    else:
        console.print(f"model       not written: {found.why}")
    return found.code


def _blocks(text: str, n_layers: int) -> int:
    if text == "all":
        return n_layers
    if not re.fullmatch(r"[0-9]{1,6}", text) or not 1 <= int(text) <= n_layers:
        raise UserError(f"--blocks={text} is not a number of blocks: give 1 to {n_layers}, or all.")
    return int(text)
