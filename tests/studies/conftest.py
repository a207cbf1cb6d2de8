"""A sweep small enough to train in a test, on data that is prepared once."""

import pytest

from actlab.config import Config, replace


@pytest.fixture(scope="session")
def small_sweep(tmp_path_factory) -> Config:
    """Two activations, two learning rates, two seeds: two cohorts of four lanes, 12 steps each."""
    return replace(
        Config(),
        **{
            "model.n_layers": 1,
            "model.d_model": 8,
            "model.n_heads": 1,
            "model.context": 16,
            "optimizer.warmup_steps": 2,
            "data.name": "story_grammar",
            "data.dir": str(tmp_path_factory.mktemp("data")),
            "data.batch_size": 4,
            "data.n_stories": 100,
            "train.n_steps": 12,
            "train.steps_per_call": 2,
            "train.log_every": 2,
            "train.eval_every": 4,
            "train.eval_tokens": 300,
            "train.checkpoint_every": 4,
            "sweep": {
                "model.activation": ("relu", "gelu"),
                "optimizer.learning_rate": (1e-3, 1e-2),
                "seed": (1, 2),
            },
        },
    )
