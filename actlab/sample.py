"""Writes text with a trained decoder.

python -m actlab.sample --workdir=runs/tinystories_gelu-small-1a2b3c4d --prompt="Once upon a time" --temperature=0.8
"""

import pathlib

from absl import flags

from actlab import command
from actlab.errors import UserError

_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of a run; its newest sound checkpoint is used.")
_PROMPT = flags.DEFINE_string("prompt", "", "Text that the document begins with.")
_TEMPERATURE = flags.DEFINE_float("temperature", 1.0, "Divides the logits; 0 takes the likeliest token.", lower_bound=0)
_TOP_K = flags.DEFINE_integer("top_k", 0, "Draws from this many likeliest tokens only; 0 from all.", lower_bound=0)
_SEED = flags.DEFINE_integer("seed", 0, "Of the draws.", lower_bound=0, upper_bound=2**31 - 1)
_N_TOKENS = flags.DEFINE_integer("n_tokens", 256, "Most tokens to draw.", lower_bound=1)


def main(arguments: list[str]) -> None:
    """Prints one document."""
    command.refuse(arguments)
    if not _WORKDIR.value:
        raise UserError("--workdir is missing: give the folder of a run of actlab.main.")

    from actlab.training import generation, trained

    run = trained.load(pathlib.Path(_WORKDIR.value))
    drawing = {"temperature": _TEMPERATURE.value, "top_k": _TOP_K.value, "seed": _SEED.value}
    print(
        generation.write_text(
            run.model, run.params, run.tokenizer, prompt=_PROMPT.value, n_tokens=_N_TOKENS.value, **drawing
        )
    )


if __name__ == "__main__":
    command.run(main)
