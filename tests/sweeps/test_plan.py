"""The plan of a sweep for devices that are not here; that for this machine is tested where sessions are."""

import dataclasses

import jax
import pytest
from rich.console import Console

from actlab.sweeps import plan, session
from actlab.training import targets


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
