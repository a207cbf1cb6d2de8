"""Text to batches: datasets, tokenizers, token caches and batches, with the story grammar built in."""

import dataclasses
from pathlib import Path

from actlab.data import cache, datasets, gpt2, labels, tokenizers
from actlab.data.cache import Split, TokenCache
from actlab.data.sources import N_STORIES, STORY_GRAMMAR, TINY_STORIES, prepare_hint
from actlab.errors import UserError, suggestion

__all__ = ["Split", "TokenCache", "open_tokens", "prepare", "resolve_name"]


def resolve_name(name: str, directory: str | Path, task: str = "") -> str:
    """The dataset that `data.name` means: "auto" is TinyStories where it is prepared, else the story grammar.

    With a task, "auto" is the task's dataset.

    Raises:
      UserError: a dataset that is not prepared, with the command that prepares it, or one without the task's labels.
    """
    directory = Path(directory)
    name = labels.dataset_of(task, name) if task else name
    if name == "auto":
        return TINY_STORIES if datasets.find(TINY_STORIES, directory) else STORY_GRAMMAR
    if name == STORY_GRAMMAR:
        return name
    datasets.check_name(name)
    if not datasets.find(name, directory):
        raise UserError(_not_prepared(name, directory))
    return name


def open_tokens(
    name: str,
    directory: str | Path,
    tokenizer: str,
    *,
    n_stories: int = N_STORIES,
    context: int = 1,
    vocab_size: int | None = None,
    task: str = "",
    progress: bool = True,
) -> TokenCache:
    """The token cache of a dataset, made at its first use; the story grammar is prepared too where needed.

    With a `task` it has the labels of the documents.

    Raises:
      UserError: a dataset or tokenizer that is not prepared, damaged files, no place to write, less text than a window
        of `context` tokens and the next one, or a tokenizer of more than `vocab_size` tokens.
    """
    directory = Path(directory)
    name = resolve_name(name, directory, task)
    _check_tokenizer(name, directory, tokenizer, n_stories)
    _check_vocabulary(tokenizer, directory, vocab_size)
    dataset, _ = datasets.prepare(name, directory, n_stories=n_stories, show=progress)
    _check_length(dataset, context)
    tokens = cache.ensure(dataset, tokenizer, directory, show=progress)
    return (
        dataclasses.replace(tokens, labels=labels.ensure(task, dataset, directory, show=progress)) if task else tokens
    )


def prepare(
    name: str,
    directory: str | Path,
    *,
    source: str | Path | None = None,
    tokenizer: str | None = None,
    n_stories: int = N_STORIES,
    progress: bool = True,
) -> str:
    """Prepares a dataset (or the files of the tokenizer "gpt2") and says in one sentence what was done.

    Raises:
      UserError: see `datasets.prepare`, `gpt2.prepare` and `open_tokens`.
    """
    directory, folder = Path(directory), Path(source) if source is not None else None
    if name == gpt2.NAME:
        made = gpt2.prepare(directory, folder, show=progress)
        return _sentence(f"{name} is in {directory / name}", made)
    if tokenizer is not None:
        _check_tokenizer(name, directory, tokenizer, n_stories)
    dataset, made = datasets.prepare(name, directory, folder, n_stories=n_stories, show=progress)
    counts = f"{dataset.n_documents['train']:,} train and {dataset.n_documents['validation']:,} validation documents"
    sentence = _sentence(f"{name} is in {dataset.root} with {counts}", made)
    if tokenizer is None:
        return sentence
    tokens = cache.ensure(dataset, tokenizer, directory, show=progress)
    return f"{sentence} Its {tokens.meta.n_tokens['train']:,} train tokens of {tokenizer} are in {tokens.folder}."


def _check_tokenizer(name: str, directory: Path, tokenizer: str, n_stories: int) -> None:
    """Refuses a tokenizer that cannot be had before a dataset is made for it."""
    tokenizers.check(tokenizer)
    datasets.check_name(name)
    if not tokenizer.startswith("bpe:") and not datasets.find(name, directory, n_stories=n_stories):
        tokenizers.make(tokenizer, directory, ())


def _check_vocabulary(tokenizer: str, directory: Path, vocab_size: int | None) -> None:
    if vocab_size is not None and (size := tokenizers.size(tokenizer, directory)) > vocab_size:
        raise UserError(
            f"model.vocab_size={vocab_size} is smaller than the {size:,} tokens of data.tokenizer={tokenizer!r}: "
            "raise it or leave it None."
        )


def _check_length(dataset: datasets.Dataset, context: int) -> None:
    # Of bytes this is the number of tokens, of other tokenizers a bound; batches know the rest.
    most = dataset.n_bytes["train"] + dataset.n_documents["train"] + 1
    if most <= context:
        raise UserError(
            f"data.name={dataset.name!r} has {most:,} tokens at most, too few for one window of "
            f"model.context={context} and one more: lower model.context or take more text."
        )


def _sentence(what: str, made: bool) -> str:
    return f"{what}: prepared now." if made else f"{what}: already prepared, nothing to do."


def _not_prepared(name: str, directory: Path) -> str:
    known = {dataset.name for dataset in datasets.prepared(directory)} | {STORY_GRAMMAR}
    return (
        f"data.name={name!r} is not prepared in data.dir={str(directory)!r}: {prepare_hint(name, directory)}; "
        f"or {suggestion(name, known)}"
    )
