"""Workdirs written by hand, as many runs as a test wants, and one that was trained."""

import math
import pathlib
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from actlab.config import Config, replace, sweep
from actlab.models import Costs
from actlab.report import report, study as study_lib
from actlab.sweeps import session
from actlab.workdir import records
from actlab.workdir.records import Workdir
from actlab.workdir.results import result_row
from actlab.workdir.traces import StepBuffer, Steps, dead_row

INITIAL, FLOOR, LAYERS, UNITS = 7.0, 0.8, 2, 16
EFFECTS = {"relu": 0.0, "gelu": -0.03, "tanh": 0.12, "swiglu": -0.05}
GROUPS = ("attention", "feed_forward")


def config_of(axes: Mapping[str, Iterable[object]], n_steps: int = 400, **changes: object) -> Config:
    """The config of a sweep over these axes."""
    common = {
        "model.n_layers": LAYERS,
        "model.vocab_size": 256,
        "model.d_ff": 64,
        "model.d_model": 16,
        "model.n_heads": 1,
        "data.name": "story_grammar",
        "optimizer.warmup_steps": 0,
        "train.n_steps": n_steps,
        "train.eval_every": n_steps // 10,
        "train.checkpoint_every": n_steps // 10,
    }
    return replace(Config(), **{**common, **changes, "sweep": {name: tuple(values) for name, values in axes.items()}})


def write(
    path: pathlib.Path, config: Config, status: Callable[[sweep.Run], str] = lambda run: "finished"
) -> pathlib.Path:
    """A workdir as training leaves it; `status` is finished, diverged, stopped, open (begun) or waiting."""
    workdir = Workdir(path)
    workdir.open(config)
    runs = sweep.expand(config)
    workdir.begin(0, [run.name for run in runs])
    rows = []
    for run in runs:
        state = status(run)
        if state != "waiting":
            row = _train(workdir, run, state)
            rows += [] if state == "open" else [row]
    if rows:
        workdir.write_made({records.RESULTS: records.table(rows)})
    workdir.write_manifest(_manifest(runs))
    workdir.close()
    return path


