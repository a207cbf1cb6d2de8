"""The main command: what it refuses writes nothing; what is stopped gives the same result to the bit.

Kills have tests of their own, in tests/faults/test_kills.py.
"""

import csv
import json
import os
import pathlib
import signal
import subprocess
import sys

import commands
import numpy as np
import pytest
import signalled
from event_files import expected, found
from outcomes import TIME_FIELDS

from actlab.cli import data, sample
from actlab.main import main
from actlab.sweeps import session
from actlab.sweeps.trained import load
from actlab.workdir.records import Workdir

ROOT = pathlib.Path(__file__).parents[2]
GELU = f"--config={ROOT}/configs/tinystories_gelu.py:small"
SWEEP = f"--config={ROOT}/configs/seed_study.py:small"
QUICK = [
    GELU,
    "--config.model.n_layers=1",
    "--config.model.d_model=16",
    "--config.model.context=32",
    "--config.data.tokenizer=bytes",
    "--config.data.n_stories=200",
    "--config.data.batch_size=4",
    "--config.optimizer.warmup_steps=2",
    "--config.train.n_steps=300",
    "--config.train.eval_every=50",
    "--config.train.eval_tokens=2000",
    "--config.train.checkpoint_every=50",
    "--config.train.probe_every=60",
]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "--config is missing"),
        ([f"{GELU}x"], "did you mean 'small'"),
        ([GELU, "--config.model.activatoin=relu"], "did you mean 'model.activation'"),
        ([GELU, "--config.model.activation=gleu"], "did you mean 'gelu'"),
        ([GELU, "--config.model.n_heads=3"], "config.model.n_heads=3"),
        ([GELU, "config.seed=3"], "--config.seed=3"),
        ([GELU, "--config.model.vocab_size=100", "--config.data.tokenizer=bytes"], "257 tokens"),
        ([GELU, "--wrokdir=x"], "wrokdir"),
        ([GELU, "--run=gelu-lr0.003-seed1338"], "did you mean 'gelu-lr0.003-seed1337'"),
        ([SWEEP, "--config.seed=7"], "--config.seed changes nothing, because the config sweeps it"),
        ([GELU, "--config.devices.data=99"], "1 lane x 99 data x 1 fsdp = 99 devices, but there are"),
        ([GELU, "--config.data.name=tiny_storeis"], "tiny_stor"),
        ([GELU, "--config.data.tokenizer=morse"], "data.tokenizer='morse'"),
        ([GELU, "--config.data.tokenizer=gpt2"], "prepare gpt2"),
        ([GELU, "--config.data.name=tinystories"], "did you mean 'tiny_stories'"),
        ([SWEEP, "--extend"], "--extend is given without --workdir"),
        ([GELU, "--profile=t", "--workdir=w"], "--workdir=w has no effect with --profile"),
        ([GELU, "--profile=t", "--target=h100"], "--target=h100 has no effect with --profile"),
    ],
    ids=lambda value: value[-1][-30:] if isinstance(value, list) and value else "",
)
def test_bad_input_is_refused(refused, words, told):
    assert told in refused(main, *words)


def test_one_run_of_a_sweep_takes_another_seed(monkeypatch):
    taken = []
    monkeypatch.setattr(session, "run", lambda config, *_, **__: taken.append(config) or 0)
    commands.run(main, SWEEP, "--run=gelu-lr0.0056-seed2", "--config.seed=7")
    assert [(one.seed, one.model.activation, one.sweep) for one in taken] == [(7, "gelu", ())]


def test_an_unwritable_workdir_is_refused(refused, tmp_path):
    (tmp_path / "file").write_text("")
    assert "file/below cannot be written" in refused(main, *QUICK, "--workdir=file/below")


def test_text_shorter_than_a_window_is_refused(refused, tmp_path):
    (tmp_path / "texts").mkdir()
    for name in ("train", "valid"):
        (tmp_path / "texts" / f"{name}.txt").write_text(f"short {name}")
    commands.run(data.main, "prepare", "mine", "--from=texts")
    told = refused(main, *QUICK, "--config.data.name=mine")
    assert "13 tokens" in told and "model.context=32" in told


def without_times(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in row.items() if key not in TIME_FIELDS} for row in rows]


