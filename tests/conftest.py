"""Settings and small things that the tests share."""

import contextlib
import csv
import dataclasses
import gc
import itertools
import os
import pathlib
import shutil
import types

import chromium
import hypothesis
import jax
import numpy as np
import pytest
from jax._src import compiler  # there is no public way to give options to every compilation

import actlab.data
from actlab import activations, config as config_lib
from actlab.activations import catalogue
from actlab.analysis import results as results_lib
from actlab.config import Config, replace
from actlab.sweeps import session
from actlab.training import programs
from actlab.training.objectives import NEXT_TOKEN

# Half of the time of the tests is compilation, which takes two thirds as long without most optimizations. Commands that
# tests start read the variable too. Set to 0, all is compiled as a user's programs are.
_LEVEL = "JAX_DISABLE_MOST_OPTIMIZATIONS"
_FAST = os.environ.setdefault(_LEVEL, "1")
# XLA's older emitters take less than half of that again, and give other bits.
_OLDER = " --xla_cpu_use_fusion_emitters=false"
_FLAGS = os.environ.get("XLA_FLAGS", "").removesuffix(_OLDER)  # a worker has it from the process that started it
os.environ["XLA_FLAGS"] = _FLAGS + _OLDER * (_FAST == "1")
compiler.xc.CompileOptions()  # XLA reads the variable at its first use: now, not when the first test has changed it

# Some terminals and services ask for colours, which tables are not compared with.
for _name in ("FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(_name, None)

# Checkpoints of thousands of small files are written several times as fast to memory as to a disk.
_MEMORY = pathlib.Path("/dev/shm")
if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

# A session of tests keeps so many objects that Python's collector, as it is set, takes a twentieth of its time.
gc.set_threshold(50_000, 20, 100)

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update(_LEVEL.lower(), _FAST == "1")
hypothesis.settings.register_profile("actlab", deadline=None)  # no test asserts on time
hypothesis.settings.load_profile("actlab")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Compiles with all optimizations what tests marked `optimized` call, as a user's program is."""
    level = "0" if item.get_closest_marker("optimized") else _FAST
    if os.environ[_LEVEL] != level:
        jax.clear_caches()
        jax.config.update(_LEVEL.lower(), level == "1")
        # Here, and in the commands that tests start.
        os.environ |= {_LEVEL: level, "XLA_FLAGS": _FLAGS + _OLDER * (level == "1")}


@pytest.fixture(scope="session", autouse=True)
def newer_emitters():
    """What `optimized` tests compile is written by XLA's newer emitters, as a user's programs are."""
    whole = compiler.get_compile_options

    def get_compile_options(*arguments, **named):
        options = whole(*arguments, **named)
        if _FAST == "1" and os.environ[_LEVEL] == "0":
            options.env_option_overrides = [*options.env_option_overrides, ("xla_cpu_use_fusion_emitters", True)]
        return options

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "get_compile_options", get_compile_options)
        yield


@pytest.fixture(scope="session", autouse=True)
def compilation_cache(tmp_path_factory):
    """One session's tests compile many equal programs, here, in other workers and in the commands they start: each is
    compiled once. What another worker is just writing is compiled again, hence the warning that pyproject.toml ignores.
    Whoever sets JAX_COMPILATION_CACHE_DIR keeps them for the next session.
    """
    own = tmp_path_factory.getbasetemp()
    ours = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "compiled"
    folder = os.environ.get("JAX_COMPILATION_CACHE_DIR") or ours
    settings = {
        "jax_compilation_cache_dir": str(folder),
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": 0,
    }
    for name, value in settings.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)
    os.environ["PYTHONWARNINGS"] = "ignore:Error reading persistent compilation cache entry"


# Fields on which no compiled function may depend.
NOT_COMPILED = (
    "data.dir",
    "log.tensorboard",
    "seed",
    "sweep",
    *(f"optimizer.{name}" for name in ("learning_rate", "weight_decay")),
    *(f"train.{name}_every" for name in ("log", "eval", "checkpoint", "probe", "census", "curvature")),
)


@pytest.fixture(scope="session", autouse=True)
def shared_programs():
    """Each program is built and compiled once in a session of tests, whichever tests train it.

    Programs are equal if their models, static fields, objectives and numbers of lanes are, and if the names of their
    activations stand for the same functions.
    """
    build, compile = programs.build, programs.Program.compile
    built: dict[object, programs.Program] = {}
    compiled: dict[int, programs.Program] = {}

    def shared_build(model, config, lanes, objective=NEXT_TOKEN, target=None):
        if target is not None:
            return build(model, config, lanes, objective, target)
        static = {path: value for path, value in config_lib.flat(config).items() if path not in NOT_COMPILED}
        names = (model.spec.activation, model.spec.swapped_to, model.spec.head_activation, model.spec.pooler_activation)
        functions = tuple(activations.get(name) for name in names if name)
        key = (model, repr(static), programs.boundary(config, 0), objective, len(lanes), functions, os.environ[_LEVEL])
        if key not in built:
            built[key] = build(model, config, lanes, objective)
        return built[key].with_lanes(lanes)

    def shared_compile(self):
        key = id(self.functions.train)
        if key not in compiled:
            compiled[key] = compile(self)
        return dataclasses.replace(self, functions=compiled[key].functions)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programs, "build", shared_build)
        patch.setattr(programs.Program, "compile", shared_compile)
        yield


