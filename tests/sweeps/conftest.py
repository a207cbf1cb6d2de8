"""An encoder that is pre-trained once, and what it read."""

import contextlib
import pathlib

import pytest

import actlab.data
from actlab.config import Config, replace
from actlab.data.sets import story_grammar
from actlab.sweeps import session


@contextlib.contextmanager
def _few_stories():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(story_grammar, "N_HELD_OUT_STORIES", 30)
        yield


@pytest.fixture(scope="session")
def stories(tmp_path_factory) -> str:
    """A data directory whose grammar has few stories."""
    folder = tmp_path_factory.mktemp("data")
    with _few_stories():
        actlab.data.prepare("story_grammar", folder, n_stories=64, progress=False)
    return str(folder)


@pytest.fixture(scope="module")
def few_stories():
    """The grammar of `stories`, for a module that reads them."""
    with _few_stories():
        yield


@pytest.fixture(scope="session")
def encoder(small_sweep, stories) -> Config:
    """An encoder of two seeds that reads a story a row."""
    return replace(
        small_sweep,
        **{
            "model.kind": "encoder",
            "model.d_ff": 16,
            "model.use_bias": True,
            "model.norm_position": "post",
            "data.name": "story_grammar",
            "data.dir": stories,
            "data.tokenizer": "wordpiece",
            "data.n_stories": 64,
            "data.packing": "padded",
            "train.eval_tokens": 2000,
            "sweep": {"seed": (1, 2)},
        },
    )


@pytest.fixture(scope="session")
def pretrained(encoder, tmp_path_factory) -> pathlib.Path:
    """Its workdir after 12 steps, with probes."""
    workdir = tmp_path_factory.mktemp("pretrained") / "w"
    config = replace(encoder, **{"train.probe_every": 12, "train.census_every": 12})
    with _few_stories():
        assert session.run(config, "sweep", workdir, ["test"]) == 0
    return workdir
