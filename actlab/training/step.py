"""One AdamW update and one evaluation of one lane. Pure: jit, vmap, donation and sharding happen in programs.py."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from actlab.config import Config, OptimizerConfig
from actlab.models import Model
from actlab.training import losses
from actlab.training.losses import Examples
from actlab.training.objectives import NEXT_TOKEN, Objective


class Lane(NamedTuple):
    """The traced fields of a run, in the order of the schema; arrays [R] of a program."""

    seed: Any
    learning_rate: Any
    weight_decay: Any


class TrainState(NamedTuple):
    """All that a run carries from step to step, and all that a checkpoint holds.

    No random key and no data iterator: randomness and batches are functions of seed and step, so a resume is as exact
    as the device's own operations.
    """

    step: Int[Array, ""]
    params: Any
    optimizer: Any
    diverged: Bool[Array, ""]  # a loss was not finite; the run takes no more steps


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
    # The optimizer's state depends on neither rate nor decay: `update` makes the optimizer anew from the traced ones.
    tx = adamw(config.optimizer, jnp.float32(0), jnp.float32(0))
    return TrainState(jnp.int32(0), params, tx.init(params), jnp.bool_(False))


def train_step(
    model: Model,
    config: Config,
    lane: Lane,
    state: TrainState,
    rows: Int[Array, "B W"],
    objective: Objective = NEXT_TOKEN,
) -> tuple[TrainState, Metrics]:
    """One update on the mean loss of a batch, in nats per target: model, objective, gradients, AdamW, metrics.

    Random draws depend on seed and step alone, not on the number of devices.
    """
    key = jax.random.fold_in(jax.random.key(lane.seed), state.step)
    examples = objective.training(rows, key)
    loss, grads = jax.value_and_grad(lambda params: losses.loss(model, params, examples, key))(state.params)
    learning_rate, updates, optimizer = update(model, config, lane, state, grads)
    params = optax.apply_updates(state.params, updates)
    norm = optax.tree.norm
    metrics = Metrics(loss, norm(grads), norm(updates), norm(params), learning_rate)
    # The loss alone decides: a gradient that is not finite ruins the parameters, which the next loss shows.
    return TrainState(state.step + 1, params, optimizer, ~jnp.isfinite(loss)), metrics


def update(model: Model, config: Config, lane: Lane, state: TrainState, grads: Any) -> tuple[Array, Any, Any]:
    """(learning rate, what is added to the parameters, the optimizer's next state) for a gradient."""
    learning_rate = lane.learning_rate * schedule_fraction(config.optimizer, config.train.n_steps, state.step)
    tx = adamw(config.optimizer, lane.weight_decay, learning_rate, model.rate_multipliers(state.params))
    return learning_rate, *tx.update(grads, state.optimizer, state.params)


class Evaluated(NamedTuple):
    """A batch's losses in nats times their weights and, if asked for, the weight of correct top predictions."""

    losses: Float[Array, "B K"]
    hits: Float[Array, ""] | None
    confusion: Float[Array, "C C"] | None  # of classifiers, see losses.confusion


def eval_step(model: Model, params: Any, examples: Examples, counts_hits: bool) -> Evaluated:
    """One batch; its losses are added up on the host, in float64."""
    losses_BP, hits = losses.of_targets(model, params, examples, counts_hits)
    confusion = losses.confusion(model, params, examples) if model.spec.n_classes else None
    return Evaluated(losses_BP, hits, confusion)


def schedule_fraction(config: OptimizerConfig, n_steps: int, step: Int[Array, ""]) -> Float[Array, ""]:
    """Learning rate of update number `step` (from 0) over its peak, a fraction in [0, 1].

    Warmup rises linearly, (step + 1) / (warmup_steps + 1), so that no update has rate 0. After it, with t the share
    of the remaining steps that has passed and f = final_lr_fraction, cosine is f + (1 - f)(1 + cos(pi t))/2
    (Loshchilov and Hutter 2016, arXiv:1608.03983, equation 5) and linear is 1 - (1 - f) t.
    """
    step = jnp.asarray(step, jnp.float32)
    warm = (step + 1) / (config.warmup_steps + 1)
    passed = jnp.clip((step - config.warmup_steps) / max(1, n_steps - config.warmup_steps), 0.0, 1.0)
    last = config.final_lr_fraction
    decay = {
        "constant": jnp.ones_like(passed),
        "linear": 1 - (1 - last) * passed,
        "cosine": last + (1 - last) * (1 + jnp.cos(jnp.pi * passed)) / 2,
    }[config.schedule]
    return jnp.where(step < config.warmup_steps, warm, decay)


def decay_mask(params: Any) -> Any:
    """True for arrays of two or more axes: matrices and embeddings; biases and norms are not decayed."""
    return jax.tree.map(lambda array: array.ndim >= 2, params)


def adamw(
    config: OptimizerConfig,
    weight_decay: Float[Array, ""],
    learning_rate: Float[Array, ""],
    rate_multipliers: Any = None,
) -> optax.GradientTransformation:
    """Clipping by global norm, then AdamW (Loshchilov and Hutter 2017, arXiv:1711.05101): p -= lr (m adam + wd p).

    `rate_multipliers` has the m of each array, 1 by default. The decay is not multiplied, as in mup's own AdamW: how
    fast weights are forgotten does not depend on the width.
    """
    clip = optax.clip_by_global_norm(config.clip_norm) if config.clip_norm else optax.identity()
    adam = optax.scale_by_adam(config.b1, config.b2, config.eps)

    def update_fn(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        updates, state = adam.update(updates, state, params)
        if rate_multipliers is not None:
            scale = lambda array, factor: array if factor == 1 else array * factor
            updates = jax.tree.map(scale, updates, rate_multipliers)
        return updates, state

    return optax.chain(
        clip,
        optax.chain(
            optax.GradientTransformation(adam.init, update_fn),
            optax.add_decayed_weights(weight_decay, decay_mask),
            optax.scale_by_learning_rate(learning_rate),
        ),
    )
