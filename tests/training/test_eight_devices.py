"""Eight simulated devices compute what one does, however lanes, batch and parameters are divided among them."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from actlab.config import replace, to_json

pytestmark = [pytest.mark.devices, pytest.mark.optimized]

PROGRAM = """
import dataclasses, json, sys
import jax, numpy as np
from actlab import config as config_lib, models
from actlab.training import programs, targets
from actlab.training.programs import Lane
from actlab.data.tokenizer_kinds import Specials
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

    program = programs.build(models.build(mine.model), mine, lanes, objective)
    asked.clear()
    state, metrics = program.train(program.init(), program.rows(fetch), 3)
    loss = program.evaluate(state, [validation])[0].loss
    kernel = state.params["block_0"]["feed_forward"]["up"]["kernel"]
    shards = sorted({str(shard.data.shape) for shard in kernel.addressable_shards})
    text = program.lower("train").compile().as_text() if program.mesh.size == mine.devices.lane else ""
    return {
        "collectives": [kind for kind, *_ in targets.collectives(text)],
        "mesh": list(program.mesh.devices.shape), "asked": asked[0], "kernel": shards,
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
    {"kind": "decoder", "lane": 4, "data": 1, "lanes_by": "vmap"},
    {"kind": "decoder", "lane": 1, "data": 2, "fsdp": 4, "remat": True},
    {"kind": "decoder", "lane": 2, "data": 1},  # two lanes in turn on each
]


def computed(tiny):
    # Stochastic units, since random draws must not depend on the devices either.
    config = replace(tiny, **{"data.batch_size": 8, "model.activation": "stochastic_gelu"})
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    line = [sys.executable, "-c", PROGRAM, json.dumps(ARRANGEMENTS)]
    done = subprocess.run(line, input=to_json(config), env=environment, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# One test: under xdist another one would compute everything again in another worker.
def test_eight_devices_equal_one_and_each_reads_what_it_computes(tiny):
    results = computed(tiny)
    one = {"decoder": results[0], "encoder": results[5]}
    for arrangement, result in zip(ARRANGEMENTS, results, strict=True):
        # Adam divides a gradient by its own size. A key bias has none in exact arithmetic, so its steps are rounding.
        for name, rtol in (("train", 1e-5), ("validation", 1e-5), ("params", 2e-4)):
            expected = one[arrangement["kind"]][name]
            np.testing.assert_allclose(result[name], expected, rtol=rtol, err_msg=f"{name} of {arrangement}")
    meshes = [result["mesh"] for result in results]
    assert meshes == [
        [1, 1, 1],
        [4, 2, 1],
        [4, 2, 1],
        [1, 8, 1],
        [2, 2, 2],
        [1, 1, 1],
        [2, 4, 1],
        [4, 1, 1],
        [1, 2, 4],
        [2, 1, 1],
    ]
    # A device reads the lanes and rows that it computes, no others.
    assert [result["asked"] for result in results] == [
        [4, 8],
        [1, 4],
        [1, 4],
        [4, 1],
        [2, 2],
        [4, 8],
        [2, 2],
        [1, 8],
        [4, 1],
        [2, 8],
    ]
    assert [result["kernel"] for result in results[:2]] == [["(4, 16, 64)"], ["(1, 16, 64)"]]
    assert results[4]["kernel"] == ["(2, 16, 32)"] and results[8]["kernel"] == ["(4, 16, 16)"]
    # Nothing crosses devices between lanes but the metrics, which are gathered once a call.
    assert set(results[7]["collectives"] + results[9]["collectives"]) <= {"all-gather"}
