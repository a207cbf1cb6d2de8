"""Copies of metrics.jsonl are made where the config asks for them, and only then."""

import importlib.machinery
import importlib.util

import pytest

from actlab import callbacks
from actlab.callbacks.tensorboard import EventFiles
from actlab.config import replace
from actlab.errors import UserError


def test_nothing_is_copied_unless_it_is_asked_for(tmp_path, tiny):
    assert callbacks.trackers(tiny, tmp_path, {"a": tiny}) == []
    config = replace(tiny, **{"log.tensorboard": True})
    (files,) = callbacks.trackers(config, tmp_path, {"a": tiny})
    assert isinstance(files, EventFiles) and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "extra"), [({"log.tensorboard": True}, "tensorboard"), ({"log.wandb_project": "mine"}, "wandb")]
)
def test_a_package_that_is_missing_is_named_with_its_extra(tiny, monkeypatch, change, extra):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    callbacks.require(tiny)
    with pytest.raises(UserError, match=rf"config.{next(iter(change))}=.*'.\[{extra}\]'"):
        callbacks.require(replace(tiny, **change))
    folder = importlib.machinery.ModuleSpec(extra, None)  # of a folder of that name, without a module
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: folder)
    with pytest.raises(UserError, match="needs the package"):
        callbacks.require(replace(tiny, **change))
