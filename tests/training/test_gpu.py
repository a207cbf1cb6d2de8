"""Training on a GPU: `pytest -m gpu`, with XLA_FLAGS=--xla_gpu_deterministic_ops=true for tests of equal bits."""

import dataclasses
import os

import jax
import numpy as np
import pytest

from actlab.config import replace
from actlab.training.programs import Lane

pytestmark = [pytest.mark.gpu, pytest.mark.optimized]

LANES = [Lane(seed, 3e-3, 0.1) for seed in (1, 2, 3)]
DETERMINISTIC = pytest.mark.skipif(
    "--xla_gpu_deterministic_ops=true" not in os.environ.get("XLA_FLAGS", ""),
    reason="set XLA_FLAGS=--xla_gpu_deterministic_ops=true",
)
DTYPES = pytest.mark.parametrize("dtype", ["float32", "bfloat16"])


@pytest.fixture
def on_gpus(tiny):
    """The smallest model whose heads cuDNN's attention takes."""
    assert jax.default_backend() == "gpu"
    return replace(tiny, **{"model.d_model": 128, "model.n_heads": 2, "model.activation": "gelu"})


def losses(build, config, lanes):
    program = build(config, lanes)
    windows = np.random.default_rng(0).integers(0, 24, program.rows_shape[1:]).astype(np.int32)
    state = program.init()
    rows = program.rows(lambda lanes, rows: np.broadcast_to(windows, program.rows_shape)[lanes, :, rows])
    for _ in range(8):
        state, metrics = program.train(state, rows, program.rows_shape[1])
    return np.asarray(metrics.loss)


@DTYPES
def test_a_gpu_trains_as_a_cpu_does(on_gpus, build, monkeypatch, dtype):
    config = replace(on_gpus, **{"train.dtype": dtype})
    here = losses(build, config, LANES[:1])
    with monkeypatch.context() as patch:
        cpus = jax.devices("cpu")
        patch.setattr(jax, "devices", lambda *_: cpus)
        there = losses(build, config, LANES[:1])
    assert 0.1 < there[0, -1] < 3
    np.testing.assert_allclose(here, there, rtol=1e-3 if dtype == "float32" else 0.05)


@DTYPES
@DETERMINISTIC
def test_kernels_beside_each_other_give_the_bits_of_one_after_the_other(on_gpus, build, dtype):
    config = replace(on_gpus, **{"train.dtype": dtype})

    def serial(config, lanes):
        program = build(config, lanes)
        options = {"xla_gpu_command_buffer_scheduling_mode": "SERIALIZE"}
        train = program.lower("train").compile(compiler_options=options)
        return dataclasses.replace(program, functions=program.functions._replace(train=train))

    np.testing.assert_array_equal(losses(build, config, LANES), losses(serial, config, LANES))


@DTYPES
def test_lanes_side_by_side_train_as_one_alone(on_gpus, build, dtype):
    config = replace(on_gpus, **{"train.dtype": dtype})
    together = losses(build, config, LANES)
    alone = np.concatenate([losses(build, config, [lane]) for lane in LANES])
    np.testing.assert_allclose(together, alone, rtol=1e-3 if dtype == "float32" else 0.05)


@DTYPES
@DETERMINISTIC
def test_a_resume_is_exact_where_kernels_add_in_a_fixed_order(on_gpus, session, tmp_path, dtype):
    config = replace(on_gpus, **{"train.dtype": dtype})
    whole, *_ = session(tmp_path / "whole", config, LANES)
    for stop_after in (2, 1, None):
        pieces, step, _ = session(tmp_path / "pieces", config, LANES, stop_after=stop_after)
    assert step == 12
    jax.tree.map(np.testing.assert_array_equal, pieces, whole)
