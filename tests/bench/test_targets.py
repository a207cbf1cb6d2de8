"""What is compiled for devices that are not here, on this machine's CPU; a marked test installs their compilers."""

import csv
import dataclasses
import os
import pathlib
import subprocess
import sys
import types

import commands
import jax
import pytest

from actlab import models
from actlab.bench import targets as bench, timing
from actlab.cli import bench as bench_command
from actlab.errors import UserError
from actlab.training import targets

ROOT = pathlib.Path(__file__).parents[2]
# Kinds of collectives of a step whose parameters are split over eight H100s.
SPLIT = """
from actlab.training import targets
targets.prepare()
from actlab import models
from actlab.bench.targets import Case
from actlab.training import programs
from actlab.training.objectives import NEXT_TOKEN

config, devices = Case("char", "bfloat16", split="fsdp").config(8), targets.parse("h100:8").devices()
program = programs.build(models.build(config.model), config, [programs.Lane(1, 1e-3, 0.1)], NEXT_TOKEN, devices)
print(*(kind for kind, *_ in targets.collectives(program.lower("train").compile().as_text())))
"""
# MiB of temporaries of six lanes, without and with blocks computed again.
MEMORY = """
from actlab.training import targets
targets.prepare()
from actlab.bench import targets as bench

cases = [bench.Case("char", "bfloat16", lanes=6, remat=remat) for remat in (False, True)]
for case in cases:
    program = bench._built(case, 1, targets.parse("h100").devices())[2]
    print(program.lower("train").compile().memory_analysis().temp_size_in_bytes >> 20)
"""
LONG = [
    f"--config.{change}"
    for change in ("data.n_stories=2000", "model.context=512", "model.n_heads=2", "train.dtype=bfloat16")
]


@pytest.fixture
def here(monkeypatch):
    """A target whose compiler is always there: this machine's CPU."""
    monkeypatch.setattr(targets.Target, "devices", lambda self: jax.devices()[: self.number])
    return targets.Target("here", "cpu", 2**33, 1e10, {"float32": 1e11, "bfloat16": 1e11}, {1: "1"})


@pytest.mark.slow
def test_the_table_has_a_row_per_function_of_a_program(here, monkeypatch, tmp_path):
    tiny = {"model.n_layers": 1, "model.d_model": 16, "model.n_heads": 2, "model.context": 16, "data.batch_size": 2}
    for size in ("char", "bert-base"):
        values = bench.SIZES[size].copy_and_resolve_references()
        values.update_from_flattened_dict({**tiny, "model.d_ff": 64})
        monkeypatch.setitem(bench.SIZES, size, values)
    # But curvature, which takes the compiler longest.
    cases = [
        dataclasses.replace(case, functions=tuple(name for name in case.functions if name != "curvature"))
        for case in bench.ALONE
        if case.dtype == "float32" or len(case.functions) > 1
    ]
    monkeypatch.setattr(bench, "ALONE", cases)
    monkeypatch.setattr(here.__class__, "roofline", lambda self, *_: 1e-3)
    rows = list(bench.measure([here], ("char", "bert-base")))
    assert [row["function"] for row in rows] == [name for case in cases for name in case.functions]
    assert {row["function"] for row in rows} == {"train", "evaluate", "probe", "census"}
    assert {row["lanes"] for row in rows} == {1, 6} and {row["fits"] for row in rows} == {"yes"}
    assert all("" not in (row["compiler_gflop"], row["temporaries_MiB"], row["share_of_memory"]) for row in rows)
    assert [row["gflop"] != "" for row in rows] == [row["function"] == "train" for row in rows]
    assert bench.table(rows).row_count == len(rows)
    # As it is read from a file: what is there is not compiled again.
    kept = [{name: str(value) for name, value in row.items()} for row in rows[1:]]
    (again,) = bench.measure([here], ("char", "bert-base"), kept)
    assert again["function"] == rows[0]["function"] and tuple(again) == bench.COLUMNS
    assert bench.table([*kept, again]).row_count == len(rows)
    out = tmp_path / "targets.csv"
    list(bench_command._written(out, [again], kept))
    assert bench_command._known(out, bench.COLUMNS) == [*kept, {name: str(value) for name, value in again.items()}]


