"""Event files, read back without TensorFlow: what metrics.jsonl has, each step once, also after a kill."""

import math
import os

import pytest
from event_files import found, read

from actlab.callbacks import ResumeContext, tensorboard
from actlab.callbacks.tensorboard import EventFiles


def row(run, step, loss=1.5, split="train", **more):
    return {"run": run, "step": step, "split": split, "loss": loss, **more, "seconds": step / 10}


def test_a_row_is_an_event_with_its_numbers_by_split(tmp_path):
    files = EventFiles(tmp_path, ["a", "b"])
    files.on_begin(ResumeContext((), (), ()))
    rows = [
        row("a", 1, tokens_per_second=100.0),
        row("b", 1),
        {"run": "a", "step": 1, "split": "probe", "layer_0/post_mean": 0.25, "seconds": 0.2},
        row("a", 2, math.inf, status="diverged"),
    ]
    files.on_rows(rows[:2])
    files.on_rows(rows[2:])
    files.on_end()
    (one, probe, wild) = found(tmp_path / "a")
    assert one == (1, {"train/loss": 1.5, "train/tokens_per_second": 100.0})
    assert probe == (1, {"probe/layer_0/post_mean": 0.25})
    assert wild[0] == 2 and math.isnan(wild[1]["train/loss"])
    assert found(tmp_path / "b") == [(1, {"train/loss": 1.5})]


def test_a_run_named_by_the_path_of_its_checkpoint_stays_in_the_folder(tmp_path):
    files = EventFiles(tmp_path / "boards", ["../../w/r1-seed2"])
    files.on_begin(ResumeContext((), (), ()))
    files.on_rows([row("../../w/r1-seed2", 1)])
    files.on_end()
    assert [place.name for place in tmp_path.iterdir()] == ["boards"]
    assert found(tmp_path / "boards/.._.._w_r1-seed2") == [(1, {"train/loss": 1.5})]


def test_a_session_after_a_kill_makes_the_files_anew_from_the_rows_that_are_kept(tmp_path):
    killed = EventFiles(tmp_path, ["a"])
    killed.on_begin(ResumeContext((), (), ()))
    killed.on_rows([row("a", step) for step in (1, 2, 3)])
    resumed = EventFiles(tmp_path, ["a"])
    kept = [row("a", 1), row("a", 2, None)]
    resumed.on_begin(ResumeContext(kept, [row("a", 3)], ()))
    resumed.on_rows([row("a", 3)])
    resumed.on_end()
    killed.on_end()
    events = read(tmp_path / "a")
    assert [event.step for event in events] == [1, 2, 3]
    assert events[2].wall_time - events[0].wall_time == pytest.approx(0.2), "relative times are those of training"
    assert [math.isnan(value["train/loss"]) for _, value in found(tmp_path / "a")] == [False, True, False]


def test_events_are_on_disk_while_it_trains(tmp_path, monkeypatch):
    monkeypatch.setattr(tensorboard, "FLUSH_SECONDS", 0.0)
    files = EventFiles(tmp_path, ["a"])
    files.on_begin(ResumeContext((), (), ()))
    files.on_rows([row("a", 1)])
    assert found(tmp_path / "a") == [(1, {"train/loss": 1.5})]
    files.on_end()
    assert os.listdir(tmp_path) == ["a"]
