"""Eight simulated devices compute what one does, however lanes, batch and parameters are dealt among them."""

import fcntl
import json
import os
import subprocess
import sys
from unittest import mock

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

from actlab.config import DevicesConfig, replace, to_json
from actlab.errors import UserError
from actlab.training import layout

PROGRAM = """
import dataclasses, json, sys
import jax, numpy as np
from actlab import config as config_lib, models
from actlab.training.cohort import Cohort, Lane
from actlab.data.tokenizer import Specials
from actlab.training.objectives import NEXT_TOKEN, MaskedToken

config = config_lib.from_json(sys.stdin.read())
lanes = [Lane(1, 1e-3, 0.1), Lane(2, 1e-2, 0.0), Lane(1, 3e-3, 0.1), Lane(3, 1e-3, 0.1)]
windows = np.stack([np.random.default_rng(lane.seed).integers(0, 24, (3, 8, 9)) for lane in lanes]).astype(np.int32)
next_token = NEXT_TOKEN.scored(windows[0, :2], np.ones((2, 8, 8), np.float32))
asked = []

def trained(kind, **devices):
    mine = config_lib.replace(
        config, **{"model.kind": kind}, **{f"devices.{name}": value for name, value in devices.items()}
    )
    objective, validation = NEXT_TOKEN, next_token
    if kind == "encoder":
        objective = MaskedToken(Specials(20, 21, 22, 23), 20, 0.3, True)
        scored = objective.scored(windows[0, :2, :, :8].reshape(16, 8))
        validation = jax.tree.map(lambda a: a.reshape(2, 8, *a.shape[1:]), scored)

    def fetch(lanes, rows):
        asked.append([len(range(*lanes.indices(4))), len(range(*rows.indices(8)))])
        return windows[lanes, :, rows, : objective.width(8)]

    cohort = Cohort(models.build(mine.model), mine, lanes, objective)
    asked.clear()
    state, metrics = cohort.train(cohort.init(), cohort.rows(fetch), 3)
    loss = cohort.evaluate(state, validation).loss
    kernel = state.params["block_0"]["feed_forward"]["up"]["kernel"]
    shards = sorted({str(shard.data.shape) for shard in kernel.addressable_shards})
    return {
        "mesh": list(cohort.mesh.devices.shape), "asked": asked[0], "kernel": shards,
        "train": np.asarray(metrics.loss).tolist(), "validation": loss.tolist(),
        "params": [float(np.abs(np.asarray(leaf, np.float64)).sum()) for leaf in jax.tree.leaves(state.params)],
    }

arrangements = json.loads(sys.argv[1])
print(json.dumps([trained(**arrangement) for arrangement in arrangements]))
"""
ARRANGEMENTS = [
    {"kind": "decoder", "lane": 1, "data": 1},
    {"kind": "decoder"},
    {"kind": "decoder", "lanes_by": "vmap"},
    {"kind": "decoder", "lane": 1, "data": 8},
    {"kind": "decoder", "lane": 2, "data": 2, "fsdp": 2},
    {"kind": "encoder", "lane": 1, "data": 1},
    {"kind": "encoder", "lane": 2, "data": 4},
]


@pytest.fixture(scope="module")
def results(tiny, tmp_path_factory):
    # One of the workers computes; they share the folder above their own.
    kept = tmp_path_factory.getbasetemp().parent / f"layout-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"
    with kept.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        text = file.read() or computed(tiny)
        file.truncate(0)
        file.write(text)
    return json.loads(text)


def computed(tiny):
    # What is drawn must not depend on the devices either.
    config = replace(tiny, **{"data.batch_size": 8, "model.activation": "stochastic_gelu"})
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    line = [sys.executable, "-c", PROGRAM, json.dumps(ARRANGEMENTS)]
    done = subprocess.run(line, input=to_json(config), env=environment, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("index", range(1, len(ARRANGEMENTS)), ids=lambda index: str(ARRANGEMENTS[index]))
def test_eight_devices_equal_one(results, index):
    one = results[next(i for i, other in enumerate(ARRANGEMENTS) if other["kind"] == ARRANGEMENTS[index]["kind"])]
    for name in ("train", "validation", "params"):
        np.testing.assert_allclose(results[index][name], one[name], rtol=1e-5, err_msg=name)


def test_lanes_and_rows_lie_where_they_were_asked_to(results):
    meshes = [result["mesh"] for result in results]
    assert meshes == [[1, 1, 1], [4, 2, 1], [4, 2, 1], [1, 8, 1], [2, 2, 2], [1, 1, 1], [2, 4, 1]]
    # A device reads the lanes and rows that it computes, no others.
    assert [result["asked"] for result in results] == [[4, 8], [1, 4], [1, 4], [4, 1], [2, 2], [4, 8], [2, 2]]
    assert [result["kernel"] for result in results[:2]] == [["(4, 16, 64)"], ["(1, 16, 64)"]]
    assert results[4]["kernel"] == ["(2, 16, 32)"]


@pytest.mark.parametrize(
    ("devices", "n_lanes", "batch_size", "words"),
    [
        ({"data": 2}, 1, 4, "1 lane x 2 data x 1 fsdp = 2 devices, but there are 1"),
        ({"lane": 16}, 16, 4, "16 devices, but there are 1"),
        ({"fsdp": 4}, 1, 4, "4 devices, but there are 1"),
    ],
)
def test_more_devices_than_there_are_is_a_sentence(devices, n_lanes, batch_size, words):
    with pytest.raises(UserError, match=words):
        layout.mesh(DevicesConfig(**devices), n_lanes, batch_size)


@pytest.mark.parametrize(
    ("devices", "n_lanes", "batch_size", "words"),
    [
        ({"lane": 4}, 6, 4, "config.devices.lane=4 does not divide the 6 lanes"),
        ({"data": 8}, 1, 12, "config.devices.data=8 .* does not divide config.data.batch_size=12"),
    ],
)
def test_devices_that_do_not_divide_are_a_sentence(monkeypatch, devices, n_lanes, batch_size, words):
    monkeypatch.setattr(jax, "device_count", lambda: 8)
    with pytest.raises(UserError, match=words):
        layout.mesh(DevicesConfig(**devices), n_lanes, batch_size)


def laid(used, each):
    """A mesh of the first `used` devices, `each` in a process."""
    devices = [mock.Mock(process_index=index // each) for index in range(used)]
    return mock.Mock(spec=Mesh, size=used, devices=np.array(devices))


@pytest.mark.parametrize(
    ("used", "each", "words"),
    [(12, 4, None), (9, 4, "2 lanes and config.data.batch_size=9 occupy 9 of 12 devices")],
)
def test_devices_that_nothing_falls_to_are_told(monkeypatch, used, each, words):
    monkeypatch.setattr(jax, "device_count", lambda: 12)
    monkeypatch.setattr(jax, "process_count", lambda: 12 // each)
    assert layout.idle(laid(used, each), 2, 9) == words


def test_a_process_whose_devices_are_all_idle_is_refused(monkeypatch):
    monkeypatch.setattr(jax, "device_count", lambda: 12)
    monkeypatch.setattr(jax, "process_count", lambda: 3)
    with pytest.raises(UserError, match=r"batch_size=64 occupy 4 of 12 devices, and one of the 3 processes has none"):
        layout.idle(laid(4, 4), 1, 64)