def test_each_row_is_written_behind_those_of_the_file_before_the_next_is_measured(tmp_path):
    out, kept = tmp_path / "targets.csv", [{"function": "train", "gflop": "1"}]
    rows = bench_command._written(out, iter([{"function": "probe", "gflop": None}, {"function": "census"}]), kept)
    assert next(rows) == {"function": "probe", "gflop": None}
    assert bench_command._known(out, ("function", "gflop")) == [*kept, {"function": "probe", "gflop": ""}]


def test_a_program_that_does_not_fit_is_a_row(here, monkeypatch):
    def refuse(lowered):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: hbm")

    monkeypatch.setattr(targets, "compiled_facts", refuse)
    monkeypatch.setattr(bench, "ALONE", (bench.Case("char", "float32"),))
    (row,) = bench.measure([here], ("char",))
    assert row["fits"].startswith("no") and row["temporaries_MiB"] == "" and bench.table([row]).row_count == 1


@pytest.fixture
def two_cases(monkeypatch):
    tiny = {"model.n_layers": 1, "model.d_model": 16, "model.n_heads": 2, "model.context": 16, "data.batch_size": 2}
    for size in ("char", "bert-base"):
        values = bench.SIZES[size].copy_and_resolve_references()
        values.update_from_flattened_dict({**tiny, "model.d_ff": 64, "train.steps_per_call": 2})
        monkeypatch.setitem(bench.SIZES, size, values)
    cases = (bench.Case("char", "float32", lanes=2), bench.Case("bert-base", "float32", functions=("train", "probe")))
    monkeypatch.setattr(bench, "ALONE", cases)


@pytest.mark.slow
def test_programs_run_on_the_device_that_is_here_and_are_timed(two_cases, monkeypatch):
    # A call's begin and end are its ticks: two that are not counted, then calls of 1, 4 and 2 seconds; first compiling.
    ticks = iter([0, 3, *(0, 50, 0, 50, 0, 1, 0, 4, 0, 2)] * 2)
    monkeypatch.setattr(bench, "time", types.SimpleNamespace(perf_counter=lambda: float(next(ticks))))
    memory = iter([{"peak_bytes_in_use": 2**30, "bytes_in_use": 1}, None])
    device = types.SimpleNamespace(memory_stats=lambda: next(memory))
    monkeypatch.setattr(jax, "local_devices", lambda: [device])
    encoder, decoder = bench.run_here(("char", "bert-base"), at_least=6.5)
    assert tuple(encoder) == tuple(decoder) == bench.HERE
    assert [(row["size"], row["lanes"], row["rows"]) for row in (encoder, decoder)] == [
        ("bert-base", 1, 2),
        ("char", 2, 2),
    ], "what keeps least is first"
    assert bench._kept(dataclasses.replace(bench.ALONE[0], remat=True)) < bench._kept(bench.ALONE[0])
    assert (encoder["peak_MiB"], decoder["peak_MiB"]) == (1024, "")
    masked = bench._built(bench.ALONE[1], 1)[1]
    assert masked.share(16) < 0.5
    for row, lanes, share in ((encoder, 1, masked.share(16)), (decoder, 2, 1.0)):
        # A call is of two updates.
        assert (row["ms_min"], row["ms_median"], row["compile_seconds"], row["fits"]) == (500, 1000, 3, "yes")
        assert row["arguments_MiB"] >= 0 and row["device"] == timing.device_name()
        model = models.build(bench.Case(row["size"], "float32").config(1).model)
        flop = models.costs(model, share).flops_per_token * 2 * 16 * lanes
        assert row["tflop_per_second"] == pytest.approx(flop / 1e12, rel=0.01)


