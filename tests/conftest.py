"""Settings and small things that the tests share."""

import os

import jax
import pytest

from actlab import config as config_lib
from actlab.config import Config

jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(scope="session", autouse=True)
def compilation_cache(tmp_path_factory):
    """One session's tests compile many equal programs, here and in the commands they start: each is compiled once."""
    folder = str(tmp_path_factory.mktemp("compiled"))
    settings = {
        "jax_compilation_cache_dir": folder,
        "jax_persistent_cache_min_compile_time_secs": 0.2,
        "jax_persistent_cache_min_entry_size_bytes": 0,
    }
    for name, value in settings.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)


# Two layers, width 16, context 8: the smallest model in which everything happens.
TINY = {
    "model.n_layers": 2,
    "model.d_model": 16,
    "model.n_heads": 2,
    "model.context": 8,
    "model.vocab_size": 24,
    "optimizer.warmup_steps": 2,
    "data.batch_size": 4,
    "train.n_steps": 12,
    "train.steps_per_call": 3,
    "train.log_every": 1,
    "train.eval_every": 4,
    "train.checkpoint_every": 4,
}


@pytest.fixture(scope="session")
def tiny() -> Config:
    """A valid config of the smallest model."""
    return config_lib.replace(Config(), **TINY)
