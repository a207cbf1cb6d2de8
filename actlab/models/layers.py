"""The layers of both models. Tokens come flattened, [T, D] with T = B L; the feed-forward returns its hidden units too.

Flat tokens and `project`'s barrier exist for speed: XLA on CPU otherwise lowers every weight gradient with a
transposing copy fused with the recomputed activation (1.5 times slower in all).
"""

import functools
import math
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int

from actlab import activations
from actlab.config import RotaryScaling, rotary_scaling
from actlab.errors import UserError
from actlab.models.attention import attend, self_attention
from actlab.models.spec import Spec

INIT_STD = 0.02  # GPT-2 (Radford et al. 2019, section 2.3)
DRAWS = "activation"  # the stream of keys of activations that are drawn in training


class Hidden(NamedTuple):
    """The hidden units of a feed-forward: z into the activation f (of a gated one its gate), a into the last product.

    Plain: a = f(z). Gated: a = f(z) value_fn(v), with v the other projection of the same input. If the hidden
    units are normalised, a is the normalised value.
    """

    z_TF: Float[Array, "T F"]
    a_TF: Float[Array, "T F"]
    v_TF: Float[Array, "T F"] | None  # the other projection of a gated one
    theta: dict[str, Float[Array, ""]]  # scalars of f that are trained


KeyValue = tuple[Float[Array, "B M G K"], Float[Array, "B M G K"]]


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def project(
    x_TD: Float[Array, "T D"], kernel_DF: Float[Array, "D F"], dtype: DTypeLike | None = None
) -> Float[Array, "T F"]:
    """x @ kernel in `dtype` (x's own by default), whose weight gradient is a product of two materialised arrays."""
    return _product(x_TD, kernel_DF, dtype)


def _product(x_TD: Array, kernel_DF: Array, dtype: DTypeLike | None) -> Array:
    return jnp.matmul(x_TD, kernel_DF, preferred_element_type=dtype or x_TD.dtype)


def _project_forward(x_TD: Array, kernel_DF: Array, dtype: DTypeLike | None) -> tuple[Array, tuple[Array, Array]]:
    return _product(x_TD, kernel_DF, dtype), (x_TD, kernel_DF)


def _project_backward(dtype: DTypeLike | None, saved: tuple[Array, Array], dy_TF: Array) -> tuple[Array, Array]:
    x_TD, kernel_DF = saved
    dy_TF = dy_TF.astype(x_TD.dtype)
    dx_TD = dy_TF @ kernel_DF.T
    if x_TD.shape[1] <= dy_TF.shape[1]:
        x_TD, dy_TF = jax.lax.optimization_barrier((x_TD, dy_TF))
        return dx_TD, x_TD.T @ dy_TF
    return dx_TD, jax.lax.platform_dependent(x_TD, dy_TF, cpu=_tall_gradient_on_cpu, default=lambda x, dy: x.T @ dy)


def _tall_gradient_on_cpu(x_TD: Array, dy_TF: Array) -> Array:
    # A product over the first axis of both is twice as slow where the result is tall: compute its transpose, which is
    # wide, and copy that. The second barrier keeps XLA from turning the product round again.
    x_TD, dy_TF = jax.lax.optimization_barrier((x_TD, dy_TF))
    return jax.lax.optimization_barrier(dy_TF.T @ x_TD).T


project.defvjp(_project_forward, _project_backward)


def _flat_dot(x: Array, kernel: Array, dimension_numbers: Any, precision: Any = None, **_: Any) -> Array:
    """What `nn.Dense` calls for its product."""
    if dimension_numbers != (((1,), (0,)), ((), ())) or precision is not None:
        raise ValueError(f"project computes [T, D] @ [D, F] only, not {dimension_numbers}, {precision}")
    return project(x, kernel)


def dense(spec: Spec, features: int, name: str, std: float) -> nn.Dense:
    """A projection of flat tokens: float32 parameters, N(0, std^2) weights, compute in the model's dtype."""
    return nn.Dense(
        features,
        use_bias=spec.use_bias,
        dtype=spec.dtype,
        kernel_init=nn.initializers.normal(std),
        dot_general=_flat_dot,
        name=name,
    )


def embedding(spec: Spec, n_entries: int, name: str) -> nn.Embed:
    """A table of float32 vectors, N(0, table_std^2)."""
    init = nn.initializers.normal(table_std(spec, spec.d_embedding))
    return nn.Embed(n_entries, spec.d_embedding, embedding_init=init, name=name)


