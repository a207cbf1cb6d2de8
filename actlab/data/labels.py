"""Labels of documents: one number per document for each task, kept beside its dataset with their sums."""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Int8

from actlab.data import folders, sst2
from actlab.data.datasets import Dataset
from actlab.data.sources import CORPUS_SEED, SPLITS, STORY_GRAMMAR
from actlab.errors import UserError

META = "meta.json"


@dataclasses.dataclass(frozen=True)
class Task:
    """What is to be told of a document of a dataset, and the name of each answer."""

    data: str
    classes: tuple[str, ...]


TASKS = {
    "wish": Task(STORY_GRAMMAR, ("refused", "granted")),
    "ending": Task(STORY_GRAMMAR, ("sad", "happy")),
    "sst2": Task(sst2.NAME, sst2.CLASSES),
}


@dataclasses.dataclass(frozen=True)
class Labels:
    """The labels of a dataset's documents, in their order; `hash` is over them and the names of the classes."""

    task: str
    classes: tuple[str, ...]
    train: Int8[np.ndarray, "n_train"]
    validation: Int8[np.ndarray, "n_validation"]
    hash: str


def dataset_of(task: str, name: str) -> str:
    """The dataset that `data.name` means where a task's labels are wanted.

    Raises:
      UserError: another dataset than the task's.
    """
    own = TASKS[task].data
    if name not in ("auto", own):
        raise UserError(f"config.finetune.task={task!r} has no labels for data.name={name!r}: set data.name={own!r}.")
    return own


def ensure(task: str, dataset: Dataset, directory: Path, *, show: bool = True) -> Labels:
    """The labels of a dataset, written down at the first use.

    Raises:
      UserError: a damaged file, a label outside the classes, or another number of labels than documents.
    """
    folder = dataset.root / "labels" / task
    if not _is_current(folder, dataset):
        with folders.locked(directory, dataset.root.name, show=show):
            if not _is_current(folder, dataset):
                _write(task, dataset, folder)
    return _open(task, dataset, folder)


def _write(task: str, dataset: Dataset, folder: Path) -> None:
    with folders.fresh(folder) as draft:
        for split in SPLITS:
            found = np.array(list(_labels(task, dataset, split)), np.int64)
            _check(task, dataset, split, found)
            np.save(_file(draft, split), found.astype(np.int8))
        sums = {split: folders.sha256(_file(draft, split)) for split in SPLITS}
        meta = {"source_hash": dataset.source_hash, "sums": sums}
        (draft / META).write_text(json.dumps(meta, indent=2) + "\n")


def _labels(task: str, dataset: Dataset, split: str) -> Iterator[int]:
    if TASKS[task].data != STORY_GRAMMAR:
        return iter(dataset.labels(split))
    from actlab.data import story_grammar

    # The stories of the dataset, drawn once more: reading a story's choices from its text takes five times as long.
    stories = story_grammar.stories(CORPUS_SEED, split, dataset.n_documents[split])
    return (int(story.choices.granted if task == "wish" else story.choices.happy) for story in stories)


def _check(task: str, dataset: Dataset, split: str, found: np.ndarray) -> None:
    n_classes = len(TASKS[task].classes)
    if len(found) != dataset.n_documents[split]:
        raise folders.damaged(dataset.root / split, f"{len(found)} labels for {dataset.n_documents[split]} documents")
    outside = np.flatnonzero((found < 0) | (found >= n_classes))
    if len(outside):
        raise UserError(
            f"document {outside[0] + 1} of the {split} split of {dataset.name} has the label {found[outside[0]]}, but "
            f"the classes of {task} are 0 to {n_classes - 1}: mend the source, remove {dataset.root} and prepare again."
        )


def _is_current(folder: Path, dataset: Dataset) -> bool:
    return folder.exists() and folders.read_json(folder / META).get("source_hash") == dataset.source_hash


def _open(task: str, dataset: Dataset, folder: Path) -> Labels:
    sums: Mapping[str, str] = folders.read_json(folder / META).get("sums", {})
    arrays = {}
    for split in SPLITS:
        path = _file(folder, split)
        if not path.is_file() or folders.sha256(path) != sums.get(split):
            raise folders.damaged(path, "its content changed")
        arrays[split] = np.load(path)
    classes = TASKS[task].classes
    return Labels(task, classes, **arrays, hash=folders.digest([task, classes, dict(sums)]))


def _file(folder: Path, split: str) -> Path:
    return folder / f"{split}.npy"
