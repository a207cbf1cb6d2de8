"""Activations of one's own, for commands that read workdirs: --activations=FILE."""

import os
import pathlib
import subprocess
import sys

import pytest

from actlab import activations, registering
from actlab.errors import UserError

ROOT = pathlib.Path(__file__).parents[1]
MINE = """
from __future__ import annotations
import jax.numpy as jnp
from actlab import activations
fn = activations.elementwise(lambda x: x + jnp.abs(x))
def register(name):
    activations.register(activations.Activation(name, fn, "x + |x|", "ours"))
"""


@pytest.mark.parametrize(
    ("more", "preset", "name"),
    [
        ('register("bent_at_once")', "", "bent_at_once"),
        ("def get_config(preset):\n    register(preset)", ":bent_by_preset", "bent_by_preset"),
        ('def get_config():\n    register("bent_without")', "", "bent_without"),
        (
            'import dataclasses\n@dataclasses.dataclass\nclass Own:\n    a: int\nregister("bent_beside")',
            "",
            "bent_beside",
        ),
    ],
)
def test_a_file_is_run_for_what_it_registers(tmp_path, more, preset, name):
    (tmp_path / "mine.py").write_text(MINE + more)
    with pytest.raises(UserError):
        activations.get(name)
    registering.run([f"{tmp_path}/mine.py{preset}"])
    assert float(activations.get(name).fn(-2.0)) == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: give the path"),
        ("1 / 0", "fails: ZeroDivisionError"),
        ("import nothing_of", "fails: Mod"),
    ],
)
def test_a_file_that_does_not_work_is_one_sentence(tmp_path, content, words):
    if content is not None:
        (tmp_path / "mine.py").write_text(content)
    with pytest.raises(UserError, match=rf"--activations={tmp_path}/mine.py {words}"):
        registering.run([f"{tmp_path}/mine.py"])


@pytest.mark.parametrize("words", [["sample", "--workdir=w"], ["interop", "--from=w"], ["report", "w"]])
def test_every_command_that_builds_a_trained_model_runs_it(tmp_path, words):
    line = [sys.executable, "-m", f"actlab.{words[0]}", words[1], "--activations=nowhere.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "actlab: --activations=nowhere.py cannot be read: give the path of a Python file.\n"
