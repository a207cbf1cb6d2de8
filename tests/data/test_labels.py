"""Labels: those that the text of a story tells, checked before they are used, part of what identifies the data."""

import derivations
import numpy as np
import pytest

import actlab.data
from actlab import config as config_lib
from actlab.data import datasets, sets
from actlab.data.sets import story_grammar
from actlab.errors import UserError

N = 60


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data directory whose grammar has few stories that are held out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(story_grammar, "N_HELD_OUT_STORIES", 12)
        yield tmp_path_factory.mktemp("data")


def tokens_of(data, task):
    return actlab.data.open_tokens("story_grammar", data, "wordpiece", n_stories=N, task=task, progress=False)


def test_the_schema_knows_every_task_and_its_classes():
    known = {task: len(classes) for one in sets.known() for task, classes in one.tasks.items()}
    assert known == config_lib.CLASSES


@pytest.mark.parametrize(("task", "fact"), [("wish", "granted"), ("ending", "happy")])
def test_labels_are_what_the_text_of_each_story_says(data, task, fact):
    found = tokens_of(data, task).labels
    dataset = datasets.find("story_grammar", data, n_stories=N)
    for split in ("train", "validation", "test"):
        texts = [text for some in dataset.texts(split) for text in some][:12]
        expected = [getattr(derivations.parse(text), fact) for text in texts]
        assert getattr(found, split)[:12].tolist() == expected
    assert (len(found.train), len(found.validation), len(found.test)) == (N, 12, 12)
    assert 0.4 < found.train.mean() < 0.85, "neither class is rare"


def test_labels_are_part_of_the_fingerprint_and_text_alone_keeps_its_own(data):
    plain = actlab.data.open_tokens("story_grammar", data, "wordpiece", n_stories=N, progress=False)
    prints = {tokens_of(data, task).fingerprint for task in ("wish", "ending")} | {plain.fingerprint}
    assert len(prints) == 3 and plain.labels is None and plain.fingerprint == plain.meta.fingerprint


def test_an_altered_file_of_labels_is_noticed(data):
    tokens_of(data, "wish")
    (path,) = data.glob("*/labels/wish/train.npy")
    found = np.load(path)
    np.save(path, 1 - found)
    with pytest.raises(UserError, match=r"train.npy is damaged .*remove the folder"):
        tokens_of(data, "wish")
    np.save(path, found)
    assert tokens_of(data, "wish").labels.train.tolist() == found.tolist()


def test_a_task_names_its_data():
    assert actlab.data.resolve_name("auto", "nowhere", "ending") == "story_grammar"
    with pytest.raises(UserError, match="task='wish' has no labels for data.name='tiny_stories'"):
        actlab.data.resolve_name("tiny_stories", "nowhere", "wish")
    with pytest.raises(UserError, match="data prepare sst2 --dir=nowhere"):
        actlab.data.resolve_name("auto", "nowhere", "sst2")
