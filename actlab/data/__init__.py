"""From text to rows of token ids: datasets, tokenizers, token caches, and the rows that objectives read."""

import re
from pathlib import Path

from actlab.data import cache, datasets, gpt2, sets, sources, tokenizers
from actlab.data.cache import Split, TokenCache
from actlab.data.datasets import STORY_GRAMMAR, TINY_STORIES
from actlab.data.sources import FIELD, N_STORIES, SPLITS
from actlab.errors import UserError, nearest

__all__ = ["FIELD", "N_STORIES", "Split", "TokenCache", "open_tokens", "prepare", "prepare_text", "resolve_name"]


def resolve_name(name: str, directory: str | Path, task: str = "") -> str:
    """The dataset that `data.name` means: "auto" is TinyStories where it is prepared, else the story grammar.

    With a task, "auto" is the task's dataset.

    Raises:
        UserError: a dataset that is not prepared, with the command that prepares it, or one without the task's labels.
    """
    directory = Path(directory)
    if task:
        own = sets.of_task(task).name
        if name not in ("auto", own):
            raise UserError(
                f"config.finetune.task={task!r} has no labels for data.name={name!r}: set data.name={own!r}."
            )
        name = own
    if name == "auto":
        return TINY_STORIES if datasets.find(TINY_STORIES, directory) else STORY_GRAMMAR
    datasets.check_name(name)
    definition = sets.definition(name)
    if not definition.built_in and not datasets.find(name, directory):
        datasets.require_meant(name, directory)
        hint = (
            f"is not prepared in data.dir={str(directory)!r}: set data.dir if it is elsewhere, or "
            f"{definition.hint(directory)}"
        )
        if task:
            raise UserError(f"the data of finetune.task={task!r} {hint}.")
        usable = [*datasets.prepared(directory, []), *(one for one in sets.known() if one.built_in)]
        near = nearest(name, {one.name for one in usable})
        raise UserError(f"data.name={name!r} {hint}{f'; did you mean {near!r}?' if near else '.'}")
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
        UserError: a dataset or tokenizer that is not prepared, damaged files, no place to write, less text than a
            window of `context` tokens and the next one, or a tokenizer of more than `vocab_size` tokens.
    """
    directory = Path(directory)
    name = resolve_name(name, directory, task)
    # All that is cheap is checked before anything is written.
    _check_tokenizer(name, directory, tokenizer, n_stories)
    if vocab_size is not None and (size := tokenizers.size(tokenizer, directory)) > vocab_size:
        raise UserError(
            f"model.vocab_size={vocab_size} is smaller than the {size:,} tokens of data.tokenizer={tokenizer!r}: "
            "raise it or leave it None, or name the tokenizer that the model was trained with."
        )
    dataset, _ = datasets.prepare(name, directory, n_stories=n_stories, show=progress)
    # The exact number for bytes and a bound for other tokenizers, before any token is written.
    most = dataset.n_bytes["train"] + dataset.n_documents["train"] + 1
    if most <= context:
        raise UserError(
            f"data.name={name!r} has at most {most:,} tokens, too few for one window of model.context={context} and "
            "the token after it: lower model.context or take more text."
        )
    return cache.ensure(dataset, tokenizer, directory, task=task, show=progress)


def prepare(
    name: str,
    directory: str | Path,
    *,
    source: str | Path | None = None,
    field: str = FIELD,
    tokenizer: str | None = None,
    n_stories: int = N_STORIES,
    progress: bool = True,
) -> str:
    """Prepares a dataset (or the files of the tokenizer "gpt2") and returns a sentence that says what was done.

    Raises:
        UserError: see `datasets.prepare`, `gpt2.prepare` and `open_tokens`.
    """
    directory, folder = Path(directory), Path(source) if source is not None else None
    said = {True: "prepared now.", False: "already prepared, nothing to do."}
    if name == gpt2.NAME:
        made = gpt2.prepare(directory, folder, show=progress)
        return f"{name} is in {directory / name}: {said[made]}"
    datasets.require_meant(name, directory)
    if tokenizer is not None:
        _check_tokenizer(name, directory, tokenizer, n_stories)
    dataset, made = datasets.prepare(name, directory, folder, n_stories=n_stories, field=field, show=progress)
    train, validation, test = (f"{dataset.n_documents[split]:,} {split}" for split in SPLITS)
    counts = f"{train}, {validation} and {test} documents"
    sentence = f"{name} is in {dataset.root} with {counts}: {said[made]}"
    if tokenizer is None:
        return sentence
    tokens = cache.ensure(dataset, tokenizer, directory, show=progress)
    return f"{sentence} Its {tokens.meta.n_tokens['train']:,} train tokens of {tokenizer} are in {tokens.folder}."


def prepare_text(path: str | Path, directory: str | Path, *, field: str = FIELD) -> str:
    """Prepares a text, a file or a folder, under a name that follows from its name and content, which is returned.

    Raises:
        UserError: see `prepare`.
    """
    path = Path(path)
    stem = re.sub(r"[^a-z0-9]+", "_", path.resolve().name.lower()).strip("_")[:32]
    name = f"text_{stem}_{sources.find_texts(path, field=field).hash[:8]}"
    prepare(name, directory, source=path, field=field)
    return name


def _check_tokenizer(name: str, directory: Path, tokenizer: str, n_stories: int) -> None:
    """Refuses a tokenizer that is not available, before a dataset is made for it."""
    tokenizers.check(tokenizer)
    datasets.check_name(name)
    # A bpe:SIZE needs the text. If the dataset is there, nothing is made in vain, and `cache.ensure` refuses.
    if not tokenizer.startswith("bpe:") and not datasets.find(name, directory, n_stories=n_stories):
        tokenizers.make(tokenizer, directory, ())
