"""The command as a user types it: bad input is one sentence and exit code 2, with nothing written."""

import csv
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from event_files import expected, found

from actlab.studies.trained import load
from actlab.training.records import TIME_FIELDS

ROOT = pathlib.Path(__file__).parents[1]
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
    "--config.train.n_steps=1500",
    "--config.train.eval_every=250",
    "--config.train.eval_tokens=2000",
    "--config.train.checkpoint_every=250",
]


def command(module, arguments, folder):
    line = [sys.executable, "-m", f"actlab.{module}", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        line, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process):
    out, error = process.communicate(timeout=300)
    return process.returncode, out, error


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--config is missing"),
        (["--config=configs/nowhere.py"], "configs/nowhere.py cannot be read"),
        ([f"{GELU}x"], "did you mean 'small'"),
        ([GELU, "--config.model.activatoin=relu"], "did you mean 'model.activation'"),
        ([GELU, "--config.model=relu"], "config.model is no field"),
        ([GELU, "--config.model.activation=gleu"], "did you mean 'gelu'"),
        ([GELU, "--config.seed=1e3"], "config.seed=1e3"),
        ([GELU, "--config.optimizer.learning_rate=fast"], "config.optimizer.learning_rate=fast"),
        ([GELU, "--config.optimizer.learning_rate=nan"], "not a finite number"),
        ([GELU, "--config.model.use_bias=maybe"], "config.model.use_bias=maybe"),
        ([GELU, "--config.model.n_heads=3"], "config.model.n_heads=3"),
        ([GELU, "config.seed=3"], "two dashes"),
        ([GELU, "seed=3"], "--help lists"),
        ([GELU, "-config.sed=3"], "config.sed is no field"),
        ([GELU, "--config.model.vocab_size=100", "--config.data.tokenizer=bytes"], "257 tokens"),
        ([GELU, "--wrokdir=x"], "wrokdir"),
        ([GELU, "--run=gelu-lr0.003-seed1338"], "did you mean 'gelu-lr0.003-seed1337'"),
        ([SWEEP, "--config.seed=7"], "--config.seed changes nothing, because the config sweeps it"),
        ([GELU, "--config.devices.data=3"], "1 lane x 3 data x 1 fsdp = 3 devices, but there are 1"),
        ([GELU, "--config.data.name=tiny_storeis"], "tiny_stor"),
        ([GELU, "--config.data.tokenizer=morse"], "data.tokenizer='morse'"),
        ([GELU, "--config.data.tokenizer=gpt2"], "prepare gpt2"),
    ],
    ids=lambda value: value[-1][-30:] if isinstance(value, list) and value else "",
)
def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path, arguments, words):
    code, out, error = finish(command("main", arguments, tmp_path))
    assert code == 2
    assert words in error and error.count("\n") == 1 and error.startswith("actlab: ")
    assert files(tmp_path) == []


def test_one_run_of_a_sweep_takes_another_seed(tmp_path):
    code = (
        "import runpy\n"
        "from actlab.studies import session\n"
        "session.run = lambda config, *_: print(config.seed, config.model.activation, config.sweep) or 0\n"
        "runpy.run_module('actlab.main', run_name='__main__', alter_sys=True)\n"
    )
    words = [SWEEP, "--run=gelu-lr0.001-seed2", "--config.seed=7"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "7 gelu ()\n", "")


def test_a_broken_config_file_is_a_sentence_too(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from actlab import config\ndef get_config():\n    c = config.default()\n    c.sed = 3\n"
    )
    code, _, error = finish(command("main", ["--config=mine.py"], tmp_path))
    assert code == 2 and "sed" in error and error.count("\n") == 1


def test_an_unwritable_workdir_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    code, _, error = finish(command("main", [*QUICK, "--workdir=file/below"], tmp_path))
    assert code == 2 and "file/below cannot be written" in error
    assert files(tmp_path) == ["file"]


