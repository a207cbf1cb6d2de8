"""The Python API: what a notebook calls."""

import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import actlab
from actlab.adaptive.answer import Table
from actlab.config import replace
from actlab.errors import UserError


def test_a_run_is_trained_once_and_read_back(small_sweep, tmp_path):
    config = replace(small_sweep, sweep=())
    run = actlab.train(config, workdir=tmp_path / "w", seed=2, **{"model.activation": "relu"})
    assert run.result["run"] == "relu-lr0.001-seed2" and run.result["status"] == "finished"
    losses = [row["loss"] for row in run.history if row["split"] == "validation"]
    assert losses[-1] == float(run.result["final_loss"]) < losses[0]
    tokens = jnp.zeros((1, config.model.context), jnp.int32)
    logits, _ = run.model.apply(run.params, tokens)
    assert logits.shape[:2] == tokens.shape and bool(np.isfinite(logits).all())
    assert isinstance(run.sample(n_tokens=3), str)
    again = actlab.train(config, workdir=tmp_path / "w", seed=2, **{"model.activation": "relu"})
    jax.tree.map(np.testing.assert_array_equal, again.params, run.params)


def test_a_sweep_is_not_one_run(small_sweep, tmp_path):
    with pytest.raises(UserError, match="one run"):
        actlab.train(small_sweep, workdir=tmp_path / "w")


def test_a_table_becomes_a_data_frame(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=lambda rows: rows))
    assert Table([{"a": 1}, {"a": 2}]).to_pandas() == [{"a": 1}, {"a": 2}]