class Readout(NamedTuple):
    """The output projection in the compute dtype: a kernel, and a bias where the model has one."""

    kernel_DV: Float[Array, "D V"]
    bias_V: Float[Array, "V"] | None = None

    def logits(self, x_TD: Float[Array, "T D"]) -> Float[Array, "T V"]:
        """Logits in float32."""
        logits_TV: Any = project(x_TD, self.kernel_DV, jnp.float32)
        return logits_TV if self.bias_V is None else logits_TV + self.bias_V.astype(jnp.float32)[None]


def readout(spec: Spec, kernel_DV: Float[Array, "D V"], bias_V: Float[Array, "V"] | None = None) -> Readout:
    """The output projection with a float32 kernel; under mup its product is divided by the width ratio."""
    # The loss may use it chunk by chunk, in a loop.
    kernel_DV = whole(spec, kernel_DV.astype(spec.dtype))
    return Readout(kernel_DV if spec.width_ratio == 1 else kernel_DV / spec.width_ratio, bias_V)


class Output(nn.Module):
    """Parameters of an output projection of its own; as in all families of decoders, theirs has no bias."""

    spec: Spec
    inputs: int
    features: int

    @nn.compact
    def __call__(self) -> Readout:
        """The projection."""
        spec, biased = self.spec, self.spec.use_bias and self.spec.kind == "encoder"
        shape = (self.inputs, self.features)
        kernel_DV = self.param("kernel", nn.initializers.normal(table_std(spec, self.inputs)), shape, jnp.float32)
        bias = nn.initializers.zeros
        return readout(spec, kernel_DV, self.param("bias", bias, shape[1:], jnp.float32) if biased else None)


def table_std(spec: Spec, inputs: int) -> float:
    """Standard deviation of embeddings and of the projection to logits: 0.02, or 1/sqrt(inputs) with init "fan_in".

    Under mup it is that of the base width at every width.
    """
    return math.sqrt(spec.width_ratio / inputs) if spec.init == "fan_in" else INIT_STD


def matrix_std(spec: Spec, inputs: int | None = None, name: str = "") -> float:
    """Standard deviation of a matrix: 0.02, under mup 0.02 / sqrt(ratio of its inputs); 1/sqrt(inputs) with "fan_in".

    It has D inputs unless told otherwise. LeCun et al. 1998, Efficient BackProp, section 4.6: with 1/sqrt(inputs) a
    product keeps the second moment.
    """
    return 1 / math.sqrt(inputs or spec.d_model) if spec.init == "fan_in" else INIT_STD / math.sqrt(spec.ratio_of(name))


def residual_std(spec: Spec, inputs: int, name: str) -> float:
    """Standard deviation of a projection into the residual stream: `matrix_std` over sqrt(2 N), as in GPT-2."""
    return matrix_std(spec, inputs, name) / math.sqrt(2 * spec.n_layers)


def feed_forward_std(spec: Spec) -> tuple[float, float]:
    """Standard deviations of the weights before and after the activation.

    With init "gain" or "fan_in" the input, which a norm has given the rms 1, reaches the activation at N(0, 1), and
    what follows it is drawn at its gain, 1 / sqrt(E f(Z)^2), over sqrt(F), or 1 / sqrt(F) after a norm of the hidden
    units: the layer keeps the second moment, whatever the activation (He et al. 2015, arXiv:1502.01852, section 2.2,
    for ReLU). GPT-2's factor 1 / sqrt(2 N) stays. Of an activation with a `draw` the gain is that of its expectation;
    what is drawn in training is larger (stochastic_gelu by 8%).
    """
    if spec.init == "gpt2":
        return matrix_std(spec), residual_std(spec, spec.d_hidden, "down")
    gain = 1.0
    if spec.activation_norm == "none":
        try:
            gain = activations.moments(spec.activation).forward_gain
        except UserError as error:
            raise UserError(
                f"config.model.init={spec.init!r} needs E[f(z)^2] of {spec.activation!r} for z ~ N(0, 1), but "
                f"{str(error).removesuffix('.')}; or set config.model.init='gpt2'."
            ) from error
        if not math.isfinite(gain):
            raise UserError(
                f"config.model.init={spec.init!r} divides by the size of {spec.activation!r} for inputs from N(0, 1), "
                "which is 0: set config.model.init='gpt2', or take another activation."
            )
    return 1 / math.sqrt(spec.d_model), gain / math.sqrt(spec.d_hidden * 2 * spec.n_layers)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def standardise(x_TD: Float[Array, "T D"], centred: bool, epsilon: float) -> Float[Array, "T D"]:
    """x / sqrt(mean(x^2) + epsilon) over features, of x less its mean if `centred`."""
    # With a derivative of its own it keeps the result and a number per token, not every intermediate [T, D] array.
    return _standardise_forward(x_TD, centred, epsilon)[0]


