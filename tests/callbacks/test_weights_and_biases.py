"""Weights & Biases, offline: a W&B run per run, what was sent is not sent again, a resume keeps the id."""

import json
import struct
import time

import pytest

from actlab import callbacks
from actlab.callbacks import ResumeContext
from actlab.config import replace
from actlab.errors import UserError
from actlab.sweeps import launching, session

wandb = pytest.importorskip("wandb", reason="needs the extra wandb")

IDENT, BLOCK, HEAD = 7, 2**15, 7


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    """No network: offline, and where anybody tried, through a proxy that is not there."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("CONFIG", "CACHE", "DATA"):
        monkeypatch.setenv(f"WANDB_{name}_DIR", str(tmp_path / "home"))
    yield
    wandb.teardown()


def records(file):
    """Records of an offline run's file, in LevelDB's log format: parts in blocks, each part with a header."""
    from wandb.proto import wandb_internal_pb2

    content, place, whole = file.read_bytes(), IDENT, b""
    assert content[:4] == b":W&B"
    while place + HEAD <= len(content):
        if BLOCK - place % BLOCK < HEAD:
            place += BLOCK - place % BLOCK
        size, kind = struct.unpack("<HB", content[place + 4 : place + HEAD])
        whole += content[place + HEAD : place + HEAD + size]
        place += HEAD + size
        if kind in (1, 4):  # whole, or the last part
            yield wandb_internal_pb2.Record.FromString(whole)
            whole = b""


def sessions(workdir):
    """Of each offline session, in order: its run, and its history as rows."""
    for file in sorted(workdir.glob("wandb/offline-run-*/*.wandb")):
        found = list(records(file))
        (run, *_) = (one.run for one in found if one.WhichOneof("record_type") == "run")
        history = [one.history for one in found if one.WhichOneof("record_type") == "history"]
        yield (
            run,
            [
                {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in one.item}
                for one in history
            ],
        )


def row(step, loss=1.5, split="train", **more):
    return {"run": "a", "step": step, "split": split, "loss": loss, **more, "seconds": 0.1}


def train(workdir, config, resumed, rows):
    from actlab.callbacks.weights_and_biases import WandbRuns

    runs = WandbRuns("mine", workdir, {"a": config})
    runs.on_begin(resumed)
    runs.on_rows(rows)
    runs.on_end()
    wandb.teardown()  # its own process may still be writing


def steps(history, field):
    return [(one["_step"], one[field]) for one in history if field in one]


def test_a_run_is_a_run_there_and_a_resumed_one_goes_on_under_its_id(tmp_path, tiny):
    first = [row(1), row(2), row(2, 1.25, "validation"), row(3, None, status="diverged")]
    train(tmp_path, tiny, ResumeContext((), (), ()), first)
    (run, history) = next(sessions(tmp_path))
    assert (run.project, run.display_name, run.run_group) == ("mine", "a", tmp_path.name)
    config = {update.key: json.loads(update.value_json) for update in run.config.update}
    assert config["optimizer.learning_rate"] == tiny.optimizer.learning_rate
    assert steps(history, "train/loss")[:2] == [(1, 1.5), (2, 1.5)]
    assert steps(history, "validation/loss") == [(2, 1.25)]
    # Stopped at 1 by force: the rest comes once more, and one row more.
    time.sleep(1.1)  # W&B names the folder of a session by the second
    train(tmp_path, tiny, ResumeContext(first[:1], first[1:], ()), [*first[1:], row(4)])
    (_, again) = list(sessions(tmp_path))
    assert again[0].run_id == run.run_id == json.loads((tmp_path / "wandb" / "ids.json").read_text())["a"]
    assert steps(again[1], "train/loss") == [(4, 1.5)]


def test_a_run_that_was_not_watched_before_is_sent_whole(tmp_path, tiny):
    train(tmp_path, tiny, ResumeContext([row(1), row(2)], (), ()), [row(3)])
    ((_, history),) = sessions(tmp_path)
    assert [step for step, _ in steps(history, "train/loss")] == [1, 2, 3]


def test_what_weights_and_biases_refuses_is_the_users_to_mend(tmp_path, tiny):
    from actlab.callbacks.weights_and_biases import WandbRuns

    with pytest.raises(UserError, match="config.log.wandb_project='no/slash'.*WANDB_MODE=offline"):
        WandbRuns("no/slash", tmp_path, {"a": tiny}).on_begin(ResumeContext((), (), ()))
    assert not (tmp_path / "wandb" / "ids.json").exists(), "or it would seem to have been sent what it was not"


def begin(config, workdir):
    return session.run(config, "mine", workdir, ["test"])


def begin_jobs(config, workdir):
    return launching.run(config, (), "mine", workdir, launching.Local(), ["test"])


@pytest.mark.parametrize("begin", [begin, begin_jobs])
@pytest.mark.parametrize(("key", "words"), [(None, "no login here"), ("short", "API key must have")])
def test_without_a_login_nothing_is_begun(tmp_path, tiny, texts, monkeypatch, key, words, begin):
    data = {"data.name": "mine", "data.dir": texts, "data.tokenizer": "bytes", "model.vocab_size": None}
    config = replace(tiny, **data, **{"log.wandb_project": "mine", "sweep": {"seed": (1, 2)}})
    callbacks.require_login(config)  # offline it needs none
    wandb.teardown()
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    if key:
        monkeypatch.setenv("WANDB_API_KEY", key)
    with pytest.raises(UserError, match=f"config.log.wandb_project='mine'.*{words}.*WANDB_MODE=offline"):
        begin(config, tmp_path / "w")
    assert not (tmp_path / "w").exists()
    assert session.run(config, "mine", tmp_path / "w", ["test"], dry_run=True) == 0, "it sends nothing"
