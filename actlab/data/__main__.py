"""Prepares text and lists what is prepared.

  python -m actlab.data prepare story_grammar                      the corpus that is built in
  python -m actlab.data prepare tiny_stories                       downloads 2.3 GB of TinyStories
  python -m actlab.data prepare tiny_stories --from=DIR            the same from train.txt and valid.txt
  python -m actlab.data prepare NAME --from=DIR                    any other text files
  python -m actlab.data prepare NAME --from=DIR --tokenizer=bpe:1024
  python -m actlab.data prepare gpt2 --from=DIR                    vocab.json and merges.txt of GPT-2
  python -m actlab.data prepare sst2                               GLUE's SST-2 with its labels, by TFDS
  python -m actlab.data prepare sst2 --from=DIR                    the same from train.tsv and dev.tsv
  python -m actlab.data list

In text files a line <|endoftext|> stands after each document. Without train.txt and valid.txt all .txt files are
taken, and about 5% of the documents are held out for validation. Names: tiny_stories, story_grammar, or your own.
"""

from pathlib import Path

from absl import flags

from actlab import command, data
from actlab.data import cache, datasets, gpt2
from actlab.data.sources import STORY_GRAMMAR
from actlab.errors import UserError, suggestion

_FROM = flags.DEFINE_string("from", None, "Folder of the files to read.")
_DIR = flags.DEFINE_string("dir", "data", "Data directory.")
_TOKENIZER = flags.DEFINE_string(
    "tokenizer", None, "Prepare the tokens too: bytes, bpe:SIZE, gpt2, dir:PATH or wordpiece[:PATH]."
)
_STORIES = flags.DEFINE_integer("stories", data.N_STORIES, "Train stories of story_grammar.")

COMMANDS = ("prepare", "list")


def main(arguments: list[str]) -> None:
    """Runs `prepare NAME` or `list`."""
    subcommand, *rest = arguments or [""]
    if subcommand not in COMMANDS:
        raise UserError(f"command {subcommand!r} is not known: {suggestion(subcommand, COMMANDS)}")
    expected = 1 if subcommand == "prepare" else 0
    if len(rest) > expected:
        raise UserError(f"argument {rest[expected]!r} is one too many: write options as --option=value.")
    if len(rest) < expected:
        raise UserError("prepare lacks a NAME: for example `python -m actlab.data prepare story_grammar`.")
    _prepare(rest[0]) if subcommand == "prepare" else _list(Path(_DIR.value))


def _refuse(what: str, *others: str) -> None:
    for flag in others:
        if flags.FLAGS[flag].present:
            raise UserError(f"--{flag}={flags.FLAGS[flag].value} is of no use to {what}: leave it out.")


def _prepare(name: str) -> None:
    if name == gpt2.NAME:
        _refuse(f"prepare {name}", "tokenizer")
    if name != STORY_GRAMMAR:
        _refuse(f"prepare {name}", "stories")
    print(
        data.prepare(name, _DIR.value, source=_FROM.value, tokenizer=_TOKENIZER.value, n_stories=_STORIES.value),
    )


def _list(directory: Path) -> None:
    _refuse("list", "from", "tokenizer", "stories")
    found = datasets.prepared(directory)
    if not found:
        print(f"no dataset is prepared in {directory}; story_grammar prepares itself at its first use.")
    for dataset in found:
        documents, size = sum(dataset.n_documents.values()), sum(dataset.n_bytes.values())
        print(f"{dataset.name}  {documents:,} documents  {size:,} bytes  in {dataset.root}  ({dataset.licence})")
        for meta in cache.caches(dataset.root):
            tokens = sum(meta.n_tokens.values())
            print(f"  {meta.tokenizer}  {tokens:,} tokens  vocabulary {meta.vocab_size:,}  {meta.fingerprint[:12]}")
    if (directory / gpt2.NAME).is_dir():
        print(f"{gpt2.NAME}  tokenizer in {gpt2.folder(directory)}")


if __name__ == "__main__":
    command.run(main)
