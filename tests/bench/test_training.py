"""The benchmark measures what it says, at a size that takes no time; nothing is asserted of the speed itself."""

import types

import pytest

from actlab.bench import training


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
