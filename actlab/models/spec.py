"""The resolved shape of a model: every number a layer needs, nothing left to derive."""

import dataclasses

import jax.numpy as jnp
from jax.typing import DTypeLike

from actlab import activations
from actlab.config import ModelConfig, SwapConfig
from actlab.errors import UserError

NO_SWAP = SwapConfig()
OTHER_ACTIVATIONS = ("head_activation", "pooler_activation")  # beside the feed-forward's


@dataclasses.dataclass(frozen=True)
class Spec:
    """A ModelConfig with its Nones resolved and the compute dtype."""

    kind: str
    activation: str
    n_layers: int
    d_model: int
    n_heads: int
    d_ff: int
    d_hidden: int
    context: int
    vocab_size: int
    norm: str
    norm_epsilon: float
    norm_position: str
    activation_norm: str
    position: str
    rotary_base: float
    tie_embeddings: bool
    init: str
    use_bias: bool
    head_activation: str
    pooler_activation: str
    n_segments: int
    n_classes: int
    dtype: DTypeLike
    swapped_to: str
    n_swapped: int
    flash: bool = True  # whether flash attention may serve, which has no second derivative

    def of_block(self, index: int) -> "Spec":
        """The Spec of one block, with the activation it has."""
        return dataclasses.replace(self, activation=self.swapped_to) if index < self.n_swapped else self


def gated_width(d_ff: int) -> int:
    """2F/3 rounded to a multiple of 8: the width at which three gated matrices weigh what two plain ones do.

    Shazeer 2020, arXiv:2002.05202, section 2.
    """
    return max(8, round(2 * d_ff / 3 / 8) * 8)


def resolve(config: ModelConfig, dtype: DTypeLike = jnp.float32, swap: SwapConfig = NO_SWAP) -> Spec:
    """The Spec of a config whose vocabulary size is known, with another activation in some blocks.

    Raises:
        UserError: if it is None, or for an activation that a layer cannot have.
    """
    if config.vocab_size is None:
        raise UserError("config.model.vocab_size=None is open: give a number, or let a tokenizer decide it.")
    for name in OTHER_ACTIVATIONS:
        _check_plain(name, getattr(config, name))
    if swap.blocks:
        _check_swap("from", swap.from_)
        _check_swap("to", swap.to)
    d_ff = 4 * config.d_model if config.d_ff is None else config.d_ff
    gated = activations.get(config.activation).gated
    shared = {
        field.name: getattr(config, field.name) for field in dataclasses.fields(config) if field.name not in _OWN_FIELDS
    }
    return Spec(
        **shared,
        vocab_size=config.vocab_size,
        d_ff=d_ff,
        d_hidden=config.d_hidden or (gated_width(d_ff) if gated else d_ff),
        dtype=dtype,
        swapped_to=swap.to,
        n_swapped=swap.blocks,
    )


def _check_swap(field: str, name: str) -> None:
    activation = activations.get(name, f"config.finetune.swap.{field}")
    if activation.gated or activation.theta or not activation.elementwise:
        raise UserError(
            f"config.finetune.swap.{field}={name!r} is gated, trains scalars or is no function of one unit: take a "
            "plain one, so that the weights fit."
        )


def _check_plain(field: str, name: str) -> None:
    if activations.get(name, f"config.model.{field}").gated:
        raise UserError(
            f"config.model.{field}={name!r} is gated, which needs a second projection: take a plain activation there."
        )


_OWN_FIELDS = ("d_ff", "d_hidden", "vocab_size")
