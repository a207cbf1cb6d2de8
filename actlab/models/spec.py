"""The resolved shape of a model: every number a layer needs, nothing left to derive."""

import dataclasses
import math

import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.typing import DTypeLike

from actlab import activations
from actlab.config import ModelConfig, SwapConfig
from actlab.errors import UserError

NO_SWAP = SwapConfig()
OTHER_ACTIVATIONS = ("head_activation", "pooler_activation")  # beside the feed-forward's
BASE_HEAD = 32  # size of a head at which attention scores of mup are those of the standard parametrization


@dataclasses.dataclass(frozen=True)
class Spec(ModelConfig):
    """A ModelConfig with its Nones resolved, the compute dtype and the swap."""

    d_ff: int = 0
    d_hidden: int = 0
    n_kv_heads: int = 0
    d_head: int = 0
    d_embedding: int = 0
    vocab_size: int = 0
    dtype: DTypeLike = jnp.float32
    swapped_to: str = ""
    n_swapped: int = 0  # first blocks that have the activation `swapped_to`
    attention: str = "own"  # ours ("own", "parts"), "cudnn" or "splash"; chosen for the devices of a program
    platform: str = ""  # of the devices of a program: cpu, gpu or tpu
    remat: bool = False  # blocks are computed again in the backward pass
    rows: NamedSharding | None = None  # how the rows of a batch lie on the devices of a program that has several

    @property
    def width_ratio(self) -> float:
        """d_model / base_width under mup, else 1.

        Yang et al. 2022, arXiv:2203.03466, table 8: matrices within the network are drawn at 1/sqrt(ratio) and learn at
        1/ratio of their values at the base width; logits are divided by the ratio. All else does not depend on it.
        """
        return self.d_model / self.base_width if self.parametrization == "mup" else 1.0

    def ratio_of(self, matrix: str) -> float:
        """The inputs of a matrix of a block over those at the base width: `width_ratio`, but for "down" and "out".

        Their inputs are hidden units, 4 d_model at the base width and two thirds of that in gated layers, and the units
        of the heads. They need not widen with d_model: a matrix whose inputs do not is drawn, and learns, as at the
        base width.
        """
        if self.parametrization != "mup" or matrix not in ("down", "out"):
            return self.width_ratio
        if matrix == "out":
            return self.n_heads * self.d_head / self.base_width
        units: float = self.d_hidden
        if activations.get(self.activation).gated:
            # A width that follows from d_ff is rounded, the ratio is not.
            units = self.d_ff if self.d_hidden == gated_width(self.d_ff) else 3 / 2 * self.d_hidden
        return units / (4 * self.base_width)

    @property
    def score_scale(self) -> float:
        """The factor of attention scores: 1/sqrt(K) for heads of size K, under mup sqrt(32)/K, since queries and keys
        that have learned are aligned: their products grow like K, not like sqrt(K).
        """
        return math.sqrt(BASE_HEAD) / self.d_head if self.parametrization == "mup" else 1 / math.sqrt(self.d_head)

    def of_block(self, index: int) -> "Spec":
        """The Spec of one block, with the activation it has."""
        return dataclasses.replace(self, activation=self.swapped_to) if index < self.n_swapped else self


def gated_width(d_ff: int) -> int:
    """2F/3 rounded to a multiple of 8: the width at which three gated matrices have the weights of two plain ones.

    Shazeer 2020, arXiv:2002.05202, section 2.
    """
    return max(8, round(2 * d_ff / 3 / 8) * 8)


def resolve(config: ModelConfig, dtype: DTypeLike = jnp.float32, swap: SwapConfig = NO_SWAP) -> Spec:
    """The Spec of a config whose vocabulary size is known, with another activation in some blocks.

    Raises:
        UserError: if it is None, or for an activation that a layer cannot use.
    """
    if config.vocab_size is None:
        raise UserError("config.model.vocab_size=None is open: set a number, or let the tokenizer decide.")
    for field in OTHER_ACTIVATIONS:
        name = getattr(config, field)
        if activations.get(name, f"config.model.{field}").gated:
            raise UserError(
                f"config.model.{field}={name!r} is gated, which needs a second projection: use a plain activation "
                "there."
            )
    pair = [("from", swap.from_), ("to", swap.to)] if swap.blocks else []
    kinds = [activations.get(name, f"config.finetune.swap.{field}") for field, name in pair]
    for (field, name), activation in zip(pair, kinds, strict=True):
        if activation.theta or not activation.elementwise:
            raise UserError(
                f"config.finetune.swap.{field}={name!r} has trained scalars or is not elementwise: use another "
                "activation, so that the weights match."
            )
    if pair and kinds[0].gated != kinds[1].gated:
        which, other = (swap.from_, swap.to) if kinds[0].gated else (swap.to, swap.from_)
        raise UserError(
            f"config.finetune.swap.to={swap.to!r} has other weights than {swap.from_!r}: {which} is gated and {other} "
            "is not; swap two of a kind."
        )
    d_ff = 4 * config.d_model if config.d_ff is None else config.d_ff
    gated = activations.get(config.activation).gated
    d_hidden = config.d_hidden or (gated_width(d_ff) if gated else d_ff)
    if not activations.is_built_in(config.activation):  # one's own may depend on the width of its rows
        activations.require_usable(activations.get(config.activation), d_hidden)
    sizes = {
        "d_ff": d_ff,
        "d_hidden": d_hidden,
        "n_kv_heads": config.n_kv_heads or config.n_heads,
        "d_head": config.d_head or config.d_model // config.n_heads,
        "d_embedding": config.d_embedding or config.d_model,
    }
    return Spec(**{**vars(config), **sizes, "dtype": dtype, "swapped_to": swap.to, "n_swapped": swap.blocks})
