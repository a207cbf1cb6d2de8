"""Writes text with a trained decoder.

  python -m actlab.sample --workdir=runs/tinystories_gelu-1a2b3c4d --prompt="Once upon a time" --temperature=0.8

The newest sound checkpoint is used; --run names one run of a sweep.
"""

import math
import pathlib

from absl import flags

from actlab import command, registering
from actlab.errors import UserError

_ACTIVATIONS = registering.define()
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of a run or a sweep.")
_RUN = flags.DEFINE_string("run", None, "Name of one run of a sweep.")
_PROMPT = flags.DEFINE_string("prompt", "", "Text that the document begins with.")
_TEMPERATURE = flags.DEFINE_float("temperature", 1.0, "Divides the logits; 0 takes the likeliest token.", lower_bound=0)
_TOP_K = flags.DEFINE_integer("top_k", 0, "Draws from this many likeliest tokens only; 0 from all.", lower_bound=0)
_SEED = flags.DEFINE_integer("seed", 0, "Of the random draws.", lower_bound=0, upper_bound=2**31 - 1)
_N_TOKENS = flags.DEFINE_integer("n_tokens", 256, "Most tokens to draw.", lower_bound=1)


def main(arguments: list[str]) -> None:
    """Prints one document."""
    command.refuse(arguments)
    if not math.isfinite(_TEMPERATURE.value):
        raise UserError(f"--temperature={_TEMPERATURE.value} is not a finite number: give one, or 0.")
    if not _WORKDIR.value:
        raise UserError("--workdir is missing: give the folder of a run of actlab.main.")

    registering.run(_ACTIVATIONS.value)
    from actlab.studies import trained
    from actlab.training import generation

    run = trained.load(pathlib.Path(_WORKDIR.value), _RUN.value)
    drawing = {"temperature": _TEMPERATURE.value, "top_k": _TOP_K.value, "seed": _SEED.value}
    print(
        generation.write_text(
            run.model, run.params, run.tokenizer, prompt=_PROMPT.value, n_tokens=_N_TOKENS.value, **drawing
        )
    )


if __name__ == "__main__":
    command.run(main)