def start(code, words, folder):
    """A process of its own; `code` are the words after the interpreter's name."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, *code, *words],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """An undisturbed run and what it printed."""
    folder = tmp_path_factory.mktemp("finished")
    process = start(["-m", "actlab.main"], QUICK, folder)
    out, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    (workdir,) = (folder / "runs").iterdir()
    return folder, workdir, out


def test_a_run_prints_and_leaves_what_it_promises(finished):
    folder, workdir, out = finished
    assert out.splitlines()[0].startswith("data        story_grammar, chosen by auto")
    for word in ("floor", "parameters", "MFLOP per token", "validation", "test ", "a sample", "results.csv"):
        assert word in out
    assert workdir.name.startswith("tinystories_gelu-")
    assert {"config.json", "manifest.json", "metrics.jsonl", "results.csv", "checkpoints"} <= set(os.listdir(workdir))
    manifest = json.loads((workdir / "manifest.json").read_text())
    assert manifest["data"]["name"] == "story_grammar" and len(manifest["data"]["fingerprint"]) == 64
    assert manifest["sessions"][0]["packages"]["jax"] and manifest["sessions"][0]["device"]["cores"] >= 1
    config = json.loads((workdir / "config.json").read_text())
    assert config["data"]["name"] == "story_grammar" and config["model"]["vocab_size"] == 320
    splits = [row["split"] for row in without_times(workdir / "metrics.jsonl")]
    assert splits.count("validation") == 7 and splits.count("train") == 30
    last = [row for row in without_times(workdir / "metrics.jsonl") if row["split"] == "validation"][-1]
    probe = without_times(workdir / "metrics.jsonl")[-1]
    result = result_of(workdir)
    assert (probe["split"], probe["step"], splits.count("probe")) == ("probe", 300, 6)
    for column in ("negative_fraction", "zero_fraction", "post_mean", "dead_fraction"):
        assert float(result[column]) == probe[column]
    assert (result["status"], last["split"], float(result["final_loss"])) == ("finished", "validation", last["loss"])
    (tested,) = [row for row in without_times(workdir / "metrics.jsonl") if row["split"] == "test"]
    assert (tested["step"], tested["loss"]) == (300, float(result["test_loss"]))
    assert float(result["test_floor"]) < tested["loss"] == pytest.approx(last["loss"], rel=0.05)
    assert f"test        {tested['loss']:.4f} nats/byte; floor {float(result['test_floor']):.4f}" in out
    assert f"floor       {float(result['floor']):.4f} nats/byte" in out
    assert f"{last['loss']:.4f} nats/byte  ({last['loss'] - float(result['floor']):.4f} above the floor)" in out


def test_the_same_command_again_says_that_the_work_is_done(finished, monkeypatch):
    folder, workdir, _ = finished
    before = {path: path.stat().st_mtime_ns for path in workdir.rglob("*") if path.is_file()}
    monkeypatch.chdir(folder)
    assert "nothing to do" in commands.run(main, *QUICK)
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_run_stopped_in_the_middle_gives_the_same_result_to_the_bit(finished, tmp_path):
    folder, workdir, _ = finished
    words = [*QUICK, f"--config.data.dir={folder}/data", f"--workdir={tmp_path}/w", "--config.log.tensorboard=true"]
    _, error = (process := start(signalled.code(signal.SIGTERM, 120), words, tmp_path)).communicate(timeout=300)
    assert process.returncode == 143, error
    said = commands.run(main, *words)
    assert "resuming from step" in said and "resuming from step 300" not in said
    metrics = tmp_path / "w" / "metrics.jsonl"
    assert without_times(metrics) == without_times(workdir / "metrics.jsonl")
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    (run,) = (tmp_path / "w" / "tensorboard").iterdir()
    assert found(run) == expected(rows, run.name)
    ours, theirs = (dict(_leaves(load(place).params)) for place in (tmp_path / "w", workdir))
    assert ours.keys() == theirs.keys()
    for path, array in theirs.items():
        np.testing.assert_array_equal(ours[path], array)


def result_of(workdir):
    (row,) = csv.DictReader((workdir / "results.csv").read_text().splitlines())
    return row


def _leaves(tree, path=()):
    for key, value in tree.items():
        yield from _leaves(value, (*path, key)) if isinstance(value, dict) else [((*path, key), value)]


def test_a_workdir_of_another_config_is_refused_by_field(finished, refused, monkeypatch):
    folder, workdir, _ = finished
    monkeypatch.chdir(folder)
    told = refused(main, *QUICK, f"--workdir={workdir}", "--config.optimizer.learning_rate=0.5")
    assert "config.optimizer.learning_rate is 0.003 there and 0.5 here" in told


def test_a_workdir_begun_on_other_data_is_refused(finished, refused, tmp_path, monkeypatch):
    folder, workdir, _ = finished
    manifest = json.loads((workdir / "manifest.json").read_text())
    manifest["data"]["fingerprint"] = "0" * 64
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "config.json").write_text((workdir / "config.json").read_text())
    Workdir(tmp_path / "w").write_manifest(manifest)
    monkeypatch.chdir(folder)
    assert "fingerprint 000000000000" in refused(main, *QUICK, f"--workdir={tmp_path}/w")


def test_sampling_is_a_function_of_its_flags(finished):
    _, workdir, _ = finished

    def text(*words):
        return commands.run(sample.main, f"--workdir={workdir}", "--n_tokens=40", *words)

    first = text("--prompt=Once upon", "--seed=1")
    assert first.startswith("Once upon") and first != text("--prompt=Once upon", "--seed=2")
    assert text("--temperature=0", "--seed=1") == text("--top_k=1", "--seed=2")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "no workdir is given"),
        (["--workdir=nowhere"], "no config.json"),
        (["--workdir=x", "--top_k=-1"], "top_k"),
        (["--temperature=nan"], "finite"),
    ],
)
def test_sampling_without_a_run_is_refused(refused, words, told):
    assert told in refused(sample.main, *words)


SHARED = ROOT.parent / "shared" / "data"


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="needs ../shared")
def test_prepared_tinystories_is_what_auto_trains_on_also_with_gpt2s_tokens(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, source in (("tiny_stories", "tinystories"), ("gpt2", "gpt2")):
        assert "prepared now" in commands.run(data.main, "prepare", name, f"--from={SHARED / source}")
    out = commands.run(main, *QUICK, "--config.data.tokenizer=gpt2", "--workdir=w")
    assert out.startswith("data        tiny_stories, chosen by auto")
    assert "floor       unknown" in out and "vocabulary 50304" in out
    losses = [row["loss"] for row in without_times(tmp_path / "w" / "metrics.jsonl") if row["split"] == "validation"]
    assert losses[0] == pytest.approx(np.log(50_304), abs=0.2) and losses[-1] < losses[0] - 3
