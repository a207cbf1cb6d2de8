"""A model as the rest of the package sees it: pure functions over a plain pytree of parameters, and their costs."""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from actlab import activations
from actlab.config import ModelConfig, SwapConfig, require_model
from actlab.models import attention, layers, spec as spec_lib
from actlab.models.decoder import Decoder
from actlab.models.encoder import Encoder

Params = Any  # nested dict of float32 arrays, keyed by layer name
Cache = tuple[layers.KeyValue, ...]


@dataclasses.dataclass(frozen=True)
class Model:
    """Pure functions of a network; nothing outside this package sees flax."""

    spec: spec_lib.Spec

    def on(self, rows: NamedSharding, remat: bool = False) -> "Model":
        """The same model for devices that split a batch's rows as `rows` says.

        It has the kernels that are fastest there, which all give the same up to rounding, and what it computes of a row
        stays where the row is: parameters that are split are gathered instead. With `remat` the backward pass computes
        each block again.
        """
        device = next(iter(rows.device_set))  # they are of one kind
        kernel = attention.kernel_for(device, self.spec.dtype, self.spec.d_head)
        platform = "gpu" if device.platform == "cuda" else device.platform
        split = rows if rows.mesh.size > 1 else None
        return self._with(attention=kernel, platform=platform, rows=split, remat=remat)

    @property
    def n_splits(self) -> int:
        """The number of devices, or groups of them, over which the rows of a batch are split."""
        rows = self.spec.rows
        return 1 if rows is None else math.prod(rows.mesh.shape[name] for name in rows.spec[0])

    def twice_differentiable(self) -> "Model":
        """The same model with kernels that have second derivatives."""
        return self if self.spec.attention in ("own", "parts") else self._with(attention="own")

    def _with(self, **fields: Any) -> "Model":
        return dataclasses.replace(self, spec=dataclasses.replace(self.spec, **fields))

    def init(self, key: PRNGKeyArray) -> Params:
        """Parameters in float32; arrays of the same name and shape are equal for every activation.

        With init "gain" and "fan_in" the feed-forward's second projections are equal but for the activation's gain.
        """
        network = Encoder(self.spec) if self.spec.kind == "encoder" else Decoder(self.spec)
        # Any tokens do: no parameter depends on their number.
        return network.init(key, jnp.zeros((1, 2), jnp.int32))["params"]

    def apply(
        self,
        params: Params,
        tokens_BL: Int[Array, "B L"],
        shifts: tuple[Float[Array, "T F"], ...] | None = None,
        **of_encoder: Any,
    ) -> tuple[Float[Array, "B K V"], tuple[layers.Hidden, ...]]:
        """(logits in float32, hidden units per layer); under jit, outputs that are not used cost nothing.

        `shifts`, one per layer, are added to the units' inputs z: the gradient with respect to a shift of 0 is dL/dz.
        An encoder takes further arguments, see `hidden`.
        """
        x_BKD, readout, hidden = self.hidden(params, tokens_BL, shifts=shifts, **of_encoder)
        return _logits(readout, x_BKD), hidden

    def hidden(
        self,
        params: Params,
        tokens_BL: Int[Array, "B L"],
        segments_BL: Int[Array, "B L"] | None = None,
        real_BL: Bool[Array, "B L"] | None = None,
        places_BP: Int[Array, "B P"] | None = None,
        shifts: tuple[Float[Array, "T F"], ...] | None = None,
        key: PRNGKeyArray | None = None,
    ) -> tuple[Float[Array, "B K D"], layers.Readout, tuple[layers.Hidden, ...]]:
        """(final hidden states, the projection that makes logits of them, hidden units per layer).

        The logits of `apply` are readout.logits(x) of tokens x [T, D]; the loss may compute them in chunks instead. An
        encoder also takes segments (0 by default), which tokens are real (all by default), and the places of each row
        at which logits are wanted (by default all, K = L); a classifier has one place per row, K = 1. With a key, which
        only training gives, an activation with a `draw` is drawn anew in each layer.
        """
        of_encoder = (segments_BL, real_BL, places_BP)
        if self.spec.kind == "encoder":
            inputs = (tokens_BL, *of_encoder, shifts)
            return Encoder(self.spec).apply({"params": params}, *inputs, rngs=_streams(key))  # type: ignore
        if any(given is not None for given in of_encoder):
            raise ValueError("a decoder takes no segments, padding or places")
        x_BLD, readout, hidden, _ = self._decode(params, tokens_BL, None, 0, shifts, key=key)
        return x_BLD, readout, hidden

    def rate_multipliers(self, params: Params) -> Any:
        """The learning rate of each array over that of the run, a tree of floats.

        Under mup 1 / ratio of its inputs to those at the base width for a matrix within the network; 1 for vectors,
        embeddings and projections to logits, and for everything in the standard parametrization.
        """

        def multiplier(path: Any, array: Array) -> float:
            name = path[0].key
            is_table = name.endswith("_embedding") or name in ("output", "classifier")
            return 1.0 if array.ndim < 2 or is_table else 1 / self.spec.ratio_of(path[-2].key)

        return jax.tree_util.tree_map_with_path(multiplier, params)

    def standard(self, params: Params) -> Params:
        """Parameters of the same function in the standard parametrization, with mup's factors folded in.

        The factor of attention scores goes into the queries, that of the logits into the output projection, or into the
        norm before it where that is a tied embedding.
        """
        spec = self.spec
        if spec.parametrization == "standard":
            return params
        if spec.n_classes or not spec.tie_embeddings:
            last = ("classifier" if spec.n_classes else "output", "kernel")
        elif spec.kind == "encoder":
            last = ("head_norm",)
        elif spec.norm_position == "pre":
            last = ("final_norm",)
        else:
            last = (f"block_{spec.n_layers - 1}", "feed_forward_norm")

        def folded(path: Any, array: Array) -> Array:
            names = tuple(key.key for key in path)
            if names[: len(last)] == last:
                return array / spec.width_ratio
            of_queries = spec.score_scale * math.sqrt(spec.d_head)
            if "query_norm" in names:
                return array * of_queries
            if "qkv" in names and not spec.qk_norm:  # whose norm would undo it
                return array.at[..., : spec.n_heads * spec.d_head].multiply(of_queries)
            return array

        return jax.tree_util.tree_map_with_path(folded, jax.tree.map(jnp.asarray, params))

    def empty_cache(self, batch_size: int) -> Cache:
        """Keys and values for `context` positions, all zero."""
        spec = self.spec
        zeros = jnp.zeros((batch_size, spec.context, spec.n_kv_heads, spec.d_head), spec.dtype)
        return ((zeros, zeros),) * spec.n_layers

    def extend(
        self, params: Params, tokens_BL: Int[Array, "B L"], cache: Cache, offset: Int[Array, ""] | int
    ) -> tuple[Float[Array, "B L V"], Cache]:
        """Logits of tokens that continue a cache at position `offset`, with the cache that holds them too."""
        if self.spec.kind == "encoder":
            raise ValueError("an encoder sees later tokens: it cannot continue a text")
        x_BLD, readout, _, cache = self._decode(params, tokens_BL, cache, offset)
        return _logits(readout, x_BLD), cache

    def _decode(self, params: Params, *inputs: Any, key: PRNGKeyArray | None = None) -> Any:
        return Decoder(self.spec).apply({"params": params}, *inputs, rngs=_streams(key))


