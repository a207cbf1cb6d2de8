"""A trained run, read back from its workdir."""

import pathlib
from typing import Any, NamedTuple

import jax

from actlab import config as config_lib
from actlab import models
from actlab.config import Config
from actlab.data import tokenizers
from actlab.errors import UserError, suggestion
from actlab.studies import sweep
from actlab.training import manifest
from actlab.training.checkpoint import Checkpoints
from actlab.training.cohort import Cohort, compute_dtype, lane_of
from actlab.training.records import Workdir
from actlab.training.setting import objective_of, resolve


class Trained(NamedTuple):
    """A model with the parameters of its newest sound checkpoint and the tokenizer it was trained with."""

    config: Config
    model: models.Model
    params: Any
    tokenizer: tokenizers.Tokenizer
    step: int


def load(workdir: pathlib.Path, run: str | None = None) -> Trained:
    """Reads a workdir and changes nothing in it, so that a run in training may be looked at.

    `run` is a run's name, needed where the workdir is a sweep's.

    Raises:
        UserError: if the folder is no workdir, has no run of that name, or holds no sound checkpoint of it.
    """
    if not (workdir / "config.json").is_file():
        raise UserError(f"--workdir={workdir} has no config.json: give the folder of a run of actlab.main.")
    config = config_lib.from_json((workdir / "config.json").read_text())
    parts = manifest.parts(Workdir(workdir))
    name = _name(workdir, run, [name for names in parts.values() for name in names])
    part, names = next((part, names) for part, names in parts.items() if name in names)
    tokenizer = tokenizers.load(workdir / "tokenizer")
    of = {run.name: resolve(run.config, config.data.name, tokenizer) for run in sweep.expand(config)}
    model = models.build(of[name].model, compute_dtype(of[name]))
    objective = objective_of(of[name], tokenizer)
    cohort = Cohort(model, of[name], [lane_of(of[name]) for name in names], objective)
    params, step = _restore(workdir, workdir / "checkpoints" / part, cohort)
    lane = names.index(name)
    return Trained(of[name], model, jax.tree.map(lambda array_R: array_R[lane], params), tokenizer, step)


def _name(workdir: pathlib.Path, run: str | None, names: list[str]) -> str:
    if not names:
        raise UserError(f"--workdir={workdir} holds no sound checkpoint (none has been saved): train first.")
    if run is None and len(names) > 1:
        raise UserError(f"--run is missing: --workdir={workdir} holds {len(names)} runs, for example {names[0]}.")
    if run is not None and run not in names:
        raise UserError(f"--run={run} is not in --workdir={workdir}: {suggestion(run, names)}")
    return run or names[0]


def _restore(workdir: pathlib.Path, folder: pathlib.Path, cohort: Cohort) -> tuple[Any, int]:
    state, step, notes = None, 0, []
    if folder.is_dir():
        checkpoints = Checkpoints(folder, read_only=True)
        state, step, notes = checkpoints.restore_latest(cohort.abstract_state())
        checkpoints.close()
    if state is None:
        reason = "; ".join(notes) or "none has been saved"
        raise UserError(f"--workdir={workdir} holds no sound checkpoint ({reason}): train first.")
    return state.params, step
