"""A model as the rest of the package sees it: plain functions over a plain pytree of parameters."""

import dataclasses
from typing import Any

import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from actlab.config import ModelConfig, SwapConfig
from actlab.models import layers, spec
from actlab.models.decoder import Decoder
from actlab.models.encoder import Encoder

Params = Any  # nested dict of float32 arrays, keyed by layer name
Cache = tuple[layers.KeyValue, ...]


@dataclasses.dataclass(frozen=True)
class Model:
    """Pure functions of a network; nothing outside this package sees flax."""

    spec: spec.Spec

    def init(self, key: PRNGKeyArray) -> Params:
        """Parameters in float32; arrays of the same name and shape are equal for every activation."""
        network = Encoder(self.spec) if self.spec.kind == "encoder" else Decoder(self.spec)
        return network.init(key, jnp.zeros((1, 2), jnp.int32))["params"]

    def apply(
        self,
        params: Params,
        tokens_BL: Int[Array, "B L"],
        shifts: tuple[Float[Array, "T F"], ...] | None = None,
        **of_encoder: Any,
    ) -> tuple[Float[Array, "B K V"], tuple[layers.Hidden, ...]]:
        """(logits in float32, hidden units per layer); under jit what is not used of them costs nothing.

        `shifts`, one per layer, are added to the units' inputs z: the gradient with respect to a shift of 0 is dL/dz.
        An encoder takes more, see `hidden`.
        """
        x_BKD, readout, hidden = self.hidden(params, tokens_BL, shifts=shifts, **of_encoder)
        return _logits(readout, x_BKD), hidden

    def hidden(
        self,
        params: Params,
        tokens_BL: Int[Array, "B L"],
        segments_BL: Int[Array, "B L"] | None = None,
        real_BL: Bool[Array, "B L"] | None = None,
        places_BK: Int[Array, "B K"] | None = None,
        shifts: tuple[Float[Array, "T F"], ...] | None = None,
        key: PRNGKeyArray | None = None,
    ) -> tuple[Float[Array, "B K D"], layers.Readout, tuple[layers.Hidden, ...]]:
        """(what logits are projected from, the projection, hidden units per layer), for who needs no logits at once.

        apply's logits are readout.logits(x) of tokens x [T, D]. An encoder also takes segments (0 by default), which
        tokens are real (all by default) and at which places of each row logits are wanted (everywhere, K = L, by
        default); one that sorts into classes has a single place per row, K = 1. With a key, which only training gives,
        an activation that has a `draw` is drawn, for each layer anew.
        """
        of_encoder = (segments_BL, real_BL, places_BK)
        if self.spec.kind == "encoder":
            inputs = (tokens_BL, *of_encoder, shifts)
            return Encoder(self.spec).apply({"params": params}, *inputs, rngs=_streams(key))  # type: ignore
        if any(given is not None for given in of_encoder):
            raise ValueError("a decoder takes neither segments nor padding nor places")
        x_BLD, readout, hidden, _ = self._decode(params, tokens_BL, None, 0, shifts, key=key)
        return x_BLD, readout, hidden

    def empty_cache(self, batch_size: int) -> Cache:
        """Keys and values for `context` positions, all zero."""
        head = self.spec.d_model // self.spec.n_heads
        zeros = jnp.zeros((batch_size, self.spec.context, self.spec.n_heads, head), self.spec.dtype)
        return ((zeros, zeros),) * self.spec.n_layers

    def extend(
        self, params: Params, tokens_BL: Int[Array, "B L"], cache: Cache, offset: Int[Array, ""] | int
    ) -> tuple[Float[Array, "B L V"], Cache]:
        """Logits of tokens that continue a cache at position `offset`, with the cache that holds them too."""
        if self.spec.kind == "encoder":
            raise ValueError("an encoder sees what comes after: it continues no text")
        x_BLD, readout, _, cache = self._decode(params, tokens_BL, cache, offset)
        return _logits(readout, x_BLD), cache

    def _decode(self, params: Params, *inputs: Any, key: PRNGKeyArray | None = None) -> Any:
        return Decoder(self.spec).apply({"params": params}, *inputs, rngs=_streams(key))


def _streams(key: PRNGKeyArray | None) -> dict[str, PRNGKeyArray] | None:
    return None if key is None else {layers.DRAWS: key}


def _logits(readout: layers.Readout, x_BLD: Array) -> Array:
    return readout.logits(x_BLD.reshape(-1, x_BLD.shape[-1])).reshape(*x_BLD.shape[:-1], -1)


def build(config: ModelConfig, dtype: DTypeLike = jnp.float32, swap: SwapConfig = spec.NO_SWAP) -> Model:
    """The model of a config, with another activation in some blocks.

    Raises:
        UserError: for an unknown activation, one that a layer cannot have, or an open vocabulary size.
    """
    return Model(spec.resolve(config, dtype, swap))
