"""The model that the tests of training share, programs of it, and sessions of the loop."""

import itertools

import numpy as np
import pytest

from actlab import config as config_lib, models
from actlab.config import Config
from actlab.data.rows import NO_DOCUMENT
from actlab.training import programs
from actlab.training.checkpoint import Checkpoints
from actlab.training.devices import compute_dtype
from actlab.training.loop import Loop
from actlab.training.objectives import NEXT_TOKEN
from actlab.training.program_spec import Feed
from actlab.training.programs import lane_of
from actlab.workdir.records import Workdir


@pytest.fixture(scope="session")
def tiny(tiny) -> Config:
    """The smallest model, with one layer, which compiles in less time, and ReLU units with a bias, which die soon."""
    return config_lib.replace(tiny, **{"model.n_layers": 1, "model.activation": "relu", "model.use_bias": True})


@pytest.fixture(scope="session")
def build():
    """(config, lanes, objective) -> a program of the config's model."""

    def program(config, lanes, objective=NEXT_TOKEN):
        return programs.build(models.build(config.model, compute_dtype(config)), config, lanes, objective)

    return program


def _feed(lanes):
    def batch(seed, step, rows):
        return np.random.default_rng((seed, step)).integers(0, 24, (4, 9)).astype(np.int32)[rows]

    rng = np.random.default_rng(0)
    validation, *test = rng.integers(0, 24, (3, 2, 4, 9)).astype(np.int32)
    scored = [NEXT_TOKEN.scored(rows, np.ones((2, 4, 8), np.float32)) for rows in (validation, *test)]
    # Documents of 20 targets, which begin in one row and end in another; the last row is filler.
    documents = (np.arange(4 * 4 * 8, dtype=np.int32) // 20).reshape(4, 4, 8)
    documents[-1, -1] = NO_DOCUMENT
    scored[-1].weights[-1, -1] = 0
    return Feed(batch, tuple(lane.seed for lane in lanes), scored[0], tuple(scored[1:]), documents)


@pytest.fixture(scope="session")
def feed_of():
    """The data that a session gives lanes."""
    return _feed


@pytest.fixture(scope="session")
def session(build):
    """One session in a workdir, which stops when asked for the `stop_after`th time whether to stop."""

    def run(path, config, lanes=None, stop_after=None, objective=NEXT_TOKEN, feed=None):
        lanes = lanes or [lane_of(config)]
        program, workdir = build(config, lanes, objective), Workdir(path)
        workdir.open(config)
        checkpoints = Checkpoints(path / "checkpoints", config.train.keep_checkpoints)
        state, step, _ = checkpoints.restore_latest(program.abstract_state)
        asked = itertools.count()
        names = [f"run{index}" for index in range(len(lanes))]
        loop = Loop(config, program, names, feed or _feed(lanes), workdir, ())
        result = loop.run(checkpoints, (state, step), lambda: stop_after is not None and next(asked) >= stop_after)
        workdir.close()
        return result

    return run
