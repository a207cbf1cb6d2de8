"""A trained run, read back from its workdir."""

import dataclasses
import pathlib
from typing import Any, NamedTuple

import jax

from actlab import activations, config as config_lib, models
from actlab.config import Config, ModelConfig, sweep
from actlab.console import lines
from actlab.data import tokenizers
from actlab.data.tokenizer_kinds import Tokenizer
from actlab.errors import UserError, suggestion
from actlab.sweeps import functions
from actlab.training import generation, programs
from actlab.training.checkpoint import Checkpoints
from actlab.training.program_spec import model_of, objective_of, resolve
from actlab.training.programs import Program, lane_of
from actlab.workdir import integrity, manifest
from actlab.workdir.records import COMPARISON, JUDGED, MANIFEST, Workdir

_TRAIN = "train first, or train again in another --workdir if the checkpoints are gone"


class SeveralRunsError(UserError):
    """For a sweep's workdir in the place of a run; `names` are those of its runs."""

    def __init__(self, workdir: pathlib.Path, names: list[str]):
        super().__init__(f"--run is missing: --workdir={workdir} holds {len(names)} runs, for example {names[0]}.")
        self.names = names


class Trained(NamedTuple):
    """A model with the parameters of its newest sound checkpoint and the tokenizer it was trained with."""

    config: Config
    model: models.Model
    params: Any
    tokenizer: Tokenizer
    step: int

    def sample(self, **options: Any) -> str:
        """A document that the model writes; the options are those of generation.write_text."""
        return generation.write_text(self.model, self.params, self.tokenizer, **options)

    @property
    def fields(self) -> ModelConfig:
        """The fields of an equal model without a swap; raises UserError if its blocks have two activations."""
        model, swap = self.config.model, self.config.finetune.swap
        if swap.blocks not in (0, model.n_layers):
            raise UserError(
                f"config.finetune.swap.blocks={swap.blocks} of {model.n_layers} gave the model two activations, which "
                "no other library supports: name a run with one."
            )
        return dataclasses.replace(model, activation=swap.to) if swap.blocks else model


class Found(NamedTuple):
    """A run's config and tokenizer; the part that trained it, the configs of the part's lanes, and the run's lane."""

    config: Config
    tokenizer: Tokenizer
    part: str
    lanes: tuple[Config, ...]
    lane: int


def find(workdir: pathlib.Path, run: str | None = None) -> Found:
    """A run as its workdir describes it, without its parameters; raises UserError as `load` does."""
    workdir = with_runs(workdir)
    name = name_of(workdir, run)
    config, parts = config_lib.load(workdir / "config.json"), manifest.parts(Workdir(workdir))
    part, names = next((part, names) for part, names in parts.items() if name in names)
    tokenizer = tokenizers.load(
        workdir / "tokenizer", "restore it, or copy the folder `tokenizer` of the prepared tokens in data.dir"
    )
    run_config = sweep.find(config, name).config
    _require_registered(run_config)
    functions.require_same(Workdir(workdir), functions.values([run_config]))
    if integrity.statuses(Workdir(workdir)).get(name) == "diverged":
        raise _diverged(workdir, name)
    of = {run.name: resolve(run.config, config.data.name, tokenizer) for run in sweep.expand(config)}
    return Found(of[name], tokenizer, part, tuple(of[lane] for lane in names), names.index(name))


def with_runs(workdir: pathlib.Path) -> pathlib.Path:
    """The folder of the runs: of a comparison that of its fresh seeds; raises UserError if it has none yet."""
    if not (workdir / COMPARISON).is_file():
        return workdir
    if not (workdir / JUDGED / "config.json").is_file():
        raise UserError(
            f"{workdir} is a comparison that has trained no model at the learning rates it is to find: let actlab "
            "compare go on with it, or name another folder."
        )
    return workdir / JUDGED


def _diverged(workdir: pathlib.Path, run: str) -> UserError:
    return UserError(
        f"{run} in {workdir} diverged and left no model: name another run, or train with a lower learning rate."
    )


def _require_registered(config: Config) -> None:
    for path, name in functions.named_activations(config).items():
        try:
            activations.get(name, f"config.{path}")
        except UserError as error:
            words = "If it is your own, register it: --activations=FILE, or actlab.activations.register in Python."
            raise UserError(f"{error} {words}") from error


def load(workdir: str | pathlib.Path, run: str | None = None) -> Trained:
    """Reads a run from a workdir without changing anything in it, so that it works during training too.

    `run` is the name of a run, needed if the workdir is a sweep's.

    Raises:
        UserError: if the folder is not a workdir, has no run of that name or no sound checkpoint of it, or if the run
            diverged.
    """
    workdir = with_runs(pathlib.Path(workdir))
    config, tokenizer, part, lanes, index = find(workdir, run)
    model, objective = model_of(config), objective_of(config, tokenizer)
    # Reading does not depend on how the devices of the training were divided; here there may be fewer.
    anywhere = config_lib.replace(config, **{"devices.lane": None, "devices.data": None, "devices.fsdp": 1})
    program = programs.build(model, anywhere, [lane_of(lane) for lane in lanes], objective)
    state, step = _restore(workdir, workdir / "checkpoints" / part, program)
    if state.diverged[index]:
        raise _diverged(workdir, run or "the run")
    return Trained(config, model, jax.tree.map(lambda array_R: array_R[index], state.params), tokenizer, step)


def name_of(workdir: pathlib.Path, run: str | None = None) -> str:
    """The name of a run, which may be left out if there is one; raises UserError as `load` does."""
    if not (workdir / "config.json").is_file():
        raise UserError(f"--workdir={workdir} has no config.json: name a folder that a training wrote.")
    names = [name for part in manifest.parts(Workdir(workdir)).values() for name in part]
    if not names and (workdir / "jobs").is_dir():
        raise UserError(
            f"--workdir={workdir}: its jobs are not done yet: name the folder of one, {workdir}/jobs/N, or wait."
        )
    if not names:
        if (workdir / "checkpoints").is_dir() and not (workdir / MANIFEST).is_file():
            raise UserError(
                f"--workdir={workdir} has lost its manifest.json: run its training command again, which writes one."
            )
        raise UserError(f"--workdir={workdir} holds no sound checkpoint (none has been saved): {_TRAIN}.")
    if run is None and len(names) > 1:
        raise SeveralRunsError(workdir, names)
    if run is not None and run not in names:
        raise UserError(f"--run={run} is not in --workdir={workdir}: {suggestion(run, names)}")
    return run or names[0]


def _restore(workdir: pathlib.Path, folder: pathlib.Path, program: Program) -> tuple[Any, int]:
    state, step, notes = None, 0, []
    if folder.is_dir():
        # Without the workdir's lock: reading changes nothing, and the training may go on.
        checkpoints = Checkpoints(folder, read_only=True)
        state, step, notes = checkpoints.restore_latest(program.abstract_state)
        checkpoints.close()
        for note in notes if state is not None else ():
            lines(stderr=True).print(f"warning     {folder}: {note}; step {step} is read instead")
    if state is None:
        reason = "; ".join(notes) or "none has been saved"
        raise UserError(f"--workdir={workdir} holds no sound checkpoint ({reason}): {_TRAIN}.")
    return state, step
