"""The command that launches: bad input is one sentence and exit code 2, before any work."""

import os
import pathlib
import subprocess
import sys

import pytest
from absl import flags
from absl.testing import flagsaver

from actlab import config as config_lib
from actlab import launch
from actlab.config import Config, to_json
from actlab.errors import UserError
from actlab.studies import launching

ROOT = pathlib.Path(__file__).parents[1]


@pytest.fixture
def called(monkeypatch, tmp_path):
    """A function of flags that calls the command's main and returns what would have been launched."""
    launched = []
    monkeypatch.setattr(launching, "run", lambda *arguments: launched.append(arguments) or 0)
    monkeypatch.setattr(launching, "Slurm", lambda *arguments: arguments)
    (tmp_path / "mine.json").write_text(to_json(Config(seed=4)))

    def call(*words):
        with flagsaver.flagsaver():
            line = ["actlab.launch", f"--config={tmp_path}/mine.json", *words]
            monkeypatch.setattr(sys, "argv", line)
            assert launch.main(flags.FLAGS(line)[1:]) == 0
            return launched[-1]

    return call


def test_flags_become_an_executor_and_a_workdir(called):
    config, code, label, workdir, executor, command = called("--executor=local", "--workdir=w", "--max_parallel=3")
    assert (config.seed, code, label, workdir) == (4, "", "mine", pathlib.Path("w"))
    assert isinstance(executor, launching.Local) and executor._max_parallel == 3
    assert command[0] == "actlab.launch"


def test_what_sbatch_shall_know_reaches_it(called):
    words = ["--partition=gpu", "--time=8:00:00", "--gpus=2", "--sbatch=account=mine", "--sbatch=exclusive"]
    options, at_once = called("--executor=slurm", *words, "--max_parallel=5")[4]
    assert options == ["--partition=gpu", "--time=8:00:00", "--gpus=2", "--account=mine", "--exclusive"]
    assert at_once == 5 and called("--executor=slurm")[4] == ([], None)


def test_an_override_that_a_sweep_would_undo_is_refused(called, tmp_path):
    (tmp_path / "mine.json").write_text(to_json(config_lib.replace(Config(), sweep={"seed": (1, 2)})))
    with pytest.raises(UserError, match=r"--config.seed changes nothing"):
        called("--executor=local", "--config.seed=7")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--executor is missing"),
        (["--executor=slrum"], "did you mean 'slurm'"),
        (["--executor=local", "--gpus=1"], "--gpus=1 is of --executor=slurm alone"),
        (["--executor=local", "w"], "--help lists"),
    ],
)
def test_bad_flags_are_refused(called, words, message):
    with pytest.raises(UserError, match=message):
        called(*words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--executor=local"], "--config is missing"),
        (["--executor=local", "--config=nowhere.json"], "nowhere.json cannot be read"),
        (["--executor=local", "--config=mine.json", "--max_parallel=0"], "max_parallel"),
        (["--executor=slurm", "--config=mine.json"], "no sbatch on this machine"),
        (["--executor=local", "--config=mine.json", "--config.model.activation=gleu"], "did you mean 'gelu'"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path, words, message):
    (tmp_path / "mine.json").write_text(to_json(Config()))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": str(tmp_path)}
    line = [sys.executable, "-m", "actlab.launch", *words]
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert message in done.stderr and done.stderr.count("\n") == 1 and done.stderr.startswith("actlab: ")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.json"]