def _standardise_forward(x_TD: Array, centred: bool, epsilon: float) -> tuple[Array, tuple[Array, Array]]:
    if centred:
        x_TD = x_TD - x_TD.mean(axis=1, keepdims=True)
    inverse_T1 = jax.lax.rsqrt(jnp.square(x_TD).mean(axis=1, keepdims=True) + epsilon)
    y_TD = x_TD * inverse_T1
    return y_TD, (y_TD, inverse_T1)


def _standardise_backward(centred: bool, _: float, saved: tuple[Array, Array], dy_TD: Array) -> tuple[Array]:
    y_TD, inverse_T1 = saved
    dx_TD = dy_TD - y_TD * (dy_TD * y_TD).mean(axis=1, keepdims=True)
    if centred:
        dx_TD = dx_TD - dy_TD.mean(axis=1, keepdims=True)
    return (inverse_T1 * dx_TD,)


standardise.defvjp(_standardise_forward, _standardise_backward)


class Norm(nn.Module):
    """LayerNorm (Ba et al. 2016, arXiv:1607.06450) if `centred`, else RMSNorm (arXiv:1910.07467), in float32.

    Over the last axis, with a trained scale for each of its units.
    """

    epsilon: float
    centred: bool
    use_bias: bool = False

    @nn.compact
    def __call__(self, x: Float[Array, "*axes K"]) -> Float[Array, "*axes K"]:
        """The units at mean 0 if `centred` and at mean square 1, times the scale, plus a bias if there is one."""
        shape = x.shape[-1:]
        y_TK: Any = standardise(x.astype(jnp.float32).reshape(-1, *shape), self.centred, self.epsilon)
        y_TK = y_TK * self.param("scale", nn.initializers.ones, shape, jnp.float32)[None]
        if self.use_bias:
            y_TK = y_TK + self.param("bias", nn.initializers.zeros, shape, jnp.float32)[None]
        return y_TK.reshape(x.shape)


def stream_norm(spec: Spec, name: str) -> Norm:
    """The model's norm of the residual stream."""
    centred = spec.norm == "layernorm"
    return Norm(spec.norm_epsilon, centred, use_bias=spec.use_bias and centred, name=name)


def rotate(
    x_BLHK: Float[Array, "B L H K"],
    positions_L: Int[Array, "L"],
    base: float,
    n_rotating: int | None = None,
    scaling: RotaryScaling | None = None,
) -> Float[Array, "B L H K"]:
    """Rotary position embedding: pairs (k, k + K/2) turn by position / base^(2k/K).

    Su et al. 2021, arXiv:2104.09864, equation 34; its base is 10,000. Of `n_rotating` units K is that number, and the
    others stay.
    """
    n_rotating = n_rotating or x_BLHK.shape[-1]
    half = n_rotating // 2
    # In float32: 16 bits would round the angle of a late position by a large part of a turn.
    speed_K = base ** (-jnp.arange(half) / half)
    angle_LK = positions_L[:, None] * (speed_K if scaling is None else slowed(speed_K, scaling))[None, :]
    cos_LHK, sin_LHK = jnp.cos(angle_LK)[None, :, None, :], jnp.sin(angle_LK)[None, :, None, :]
    first, second = jnp.split(x_BLHK[..., :n_rotating].astype(jnp.float32), 2, axis=-1)
    rotated = jnp.concatenate([first * cos_LHK - second * sin_LHK, second * cos_LHK + first * sin_LHK], axis=-1)
    rotated = rotated.astype(x_BLHK.dtype)
    return rotated if 2 * half == x_BLHK.shape[-1] else jnp.concatenate([rotated, x_BLHK[..., n_rotating:]], axis=-1)


def slowed(speed_K: Float[Array, "K"], scaling: RotaryScaling) -> Float[Array, "K"]:
    """Radians per position, divided by the factor: all of them (linear), or only the slow ones (llama3).

    Chen et al. 2023, arXiv:2306.15595; LLaMA 3.1's rule is in Grattafiori et al. 2024, arXiv:2407.21783, by its code:
    pairs that turn more than `high` times within `context` positions stay, those that turn less than `low` times are
    divided, those between are mixed in proportion.
    """
    if scaling.kind == "linear":
        return speed_K / scaling.factor
    turns_K = scaling.context * speed_K / (2 * math.pi)
    kept_K = jnp.clip((turns_K - scaling.low) / (scaling.high - scaling.low), 0, 1)
    return kept_K * speed_K + (1 - kept_K) * speed_K / scaling.factor


