"""Devices that are not here: what a flag names, what a compiled program's text says, the bound on a time, the plan."""

import dataclasses
import os
import pathlib
import subprocess
import sys

import jax
import pytest
from rich.console import Console

from actlab.bench import targets as bench
from actlab.errors import UserError
from actlab.sweeps import plan, session
from actlab.training import targets
from actlab.training.targets import Facts

ROOT = pathlib.Path(__file__).parents[2]
HERE = targets.Target("here", "cpu", 2**33, 1e10, {"float32": 1e11}, {1: "1"})
FACTS = Facts(1.0, 100, 30, 20, 5, None, None, {}, ())


@pytest.fixture
def here(monkeypatch):
    """A target whose compiler is always there: this machine's CPU."""
    monkeypatch.setattr(targets.Target, "devices", lambda self, number: jax.devices()[:number])
    return HERE


def test_a_flag_names_a_target_and_a_number_of_devices():
    target, number = targets.parse("v5e:8")
    assert (target.name, number, target.layouts[8]) == ("v5e", 8, "v5e:2x4")
    assert targets.parse("h100")[1] == 1
    for text, words in (("h10", "did you mean 'h100'"), ("v4:3", "1, 4, 8, 16 devices"), ("", "unknown --target")):
        with pytest.raises(UserError, match=words):
            targets.parse(text)


def test_collectives_are_read_from_text_with_the_bytes_of_their_results():
    text = """
  %a = f32[4,1,8]{2,1,0:T(8,128)} all-gather(f32[1,1,8]{2,1,0} %x), replica_groups={}
  %b = (bf16[16]{0}, /*index=1*/f32[2,3]{1,0}) all-reduce-start(bf16[16]{0} %y, f32[2,3]{1,0} %z), to_apply=%add
  %c = (f32[2]{0}, f32[8]{0}) all-gather-start(f32[2]{0} %w), dimensions={0}
  %d = f32[8]{0} all-gather-done((f32[2]{0}, f32[8]{0}) %c)
  %e = pred[] all-reduce(pred[] %p), channel_id=7, to_apply=%or
  %f = pred[] all-reduce(pred[] %p), channel_id=7, to_apply=%or
"""
    assert targets.collectives(text) == (("all-gather", 2, 128 + 32), ("all-reduce", 2, 32 + 24 + 1))


def test_the_bound_is_the_slower_of_products_and_memory():
    assert HERE.roofline("float32", 1e11, FACTS) == 1
    assert HERE.roofline("float32", 0.0, FACTS) == pytest.approx((100 + 20 + 2 * 30) / 1e10)
    assert HERE.roofline("float32", 0.0, dataclasses.replace(FACTS, accessed=1e10)) == 1
    assert FACTS.memory == 155
    for target in targets.TARGETS.values():
        assert target.flops["bfloat16"] > target.flops["tensorfloat32"] > target.flops["float32"] > target.bandwidth
        assert 2**33 < target.usable <= target.memory


def test_a_plan_for_a_target_takes_its_memory_and_its_speed(here, small_sweep):
    specs = session.prepare(Console(quiet=True), small_sweep).specs
    plans = plan.make(specs, (here, 1))
    assert all(one.bytes > 0 and one.n_devices == 1 for one in plans)
    slow = dataclasses.replace(here, bandwidth=here.bandwidth / 10, flops={"float32": 1e10})
    assert plan.make(specs, (slow, 1))[0].seconds == pytest.approx(10 * plans[0].seconds)
    narrow = dataclasses.replace(here, memory=1)
    assert set(plan.make(specs, (narrow, 1))[0].lanes) == {1}, "a lane each where no two fit"


def test_the_table_has_a_row_per_function_of_a_program(here, monkeypatch):
    tiny = {"model.n_layers": 1, "model.d_model": 16, "model.n_heads": 2, "model.context": 16, "data.batch_size": 2}
    for size in ("char", "bert-base"):
        values = bench.SIZES[size].copy_and_resolve_references()
        values.update_from_flattened_dict({**tiny, "model.d_ff": 64})
        monkeypatch.setitem(bench.SIZES, size, values)
    some = [case for case in bench.ALONE if case.dtype == "float32" or len(case.functions) > 1]
    monkeypatch.setattr(bench, "ALONE", some)
    monkeypatch.setattr(here.__class__, "roofline", lambda self, *_: 1e-3)
    rows = list(bench.measure([(here, 1)], ("char", "bert-base")))
    assert [row["function"] for row in rows] == ["train", "evaluate", *bench._FUNCTIONS, "train"]
    assert {row["lanes"] for row in rows} == {1, 6} and {row["fits"] for row in rows} == {"yes"}
    assert all("" not in (row["compiler_gflop"], row["temporaries_MiB"], row["share_of_memory"]) for row in rows)
    assert [row["gflop"] != "" for row in rows] == [row["function"] == "train" for row in rows]
    assert bench.table(rows).row_count == len(rows)
    # As it is read from a file: what is there is not compiled again.
    kept = [{name: str(value) for name, value in row.items()} for row in rows[1:]]
    again = list(bench.measure([(here, 1)], ("char", "bert-base"), kept))
    assert again[:-1] == kept and again[-1]["function"] == rows[0]["function"]
    assert tuple(rows[0]) == bench.COLUMNS and bench.table(again).row_count == len(rows)


def test_a_program_that_does_not_fit_is_a_row(here, monkeypatch):
    def refuse(lowered):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: hbm")

    monkeypatch.setattr(targets, "compiled_facts", refuse)
    monkeypatch.setattr(bench, "ALONE", (bench.Case("char", "float32"),))
    (row,) = bench.measure([(here, 1)], ("char",))
    assert row["fits"].startswith("no") and row["temporaries_MiB"] == "" and bench.table([row]).row_count == 1


def test_a_compiler_that_is_not_installed_is_a_sentence(monkeypatch):
    from jax.experimental import topologies

    def missing(*_, **__):
        raise NotImplementedError("topology not implemented for cuda")

    monkeypatch.setattr(topologies, "get_topology_desc", missing)
    with pytest.raises(UserError, match=r"install it, pip install .*\[cuda\]"):
        targets.TARGETS["h100"].devices(1)


@pytest.mark.targets
@pytest.mark.parametrize("extra", ["cuda", "tpu"])
def test_the_extras_install_and_compile_a_program_for_each_target(tmp_path, extra):
    """In an environment of its own: the compilers are gigabytes."""
    python = tmp_path / "venv/bin/python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    words = [python, "-m", "pip", "install", "-q", "-c", "constraints.txt", "-e", f".[{extra}]"]
    subprocess.run(words, cwd=ROOT, check=True)
    for target in targets.TARGETS.values():
        if (target.platform == "cuda") == (extra == "cuda"):
            line = [python, "-m", "actlab.main", "--config=configs/seed_study.py:small", "--dry_run"]
            line += [
                f"--target={target.name}",
                f"--config.data.dir={tmp_path / 'data'}",
                "--config.data.n_stories=2000",
            ]
            done = subprocess.run(line, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, check=False)
            assert done.returncode == 0 and f"peak of {target.name}" in done.stdout, done.stderr[-2000:]
