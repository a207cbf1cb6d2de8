"""Objectives: what a model is to predict on rows of token ids, and what it is shown. Pure."""

import dataclasses
import functools
import math
from typing import Any, Protocol, cast, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from actlab.data.tokenizer import Specials
from actlab.training.losses import Examples

# Devlin et al. 2018, arXiv:1810.04805, section 3.1: shares of chosen tokens that are hidden, and that another one
# stands for; the others stay.
HIDDEN, REPLACED = 0.8, 0.1
# Of the validation set's masks, which are the same whatever a run's seed.
VALIDATION_SEED = 181_004_805

Windows = Int[Array, "*N W"] | Int[np.ndarray, "*N W"]
Weights = Float[Array, "*N L"] | Float[np.ndarray, "*N L"]


@runtime_checkable
class Objective(Protocol):
    """What a model is trained on and judged by."""

    name: str
    unit: str  # of the loss
    counts_hits: bool  # whether the share of likeliest tokens that are right is told

    def width(self, context: int) -> int:
        """Token ids in a row for that context."""
        ...

    def share(self, context: int) -> float:
        """The share of a row's places at which logits are made."""
        ...

    def training(self, rows: Int[Array, "B W"], key: PRNGKeyArray) -> Examples:
        """The examples of a training batch, inside the compiled step, whose key it is; weights add up to 1."""
        ...


@dataclasses.dataclass(frozen=True)
class NextToken:
    """Each token from those before it; rows are windows with the token after them."""

    name = "next_token"
    unit = "nats/token"
    counts_hits = False

    def width(self, context: int) -> int:
        """See Objective."""
        return context + 1

    def share(self, context: int) -> float:
        """See Objective."""
        return 1.0

    def training(self, rows: Int[Array, "B W"], key: PRNGKeyArray) -> Examples:
        """See Objective."""
        return self.scored(rows, jnp.full(rows[:, 1:].shape, 1 / rows[:, 1:].size))

    def scored(self, rows: Windows, weights: Weights) -> Examples:
        """Examples of windows and the weight of each target."""
        inputs: Any = rows[..., :-1]  # an array of the host or of a device
        targets: Any = rows[..., 1:]
        return Examples(inputs, targets, cast(Any, weights))


@dataclasses.dataclass(frozen=True)
class MaskedToken:
    """Masked language modelling: `fraction` of a row's ordinary tokens are to be predicted from all that is left.

    A row with m ordinary tokens has floor(fraction m + u) of them chosen, u uniform on [0, 1): the share is exact in
    the mean, and logits are made at as few places as can be chosen at most.
    """

    specials: Specials
    n_ids: int  # of the tokenizer: what is drawn in a token's place
    fraction: float
    padded: bool  # whether training rows hold padding

    name = "masked_token"
    unit = "nats/masked token"
    counts_hits = True

    def width(self, context: int) -> int:
        """See Objective."""
        return context

    def share(self, context: int) -> float:
        """See Objective."""
        return math.ceil(self.fraction * context) / context

    def training(self, rows: Int[Array, "B W"], key: PRNGKeyArray) -> Examples:
        """See Objective."""
        examples = self._masked(key, rows)
        total = jnp.maximum(examples.weights.sum(), 1)
        real = examples.real if self.padded else None
        return examples._replace(weights=examples.weights / total, real=real)

    def scored(self, rows: Int[np.ndarray, "W L"]) -> Examples:
        """The validation set's examples; the mask of a row depends on its number alone."""
        examples = self._masked(jax.random.key(VALIDATION_SEED), jnp.asarray(rows))
        return jax.tree.map(np.asarray, examples)

    def _masked(self, key: PRNGKeyArray, rows: Array) -> Examples:
        keys_B = jax.vmap(functools.partial(jax.random.fold_in, key))(jnp.arange(len(rows)))
        tokens, targets, weights, places = jax.vmap(self._mask_row)(keys_B, rows)
        return Examples(tokens, targets, weights, places, rows != self.specials.padding)

    def _mask_row(self, key: PRNGKeyArray, row_L: Int[Array, "L"]) -> tuple[Array, Array, Array, Array]:
        """(the row with chosen tokens hidden, what stood at K places, 1 where one is chosen, the places)."""
        length = len(row_L)
        most = math.ceil(self.fraction * length)
        # One draw for all: every other one is another hundred operations to compile.
        drawn = jax.random.uniform(key, (length + 2 * most + 1,))
        order_L, kind_K, word_K = drawn[:length], drawn[length : length + most], drawn[length + most : -1]
        ordinary_L = ~jnp.isin(row_L, jnp.array(self.specials.ids()))
        n_chosen = jnp.floor(self.fraction * ordinary_L.sum() + drawn[-1])
        _, places_K = jax.lax.top_k(jnp.where(ordinary_L, order_L, -1.0), most)
        chosen_K, targets_K = jnp.arange(most) < n_chosen, row_L[places_K]
        shown_K = jnp.where(kind_K < HIDDEN + REPLACED, self._ordinary(word_K), targets_K)
        shown_K = jnp.where(kind_K < HIDDEN, self.specials.mask, shown_K)
        tokens_L = row_L.at[places_K].set(jnp.where(chosen_K, shown_K, targets_K))
        return tokens_L, targets_K, chosen_K.astype(jnp.float32), places_K

    def _ordinary(self, drawn_K: Float[Array, "K"]) -> Int[Array, "K"]:
        """Tokens that are not special, all alike, for what is drawn from [0, 1)."""
        specials = [i for i in self.specials.ids() if i < self.n_ids]
        tokens_K = (drawn_K * (self.n_ids - len(specials))).astype(jnp.int32)
        for special in specials:  # ascending, so that each steps over the ones below it
            tokens_K += tokens_K >= special
        return tokens_K


@dataclasses.dataclass(frozen=True)
class Classification:
    """The class of each row, whose last number is its label."""

    padding: int

    name = "classification"
    unit = "nats/document"
    counts_hits = True

    def width(self, context: int) -> int:
        """See Objective."""
        return context + 1

    def share(self, context: int) -> float:
        """See Objective."""
        return 1 / context

    def training(self, rows: Int[Array, "B W"], key: PRNGKeyArray) -> Examples:
        """See Objective."""
        return self.scored(rows, jnp.full((len(rows), 1), 1 / len(rows)))

    def scored(self, rows: Windows, weights: Weights) -> Examples:
        """Examples of rows and the weight of each."""
        tokens: Any = rows[..., :-1]  # an array of the host or of a device
        labels: Any = rows[..., -1:]
        return Examples(tokens, labels, cast(Any, weights), real=tokens != self.padding)


NEXT_TOKEN = NextToken()
UNITS = {kind.name: kind.unit for kind in (NextToken, MaskedToken, Classification)}