# Two layers, width 16, context 8: the smallest model in which everything happens.
TINY = {
    "model.n_layers": 2,
    "model.d_model": 16,
    "model.n_heads": 2,
    "model.context": 8,
    "model.vocab_size": 24,
    "optimizer.warmup_steps": 2,
    "data.batch_size": 4,
    "train.n_steps": 12,
    "train.steps_per_call": 3,
    "train.log_every": 1,
    "train.eval_every": 4,
    "train.checkpoint_every": 4,
    "train.probe_every": 0,
    "train.census_every": 0,
}


@pytest.fixture(scope="session")
def tiny() -> Config:
    """A valid config of the smallest model."""
    return config_lib.replace(Config(), **TINY)


def result_row(activation: str, rate: float, seed: int, loss: float, /, **changes: object) -> dict[str, object]:
    """A row of results.csv, of a run that finished unless `changes` say otherwise."""
    return {
        "run": f"{activation}-lr{rate!r}-seed{seed}",
        "activation": activation,
        "learning_rate": rate,
        "weight_decay": 0.1,
        "seed": seed,
        "data": "story_grammar",
        "tokenizer": "bytes",
        "status": "finished",
        "initial_loss": 7.0,
        "final_loss": loss,
        "best_loss": loss,
        "best_step": 100,
        "floor": 0.5,
        "steps": 100,
        "tokens": 6400,
        "seconds": 8.0,
        "parameters": 1000,
        "non_embedding_parameters": 800,
        "flops_per_token": 6000,
        "lanes": 4,
    } | changes


def write_table(path: pathlib.Path, rows: list[dict[str, object]]) -> pathlib.Path:
    """Writes rows as results.csv; returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture
def tables(tmp_path):
    """A row of results.csv, a file of rows, and the results that are read from rows."""

    def read(rows: list[dict[str, object]]):
        return results_lib.read([write_table(tmp_path / "results.csv", rows)])

    return types.SimpleNamespace(row=result_row, write=write_table, read=read)


@pytest.fixture(scope="session")
def texts(tmp_path_factory) -> str:
    """A folder of prepared data with the text data set "mine"."""
    folder, source = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("texts")
    rng = np.random.default_rng(0)
    for name, n in (("train", 200), ("valid", 40)):
        lines = [" ".join(rng.choice(["a", "the", "cat", "sat", "mat"], 8)) + "\n<|endoftext|>\n" for _ in range(n)]
        (source / f"{name}.txt").write_text("".join(lines))
    actlab.data.prepare("mine", folder, source=source, tokenizer="bytes", progress=False)
    return str(folder)


@pytest.fixture(autouse=True)
def catalogue_as_it_was():
    """What a test registers is gone after it: others count the names."""
    records, aliases = dict(catalogue._records), dict(catalogue._aliases)
    yield
    if (records, aliases) != (catalogue._records, catalogue._aliases):
        for known, before in ((catalogue._records, records), (catalogue._aliases, aliases)):
            known.clear()
            known.update(before)
        catalogue._get.cache_clear()


@pytest.fixture
def register():
    """Registers a record."""

    def add(name, fn, **fields):
        return activations.register(activations.Activation(name, fn, "f", "me", **fields))

    return add


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A headless Chromium without network; the test is skipped where none is installed."""
    found = chromium.find()
    if not found:
        pytest.skip("no chromium with its driver here: apt-get install chromium chromium-driver")
    window = chromium.Browser(*found, tmp_path_factory.mktemp("chromium"))
    yield window
    window.close()


@pytest.fixture(scope="session")
def small_sweep(texts) -> Config:
    """Two activations, two learning rates, two seeds: two programs of four lanes, 12 steps each."""
    return replace(
        Config(),
        **{
            "model.n_layers": 1,
            "model.d_model": 8,
            "model.n_heads": 1,
            "model.context": 16,
            "optimizer.warmup_steps": 2,
            "optimizer.schedule": "constant",
            "data.name": "mine",
            "data.dir": texts,
            "data.batch_size": 4,
            "train.n_steps": 12,
            "train.steps_per_call": 2,
            "train.log_every": 2,
            "train.eval_every": 4,
            "train.eval_tokens": 300,
            "train.checkpoint_every": 4,
            "train.probe_every": 0,
            "train.census_every": 0,
            "sweep": {
                "model.activation": ("relu", "tanh"),
                "optimizer.learning_rate": (1e-3, 1e-2),
                "seed": (1, 2),
            },
        },
    )


@pytest.fixture
def stopped_early(monkeypatch):
    """A context in which a session that begins receives SIGTERM after that many calls; -1: before step 0."""

    @contextlib.contextmanager
    def context(calls=3):
        questions = itertools.count()

        def asked(self):
            self.received = 15 if next(questions) > calls else None
            return self.received is not None

        with monkeypatch.context() as patch:
            patch.setattr(session.StopSignal, "__call__", asked)
            yield

    return context
