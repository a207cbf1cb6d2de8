"""The plan of a sweep for devices that are not here; that for this machine is tested where sessions are."""

import dataclasses
import io
import math
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from actlab.config import Config, replace
from actlab.console import lines
from actlab.sweeps import announce, plan, session
from actlab.training import devices as devices_lib, generation, programs, targets


def test_a_plan_for_a_target_takes_its_memory_and_its_speed(small_sweep, monkeypatch):
    # A target whose compiler is always there: this machine's CPU.
    monkeypatch.setattr(targets.Target, "devices", lambda self: jax.devices()[: self.number])
    here = targets.Target("here", "cpu", 2**33, 1e10, {"float32": 1e11}, {1: "1"})
    specs = session.prepare(Console(quiet=True), small_sweep).specs
    plans = plan.make(specs, here)
    assert all(one.bytes > 0 and one.n_devices == 1 for one in plans)
    slow = dataclasses.replace(here, bandwidth=here.bandwidth / 10, flops={"float32": 1e10})
    assert plan.make(specs, slow)[0].seconds == pytest.approx(10 * plans[0].seconds)
    narrow = dataclasses.replace(here, memory=1)
    assert set(plan.make(specs, narrow)[0].lanes) == {1}, "a lane each where no two fit"
    for target, said in ((here, False), (narrow, True)):
        console = Console(width=200)
        with console.capture() as told:
            plan.show(console, plan.make(specs, target), target)
        assert ("warning     relu does not fit: one lane takes" in told.get()) == said


def test_programs_and_lanes_are_named_by_what_tells_them_apart(small_sweep):
    def spec(activation, *places):
        configs = [
            replace(
                small_sweep, **{"sweep": {}, "model.activation": activation, "optimizer.learning_rate": rate, "seed": n}
            )
            for rate, n in places
        ]
        return types.SimpleNamespace(config=configs[0], configs=configs)

    relu, gelu = spec("relu", (1e-3, 1), (3e-3, 2)), spec("gelu", (3e-3, 5), (3e-3, 6))
    assert plan.labels([relu, gelu]) == ["relu", "gelu"] and plan.labels([gelu]) == ["gelu"]
    assert plan.lanes(relu) == (("learning_rate=0.001", 1), ("learning_rate=0.003", 2))
    assert plan.lanes(gelu) == (("", 5), ("", 6))


@pytest.mark.slow
def test_a_plan_has_room_for_curvature_where_it_is_measured(small_sweep, monkeypatch):
    monkeypatch.setattr(targets.Target, "devices", lambda self: jax.devices()[: self.number])
    here = targets.Target("here", "cpu", 2**33, 1e10, {"float32": 1e11}, {1: "1"})
    alone = replace(small_sweep, sweep={"train.curvature_every": (0, 2)})
    specs = session.prepare(Console(quiet=True), alone).specs
    without, measured = plan.make(specs)
    assert min(measured.bytes, plan.make(specs[1:], here)[0].bytes) > 2 * without.bytes


def test_the_time_of_an_update_is_that_of_one_that_does_not_diverge(small_sweep, monkeypatch):
    states, build = [], programs.build

    def building(*arguments, **options):
        program = build(*arguments, **options)
        monkeypatch.setattr(programs.Program, "train", watched(programs.Program.train))
        return program

    def watched(train):
        def call(self, *arguments):
            state, taken = train(self, *arguments)
            states.append((bool(state.diverged[0]), float(jnp.sum(jnp.abs(jax.tree.leaves(state.params)[0])))))
            return state, taken

        return call

    monkeypatch.setattr(plan.programs, "build", building)
    fast = replace(small_sweep, sweep=(), **{"optimizer.learning_rate": 1e30})
    assert plan.calibrate(session.prepare(Console(quiet=True), fast).specs[0]).seconds_per_step > 0
    assert states and not any(diverged for diverged, _ in states)
    assert all(math.isfinite(size) for _, size in states)


def test_programs_of_two_dtypes_are_calibrated_each_and_devices_share_the_work(small_sweep, monkeypatch):
    calibrated = []

    def calibrate(spec, n_data):
        calibrated.append((spec.config.train.dtype, n_data))
        return plan.Calibration(devices_lib.MemoryNeed(100, 100), 2.0)

    monkeypatch.setattr(plan, "calibrate", calibrate)
    axes = {"train.dtype": ("float32", "bfloat16"), "seed": (1, 2, 3, 4)}
    specs = session.prepare(Console(quiet=True), replace(small_sweep, sweep=axes)).specs
    one = plan.make(specs)
    assert sorted(calibrated) == [("bfloat16", 1), ("float32", 1)] and len(one) == 2
    # With as many hidden units a gated layer has a matrix more.
    axes = {"model.activation": ("relu", "gelu", "swiglu")}
    plan.make(session.prepare(Console(quiet=True), replace(small_sweep, sweep=axes, **{"model.d_hidden": 32})).specs)
    assert len(calibrated) == 4

    four = jax.sharding.Mesh(np.full((2, 2, 1), jax.devices()[0]), ("lane", "data", "fsdp"))
    monkeypatch.setattr(plan.devices, "make_mesh", lambda *_: four)
    monkeypatch.setattr(plan.devices, "idle_devices", lambda *_: None)
    assert [4 * divided.seconds for divided in plan.make(specs)] == [alone.seconds for alone in one]


def test_a_sample_keeps_the_lines_of_its_model(monkeypatch):
    text = "a word after a word " * 5 + "\n  and a line"
    monkeypatch.setattr(generation, "write_text", lambda *_, **__: text)
    console = lines()
    console.file, console._force_terminal, console.width = io.StringIO(), True, 40
    spec = types.SimpleNamespace(model=None, config=Config())
    announce.sample(console, spec, types.SimpleNamespace(tokenizer=None), types.SimpleNamespace(params={}))
    told = console.file.getvalue().splitlines()
    assert "  and a line" in [line.rstrip() for line in told] and not any(line.startswith(" " * 3) for line in told)


def test_what_is_not_trained_announces_no_training(small_sweep):
    for trains in (True, False):
        console = Console(record=True, quiet=False, file=None, width=200)
        with console.capture() as told:
            session.prepare(console, small_sweep, trains=trains)
        assert ("training    " in told.get()) == trains and "floor       " in told.get()