def by_rows(spec: Spec, x: Array) -> Array:
    """x as it is, its first axis (rows, or their tokens) on the devices that hold the rows.

    Without it the compiler may split a layer's units over the devices between which its weights are split.
    """
    return x if spec.rows is None else jax.lax.with_sharding_constraint(x, spec.rows)


def whole(spec: Spec, kernel: Array) -> Array:
    """A matrix whole on every device: gathered here, once, and not in each turn of a loop that uses it."""
    return kernel if spec.rows is None else _gathered(NamedSharding(spec.rows.mesh, PartitionSpec()), kernel)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _gathered(whole: NamedSharding, kernel: Array) -> Array:
    return jax.lax.with_sharding_constraint(kernel, whole)


@_gathered.defjvp
def _gathered_jvp(whole: NamedSharding, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    # The derivative's own rule would have the gradient whole too, of which a device needs its part.
    return _gathered(whole, *primals), tangents[0]


class Attention(nn.Module):
    """Multi-head self-attention, causal in a decoder, where a key-value cache may continue at position `offset`.

    Keys and values may have fewer heads, each for a group of query heads (Ainslie et al. 2023, arXiv:2305.13245).
    """

    spec: Spec

    @nn.compact
    def __call__(
        self,
        x_TD: Float[Array, "T D"],
        length: int,
        cache: KeyValue | None = None,
        offset: Array | int = 0,
        real_BL: Bool[Array, "B L"] | None = None,
    ) -> tuple[Float[Array, "T D"], KeyValue]:
        """The sublayer's output for windows of `length` tokens, with the keys and values it attended to.

        An encoder attends to `real_BL` only, or to all.
        """
        spec = self.spec
        own, shared = spec.n_heads * spec.d_head, spec.n_kv_heads * spec.d_head
        # Split, not indexed: the gradient is then one concatenation, not the sum of three arrays padded with zeros.
        qkv = dense(spec, own + 2 * shared, "qkv", matrix_std(spec))(x_TD)
        q_BLHK, k_BLGK, v_BLGK = (
            by_rows(spec, x.reshape(-1, length, x.shape[1] // spec.d_head, spec.d_head))
            for x in jnp.split(qkv, (own, own + shared), axis=1)
        )
        if spec.qk_norm:
            # All heads share one scale, which keeps queries and keys at a bounded size.
            q_BLHK, k_BLGK = (
                Norm(spec.norm_epsilon, centred=False, name=f"{name}_norm")(x).astype(x.dtype)
                for name, x in (("query", q_BLHK), ("key", k_BLGK))
            )
        positions_L = offset + jnp.arange(length)
        if spec.position == "rotary":
            turning = (spec.rotary_base, int(spec.rotary_fraction * spec.d_head), rotary_scaling(spec.rotary_scaling))
            q_BLHK, k_BLGK = (rotate(x, positions_L, *turning) for x in (q_BLHK, k_BLGK))
        key_value = k_BLGK, v_BLGK
        if cache is not None:
            write = functools.partial(jax.lax.dynamic_update_slice_in_dim, start_index=offset, axis=1)
            key_value = write(cache[0], k_BLGK), write(cache[1], v_BLGK)
        group = spec.n_heads // spec.n_kv_heads
        k_BMHK, v_BMHK = key_value if group == 1 else (jnp.repeat(x, group, axis=2) for x in key_value)
        if cache is None:
            how = (spec.attention, spec.score_scale, spec.rows)
            out_BLHK = self_attention(q_BLHK, k_BMHK, v_BMHK, spec.kind == "decoder", real_BL, *how)
        else:
            mask_LM = jnp.arange(k_BMHK.shape[1])[None, :] <= positions_L[:, None]
            out_BLHK = attend(q_BLHK, k_BMHK, v_BMHK, mask_LM, spec.score_scale)
        out_TD = dense(spec, spec.d_model, "out", residual_std(spec, own, "out"))(out_BLHK.reshape(-1, own))
        return out_TD, key_value


def activate(
    layer: nn.Module, activation: activations.Activation, z_TF: Float[Array, "T F"]
) -> tuple[Float[Array, "T F"], dict[str, Float[Array, ""]]]:
    """f(z), drawn where the layer has keys for it, and the scalars that f trains.

    These are float32 parameters of the layer, `activation_<name>`, not decayed.
    """
    theta = {
        name: layer.param(f"activation_{name}", nn.initializers.constant(start), (), jnp.float32)
        for name, start in activation.theta.items()
    }
    if activation.draw and layer.has_rng(DRAWS):
        return activation.draw(layer.make_rng(DRAWS), z_TF, **theta), theta
    return activation.fn(z_TF, **theta), theta


class FeedForward(nn.Module):
    """Position-wise feed-forward layer, plain or gated on one path: down(act(up(x)) [* value_act(value(x))])."""

    spec: Spec

    @nn.compact
    def __call__(
        self, x_TD: Float[Array, "T D"], shift_TF: Float[Array, "T F"] | None = None
    ) -> tuple[Float[Array, "T D"], Hidden]:
        """The sublayer's output with its hidden units; `shift_TF` is added to z, for gradients to z."""
        spec = self.spec
        activation = activations.get(spec.activation)
        before, after = feed_forward_std(spec)
        z_TF = dense(spec, spec.d_hidden, "up", before)(x_TD)
        z_TF = z_TF if shift_TF is None else z_TF + shift_TF.astype(z_TF.dtype)
        a_TF, theta = activate(self, activation, z_TF)
        v_TF = None
        if activation.gated:
            v_TF = dense(spec, spec.d_hidden, "value", before)(x_TD)
            a_TF = a_TF * activation.value_fn(v_TF)
        if spec.activation_norm != "none":
            norm = Norm(spec.norm_epsilon, centred=spec.activation_norm == "layernorm", name="activation_norm")
            a_TF = norm(a_TF).astype(a_TF.dtype)
        return dense(spec, spec.d_model, "down", after)(a_TF), Hidden(z_TF, a_TF, v_TF, theta)


class Block(nn.Module):
    """Attention, then feed-forward, each with a residual connection normalised before or after; or both at once."""

    spec: Spec

    @nn.compact
    def __call__(
        self,
        x_TD: Float[Array, "T D"],
        length: int,
        cache: KeyValue | None = None,
        offset: Array | int = 0,
        shift_TF: Float[Array, "T F"] | None = None,
        real_BL: Bool[Array, "B L"] | None = None,
    ) -> tuple[Float[Array, "T D"], Hidden, KeyValue]:
        """The residual stream after the block, the feed-forward's hidden units, the keys and values."""
        attention, feed_forward = Attention(self.spec, name="attention"), FeedForward(self.spec, name="feed_forward")
        attention_norm, feed_forward_norm = (
            stream_norm(self.spec, f"{part}_norm") for part in ("attention", "feed_forward")
        )
        if self.spec.residual == "parallel":
            attended_TD, key_value = attention(attention_norm(x_TD), length, cache, offset, real_BL)
            out_TD, hidden = feed_forward(feed_forward_norm(x_TD), shift_TF)
            return x_TD + attended_TD + out_TD, hidden, key_value
        if self.spec.norm_position == "pre":
            out_TD, key_value = attention(attention_norm(x_TD), length, cache, offset, real_BL)
            x_TD = x_TD + out_TD
            out_TD, hidden = feed_forward(feed_forward_norm(x_TD), shift_TF)
            return x_TD + out_TD, hidden, key_value
        out_TD, key_value = attention(x_TD, length, cache, offset, real_BL)
        x_TD = attention_norm(x_TD + out_TD)
        out_TD, hidden = feed_forward(x_TD, shift_TF)
        return feed_forward_norm(x_TD + out_TD), hidden, key_value


def block(spec: Spec, index: int) -> Block:
    """The block of an index, whose length is static."""
    layer = nn.remat(Block, static_argnums=(2,)) if spec.remat else Block
    return layer(spec.of_block(index), name=f"block_{index}")


def blocks(
    spec: Spec,
    x_TD: Float[Array, "T D"],
    length: int,
    shifts: tuple[Float[Array, "T F"], ...] | None = None,
    cache: tuple[KeyValue, ...] | None = None,
    offset: Array | int = 0,
    real_BL: Bool[Array, "B L"] | None = None,
) -> tuple[Float[Array, "B L D"], tuple[Hidden, ...], tuple[KeyValue, ...]]:
    """All blocks and the final norm: hidden states in the compute dtype; hidden units, keys and values per layer."""
    x_TD = by_rows(spec, x_TD)
    hidden, key_values = [], []
    for index in range(spec.n_layers):
        past = None if cache is None else cache[index]
        shift_TF = None if shifts is None else shifts[index]
        x_TD, units, key_value = block(spec, index)(x_TD, length, past, offset, shift_TF, real_BL)
        x_TD = by_rows(spec, x_TD)
        hidden.append(units)
        key_values.append(key_value)
    if spec.norm_position == "pre":
        x_TD = stream_norm(spec, "final_norm")(x_TD)
    # Norms give float32; what follows is computed in the compute dtype.
    return x_TD.astype(spec.dtype).reshape(-1, length, spec.d_model), tuple(hidden), tuple(key_values)