def test_a_program_that_does_not_fit_here_is_a_row_and_the_next_one_runs(two_cases, monkeypatch):
    run = bench._seconds_per_update

    def refuse(program, at_least):
        if program.n_lanes == 1:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: 4 GiB")
        return run(program, at_least)

    monkeypatch.setattr(bench, "_seconds_per_update", refuse)
    full, other = bench.run_here(("char", "bert-base"), at_least=0.0)
    assert (full["fits"], full["ms_median"], full["size"]) == ("no", "", "bert-base") and tuple(full) == bench.HERE
    assert other["fits"] == "yes" and other["ms_median"] > 0

    def broken(*_):
        raise jax.errors.JaxRuntimeError("INTERNAL: ptxas")

    monkeypatch.setattr(bench, "_seconds_per_update", broken)
    with pytest.raises(jax.errors.JaxRuntimeError, match="ptxas"):
        list(bench.run_here(("char", "bert-base")))


def test_a_model_that_has_no_program_for_the_targets_is_refused(monkeypatch):
    monkeypatch.setattr(targets, "prepare", lambda: None)
    with pytest.raises(UserError, match=r"--models=bert-base has no program for several devices: name"):
        commands.run(bench_command.main, "targets", "--targets=v5e:8", "--models=bert-base")


def test_the_command_measures_here_what_it_is_asked_for(two_cases, monkeypatch, tmp_path):
    monkeypatch.setattr(targets, "prepare", None)  # the devices of this machine are wanted
    words = ("targets", "--here", "--models=char", f"--out={tmp_path / 'here.csv'}")
    code, out, error = commands.call(bench_command.main, *words)
    assert "char" in out and "actlab: train char float32 2 lanes: compiled in " in error
    before = (tmp_path / "here.csv").read_text()
    monkeypatch.setattr(bench, "_seconds_per_update", None)
    assert "char" in commands.run(bench_command.main, *words), "what is there is not measured again"
    assert (tmp_path / "here.csv").read_text() == before
    (tmp_path / "targets.csv").write_text("target,devices\nh100,1\n")
    with pytest.raises(UserError, match=r"targets.csv is not a table of this command"):
        commands.run(bench_command.main, *words[:-1], f"--out={tmp_path / 'targets.csv'}")
    (row,) = csv.DictReader((tmp_path / "here.csv").read_text().splitlines())
    assert row["size"] == "char" and float(row["ms_median"]) > 0
    with pytest.raises(UserError, match="--targets names devices that are not here"):
        commands.run(bench_command.main, "targets", "--here", "--targets=h100")


@pytest.mark.targets
@pytest.mark.parametrize("extra", ["cuda", "tpu"])
def test_the_extras_install_and_compile_a_program_for_each_target(tmp_path, extra):
    """In an environment of its own: the compilers are gigabytes. Rows and heads are those of a TPU's own attention."""
    python = tmp_path / "venv/bin/python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    words = [python, "-m", "pip", "install", "-q", "-c", "constraints.txt", "-e", f".[{extra}]"]
    subprocess.run(words, cwd=ROOT, check=True)
    for target in targets.TARGETS.values():
        if (target.platform == "cuda") == (extra == "cuda"):
            line = [python, "-m", "actlab.main", "--config=configs/seed_study.py:small", "--dry_run"]
            line += [f"--target={target.name}:4", f"--config.data.dir={tmp_path / 'data'}", *LONG]
            done = subprocess.run(line, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, check=False)
            assert done.returncode == 0 and f"peak of {target.name}" in done.stdout, done.stderr[-2000:]
    if extra == "cuda":
        # Parameters are gathered and gradients added up. Units would be exchanged if heads or units were split too.
        done = subprocess.run([python, "-c", SPLIT], cwd=ROOT, capture_output=True, text=True, check=True)
        assert set(done.stdout.split()) == {"all-gather", "all-reduce", "reduce-scatter"}
        done = subprocess.run([python, "-c", MEMORY], cwd=ROOT, capture_output=True, text=True, check=True)
        kept, again = map(int, done.stdout.split())
        assert again < kept / 2
