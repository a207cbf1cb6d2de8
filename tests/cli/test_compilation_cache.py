"""Compiled programs are kept for later starts, in a folder of the user's; one that is damaged is compiled again."""

import os
import pathlib
import subprocess
import sys

import pytest

from actlab.cli import compilation_cache

ROOT = pathlib.Path(__file__).parents[2]
VARIABLES = ("COMPILATION_CACHE_DIR", "COMPILATION_CACHE_MAX_SIZE", "PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS")
LINE = [
    sys.executable,
    *("-m", "actlab.main", f"--config={ROOT}/configs/tinystories_gelu.py:small"),
    *("--config.model.n_layers=1", "--config.model.d_model=16", "--config.model.context=32"),
    *("--config.data.tokenizer=bytes", "--config.data.name=mine", "--config.data.batch_size=4"),
    *("--config.optimizer.warmup_steps=2", "--config.train.n_steps=8", "--config.train.eval_tokens=300"),
    *("--config.train.probe_every=0", "--config.train.census_every=0"),
]


@pytest.fixture
def unset(monkeypatch):
    monkeypatch.delitem(sys.modules, "jax")  # or it is too late
    for name in VARIABLES:
        monkeypatch.setenv(f"JAX_{name}", "")  # so that what is set here is undone
        monkeypatch.delenv(f"JAX_{name}")
    return monkeypatch


def folder():
    compilation_cache.keep_programs()
    return os.environ.get("JAX_COMPILATION_CACHE_DIR")


def test_programs_are_kept_by_kind_of_processor_below_the_users_cache(unset, tmp_path):
    unset.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    first = pathlib.Path(folder() or "")
    assert first.parent == tmp_path / "cache/actlab/compiled"
    assert not first.exists(), "a command that compiles nothing writes nothing"
    # A job of a launch has the variable of the machine that launched it.
    unset.setattr(compilation_cache, "cpuinfo", lambda: "flags : fpu avx512f\n")
    assert pathlib.Path(folder() or "").parent == first.parent and folder() != str(first)


def test_another_folder_of_the_users_stays_as_it_is(unset):
    unset.setenv("JAX_COMPILATION_CACHE_DIR", "mine")
    # A limit would delete programs of that folder, and break on those that were kept without one.
    assert folder() == "mine" and not any(f"JAX_{name}" in os.environ for name in VARIABLES[1:])


@pytest.mark.parametrize("cache", ["file/cache", "closed", "x" * 300])
def test_without_a_place_to_write_nothing_is_kept(unset, tmp_path, cache):
    (tmp_path / "file").touch()
    (tmp_path / "closed/actlab").mkdir(parents=True)
    (tmp_path / "closed/actlab").chmod(0o777)  # of which anybody might write machine code
    unset.setenv("XDG_CACHE_HOME", str(tmp_path / cache))
    assert folder() is None


def test_a_relative_cache_folder_is_ignored_as_its_specification_says(unset, tmp_path):
    unset.setenv("XDG_CACHE_HOME", "cache")
    unset.setenv("HOME", str(tmp_path))
    assert pathlib.Path(folder() or "").is_relative_to(tmp_path / ".cache")


def test_a_program_that_was_cut_off_is_removed(unset, tmp_path):
    unset.setenv("XDG_CACHE_HOME", str(tmp_path))
    place = pathlib.Path(folder() or "")
    place.mkdir(parents=True)
    for name in ("whole-cache", "whole-atime", "cut-cache", "young-cache"):
        (place / name).touch()
        os.utime(place / name, (0, 0) if name != "young-cache" else None)
    unset.delenv("JAX_COMPILATION_CACHE_DIR")
    folder()
    assert sorted(path.name for path in place.iterdir()) == ["whole-atime", "whole-cache", "young-cache"]


@pytest.mark.slow
def test_a_second_start_compiles_nothing_and_damaged_programs_change_nothing(texts, tmp_path):
    environment = {name: value for name, value in os.environ.items() if name.removeprefix("JAX_") not in VARIABLES}
    environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")

    def started(workdir, *words, **variables):
        line = [*LINE, f"--config.data.dir={texts}", f"--workdir={tmp_path / workdir}", *words]
        variables |= environment
        done = subprocess.run(line, env=variables, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert ("\ncompiled " in done.stdout) == (not words) and "Warning" not in done.stderr
        return [line for line in done.stdout.splitlines() if line.startswith(("validation", "test"))]

    def kept(kind):
        return {path.name: path.read_bytes() for path in tmp_path.glob(f"cache/actlab/compiled/*/*-{kind}")}

    without = started("without", "--nocompilation_cache")
    assert not kept("cache")
    assert started("first", JAX_RAISE_PERSISTENT_CACHE_ERRORS="true") == without and len(kept("cache")) > 2
    used = kept("atime")
    assert started("second", JAX_RAISE_PERSISTENT_CACHE_ERRORS="true") == without
    assert all(kept("atime")[name] != time for name, time in used.items())
    for path in tmp_path.glob("cache/actlab/compiled/*/*-cache"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    assert started("damaged") == without
