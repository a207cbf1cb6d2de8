"""A trained run, read back from its workdir."""

import pathlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from actlab import config as config_lib
from actlab import models
from actlab.config import Config
from actlab.data import tokenizers
from actlab.errors import UserError
from actlab.training.checkpoint import Checkpoints
from actlab.training.cohort import Cohort, lane_of


class Trained(NamedTuple):
    """A model with the parameters of its newest sound checkpoint and the tokenizer it was trained with."""

    config: Config
    model: models.Model
    params: Any
    tokenizer: tokenizers.Tokenizer
    step: int


def load(workdir: pathlib.Path) -> Trained:
    """Reads a workdir and changes nothing in it, so that a run in training may be looked at.

    Raises:
        UserError: if the folder is no workdir or holds no sound checkpoint.
    """
    if not (workdir / "config.json").is_file():
        raise UserError(f"--workdir={workdir} has no config.json: give the folder of a run of actlab.main.")
    config = config_lib.from_json((workdir / "config.json").read_text())
    model = models.build(config.model, jnp.dtype(config.train.dtype))
    state, step, notes = None, 0, []
    if (workdir / "checkpoints").is_dir():
        checkpoints = Checkpoints(workdir / "checkpoints", read_only=True)
        state, step, notes = checkpoints.restore_latest(Cohort(model, config, [lane_of(config)]).abstract_state())
        checkpoints.close()
    if state is None:
        reason = "; ".join(notes) or "none has been saved"
        raise UserError(f"--workdir={workdir} holds no sound checkpoint ({reason}): train first.")
    params = jax.tree.map(lambda array_R: array_R[0], state.params)
    return Trained(config, model, params, tokenizers.load(workdir / "tokenizer"), step)
