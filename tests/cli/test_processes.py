"""Two real processes over loopback, one device each, equal one; a signal to one of them stops both at one step."""

import csv
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import pytest
import signalled
from outcomes import TIME_FIELDS

ROOT = pathlib.Path(__file__).parents[2]
CONFIG = """
from actlab.config import presets

def get_config(preset: str = "small"):
    sweep = {"optimizer.learning_rate": (1e-3, 1e-2), "seed": (1, 2)}
    values = presets.tinystories(preset, {"sweep": sweep, "train.n_steps": 100})
    values.update_from_flattened_dict({
        "model.n_layers": 1, "model.d_model": 16, "model.context": 32, "data.tokenizer": "bytes",
        "data.n_stories": 200, "data.batch_size": 4, "optimizer.warmup_steps": 2, "train.eval_every": 50,
        "train.checkpoint_every": 50, "train.eval_tokens": 2000,
    })
    return values
"""


def start(folder, workdir, *devices, code=("-m", "actlab.main"), environment=None):
    line = [sys.executable, *code, "--config=sweep.py", f"--workdir={workdir}", *devices]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})}
    return subprocess.Popen(
        line, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def start_two(folder, workdir, *devices, codes=({}, {})):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    where = {"JAX_COORDINATOR_ADDRESS": f"localhost:{port}", "JAX_NUM_PROCESSES": "2"}
    return [
        start(folder, workdir, *devices, environment={**where, "JAX_PROCESS_ID": str(i)}, **codes[i]) for i in range(2)
    ]


def finish(processes):
    try:
        outs = [process.communicate(timeout=600)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [process.returncode for process in processes], outs


def results(workdir):
    rows = csv.DictReader((workdir / "results.csv").read_text().splitlines())
    return {row["run"]: (row["status"], float(row["final_loss"])) for row in rows}


def metrics(workdir):
    rows = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key not in TIME_FIELDS} for row in rows]


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    (folder / "sweep.py").write_text(CONFIG)
    codes, outs = finish([start(folder, "one")])
    assert codes == [0], outs
    return folder


@pytest.mark.devices
@pytest.mark.parametrize("devices", [[], ["--config.devices.lane=1"]], ids=["lanes", "batch"])
def test_two_processes_equal_one(one, tmp_path, devices):
    codes, outs = finish(start_two(one, tmp_path / "two", *devices))
    assert codes == [0, 0], outs
    assert outs[1].count("validation loss") == 0, "only the first process prints"
    for name, (status, loss) in results(one / "one").items():
        assert results(tmp_path / "two")[name] == (status, pytest.approx(loss, rel=1e-4))
    assert len(metrics(tmp_path / "two")) == len(metrics(one / "one"))


LONG = ["--config.train.n_steps=3000", "--config.train.eval_every=500", "--config.train.checkpoint_every=500"]


@pytest.fixture(scope="module")
def whole(one, tmp_path_factory):
    """A longer training of two processes."""
    workdir = tmp_path_factory.mktemp("whole") / "two"
    codes, outs = finish(start_two(one, workdir, *LONG))
    assert codes == [0, 0], outs
    return workdir


def train_for_a_while(processes, workdir):
    written = workdir / "metrics.jsonl"
    while processes[0].poll() is None and not (written.exists() and '"step": 600' in written.read_text()):
        time.sleep(0.01)


def start_two_of_which_one(folder, workdir, number, victim):
    """Two processes, one of which sends itself a signal once they have trained for a while."""
    codes = [{"code": signalled.code(number, 600)} if i == victim else {} for i in range(2)]
    return start_two(folder, workdir, *LONG, codes=codes)


@pytest.mark.devices
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_one_stops_both_and_they_go_on_together(one, whole, tmp_path, number):
    codes, outs = finish(start_two_of_which_one(one, tmp_path / "two", number, 1))
    assert codes == [143, 143], outs
    assert number == signal.SIGTERM or "saving a checkpoint first" in outs[1]
    codes, outs = finish(start_two(one, tmp_path / "two", *LONG))
    assert codes == [0, 0], outs
    assert metrics(tmp_path / "two") == metrics(whole)


@pytest.mark.devices
@pytest.mark.parametrize("victim", [0, 1])
def test_if_one_dies_the_other_ends_with_a_sentence_and_both_go_on(one, whole, tmp_path, victim):
    processes = start_two_of_which_one(one, tmp_path / "two", signal.SIGKILL, victim)
    processes[victim].wait(600)
    codes, outs = finish(processes)
    assert codes[victim] == -signal.SIGKILL and codes[1 - victim] == 2, outs
    assert "another process of this training has ended" in outs[1 - victim] and "Traceback" not in outs[1 - victim]
    codes, outs = finish(start_two(one, tmp_path / "two", *LONG))
    assert codes == [0, 0], outs
    assert metrics(tmp_path / "two") == metrics(whole)


@pytest.mark.devices
def test_if_the_reader_of_what_one_prints_goes_away_both_end(one, tmp_path):
    """Neither waits for the other, as JAX would at the exit of the first."""
    first, second = start_two(one, tmp_path / "two", *LONG)
    train_for_a_while([first, second], tmp_path / "two")
    first.stdout.close()
    try:
        said = second.communicate(timeout=240)[0]
        assert first.wait(240) == 141 and second.returncode == 2
    finally:
        for process in (first, second):
            process.kill()
            process.wait()
    assert "another process of this training has ended" in said
