"""Sweeps killed by SIGKILL at any fsync, rename, append, save or seal: the same command ends with the same bits."""

import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys

import jax
import numpy as np
import pytest
from outcomes import metrics, results

from actlab import config as config_lib
from actlab.sweeps import trained

SERVER = pathlib.Path(__file__).parents[1] / "support/forks.py"
MOST_KILLS = 5  # of one workdir, one after the other


class Server:
    """The process that forks the commands; see forks.py."""

    def __init__(self, folder: pathlib.Path):
        self._folder, self._n = folder, 0
        words = [sys.executable, str(SERVER)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, workdir: pathlib.Path, kill: int | None = None) -> tuple[int, int, str]:
        """(exit status, number of events, output) of the command on a workdir."""
        self._n += 1
        log = self._folder / f"{self._n}.log"
        argv = [f"--config={self._folder / 'sweep.json'}", f"--workdir={workdir}"]
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps({"argv": argv, "kill": kill, "log": str(log)}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return answer["code"], answer["events"], log.read_text()

    def close(self) -> None:
        """Ends it."""
        self._process.communicate()


@pytest.fixture(scope="module")
def server(small_sweep, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kills")
    (folder / "sweep.json").write_text(config_lib.to_json(small_sweep))
    server = Server(folder)
    yield server
    server.close()


@pytest.fixture(scope="module")
def whole(server, tmp_path_factory):
    """A sweep that was not killed, and how many events it had."""
    workdir = tmp_path_factory.mktemp("whole") / "w"
    code, n_events, log = server.run(workdir)
    assert code == 0, log
    return workdir, n_events


def outcome(workdir):
    """All that a sweep leaves but times: its tables, and the parameters of every run."""
    params = {
        run: jax.tree.leaves(trained.load(workdir, run).params) for run in ("relu-lr0.01-seed1", "tanh-lr0.01-seed2")
    }
    return results(workdir), metrics(workdir), (workdir / "test_documents.npz").read_bytes(), params


def kill_again_and_again(server, workdir, kills):
    """Kills a sweep at these events of its sessions, then lets it end; returns how many kills it had."""
    for n_killed, event in enumerate(kills):
        code, _, log = server.run(workdir, event)
        if code == 0:
            return n_killed
        assert code == -signal.SIGKILL, log
    code, _, log = server.run(workdir)
    assert code == 0 and "Traceback" not in log, log
    return len(kills)


def require_same(workdir, whole):
    for ours, theirs in zip(outcome(workdir), outcome(whole), strict=True):
        jax.tree.map(np.testing.assert_array_equal, ours, theirs)


def test_a_sweep_that_is_killed_ends_with_the_same_bits(server, whole, tmp_path):
    workdir, n_events = whole
    rng = random.Random(0)
    # In the first quarter of a session, so that something is left to kill.
    assert kill_again_and_again(server, tmp_path / "w", [rng.randrange(n_events // 4) for _ in range(3)]) == 3
    require_same(tmp_path / "w", workdir)
    # Among the last: the seals and tables of a sweep that is trained.
    assert kill_again_and_again(server, tmp_path / "late", [n_events - 8]) == 1
    require_same(tmp_path / "late", workdir)


@pytest.mark.slow
def test_two_hundred_kills(server, whole, tmp_path):
    workdir, n_events = whole
    rng, killed = random.Random(1), 0
    while killed < 200:
        kills = [rng.randrange(n_events) for _ in range(rng.randint(1, MOST_KILLS))]
        killed += kill_again_and_again(server, tmp_path / "w", kills)
        require_same(tmp_path / "w", workdir)
        shutil.rmtree(tmp_path / "w")
    print(f"{killed} kills at {n_events} events of a session")
