"""What is compiled: one AdamW update, one evaluation. Pure; jit, vmap, donation and sharding are cohort.py's."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from actlab.config import Config
from actlab.models import Model
from actlab.training import losses
from actlab.training.losses import Examples
from actlab.training.objectives import NEXT_TOKEN, Objective
from actlab.training.optimizer import Hyperparameters, adamw, schedule_fraction


class TrainState(NamedTuple):
    """All that a run carries from step to step: plain pytrees, no key and no iterator."""

    step: Int[Array, ""]
    params: Any
    optimizer: Any
    diverged: Bool[Array, ""]  # a loss was not finite; the run is frozen


class Metrics(NamedTuple):
    """Scalars of one update. Norms are global L2 norms; the gradient's is taken before clipping."""

    loss: Float[Array, ""]
    grad_norm: Float[Array, ""]
    update_norm: Float[Array, ""]
    param_norm: Float[Array, ""]
    learning_rate: Float[Array, ""]


def init_state(model: Model, config: Config, seed: Int[Array, ""]) -> TrainState:
    """Step 0: parameters drawn from the seed, moments zero."""
    params = model.init(jax.random.key(seed))
    tx = adamw(config.optimizer, jnp.float32(0), jnp.float32(0))
    return TrainState(jnp.int32(0), params, tx.init(params), jnp.bool_(False))


def train_step(
    model: Model,
    config: Config,
    hyper: Hyperparameters,
    state: TrainState,
    rows: Int[Array, "B W"],
    objective: Objective = NEXT_TOKEN,
) -> tuple[TrainState, Metrics]:
    """One update on the mean loss of a batch, in nats per target.

    What is random in it is a function of seed and step, and under jit of no number of devices.
    """
    key = jax.random.fold_in(jax.random.key(hyper.seed), state.step)
    examples = objective.training(rows, key)
    loss, grads = jax.value_and_grad(lambda params: losses.loss(model, params, examples, key))(state.params)
    learning_rate, updates, optimizer = update(config, hyper, state, grads)
    params = optax.apply_updates(state.params, updates)
    norm = optax.tree.norm
    metrics = Metrics(loss, norm(grads), norm(updates), norm(params), learning_rate)
    return TrainState(state.step + 1, params, optimizer, ~jnp.isfinite(loss)), metrics


def update(config: Config, hyper: Hyperparameters, state: TrainState, grads: Any) -> tuple[Array, Any, Any]:
    """(learning rate, what is added to the parameters, the optimizer's next state) for a gradient."""
    learning_rate = hyper.learning_rate * schedule_fraction(config.optimizer, config.train.n_steps, state.step)
    tx = adamw(config.optimizer, hyper.weight_decay, learning_rate)
    return learning_rate, *tx.update(grads, state.optimizer, state.params)


class Sums(NamedTuple):
    """Weighted sums over the targets of a batch: losses in nats and, where asked for, how many were found."""

    loss: Float[Array, ""]
    hits: Float[Array, ""] | None
    confusion: Float[Array, "C C"] | None  # where there are classes, see losses.confusion


def eval_step(model: Model, params: Any, examples: Examples, counts_hits: bool) -> Sums:
    """The sums of a batch."""
    found = losses.hits(model, params, examples) if counts_hits else None
    confusion = losses.confusion(model, params, examples) if model.spec.n_classes else None
    return Sums(losses.loss(model, params, examples), found, confusion)
