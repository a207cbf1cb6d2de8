"""Prepares text and lists what is prepared.

  python -m actlab data prepare story_grammar                      the corpus that is built in
  python -m actlab data prepare tiny_stories                       downloads 2.3 GB of TinyStories
  python -m actlab data prepare tiny_stories --from=DIR            the same from train.txt and valid.txt
  python -m actlab data prepare NAME --from=PATH                   any other text: a file, or a folder of files
  python -m actlab data prepare NAME --from=PATH --field=content   the field that has the text
  python -m actlab data prepare NAME --from=DIR --tokenizer=bpe:1024
  python -m actlab data prepare gpt2 --from=DIR                    vocab.json and merges.txt of GPT-2
  python -m actlab data prepare sst2                               GLUE's SST-2 with its labels
  python -m actlab data prepare sst2 --from=DIR                    the same from train.tsv and dev.tsv
  python -m actlab data list

Supported: .txt and .md (a document each, or several with a line <|endoftext|> after each), .jsonl, .jsonl.gz,
.jsonl.zst, .parquet, and folders saved by Hugging Face datasets. Files or folders named train and valid (validation,
dev, test) are those splits, and the second is halved into validation and test; of others about 5% of the documents are
held out, half for each, and of few documents the last tenth of each. NAME: story_grammar, tiny_stories, sst2, gpt2 (a
tokenizer), or one of your own.
"""

from collections.abc import Sequence
from pathlib import Path

from absl import flags

from actlab import data
from actlab.cli import command
from actlab.data import cache, datasets, gpt2, sets
from actlab.data.datasets import STORY_GRAMMAR
from actlab.data.sources import MOST_STORIES
from actlab.errors import UserError, printable, sentence, suggestion

SUBCOMMANDS = ("prepare", "list")


@command.entry
def main(argv: Sequence[str]) -> None:
    """Runs `prepare NAME` or `list`."""
    given = flags.FlagValues()
    command.define_path("from", None, "File or folder to read.", given)
    flags.DEFINE_string("field", data.FIELD, "Name of the text field of JSON Lines and Parquet.", flag_values=given)
    command.define_path("dir", "data", "Data directory.", given)
    flags.DEFINE_string(
        "tokenizer",
        None,
        "Prepare the tokens too: bytes, bpe:SIZE, gpt2, dir:PATH or wordpiece[:PATH].",
        flag_values=given,
    )
    flags.DEFINE_integer(
        "stories", data.N_STORIES, "Train stories of story_grammar.", 1, MOST_STORIES, flag_values=given
    )
    subcommand, *rest = command.parse(__doc__, argv, given, n_words=None) or [""]
    if not subcommand:
        raise UserError("no subcommand is given: write actlab data prepare NAME, or actlab data list.")
    if subcommand not in SUBCOMMANDS:
        raise UserError(f"unknown subcommand {subcommand!r}: {suggestion(subcommand, SUBCOMMANDS)}")
    expected = 1 if subcommand == "prepare" else 0
    if len(rest) > expected:
        raise UserError(f"unexpected argument {rest[expected]!r}: write options as --option=value.")
    if len(rest) < expected:
        raise UserError("prepare needs a NAME: for example `python -m actlab data prepare story_grammar`.")
    _prepare(rest[0], given) if subcommand == "prepare" else _list(given)


def _prepare(name: str, given: flags.FlagValues) -> None:
    if name == gpt2.NAME:
        command.refuse(given, ["tokenizer"], f"has no effect on prepare {name}")
    if name == gpt2.NAME or name in {known.name for known in sets.known()}:
        command.refuse(given, ["field"], f"has no effect on prepare {name}")
    if name != STORY_GRAMMAR:
        command.refuse(given, ["stories"], f"has no effect on prepare {name}")
    source = given["from"].value
    command.output_folder("dir", given.dir)
    options = {"field": given.field, "tokenizer": given.tokenizer, "n_stories": given.stories}
    print(printable(data.prepare(name, given.dir, source=source, **options)))


def _list(given: flags.FlagValues) -> None:
    command.refuse(given, ("from", "field", "tokenizer", "stories"), "has no effect on list")
    directory = Path(given.dir)
    damaged: list[UserError] = []
    found = datasets.prepared(directory, damaged)
    if not found and not damaged:
        print(f"no dataset is prepared in {directory}; story_grammar is prepared at its first use.")
    for dataset in found:
        documents, size = sum(dataset.n_documents.values()), sum(dataset.n_bytes.values())
        about = (
            f"{dataset.name}  {documents:,} documents  {size:,} bytes  in {dataset.root}  (licence {dataset.licence})"
        )
        print(printable(about))
        for meta in cache.caches(dataset.root, damaged):
            tokens = sum(meta.n_tokens.values())
            about = f"  {meta.tokenizer}  {tokens:,} tokens  vocabulary {meta.vocab_size:,}  {meta.fingerprint[:12]}"
            print(printable(about))
    for error in damaged:
        print(f"damaged: {sentence(error)}")
    if (directory / gpt2.NAME).is_dir():
        print(f"{gpt2.NAME}  tokenizer in {gpt2.folder(directory)}")
