"""Converts weights to and from directories of Hugging Face transformers.

  python -m actlab interop runs/NAME --to=DIR   writes a trained run, as the nearest of 13 families
  python -m actlab interop --from=DIR           shows the model in a directory as config fields

The newest valid checkpoint is used; --run names one run of a sweep.
"""

import dataclasses
import pathlib
from collections.abc import Sequence

from absl import flags

from actlab.cli import command
from actlab.errors import UserError


@command.entry
def main(argv: Sequence[str]) -> None:
    """Writes a folder, or prints what one holds."""
    given = flags.FlagValues()
    command.define_run(given)
    command.define_path("to", None, "Folder to write.", given)
    command.define_path("from", None, "Directory of Hugging Face transformers to read.", given)
    workdir = command.parse_workdir(__doc__, argv, given)
    source = given["from"].value
    if bool(given.to) == bool(source):
        raise UserError("give runs/NAME and --to=DIR to write, or --from=DIR to read.")
    if source and (workdir or given.run):
        raise UserError("--from cannot be combined with a workdir or --run: leave them out, or give --to=DIR instead.")
    if given.to and not workdir:
        raise UserError("no workdir is given: name the folder of a run, python -m actlab interop runs/NAME --to=DIR.")
    command.register_activations(given.activations)
    if workdir:
        _export(workdir, given.run, command.output_folder("to", given.to))
    else:
        _show(pathlib.Path(source or ""))


def _export(workdir: pathlib.Path, name: str | None, directory: pathlib.Path) -> None:
    from actlab.data import tokenizers
    from actlab.interop import huggingface
    from actlab.sweeps import trained

    run = trained.load(workdir, name)
    beside = tokenizers.for_transformers(trained.with_runs(workdir) / "tokenizer")
    end = run.tokenizer.end_of_text
    family = huggingface.save(
        run.fields, run.params, directory, beside, end, end, padding=run.tokenizer.specials.padding
    )
    if not beside:
        print("tokenizer   none is written: an id is a byte of UTF-8, and 256 the end of a text")
    elif family == "Qwen2":
        print("tokenizer   read it by PreTrainedTokenizerFast: for this family AutoTokenizer always takes Qwen2's own")
    print(f"{directory}: step {run.step}, as {family}; transformers' AutoModel.from_pretrained reads it")


def _show(directory: pathlib.Path) -> None:
    from actlab import models
    from actlab.data import tokenizers
    from actlab.interop import huggingface

    config = huggingface.open_directory(directory).config
    costs = models.costs(models.build(config))
    print(f"parameters  {costs.parameters:,} ({costs.non_embedding:,} without embeddings)")
    for name, value in dataclasses.asdict(config).items():
        print(f"config.model.{name}={value!r}")
    if tokenizer := tokenizers.name_in(directory):
        print(f"config.data.tokenizer={tokenizer!r}")
