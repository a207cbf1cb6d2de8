"""The command that launches: flags become an executor; bad input is refused before any work."""

import pathlib

import commands
import pytest

from actlab import config as config_lib
from actlab.cli import launch
from actlab.config import Config, to_json
from actlab.sweeps import launching


@pytest.fixture
def called(monkeypatch, tmp_path):
    """A function of words that calls the command and returns what would have been launched."""
    launched = []
    monkeypatch.setattr(launching, "run", lambda *arguments: launched.append(arguments) or 0)
    monkeypatch.setattr(launching, "Slurm", lambda *arguments: arguments)
    (tmp_path / "mine.json").write_text(to_json(Config(seed=4)))

    def call(*words):
        commands.run(launch.main, f"--config={tmp_path}/mine.json", *words)
        return launched[-1]

    return call


def test_flags_become_an_executor_and_a_workdir(called):
    config, files, label, workdir, executor, command, extend = called(
        "--executor=local", "--workdir=w", "--max_parallel=3"
    )
    assert (config.seed, files, label, workdir) == (4, (), "mine", pathlib.Path("w"))
    assert isinstance(executor, launching.Local) and executor._max_parallel == 3
    assert command[:4] == ["python", "-m", "actlab", "launch"] and command[-1] == "--max_parallel=3"
    assert not extend and called("--executor=local", "--workdir=w", "--extend")[-1]


def test_what_sbatch_shall_know_reaches_it(called):
    words = ["--partition=gpu", "--time=8:00:00", "--gpus=2", "--sbatch=account=mine", "--sbatch=exclusive"]
    options, at_once = called("--executor=slurm", *words, "--max_parallel=5")[4]
    assert options == ["--partition=gpu", "--time=8:00:00", "--gpus=2", "--account=mine", "--exclusive"]
    assert at_once == 5 and called("--executor=slurm")[4] == ([], None)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "--executor is missing"),
        (["--executor=slrum"], "did you mean 'slurm'"),
        (["--executor=local", "--gpus=1"], "--gpus=1"),
        (["--executor=local", "w"], "'w'"),
        (["--executor=local"], "--config is missing"),
        (["--executor=local", "--config=nowhere.json"], "nowhere.json cannot be read"),
        (["--executor=local", "--config=mine.json", "--max_parallel=0"], "max_parallel"),
        (["--executor=slurm", "--config=mine.json"], "sbatch"),
        (["--executor=local", "--config=mine.json", "--config.model.activation=gleu"], "did you mean 'gelu'"),
        (["--executor=local", "--config=mine.json", "--config.seed=7"], "--config.seed changes nothing"),
    ],
)
def test_bad_input_is_refused_before_any_work(refused, tmp_path, monkeypatch, words, told):
    sweep = {"optimizer.learning_rate": (1e-3, 1e-2), "seed": (1, 2)}
    (tmp_path / "mine.json").write_text(to_json(config_lib.replace(Config(), sweep=sweep)))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert told in refused(launch.main, *words)
