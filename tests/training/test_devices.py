"""The mesh of a program, how many lanes fit into memory, the peak that training is compared with."""

import itertools
from unittest import mock

import jax
import numpy as np
import pytest
from hypothesis import given, strategies as st
from jax.sharding import Mesh, PartitionSpec

from actlab.config import Config, DevicesConfig, replace
from actlab.errors import UserError
from actlab.training import devices as devices_lib
from actlab.training.devices import MemoryNeed


@pytest.mark.parametrize(
    ("devices", "n_lanes", "batch_size", "words"),
    [
        ({"data": 9}, 1, 36, "config.devices .* 9 devices.* 8"),
        ({"lane": 16}, 16, 4, "config.devices .* 16 devices.* 8"),
        ({"fsdp": 12}, 1, 12, "config.devices .* 12 devices.* 8"),
        ({"lane": 4}, 6, 4, "config.devices.lane=4"),
        ({"data": 8}, 1, 12, "config.devices.data=8 .* config.data.batch_size=12"),
    ],
)
def test_too_many_devices_or_sizes_that_do_not_divide_are_a_sentence(devices, n_lanes, batch_size, words):
    with pytest.raises(UserError, match=words):
        devices_lib.make_mesh(DevicesConfig(**devices), n_lanes, batch_size, range(8))


@pytest.mark.parametrize(
    ("n_devices", "sizes", "n_lanes", "batch_size", "expected"),
    [
        (8, {}, 4, 16, (4, 2)),
        (8, {}, 2, 64, (2, 4)),
        (5, {}, 4, 16, (4, 1)),
        (7, {}, 3, 64, (3, 2)),
        (3, {}, 1, 64, (1, 2)),
        (8, {}, 3, 4, (3, 2)),
        (6, {"data": 2}, 5, 64, (1, 2)),
        (8, {"fsdp": 2}, 3, 8, (1, 4)),
    ],
)
def test_open_sizes_take_as_many_devices_as_divide_lanes_and_batch(n_devices, sizes, n_lanes, batch_size, expected):
    mesh = devices_lib.make_mesh(DevicesConfig(**sizes), n_lanes, batch_size, range(n_devices))
    assert (mesh.shape["lane"], mesh.shape["data"]) == expected


@pytest.mark.parametrize("group", ["", "slice/job_7", "slice"], ids=["container", "job", "above"])
@pytest.mark.parametrize("names", devices_lib.LIMITS, ids=["v2", "v1"])
def test_a_container_or_job_has_no_more_memory_than_its_limit(names, group, monkeypatch, tmp_path):
    kind, limit, used, stat, cache = names
    monkeypatch.setattr(devices_lib, "CGROUP", tmp_path)
    monkeypatch.setattr(devices_lib, "OWN_CGROUP", tmp_path / "own")
    if group:
        (tmp_path / "own").write_text(f"8:pids:/\n{'9:memory:' if kind else '0::'}/slice/job_7\n")
    before = devices_lib.free_memory() * jax.local_device_count()
    assert before > 3 << 20
    folder = tmp_path / kind / group
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in ((limit, 5 << 20), (used, 3 << 20), (stat, f"rss 1\n{cache} {1 << 20}")):
        (folder / name).write_text(f"{content}\n")
    assert devices_lib.free_memory() * jax.local_device_count() == 3 << 20
    (folder / limit).write_text("max\n")
    assert devices_lib.free_memory() * jax.local_device_count() > 3 << 20


def test_tables_of_embeddings_are_split_at_their_entries_or_not_at_all():
    mesh = Mesh(np.array(jax.devices("cpu")[:1] * 2).reshape(1, 1, 2), ("lane", "data", "fsdp"))  # one device, twice
    shapes = {"token_embedding": (1, 320, 384), "position_embedding": (1, 129, 384), "down": (1, 96, 384)}
    state = {name: {"kernel": jax.ShapeDtypeStruct(shape, np.float32)} for name, shape in shapes.items()}
    found = {name: of["kernel"].spec for name, of in devices_lib.state_shardings(mesh, state).items()}
    assert found == {
        "token_embedding": PartitionSpec("lane", "fsdp", None),
        "position_embedding": PartitionSpec("lane", None, None),
        "down": PartitionSpec("lane", None, "fsdp"),
    }


