"""Objectives: what a model sees of a row of token ids, and what it predicts. Pure functions."""

import abc
import dataclasses
import functools
import math
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from actlab.config import Config
from actlab.data import rows as row_sources
from actlab.data.cache import TokenCache
from actlab.data.tokenizer_kinds import Specials
from actlab.errors import UserError
from actlab.training.losses import Examples

# Shares of the chosen tokens that become the mask, and that a random token replaces; the rest is left as it is
# (Devlin et al. 2018, arXiv:1810.04805, section 3.1).
HIDDEN, REPLACED = 0.8, 0.1
# The masks of validation and test do not depend on a run's seed, so that all runs are scored on the same targets.
VALIDATION_SEED = 181_004_805

Windows = Int[Array, "*N W"] | Int[np.ndarray, "*N W"]
Weights = Float[Array, "*N L"] | Float[np.ndarray, "*N L"]


class Objective(abc.ABC):
    """What a model is trained and evaluated on."""

    name: str
    counts_hits = True  # whether accuracy is reported, the share of targets that are ranked first

    def width(self, context: int) -> int:
        """Token ids in a row, for a model with this context; by default with one more, a target."""
        return context + 1

    @abc.abstractmethod
    def share(self, context: int) -> float:
        """The share of a row's positions at which logits are computed."""

    @abc.abstractmethod
    def source(self, config: Config, tokens: TokenCache) -> row_sources.RowSource:
        """The source of its rows; raises UserError if the text is shorter than a row."""

    @abc.abstractmethod
    def training(self, rows: Int[Array, "B W"], key: PRNGKeyArray) -> Examples:
        """The examples of a training batch, made inside the compiled step from its key; weights add up to 1."""

    @abc.abstractmethod
    def scored(self, rows: Windows, weights: Weights | None) -> Examples:
        """The examples of rows that are scored; `weights` are those of the targets, if the row source gives them."""


@dataclasses.dataclass(frozen=True)
class NextToken(Objective):
    """Predicts each token from those before it; a row is a window and the token after it.

    With `padding`, the end-of-text mark, a row is a document between two such marks, and more of them behind it, which
    are no targets. Attention is causal, so that no target sees them.
    """

    padding: int | None = None

    name = "next_token"
    counts_hits = False

    def share(self, context: int) -> float:
        """See Objective."""
        return 1.0

    def source(self, config: Config, tokens: TokenCache) -> row_sources.RowSource:
        """See Objective."""
        if self.padding is not None:
            return row_sources.NextTokenDocuments(*_sizes(config, tokens))
        return row_sources.NextTokenRows(*_sizes(config, tokens), config.data.corruption)

    def training(self, rows: Int[Array, "B W"], key: PRNGKeyArray) -> Examples:
        """See Objective."""
        if self.padding is None:
            return self.scored(rows, jnp.full(rows[:, 1:].shape, 1 / rows[:, 1:].size))
        weights = (rows[:, :-1] != self.padding).astype(jnp.float32).at[:, 0].set(1.0)
        return self.scored(rows, weights / weights.sum())

    def scored(self, rows: Windows, weights: Weights | None) -> Examples:
        """See Objective."""
        inputs: Any = rows[..., :-1]  # an array of the host or of a device
        targets: Any = rows[..., 1:]
        return Examples(inputs, targets, cast(Any, weights))


