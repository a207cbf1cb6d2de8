"""The benchmark measures what it says, at a size that takes no time; nothing is asserted of the speed itself."""

import itertools
import os
import types

import commands
import jax
import pytest

from actlab.bench import timing, training
from actlab.cli import bench


@pytest.fixture
def small_shape(monkeypatch):
    shape = training.Shape("tiny", 16, 2, 32, 2, 3, n_layers=1, context=16)
    monkeypatch.setattr(training, "SHAPES", {"tiny": shape})
    monkeypatch.setattr(training, "peers", lambda shape: {"peer": lambda: 0.5})
    return shape


def test_a_row_per_contender_with_tokens_per_second_from_seconds_per_step(small_shape, monkeypatch):
    monkeypatch.setattr(training, "ours", lambda shape, n_lanes=1: lambda: 0.25 / n_lanes)
    ours, lanes, peer = training.measure(["tiny"], repetitions=3)
    names = (ours["contender"], lanes["contender"], peer["contender"])
    assert names == ("actlab", "actlab, 6 lanes", "peer") and peer["repetitions"] == 3
    # 2 windows of 16 tokens in half a second.
    assert peer["tokens_per_second_min"] == peer["tokens_per_second_median"] == peer["tokens_per_second_max"] == 64
    assert ours["speed_over_actlab_min"] == ours["speed_over_actlab_max"] == 1
    assert peer["speed_over_actlab_median"] == 0.5 and lanes["speed_over_actlab_median"] == 6
    assert ours["tokens_per_second_median"] == 128


def test_the_second_call_of_a_turn_counts(small_shape, monkeypatch):
    def calls(shape, n_lanes=1):
        return itertools.chain([9.0], itertools.cycle((4.0, 0.25))).__next__  # the first says whether it fits

    monkeypatch.setattr(training, "ours", calls)
    monkeypatch.setattr(training, "_SECONDS", 0)
    ours = next(training.measure(["tiny"], repetitions=2))
    assert ours["tokens_per_second_min"] == ours["tokens_per_second_max"] == 128
    assert ours["dtype"] == "float32", "on a CPU"


def test_short_calls_are_repeated_and_their_mean_counts(small_shape, monkeypatch):
    clock, calls = itertools.count(0, 0.1), itertools.cycle((0.5, 0.1, 0.2, 0.3))
    monkeypatch.setattr(training, "time", types.SimpleNamespace(perf_counter=lambda: next(clock)))
    # Three more within 0.3 s of the clock, of which each look takes 0.1.
    assert training._after_the_first(calls.__next__)() == pytest.approx((0.1 + 0.2 + 0.3) / 3)


def test_what_is_timed_is_the_trainer_of_several_lanes(small_shape, monkeypatch):
    monkeypatch.setattr(training, "time", types.SimpleNamespace(perf_counter=iter((10.0, 22.0)).__next__))
    # 12 seconds for 3 steps of 2 lanes.
    assert training.ours(small_shape, n_lanes=2)() == 2


def test_the_shapes_are_those_they_are_named_after():
    from actlab import models

    for name, shape in training.SHAPES.items():
        costs = models.costs(models.build(shape.config.model))
        assert "124M" not in training.default_names()
        assert costs.parameters == pytest.approx(float(name.removesuffix("M")) * 1e6, rel=0.03)


def test_products_are_in_bfloat16_but_on_a_cpu(small_shape, monkeypatch):
    asked = []
    monkeypatch.setattr(
        training, "ours", lambda shape, n_lanes=1: lambda: asked.append(shape.config.train.dtype) or 1.0
    )
    monkeypatch.setattr(training.devices, "timed_product", lambda product: lambda: 1.0)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert {row["dtype"] for row in training.measure(["tiny"], repetitions=1)} == {"bfloat16"} == set(asked)