def laid(used, each):
    """A mesh of the first `used` devices, `each` in a process."""
    devices = [mock.Mock(process_index=index // each) for index in range(used)]
    return mock.Mock(spec=Mesh, size=used, devices=np.array(devices))


def test_idle_devices_are_told_and_a_process_with_no_others_is_refused(monkeypatch):
    monkeypatch.setattr(jax, "device_count", lambda: 12)
    monkeypatch.setattr(jax, "process_count", lambda: 3)
    assert devices_lib.idle_devices(laid(12, 4), 2, 9) is None
    words = "2 lanes and config.data.batch_size=9 occupy 9 of 12 devices"
    assert devices_lib.idle_devices(laid(9, 4), 2, 9) == words
    with pytest.raises(UserError, match="batch_size=64 .* 4 of 12 devices"):
        devices_lib.idle_devices(laid(4, 4), 1, 64)


@given(groups=st.integers(1, 40), multiple=st.integers(1, 8), most=st.integers(1, 300))
def test_lanes_are_dealt_into_as_few_programs_as_possible_and_evenly(groups, multiple, most):
    parts = devices_lib.split_lanes(groups * multiple, most, multiple)
    assert sum(parts) == groups * multiple and all(part % multiple == 0 for part in parts)
    assert max(parts) - min(parts) in (0, multiple) and parts == sorted(parts, reverse=True)
    most = max(most, multiple)  # fewer lanes than devices to deal them among there cannot be
    assert max(parts) <= most and len(parts) == -(-groups // (most // multiple))


@pytest.mark.parametrize(("n_lanes", "multiple", "first"), [(6, 2, 4), (8, 2, 4), (5, 1, 3), (2, 1, 1), (4, 2, 2)])
def test_at_most_one_less_makes_two_halves(n_lanes, multiple, first):
    assert devices_lib.split_lanes(n_lanes, n_lanes - 1, multiple) == [first, n_lanes - first]


def test_side_by_side_each_lane_needs_room_to_work_and_in_turn_they_share_it():
    one, free = MemoryNeed(state=10, work=30), 1000
    assert devices_lib.most_lanes(one, False, free) == 900 // 40
    assert devices_lib.most_lanes(one, True, free) == (900 - 30 - 10) // 10
    for by_map, platform in itertools.product((False, True), ("gpu", "cpu")):
        need = one.on(platform)
        most = devices_lib.most_lanes(need, by_map, free)
        assert devices_lib.memory_of(need, most, by_map) <= 900 < devices_lib.memory_of(need, most + 1, by_map)
    assert devices_lib.memory_of(one, 1, True) == devices_lib.memory_of(one, 1, False) == 40
    assert devices_lib.most_lanes(MemoryNeed(state=10, work=3000), True, free) == 1, "one is always tried"
    # A CPU's checkpoints are written from a copy of the states, while the training goes on.
    assert devices_lib.memory_of(one.on("cpu"), 4, True) == 4 * 20 + 30 + 10
    assert devices_lib.memory_of(one.on("cpu"), 4, False) == 4 * (20 + 30)


def test_lanes_whose_kernels_run_side_by_side_share_less_memory():
    need, of = MemoryNeed(state=10, work=40), devices_lib.memory_of
    together = need.on("gpu", kernels_together=True)
    assert of(together, 4, False) == 4 * (10 + 50) and of(together, 1, False) == 10 + 40
    assert devices_lib.most_lanes(together, False, 1000) == 900 // (10 + 50)
    assert of(together, 4, True) == 4 * 10 + 40 + 10
    assert of(need.on("gpu"), 4, False) == 4 * (10 + 40)


def test_kernels_run_side_by_side_on_one_gpu_that_need_not_save_memory():
    found = {
        case: devices_lib.kernels_together(*case) for case in itertools.product(("cpu", "gpu"), (1, 2), (False, True))
    }
    assert [case for case, together in found.items() if together] == [("gpu", 1, False)]


def test_the_product_is_that_of_the_models_feed_forward():
    config = replace(Config(), **{"model.d_model": 96, "data.batch_size": 3, "model.context": 40})
    product = devices_lib.product_of(config)
    assert product[:4] == (120, 96, 384, "float32")
    assert product.flops == 14 * 2 * 120 * 96 * 384
    narrow = replace(config, **{"model.d_ff": 64, "train.dtype": "bfloat16"})
    assert devices_lib.product_of(narrow)[2:4] == (64, "bfloat16")
    rounded = replace(config, **{"train.dtype": "tensorfloat32"})
    assert devices_lib.product_of(rounded)[3:] == ("float32", "tensorfloat32")


def test_it_is_measured_once_and_is_the_devices_together(monkeypatch):
    product = devices_lib.Product(8, 16, 64, "float32", "float32")
    assert 0 < devices_lib._flops_per_second(product) == devices_lib._flops_per_second(product)
    monkeypatch.setattr(devices_lib, "_flops_per_second", lambda product: 10.0)
    assert devices_lib.peak_flops(Config(), 4) == 10.0, "cores are shared"
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert devices_lib.peak_flops(Config(), 4) == 40.0


def test_the_peak_of_a_gpu_is_that_of_products_that_fill_it(tiny, monkeypatch):
    small = devices_lib.product_of(tiny)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    full = devices_lib.product_of(tiny)
    assert full._replace(rows=small.rows) == small and small.rows == tiny.data.batch_size * tiny.model.context
    assert full.rows * full.width * full.hidden == 2**36
    large = replace(tiny, **{"data.batch_size": 2**20, "model.d_model": 1024})
    assert devices_lib.product_of(large).rows == 2**20 * tiny.model.context