@dataclasses.dataclass(frozen=True)
class MaskedToken(Objective):
    """Masked language modelling: predicts a `fraction` of a row's ordinary tokens from the rest of the row.

    Of a row's m ordinary tokens floor(fraction m + u) are chosen, with u uniform on [0, 1). The share is exact in the
    mean, and logits are needed at ceil(fraction L) positions only, the most that can be chosen.
    """

    specials: Specials
    n_ids: int  # the tokenizer's ids, which random replacements are drawn from
    fraction: float
    padded: bool  # whether training rows contain padding

    name = "masked_token"

    def width(self, context: int) -> int:
        """See Objective."""
        return context

    def share(self, context: int) -> float:
        """See Objective."""
        return math.ceil(self.fraction * context) / context

    def source(self, config: Config, tokens: TokenCache) -> row_sources.RowSource:
        """See Objective."""
        if self.padded:
            return row_sources.DocumentRows(*_sizes(config, tokens))
        return row_sources.PackedRows(*_sizes(config, tokens), config.data.corruption)

    def training(self, rows: Int[Array, "B W"], key: PRNGKeyArray) -> Examples:
        """See Objective."""
        examples = self._masked(key, rows)
        # A batch without a target has loss 0, not 0/0.
        total = jnp.maximum(examples.weights.sum(), 1)
        # Packed rows have no padding, so attention needs no mask.
        real = examples.real if self.padded else None
        return examples._replace(weights=examples.weights / total, real=real)

    def scored(self, rows: Windows, weights: Weights | None = None) -> Examples:
        """See Objective. The mask of a row depends on its index alone.

        Raises:
            UserError: if the fraction is so small that no token is chosen.
        """
        examples = jax.tree.map(np.asarray, _masked(self, jax.random.key(VALIDATION_SEED), rows))
        if not examples.weights.any():
            raise UserError(
                f"config.data.mask_fraction={self.fraction} chooses no token of the validation or test set: raise "
                "model.context or train.eval_tokens, or the fraction if it is below 1."
            )
        return examples

    def _masked(self, key: PRNGKeyArray, rows: Array) -> Examples:
        keys_B = jax.vmap(functools.partial(jax.random.fold_in, key))(jnp.arange(len(rows)))
        tokens, targets, weights, places = jax.vmap(self._mask_row)(keys_B, rows)
        return Examples(tokens, targets, weights, places, rows != self.specials.padding)

    def _mask_row(self, key: PRNGKeyArray, row_L: Int[Array, "L"]) -> tuple[Array, Array, Array, Array]:
        """(the row with chosen tokens replaced, the tokens at K positions, 1 for the chosen ones, the positions)."""
        length = len(row_L)
        most = math.ceil(self.fraction * length)
        # One draw serves all choices: each further draw adds about a hundred operations to compile.
        drawn = jax.random.uniform(key, (length + 2 * most + 1,))
        order_L, kind_P, word_P = drawn[:length], drawn[length : length + most], drawn[length + most : -1]
        ordinary_L = ~jnp.isin(row_L, jnp.array(self.specials.ids()))
        n_chosen = jnp.floor(self.fraction * ordinary_L.sum() + drawn[-1])
        # The places with the largest draws are a uniform sample without replacement, of a size known to the compiler.
        _, places_P = jax.lax.top_k(jnp.where(ordinary_L, order_L, -1.0), most)
        chosen_P, targets_P = jnp.arange(most) < n_chosen, row_L[places_P]
        shown_P = jnp.where(kind_P < HIDDEN + REPLACED, self._ordinary(word_P), targets_P)
        shown_P = jnp.where(kind_P < HIDDEN, self.specials.mask, shown_P)
        tokens_L = row_L.at[places_P].set(jnp.where(chosen_P, shown_P, targets_P))
        return tokens_L, targets_P, chosen_P.astype(jnp.float32), places_P

    def _ordinary(self, drawn_P: Float[Array, "P"]) -> Int[Array, "P"]:
        """Maps uniform numbers in [0, 1) to tokens that are not special, each equally likely."""
        specials = [i for i in self.specials.ids() if i < self.n_ids]
        tokens_P = (drawn_P * (self.n_ids - len(specials))).astype(jnp.int32)
        for special in specials:  # ascending: each id is shifted past the special ids up to it
            tokens_P += tokens_P >= special
        return tokens_P


# One program for an evaluation's rows; its operations one by one are a hundred.
_masked = jax.jit(MaskedToken._masked, static_argnums=0)


@dataclasses.dataclass(frozen=True)
class Classification(Objective):
    """Predicts the class of a document; the last number of a row is its label."""

    padding: int

    name = "classification"

    def share(self, context: int) -> float:
        """See Objective."""
        return 1 / context

    def source(self, config: Config, tokens: TokenCache) -> row_sources.RowSource:
        """See Objective."""
        return row_sources.LabelledRows(*_sizes(config, tokens))

    def training(self, rows: Int[Array, "B W"], key: PRNGKeyArray) -> Examples:
        """See Objective."""
        return self.scored(rows, jnp.full((len(rows), 1), 1 / len(rows)))

    def scored(self, rows: Windows, weights: Weights | None) -> Examples:
        """See Objective."""
        tokens: Any = rows[..., :-1]  # an array of the host or of a device
        labels: Any = rows[..., -1:]
        return Examples(tokens, labels, cast(Any, weights), real=tokens != self.padding)


def _sizes(config: Config, tokens: TokenCache) -> tuple[TokenCache, int, int, int]:
    """The arguments that all row sources share."""
    return tokens, config.model.context, config.data.batch_size, config.train.eval_tokens


NEXT_TOKEN = NextToken()
