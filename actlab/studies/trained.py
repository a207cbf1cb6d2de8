"""A trained run, read back from its workdir."""

import dataclasses
import pathlib
from typing import Any, NamedTuple

import jax

from actlab import activations, models
from actlab import config as config_lib
from actlab.config import Config, ModelConfig
from actlab.data import tokenizers
from actlab.errors import UserError, suggestion
from actlab.studies import functions, sweep
from actlab.training import manifest
from actlab.training.checkpoint import Checkpoints
from actlab.training.cohort import Cohort, lane_of
from actlab.training.records import Workdir
from actlab.training.setting import model_of, objective_of, resolve

_TRAIN = "train first or, where its checkpoints are gone, again in another --workdir"


class Trained(NamedTuple):
    """A model with the parameters of its newest sound checkpoint and the tokenizer it was trained with."""

    config: Config
    model: models.Model
    params: Any
    tokenizer: tokenizers.Tokenizer
    step: int

    @property
    def fields(self) -> ModelConfig:
        """What builds the model without a swap; raises UserError for two activations, which the fields cannot say."""
        model, swap = self.config.model, self.config.finetune.swap
        if swap.blocks not in (0, model.n_layers):
            raise UserError(
                f"config.finetune.swap.blocks={swap.blocks} of {model.n_layers} gave the model two activations, which "
                "no other library has: take a run with one."
            )
        return dataclasses.replace(model, activation=swap.to) if swap.blocks else model


class Found(NamedTuple):
    """A run's config, tokenizer and program: its name, the configs of its lanes, and which of them is the run's."""

    config: Config
    tokenizer: tokenizers.Tokenizer
    part: str
    lanes: tuple[Config, ...]
    lane: int


def find(workdir: pathlib.Path, run: str | None = None) -> Found:
    """What a workdir says of a run, without its parameters; raises UserError as `load`."""
    if not (workdir / "config.json").is_file():
        raise UserError(f"--workdir={workdir} has no config.json: give the folder of a run of actlab.main.")
    config = config_lib.load(workdir / "config.json")
    parts = manifest.parts(Workdir(workdir))
    name = _name(workdir, run, [name for names in parts.values() for name in names])
    part, names = next((part, names) for part, names in parts.items() if name in names)
    tokenizer = tokenizers.load(workdir / "tokenizer")
    run_config = sweep.find(config, name).config
    _require_registered(run_config)
    functions.require_same(Workdir(workdir), functions.values([run_config]))
    if any(row["run"] == name and row["status"] == "diverged" for row in Workdir(workdir).results()):
        raise _diverged(workdir, name)
    of = {run.name: resolve(run.config, config.data.name, tokenizer) for run in sweep.expand(config)}
    return Found(of[name], tokenizer, part, tuple(of[lane] for lane in names), names.index(name))


def _diverged(workdir: pathlib.Path, run: str) -> UserError:
    return UserError(
        f"--workdir={workdir}: {run} diverged and left no model: take another run, or train with a lower learning rate."
    )


def _require_registered(config: Config) -> None:
    for path, name in functions.named(config).items():
        try:
            activations.get(name, f"config.{path}")
        except UserError as error:
            words = "If it is one of yours, name the file that registers it, --activations=FILE."
            raise UserError(f"{error} {words}") from error


def load(workdir: pathlib.Path, run: str | None = None) -> Trained:
    """Reads a workdir and changes nothing in it, so that a run in training may be looked at.

    `run` is a run's name, needed where the workdir is a sweep's.

    Raises:
        UserError: if the folder is no workdir, has no run of that name, or holds no sound checkpoint of it; if the run
            diverged.
    """
    config, tokenizer, part, lanes, index = find(workdir, run)
    model, objective = model_of(config), objective_of(config, tokenizer)
    cohort = Cohort(model, config, [lane_of(lane) for lane in lanes], objective)
    state, step = _restore(workdir, workdir / "checkpoints" / part, cohort)
    if state.diverged[index]:
        raise _diverged(workdir, run or "its run")
    return Trained(config, model, jax.tree.map(lambda array_R: array_R[index], state.params), tokenizer, step)


def _name(workdir: pathlib.Path, run: str | None, names: list[str]) -> str:
    if not names:
        raise UserError(f"--workdir={workdir} holds no sound checkpoint (none has been saved): {_TRAIN}.")
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
        raise UserError(f"--workdir={workdir} holds no sound checkpoint ({reason}): {_TRAIN}.")
    return state, step