TEXTS = {
    "not utf-8": ({"train.txt": b"fine\n\xff\xfe", "valid.txt": b"fine\n"}, "train.txt is not UTF-8 at byte 5"),
    "empty": ({}, "no"),
    "missing": (None, "is not a folder"),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_text_that_cannot_be_used_is_refused(tmp_path, kind):
    contents, words = TEXTS[kind]
    folder = tmp_path / "texts"
    if contents is not None:
        folder.mkdir()
        for name, content in contents.items():
            (folder / name).write_bytes(content)
    before = files(tmp_path)
    code, out, error = finish(command("data", ["prepare", "mine", "--from=texts"], tmp_path))
    assert (code, out, error.count("\n")) == (2, "", 1) and words in error
    assert files(tmp_path) == before


def test_text_shorter_than_a_window_is_refused_before_anything_is_written(tmp_path):
    (tmp_path / "texts").mkdir()
    for name in ("train.txt", "valid.txt"):
        (tmp_path / "texts" / name).write_text("too short")
    assert finish(command("data", ["prepare", "mine", "--from=texts"], tmp_path))[0] == 0
    before = files(tmp_path)
    code, _, error = finish(command("main", [*QUICK, "--config.data.name=mine"], tmp_path))
    assert code == 2 and error.count("\n") == 1 and "11 tokens at most" in error and "model.context=32" in error
    assert files(tmp_path) == before


def test_a_config_file_that_returns_no_config_is_refused(tmp_path):
    (tmp_path / "mine.py").write_text("def get_config():\n    return 3\n")
    code, _, error = finish(command("main", ["--config=mine.py"], tmp_path))
    assert code == 2 and error.count("\n") == 1 and "get_config" in error


def without_times(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in row.items() if key not in TIME_FIELDS} for row in rows]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that nobody disturbed, with what it printed."""
    folder = tmp_path_factory.mktemp("finished")
    code, out, error = finish(command("main", QUICK, folder))
    assert code == 0, error
    (workdir,) = (folder / "runs").iterdir()
    return folder, workdir, out


def test_a_run_prints_and_leaves_what_it_promises(finished):
    folder, workdir, out = finished
    assert out.splitlines()[0].startswith("data        story_grammar, chosen by auto")
    for word in ("floor", "parameters", "MFLOP per token", "validation", "a sample", "results.csv"):
        assert word in out
    assert workdir.name.startswith("tinystories_gelu-")
    assert {"config.json", "manifest.json", "metrics.jsonl", "results.csv", "checkpoints"} <= set(os.listdir(workdir))
    manifest = json.loads((workdir / "manifest.json").read_text())
    assert manifest["data"]["name"] == "story_grammar" and len(manifest["data"]["fingerprint"]) == 64
    assert manifest["sessions"][0]["packages"]["jax"] and manifest["sessions"][0]["device"]
    config = json.loads((workdir / "config.json").read_text())
    assert config["data"]["name"] == "story_grammar" and config["model"]["vocab_size"] == 320
    splits = [row["split"] for row in without_times(workdir / "metrics.jsonl")]
    assert splits.count("validation") == 7 and splits.count("train") == 150
    last = [row for row in without_times(workdir / "metrics.jsonl") if row["split"] == "validation"][-1]
    probe = without_times(workdir / "metrics.jsonl")[-1]
    result = result_of(workdir)
    assert (probe["split"], probe["step"], splits.count("probe")) == ("probe", 1500, 6)
    for column in ("negative_fraction", "zero_fraction", "post_mean", "dead_fraction"):
        assert float(result[column]) == probe[column]
    assert (result["status"], last["split"], float(result["final_loss"])) == ("finished", "validation", last["loss"])
    assert f"floor       {float(result['floor']):.4f} nats/token" in out
    assert f"{last['loss']:.4f} nats/token  ({last['loss'] - float(result['floor']):.4f} above the floor)" in out


def test_the_same_command_again_says_that_the_work_is_done(finished):
    folder, workdir, _ = finished
    before = {path: path.stat().st_mtime_ns for path in workdir.rglob("*") if path.is_file()}
    code, out, _ = finish(command("main", QUICK, folder))
    assert code == 0 and "nothing to do" in out
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_stopped_in_the_middle_gives_the_same_result_to_the_bit(finished, tmp_path, number):
    folder, workdir, _ = finished
    watched = "--config.log.tensorboard=true"
    arguments = [*QUICK, f"--config.data.dir={folder}/data", f"--workdir={tmp_path}/w", watched]
    process = command("main", arguments, tmp_path)
    metrics = tmp_path / "w" / "metrics.jsonl"
    while process.poll() is None and not (metrics.exists() and '"step": 600' in metrics.read_text()):
        time.sleep(0.002)
    process.send_signal(number)
    code, out, _ = finish(process)
    assert code == (143 if number == signal.SIGTERM else -9)
    code, out, error = finish(command("main", arguments, tmp_path))
    assert code == 0, error
    assert "going on from step" in out
    assert without_times(metrics) == without_times(workdir / "metrics.jsonl")
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    (run,) = (tmp_path / "w" / "tensorboard").iterdir()
    assert found(run) == expected(rows, run.name)
    ours, theirs = load(tmp_path / "w"), load(workdir)
    flat = lambda run: dict(_leaves(run.params))  # noqa: E731
    for path, array in flat(theirs).items():
        np.testing.assert_array_equal(flat(ours)[path], array)


DIE_AT = """
import os, runpy, sys
from actlab.training import checkpoint, records
owner, name, call = {"seal": (checkpoint, "_write_seal", 3), "row": (records.Workdir, "append_metrics", 90),
                     "results": (records.Workdir, "write_results", 1)}[sys.argv.pop(1)]
