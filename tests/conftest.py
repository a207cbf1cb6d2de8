"""Settings and small things that the tests share."""

import csv
import os
import pathlib
import types

import chromium
import hypothesis
import jax
import numpy as np
import pytest

import actlab.data
from actlab import config as config_lib
from actlab.activations import catalogue
from actlab.config import Config
from actlab.studies import table

jax.config.update("jax_numpy_rank_promotion", "raise")
hypothesis.settings.register_profile("actlab", deadline=None)  # no test asserts on time
hypothesis.settings.load_profile("actlab")


@pytest.fixture(scope="session", autouse=True)
def compilation_cache(tmp_path_factory):
    """One session's tests compile many equal programs, here, in other workers and in the commands they start: each is
    compiled once. What another worker is just writing is compiled again, hence the warning that pyproject.toml ignores.
    Whoever sets JAX_COMPILATION_CACHE_DIR keeps them for the next session.
    """
    own = tmp_path_factory.getbasetemp()
    ours = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "compiled"
    folder = os.environ.get("JAX_COMPILATION_CACHE_DIR") or ours
    settings = {
        "jax_compilation_cache_dir": str(folder),
        "jax_persistent_cache_min_compile_time_secs": 0.02,
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
    "train.probe_every": 0,
    "train.census_every": 0,
}


@pytest.fixture(scope="session")
def tiny() -> Config:
    """A valid config of the smallest model."""
    return config_lib.replace(Config(), **TINY)


def result_row(activation: str, rate: float, seed: int, loss: float, /, **changes: object) -> dict[str, object]:
    """A row of results.csv, of a run that finished unless `changes` say otherwise."""
    return {
        "run": f"{activation}-lr{rate!r}-seed{seed}",
        "activation": activation,
        "learning_rate": rate,
        "weight_decay": 0.1,
        "seed": seed,
        "data": "story_grammar",
        "tokenizer": "bytes",
        "status": "finished",
        "initial_loss": 7.0,
        "final_loss": loss,
        "best_loss": loss,
        "best_step": 100,
        "floor": 0.5,
        "steps": 100,
        "tokens": 6400,
        "seconds": 8.0,
        "parameters": 1000,
        "non_embedding_parameters": 800,
        "flops_per_token": 6000,
        "lanes": 4,
    } | changes


def write_table(path: pathlib.Path, rows: list[dict[str, object]]) -> pathlib.Path:
    """Writes rows as results.csv; returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture
def tables(tmp_path):
    """A row of results.csv, a file of rows, and the results that are read from rows."""

    def read(rows: list[dict[str, object]]):
        return table.read([write_table(tmp_path / "results.csv", rows)])

    return types.SimpleNamespace(row=result_row, write=write_table, read=read)


@pytest.fixture(scope="session")
def texts(tmp_path_factory) -> str:
    """A folder of prepared data with the text data set "mine"."""
    folder, source = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("texts")
    rng = np.random.default_rng(0)
    for name, n in (("train", 200), ("valid", 40)):
        lines = [" ".join(rng.choice(["a", "the", "cat", "sat", "mat"], 8)) + "\n<|endoftext|>\n" for _ in range(n)]
        (source / f"{name}.txt").write_text("".join(lines))
    actlab.data.prepare("mine", folder, source=source, tokenizer="bytes", progress=False)
    return str(folder)


@pytest.fixture(autouse=True)
def catalogue_as_it_was():
    """What a test registers is gone after it: others count the names."""
    records, aliases = dict(catalogue._records), dict(catalogue._aliases)
    yield
    if (records, aliases) != (catalogue._records, catalogue._aliases):
        for known, before in ((catalogue._records, records), (catalogue._aliases, aliases)):
            known.clear()
            known.update(before)
        catalogue.get.cache_clear()


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A headless Chromium without network; the test is skipped where none is installed."""
    found = chromium.find()
    if not found:
        pytest.skip("no chromium with its driver here: apt-get install chromium chromium-driver")
    window = chromium.Browser(*found, tmp_path_factory.mktemp("chromium"))
    yield window
    window.close()