def _streams(key: PRNGKeyArray | None) -> dict[str, PRNGKeyArray] | None:
    return None if key is None else {layers.DRAWS: key}


def _logits(readout: layers.Readout, x_BLD: Array) -> Array:
    return readout.logits(x_BLD.reshape(-1, x_BLD.shape[-1])).reshape(*x_BLD.shape[:-1], -1)


def build(config: ModelConfig, dtype: DTypeLike = jnp.float32, swap: SwapConfig = spec_lib.NO_SWAP) -> Model:
    """The model of a config, with another activation in some blocks.

    Raises:
        UserError: for a config that is no model, as when it was made by hand; an unknown activation, or one that a
            layer cannot use, or without the gain that its initialisation needs; an open vocabulary size.
    """
    require_model(config)
    spec = spec_lib.resolve(config, dtype, swap)
    for index in {0, spec.n_layers - 1}:  # of which the first may be swapped
        layers.feed_forward_std(spec.of_block(index))
    return Model(spec)


@dataclasses.dataclass(frozen=True)
class Costs:
    """Static costs of a model.

    `flops_per_token` counts forward and backward of training: 6 per weight of a matrix product, and
    12 N L H K for attention scores and sums (Chowdhery et al. 2022, arXiv:2204.02311, appendix B). The
    projection to logits counts for the share of tokens at which logits are made.
    `gated_mismatch` is the relative difference in feed-forward weights from a plain layer of width d_ff.
    """

    parameters: int
    non_embedding: int
    flops_per_token: int
    gated_mismatch: float


def shapes(model: Model) -> Params:
    """Shape and dtype of each parameter, as jax.ShapeDtypeStruct; nothing is computed."""
    spec = model.spec
    names = (spec.activation, spec.swapped_to, spec.head_activation, spec.pooler_activation)
    return _shapes(model, tuple(activations.get(name) for name in names if name))


@functools.cache  # tracing a model takes tenths of a second; a name may be registered again with other parameters
def _shapes(model: Model, functions: tuple[activations.Activation, ...]) -> Params:
    return jax.eval_shape(model.init, jax.random.key(0))


def costs(model: Model, read: float = 1.0) -> Costs:
    """Counts from shapes alone; nothing is computed. `read` is the share of tokens at which logits are made."""
    spec, shapes_of = model.spec, shapes(model)
    total = sum(leaf.size for leaf in jax.tree.leaves(shapes_of))
    embeddings = [
        leaf for name, leaf in shapes_of.items() if name.endswith("_embedding") or name in ("output", "output_bias")
    ]
    non_embedding = total - sum(leaf.size for leaf in jax.tree.leaves(embeddings))
    matrices = 3 if activations.get(spec.activation).gated else 2
    feed_forward = matrices * spec.d_model * spec.d_hidden
    of_heads = spec.n_heads * spec.d_head
    attention = 2 * spec.d_model * (of_heads + spec.n_kv_heads * spec.d_head)
    weights = spec.n_layers * (attention + feed_forward)
    if spec.d_embedding != spec.d_model:
        weights += spec.d_embedding * spec.d_model
    reading = spec.n_classes * spec.d_model or spec.vocab_size * spec.d_embedding
    if spec.kind == "encoder":
        reading += spec.d_model * (spec.d_model if spec.n_classes else spec.d_embedding)
    return Costs(
        parameters=total,
        non_embedding=non_embedding,
        flops_per_token=round(6 * (weights + read * reading)) + 12 * spec.n_layers * spec.context * of_heads,
        gated_mismatch=feed_forward / (2 * spec.d_model * spec.d_ff) - 1,
    )
