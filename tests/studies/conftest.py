"""A sweep small enough to train in a test, on data that is prepared once."""

import contextlib
import itertools

import pytest

from actlab.config import Config, replace
from actlab.studies import session


@pytest.fixture(scope="session")
def small_sweep(texts) -> Config:
    """Two activations, two learning rates, two seeds: two cohorts of four lanes, 12 steps each."""
    return replace(
        Config(),
        **{
            "model.n_layers": 1,
            "model.d_model": 8,
            "model.n_heads": 1,
            "model.context": 16,
            "optimizer.warmup_steps": 2,
            "data.name": "mine",
            "data.dir": texts,
            "data.batch_size": 4,
            "train.n_steps": 12,
            "train.steps_per_call": 2,
            "train.log_every": 2,
            "train.eval_every": 4,
            "train.eval_tokens": 300,
            "train.checkpoint_every": 4,
            "train.probe_every": 0,
            "train.census_every": 0,
            "sweep": {
                "model.activation": ("relu", "tanh"),
                "optimizer.learning_rate": (1e-3, 1e-2),
                "seed": (1, 2),
            },
        },
    )


@pytest.fixture
def stopped_early(monkeypatch):
    """A context in which a session receives SIGTERM after three calls."""

    @contextlib.contextmanager
    def context():
        questions = itertools.count()

        def asked(self):
            self.received = 15 if next(questions) >= 3 else None
            return self.received is not None

        with monkeypatch.context() as patch:
            patch.setattr(session.StopSignal, "__call__", asked)
            yield

    return context
