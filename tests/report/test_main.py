"""The command: a page and figures, or one sentence and exit code 2."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def call(*words, folder):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    line = [sys.executable, "-m", "actlab.report", *map(str, words)]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


def test_it_writes_a_page_and_figures(workdirs, six, tmp_path):
    folder = workdirs.copied(six, tmp_path / "s", "results.csv")
    words = (folder, "--out=page.html", "--figures=figures", "--question=gelu<relu", "--samples=0")
    status, out, error = call(*words, folder=tmp_path)
    assert (status, error) == (0, "")
    paths = [tmp_path / line for line in out.splitlines()]
    assert paths[0] == tmp_path / "page.html" and len(paths) == 5
    assert all(path.stat().st_size > 5_000 for path in paths)
    assert "--samples=0" in paths[0].read_text()


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ((), "no folder is given"),
        (("s", "--question=gelu<tanh"), "tanh is not in the table"),
        (("s", "--out=empty"), "--out=empty is a folder"),
        (("s", "--out=s/results.csv/page.html"), "--out=s/results.csv/page.html is in a folder that does not exist"),
        (("s", "--figures=s/results.csv"), "--figures=s/results.csv cannot be a folder"),
        (("s", "--figures="), "--figures is empty: name a folder"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_exit_code_2(workdirs, six, tmp_path, words, answer):
    workdirs.copied(six, tmp_path / "s", "results.csv")
    (tmp_path / "empty").mkdir()
    status, _, error = call(*words, folder=tmp_path)
    assert status == 2 and error.startswith("actlab: ") and answer in error and error.count("\n") == 1