def _train(workdir: Workdir, run: sweep.Run, state: str) -> dict[str, object]:
    n_steps, every = run.config.train.n_steps, run.config.train.eval_every
    length = n_steps if state == "finished" else n_steps // 4
    losses, norms = _series(run, length)
    taken = Steps(losses.astype(np.float32), norms.astype(np.float32))
    metrics = [{"run": run.name, "step": 0, "split": "validation", "loss": INITIAL, "seconds": 0.1}]
    for step in range(every // 4, length + 1, every // 4):
        at = {"run": run.name, "step": step, "seconds": step * 0.01}
        metrics.append({**at, "split": "train", "loss": float(losses[step - 1]), "grad_norm": float(norms[step - 1])})
        if step % every == 0:
            metrics.append({**at, "split": "validation", "loss": float(losses[step - 1])})
            metrics.append({**at, "split": "probe", **_probe(run, step / n_steps)})
    if state == "diverged":
        metrics.append({**metrics[-1], "step": length + 1, "split": "train", "loss": None, "status": "diverged"})
    workdir.append_metrics(metrics)
    buffer = StepBuffer([run.name])
    buffer.add(0, length, taken.loss_S, taken.grad_norm_S)
    workdir.append_traces(buffer.take())
    dead = np.random.default_rng(run.config.seed).random((3, LAYERS, UNITS)) < 0.2
    workdir.append_traces([dead_row(run.name, step, dead[index]) for index, step in enumerate((0, every, length))])
    row = result_row(run.config, run.name, metrics, taken, Costs(1_300, 1_000, 9_000, 0.0), (FLOOR, FLOOR), length)
    named = ("model.activation", "optimizer.learning_rate", "seed")  # which have columns of their own
    return {**row, **{path: value for path, value in run.axes.items() if path not in named}, "lanes": 1}


def _series(run: sweep.Run, length: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(run.config.seed)
    rate = run.config.optimizer.learning_rate
    off = 0.05 * math.log10(rate / 1e-3) ** 2 if rate else 1.0
    final = 1.5 + EFFECTS.get(run.config.model.activation, 0.0) + off + 0.01 * rng.standard_normal()
    steps = np.arange(1, length + 1)
    losses = final + (INITIAL - final) * np.exp(-steps / (0.1 * run.config.train.n_steps))
    losses += 0.002 * rng.standard_normal(length)
    norms = 0.5 + 0.1 * rng.random(length)
    norms[length // 2 + 70 :: 97] *= 40  # spikes
    return losses, norms


def _probe(run: sweep.Run, share: float) -> dict[str, float]:
    moments = {"mean": -0.2 * share, "sd": 0.5 + share, "rms": 0.6 + share, "max": 4.0, "kurtosis": 3.5}
    shares = ("zero_fraction", "negative_fraction", "tau_sparsity_0.01", "tau_sparsity_0.1", "cett_sparsity")
    found = {"hessian_top": 5 + 20 * share, "gauss_newton_top": 4 + 15 * share}
    for layer in range(LAYERS):
        name = f"layer_{layer}"
        found |= {f"{name}/{side}_{key}": value for side in ("pre", "post") for key, value in moments.items()}
        found |= {f"{name}/{key}": 0.5 + 0.1 * layer * share for key in shares}
        found |= {f"{name}/{group}/grad_norm": 0.3 + 0.1 * layer for group in GROUPS}
        found |= {f"{name}/gradient_dead_fraction": 0.0, f"{name}/dead_fraction": 0.1 * share}
    return found


def _manifest(runs: Iterable[sweep.Run]) -> dict[str, object]:
    session_row = {
        "started": "2026-01-02T03:04:05+00:00",
        "command": ["python", "-m", "actlab.main", "--config=a.py"],
        "commit": "0" * 40,
        "device": {"kind": "cpu", "count": 1, "host": "x86_64"},
        "packages": {"jax": "0.10.2"},
        "restored": [{"part": "0", "step": 0}],
    }
    data = {"name": "story_grammar", "fingerprint": "0" * 64}
    return {"data": data, "sessions": [session_row], "parts": {"0": [run.name for run in runs]}}


@pytest.fixture(scope="session")
def six(tmp_path_factory) -> pathlib.Path:
    """Two activations, one learning rate, three seeds."""
    axes = {"model.activation": ("relu", "gelu"), "optimizer.learning_rate": (1e-3,), "seed": (1, 2, 3)}
    return write(tmp_path_factory.mktemp("six") / "six", config_of(axes))


def _ending(run: sweep.Run) -> str:
    if run.config.optimizer.learning_rate == 1e-2 and run.config.model.activation == "relu" and run.config.seed > 3:
        return "diverged"
    return "stopped" if (run.config.seed, run.config.optimizer.learning_rate) == (6, 1e-4) else "finished"


@pytest.fixture(scope="session")
def study(tmp_path_factory) -> pathlib.Path:
    """Text B's activations and rates over six seeds, with and without warmup: 120 runs, 6 diverged and 4 stopped."""
    axes = {
        "optimizer.warmup_steps": (0, 20),
        "model.activation": ("relu", "gelu"),
        "optimizer.learning_rate": (1e-4, 3e-4, 1e-3, 3e-3, 1e-2),
        "seed": (1, 2, 3, 4, 5, 6),
    }
    return write(tmp_path_factory.mktemp("study") / "study", config_of(axes, n_steps=2000), _ending)


@pytest.fixture(scope="session")
def trained(tmp_path_factory, small_sweep) -> pathlib.Path:
    """A workdir that was trained: one run, with a checkpoint."""
    folder = tmp_path_factory.mktemp("trained") / "w"
    config = replace(small_sweep, **{"model.activation": "relu", "sweep": {"seed": (1,)}})
    assert session.run(config, "trained", folder, ["test"]) == 0
    return folder


def page(*folders: pathlib.Path, questions: Sequence[str] = (), n_samples: int = 0) -> str:
    """The page of some folders."""
    return report.build(study_lib.read(folders), questions, n_samples).html()


def text(*folders: pathlib.Path, **options: Any) -> str:
    """A page without its libraries."""
    return page(*folders, **options).partition('<script type="module">')[0]


def copied(source: pathlib.Path, target: pathlib.Path, *names: str) -> pathlib.Path:
    """A folder with some files of another."""
    target.mkdir(parents=True, exist_ok=True)
    for name in names:
        (target / name).write_bytes((source / name).read_bytes())
    return target


@pytest.fixture(scope="session")
def workdirs():
    """How workdirs are written, changed and shown."""
    return types.SimpleNamespace(write=write, config_of=config_of, copied=copied, page=page, text=text)
