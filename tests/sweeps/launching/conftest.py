"""A sweep whose jobs last long enough to be disturbed, and the same sweep as one machine trains it."""

import pathlib

import pytest
from outcomes import metrics, results

from actlab.config import Config, replace
from actlab.sweeps import session
from actlab.workdir import traces
from actlab.workdir.records import Workdir

ROOT = pathlib.Path(__file__).parents[3]


def _outcome(workdir):
    """What two workdirs of the same sweep have in common, to the bit and in this order."""
    rows, kept = results(workdir), Workdir(workdir).traces()
    steps = {run: [part.tolist() for part in traces.read_steps(kept, run)] for run in rows}
    documents = (workdir / "test_documents.npz").read_bytes()
    return list(rows.values()), metrics(workdir), steps, documents, (workdir / "config.json").read_text()


@pytest.fixture
def outcome():
    """A function of a workdir: results, metrics without times, every step, test losses of documents, config."""
    return _outcome


@pytest.fixture(scope="session", autouse=True)
def here_in_jobs():
    """Jobs import this checkout wherever they start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        yield


@pytest.fixture(scope="session")
def long_sweep(small_sweep) -> Config:
    """Programs relu and tanh, two lanes each; in the order of runs they alternate."""
    sweep = {"seed": (1, 2), "model.activation": ("relu", "tanh")}
    steps = {
        "train.n_steps": 600,
        "train.log_every": 25,
        "train.eval_every": 100,
        "train.checkpoint_every": 100,
        "log.tensorboard": True,
    }
    return replace(small_sweep, sweep=sweep, **steps)


@pytest.fixture(scope="session")
def direct(long_sweep, tmp_path_factory):
    """What one machine leaves that nobody disturbed."""
    workdir = tmp_path_factory.mktemp("direct") / "w"
    assert session.run(long_sweep, "sweep", workdir, ["test"]) == 0
    return _outcome(workdir)
