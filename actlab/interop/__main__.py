"""Weights to and from directories of Hugging Face transformers.

  python -m actlab.interop --workdir=runs/NAME --to=DIR   writes a trained run: GPT-2, LLaMA or BERT, whichever it is
  python -m actlab.interop --from=DIR                     shows what a directory holds, as our models have it

The newest sound checkpoint is used; --run names one run of a sweep.
"""

import dataclasses
import itertools
import pathlib

from absl import flags

from actlab import command, registering
from actlab.errors import UserError

_ACTIVATIONS = registering.define()
_TO = flags.DEFINE_string("to", None, "Folder to write.")
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of a run or a sweep.")
_RUN = flags.DEFINE_string("run", None, "Name of one run of a sweep.")
_FROM = flags.DEFINE_string("from", None, "Folder of the files to read.")


def main(arguments: list[str]) -> None:
    """Writes a folder, or prints what one holds."""
    command.refuse(arguments)
    if bool(_TO.value) == bool(_FROM.value):
        raise UserError("give --to=DIR with --workdir=RUN to write, or --from=DIR to read.")
    if _FROM.value and (_WORKDIR.value or _RUN.value):
        raise UserError("--from stands alone: leave --workdir and --run out, or give --to=DIR in its place.")
    registering.run(_ACTIVATIONS.value)
    if _FROM.value:
        _show(pathlib.Path(_FROM.value))
    elif _TO.value and _WORKDIR.value:
        _export(pathlib.Path(_WORKDIR.value), pathlib.Path(_TO.value))
    else:
        raise UserError("--workdir is missing: give the folder of a run of actlab.main.")


def _export(workdir: pathlib.Path, directory: pathlib.Path) -> None:
    from actlab.interop import huggingface
    from actlab.studies import origin, trained

    run = trained.load(workdir, _RUN.value)
    names = itertools.chain.from_iterable(origin.VOCABULARIES.values())
    vocabulary = [path for name in names if (path := workdir / "tokenizer" / name).is_file()]
    huggingface.save(run.fields, run.params, directory, vocabulary, run.tokenizer.end_of_text)
    print(f"{directory}: step {run.step}; transformers' AutoModel.from_pretrained reads it")


def _show(directory: pathlib.Path) -> None:
    from actlab import models
    from actlab.interop import huggingface
    from actlab.studies import origin

    config = huggingface.load(directory).config
    costs = models.costs(models.build(config))
    print(f"parameters  {costs.parameters:,} ({costs.non_embedding:,} without embeddings)")
    for name, value in dataclasses.asdict(config).items():
        print(f"config.model.{name}={value!r}")
    if tokenizer := origin.tokenizer_in(directory):
        print(f"config.data.tokenizer={tokenizer!r}")


if __name__ == "__main__":
    command.run(main)