whole, calls = getattr(owner, name), iter(range(1, 10**9))
def dying(*arguments):
    if next(calls) == call:
        os._exit(77)
    return whole(*arguments)
setattr(owner, name, dying)
runpy.run_module("actlab.main", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("place", ["seal", "row", "results"])
def test_a_run_that_dies_at_a_delicate_moment_gives_the_same_result(finished, tmp_path, place):
    folder, workdir, _ = finished
    arguments = [*QUICK, f"--config.data.dir={folder}/data", f"--workdir={tmp_path}/w"]
    line = [sys.executable, "-c", DIE_AT, place, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    died = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert died.returncode == 77, died.stderr
    assert not (tmp_path / "w" / "results.csv").exists()
    code, _, error = finish(command("main", arguments, tmp_path))
    assert code == 0, error
    assert without_times(tmp_path / "w" / "metrics.jsonl") == without_times(workdir / "metrics.jsonl")
    ours, theirs = result_of(tmp_path / "w"), result_of(workdir)
    assert {**ours, **dict.fromkeys(TIME_FIELDS)} == {**theirs, **dict.fromkeys(TIME_FIELDS)}


def result_of(workdir):
    (row,) = csv.DictReader((workdir / "results.csv").read_text().splitlines())
    return row


def _leaves(tree, path=()):
    for key, value in tree.items():
        yield from _leaves(value, (*path, key)) if isinstance(value, dict) else [((*path, key), value)]


def test_a_workdir_of_another_config_is_refused_by_field(finished):
    folder, workdir, _ = finished
    arguments = [*QUICK, f"--workdir={workdir}", "--config.optimizer.learning_rate=0.5"]
    code, _, error = finish(command("main", arguments, folder))
    assert code == 2 and "config.optimizer.learning_rate is 0.003 there and 0.5 here" in error


def test_a_workdir_begun_on_other_data_is_refused(finished, tmp_path):
    folder, workdir, _ = finished
    manifest = json.loads((workdir / "manifest.json").read_text())
    manifest["data"]["fingerprint"] = "0" * 64
    copy = tmp_path / "w"
    copy.mkdir()
    (copy / "config.json").write_text((workdir / "config.json").read_text())
    (copy / "manifest.json").write_text(json.dumps(manifest))
    code, _, error = finish(command("main", [*QUICK, f"--workdir={copy}"], folder))
    assert code == 2 and "fingerprint 000000000000" in error
    assert files(copy) == ["config.json", "manifest.json"]


def test_sampling_is_a_function_of_its_flags(finished, tmp_path):
    _, workdir, _ = finished

    def sample(*flags):
        code, out, error = finish(command("sample", [f"--workdir={workdir}", "--n_tokens=40", *flags], tmp_path))
        assert code == 0, error
        return out

    first = sample("--prompt=Once upon", "--seed=1")
    assert first.startswith("Once upon") and first != sample("--prompt=Once upon", "--seed=2")
    assert sample("--temperature=0", "--seed=1") == sample("--top_k=1", "--seed=2")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--workdir is missing"),
        (["--workdir=nowhere"], "no config.json"),
        (["--workdir=x", "--top_k=-1"], "top_k"),
        (["--temperature=nan"], "finite"),
    ],
)
def test_sampling_without_a_run_is_refused(tmp_path, arguments, words):
    code, _, error = finish(command("sample", arguments, tmp_path))
    assert code == 2 and words in error and error.count("\n") == 1


SHARED = ROOT.parent / "shared" / "data"


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="needs ../shared")
def test_prepared_tinystories_is_what_auto_trains_on_also_with_gpt2s_tokens(tmp_path):
    for name, source in (("tiny_stories", "tinystories"), ("gpt2", "gpt2")):
        code, out, error = finish(command("data", ["prepare", name, f"--from={SHARED / source}"], tmp_path))
        assert code == 0 and "prepared now" in out, error
    code, out, error = finish(command("main", [*QUICK, "--config.data.tokenizer=gpt2", "--workdir=w"], tmp_path))
    assert code == 0, error
    assert out.startswith("data        tiny_stories, chosen by auto")
    assert "floor       unknown" in out and "vocabulary 50304" in out
    losses = [row["loss"] for row in without_times(tmp_path / "w" / "metrics.jsonl") if row["split"] == "validation"]
    assert losses[0] == pytest.approx(np.log(50_304), abs=0.2) and losses[-1] < losses[0] - 3
