"""The benchmark measures what it says, at a size that takes no time; nothing is asserted of the speed itself."""

import itertools
import types

import pytest

from actlab.bench import timing, training


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
    monkeypatch.setattr(training, "ours", lambda shape, n_lanes=1: itertools.cycle((4.0, 0.25)).__next__)
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
    assert peer._training(shape, plain, compiled=False)() > 0
    assert not torch.equal(before, plain.blocks[0].up.weight)


def test_a_cpu_is_named_by_what_tells_its_generation(monkeypatch):
    text = "model name\t: AMD EPYC\ncpu family\t: 25\nmodel\t\t: 17\nflags\t\t: fpu avx2 avx512f"
    monkeypatch.setattr(timing, "cpuinfo", lambda: text)
    assert timing.device_name().startswith("AMD EPYC, family 25 model 17, 512-bit vectors, ")
    monkeypatch.setattr(timing, "cpuinfo", lambda: "")
    assert timing.device_name().endswith(" cores")
