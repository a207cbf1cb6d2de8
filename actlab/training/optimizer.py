"""AdamW with decoupled weight decay on matrices only; learning rate and weight decay may be traced."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from actlab.config import OptimizerConfig


class Hyperparameters(NamedTuple):
    """What may differ between the lanes of one compiled program."""

    learning_rate: Float[Array, ""]
    weight_decay: Float[Array, ""]
    seed: Int[Array, ""] | int = 0  # of what is drawn in training


def schedule_fraction(config: OptimizerConfig, n_steps: int, step: Int[Array, ""]) -> Float[Array, ""]:
    """Learning rate of update number `step` (from 0) over its peak, a fraction in [0, 1].

    Warmup rises linearly, (step + 1) / (warmup_steps + 1), so that no update has rate 0; then, with t the share
    of the remaining steps that has passed and f = final_lr_fraction, cosine is f + (1 - f)(1 + cos(pi t))/2
    (Loshchilov and Hutter 2016, arXiv:1608.03983, equation 5), linear is 1 - (1 - f) t.
    """
    step = jnp.asarray(step, jnp.float32)
    warm = (step + 1) / (config.warmup_steps + 1)
    passed = (step - config.warmup_steps) / max(1, n_steps - config.warmup_steps)
    passed = jnp.clip(passed, 0.0, 1.0)
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
    config: OptimizerConfig, weight_decay: Float[Array, ""], learning_rate: Float[Array, ""]
) -> optax.GradientTransformation:
    """Clipping by global norm, then AdamW (Loshchilov and Hutter 2017, arXiv:1711.05101): p -= lr (adam + wd p)."""
    clip = optax.clip_by_global_norm(config.clip_norm) if config.clip_norm else optax.identity()
    return optax.chain(
        clip,
        optax.adamw(learning_rate, config.b1, config.b2, config.eps, weight_decay=weight_decay, mask=decay_mask),  # pyright: ignore[reportArgumentType]  # a traced scalar is fine
    )