def test_what_does_not_fit_has_a_row_without_numbers(small_shape, monkeypatch):
    def ours(shape, n_lanes=1):
        def run():
            if n_lanes > 1:
                raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: 90 GiB")
            return 0.25

        return run

    class OutOfMemoryError(RuntimeError):
        """As torch's is called."""

    def peer():
        raise OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(training, "ours", ours)
    monkeypatch.setattr(training, "peers", lambda shape: {"peer": peer})
    alone, *others = training.measure(["tiny"], repetitions=2)
    assert alone["tokens_per_second_median"] == 128 and alone["repetitions"] == 2
    for row in others:
        assert list(row) == list(alone) and row["tokens_per_second_median"] == "" and row["repetitions"] == 0
    printed = timing.speeds([alone, *others])
    assert list(printed.columns[2].cells) == ["128 (128 to 128)", "does not fit", "does not fit"]

    def broken():
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(training, "peers", lambda shape: {"peer": broken})
    with pytest.raises(RuntimeError, match="illegal"):
        list(training.measure(["tiny"], repetitions=2))


def test_peers_run_on_the_device_that_ours_runs_on_or_not_at_all(small_shape, monkeypatch):
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from actlab.bench import peer

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert [peer.device_like(backend) for backend in ("cpu", "gpu", "tpu")] == ["cpu", "cuda", None]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert peer.device_like("gpu") is None


@pytest.mark.slow
def test_the_plain_peer_is_a_decoder_of_our_size_that_learns():
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from actlab import models
    from actlab.bench import peer

    shape = training.Shape("tiny", 16, 2, 32, 2, 3, n_layers=1, context=16)
    plain = peer.Plain(shape)
    assert (
        sum(array.numel() for array in plain.parameters()) == models.costs(models.build(shape.config.model)).parameters
    )
    tokens = torch.zeros((2, 16), dtype=torch.int64)
    later = tokens.clone()
    later[:, 8:] = 1
    logits = [plain(tokens), plain(later)]
    assert logits[0].shape == (2, 16, 32) and torch.equal(logits[0][:, :8], logits[1][:, :8]), "causal"
    before = plain.blocks[0].up.weight.detach().clone()
    assert peer._training(shape, plain, compiled=False, device="cpu")() > 0
    assert not torch.equal(before, plain.blocks[0].up.weight)


def test_a_cpu_is_named_by_what_tells_its_generation(monkeypatch):
    text = "model name\t: AMD EPYC\ncpu family\t: 25\nmodel\t\t: 17\nflags\t\t: fpu avx2 avx512f"
    monkeypatch.setattr(timing, "cpuinfo", lambda: text)
    monkeypatch.setattr(timing, "n_cores", lambda: 2)
    assert timing.device_name() == "AMD EPYC, family 25 model 17, 512-bit vectors, 2 cores"
    monkeypatch.setattr(timing, "cpuinfo", lambda: "")
    monkeypatch.setattr(timing, "n_cores", lambda: 1)
    assert timing.device_name().endswith(", 1 core")
    monkeypatch.setattr(timing, "n_cores", lambda: None)
    assert "core" not in timing.device_name()


def test_the_command_counts_the_turns_that_are_done(small_shape, monkeypatch):
    monkeypatch.setattr(training, "ours", lambda shape, n_lanes=1: lambda: 0.25 / n_lanes)
    _, _, error = commands.call(bench.main, "training", "--shapes=tiny", "--repetitions=2")
    assert [[word for word in line.split() if word.isdigit()] for line in error.splitlines() if "turn" in line] == [
        ["1", "2"],
        ["2", "2"],
    ]


def test_the_command_leaves_memory_to_pytorch(monkeypatch):
    name = "XLA_PYTHON_CLIENT_PREALLOCATE"
    monkeypatch.setenv(name, "")
    monkeypatch.delenv(name)
    found = []
    monkeypatch.setattr(training, "measure", lambda *_: found.append(os.environ[name]) or [])
    monkeypatch.setattr(timing, "speeds", lambda rows: "")
    commands.run(bench.main, "training", "--shapes=1.3M")
    assert found == ["false"]
