"""Decoders of transformers: GPT-2, OPT, GPT-NeoX, and LLaMA with the families that differ from it in a few points."""

import dataclasses
import functools
from typing import Any, NamedTuple

from actlab.config import ModelConfig, rotary_scaling
from actlab.errors import UserError
from actlab.interop.architecture import (
    ANY,
    GATED,
    LEAST_D_FF,
    Entry,
    Family,
    Fields,
    Link,
    gated_activation,
    layer_norm,
    linear,
    scale,
    table,
    their_activation,
)
from actlab.models.spec import Spec, gated_width, resolve


def _output(config: ModelConfig, theirs: str = "lm_head") -> list[Link]:
    return [] if config.tie_embeddings else [Link(("output/kernel",), (f"{theirs}.weight",), transposed=True)]


def _gpt2_links(config: ModelConfig, _: Fields) -> list[Link]:
    conv1d = functools.partial(linear, transposed=False)  # their Conv1D stores [in, out], as we do
    links = [
        table("token_embedding", "transformer.wte"),
        table("position_embedding", "transformer.wpe"),
        *layer_norm("final_norm", "transformer.ln_f"),
    ]
    for index in range(config.n_layers):
        ours, theirs = f"block_{index}", f"transformer.h.{index}"
        links += [
            *layer_norm(f"{ours}/attention_norm", f"{theirs}.ln_1"),
            *layer_norm(f"{ours}/feed_forward_norm", f"{theirs}.ln_2"),
            *conv1d(f"{ours}/attention/qkv", f"{theirs}.attn.c_attn"),
            *conv1d(f"{ours}/attention/out", f"{theirs}.attn.c_proj"),
            *conv1d(f"{ours}/feed_forward/up", f"{theirs}.mlp.c_fc"),
            *conv1d(f"{ours}/feed_forward/down", f"{theirs}.mlp.c_proj"),
        ]
    return links + _output(config)


GPT2 = Family(  # Radford et al. 2019
    name="GPT-2",
    model_type="gpt2",
    saved_as="GPT2LMHeadModel",
    prefix="transformer.",
    entries=(
        Entry("activation_function", "activation", "plain", "gelu_new"),
        Entry("n_layer", "n_layers"),
        Entry("n_embd", "d_model"),
        Entry("n_head", "n_heads"),
        Entry("n_positions", "context"),
        Entry("vocab_size", "vocab_size"),
        Entry("layer_norm_epsilon", "norm_epsilon", "number", 1e-5),
        Entry("tie_word_embeddings", "tie_embeddings", "flag", True),
    ),
    read=lambda fields: {"d_ff": fields.whole("n_inner", 4 * fields.whole("n_embd")), "use_bias": True},
    describe=lambda spec: {"n_inner": spec.d_hidden},
    required={"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False},
    written=dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0),
    links=_gpt2_links,
    copies={"lm_head.weight": "transformer.wte.weight"},
    unused=r"transformer\.h\.\d+\.attn\.(bias|masked_bias)",  # the causal mask, in files of 2019
)


def _read_opt(fields: Fields) -> dict[str, Any]:
    width = fields.whole("hidden_size")
    if fields.whole("word_embed_proj_dim", width) != width:
        fields.refuse("word_embed_proj_dim", f"decoders here have embeddings of hidden_size={width}")
    return {"use_bias": True}


def _opt_links(config: ModelConfig, _: Fields) -> list[Link]:
    links = [
        table("token_embedding", "model.decoder.embed_tokens"),
        table("position_embedding", "model.decoder.embed_positions", skip=2),  # positions count from 2 on
        *layer_norm("final_norm", "model.decoder.final_layer_norm"),
    ]
    for index in range(config.n_layers):
        ours, theirs = f"block_{index}", f"model.decoder.layers.{index}"
        links += [
            *layer_norm(f"{ours}/attention_norm", f"{theirs}.self_attn_layer_norm"),
            *linear(f"{ours}/attention/qkv", *(f"{theirs}.self_attn.{letter}_proj" for letter in "qkv")),
            *linear(f"{ours}/attention/out", f"{theirs}.self_attn.out_proj"),
            *layer_norm(f"{ours}/feed_forward_norm", f"{theirs}.final_layer_norm"),
            *linear(f"{ours}/feed_forward/up", f"{theirs}.fc1"),
            *linear(f"{ours}/feed_forward/down", f"{theirs}.fc2"),
        ]
    return links + _output(config)


OPT = Family(  # Zhang et al. 2022, arXiv:2205.01068
    name="OPT",
    model_type="opt",
    saved_as="OPTForCausalLM",
    prefix="model.",
    entries=(
        Entry("activation_function", "activation", "plain", "relu"),
        Entry("num_hidden_layers", "n_layers"),
        Entry("hidden_size", "d_model"),
        Entry("num_attention_heads", "n_heads"),
        Entry("ffn_dim", "d_ff"),
        Entry("max_position_embeddings", "context"),
        Entry("vocab_size", "vocab_size"),
        Entry("tie_word_embeddings", "tie_embeddings", "flag", True),
    ),
    fixed={"norm_epsilon": 1e-5},
    required={
        "do_layer_norm_before": True,
        "_remove_final_layer_norm": False,
        "enable_bias": True,
        "layer_norm_elementwise_affine": True,
    },
    written={"dropout": 0.0, "attention_dropout": 0.0, "layerdrop": 0.0},
    read=_read_opt,
    describe=lambda spec: {"word_embed_proj_dim": spec.d_model},
    links=_opt_links,
    copies={"lm_head.weight": "model.decoder.embed_tokens.weight"},
)


# The entries of rope_parameters (transformers 5) and rope_scaling (4) for each of our scalings.
_SCALINGS = {
    "default": {},
    "linear": {"factor": "factor"},
    "llama3": {
        "factor": "factor",
        "low": "low_freq_factor",
        "high": "high_freq_factor",
        "context": "original_max_position_embeddings",
    },
}


def _read_rotary(fields: Fields, base: str = "rope_theta", share: str = "", fraction: float = 1.0) -> dict[str, Any]:
    """Base, share and scaling of rotary positions; `base` and `share` are the names of entries of their own."""
    inner: dict[str, Any] = {}
    for name in ("rope_parameters", "rope_scaling"):
        given = fields.get(name, {})
        if not isinstance(given, dict):
            fields.refuse(name, "it must hold fields")
        kind = given.get("rope_type", given.get("type", "default"))
        if not isinstance(kind, str) or kind not in _SCALINGS:
            fields.refuse(name, f"known scalings of rotary positions are {', '.join(_SCALINGS)}; take other weights")
        allowed = {"type", "rope_type", "rope_theta", *_SCALINGS[kind].values()}
        allowed |= {"partial_rotary_factor"} if share else set()
        neutral = (("factor", 1.0), ("partial_rotary_factor", 1.0))
        strange = [key for key, value in given.items() if key not in allowed and (key, value) not in neutral]
        if strange or (given.get("type", kind) != kind):
            fields.refuse(name, f"rotary positions here have no {strange[0] if strange else 'second type'}")
        apart = [key for key in given if key in inner and inner[key] != given[key]]
        if given and inner and (apart or {kind} != {inner.get("rope_type", inner.get("type", "default"))}):
            fields.refuse(name, f"rope_parameters says {inner}; remove one of them")
        inner |= given
    place = Fields(inner, fields.place)
    longest = "original_max_position_embeddings"
    if longest in inner and fields.get(longest, inner[longest]) != inner[longest]:
        fields.refuse(longest, f"the scaling of rotary positions says {inner[longest]}")
    for name, entry in ((base, "rope_theta"), *([(share, "partial_rotary_factor")] if share else [])):
        if None not in (fields.get(name), place.get(entry)) and fields.get(name) != place.get(entry):
            fields.refuse(name, f"rope_parameters has {place.get(entry)}")
    kind = place.text("rope_type", place.text("type", "default"))
    numbers = {ours: place.number(theirs) for ours, theirs in _SCALINGS[kind].items()}
    listed = ", ".join(f"{name}={_written(number)}" for name, number in numbers.items())
    return {
        "position": "rotary",
        "rotary_base": place.number("rope_theta", fields.number(base, 10_000.0)),
        "rotary_fraction": place.number("partial_rotary_factor", fields.number(share, fraction) if share else 1.0),
        "rotary_scaling": f"{kind}({listed})" if numbers else "none",
    }


def _written(number: float) -> str:
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def _describe_rotary(spec: Spec) -> dict[str, Any]:
    scaling = rotary_scaling(spec.rotary_scaling)
    kind = scaling.kind if scaling else "default"
    numbers = {theirs: getattr(scaling, ours) for ours, theirs in _SCALINGS[kind].items()}
    if "original_max_position_embeddings" in numbers:
        numbers["original_max_position_embeddings"] = int(numbers["original_max_position_embeddings"])
    of_kind = {"rope_type": kind, **numbers}
    share = {} if spec.rotary_fraction == 1 else {"partial_rotary_factor": spec.rotary_fraction}
    older = {"rope_theta": spec.rotary_base, **share, **({"rope_scaling": of_kind} if scaling else {})}
    return {**older, "rope_parameters": {**of_kind, "rope_theta": spec.rotary_base, **share}}


def _neox_links(config: ModelConfig, fields: Fields) -> list[Link]:
    links = [table("token_embedding", "gpt_neox.embed_in"), *layer_norm("final_norm", "gpt_neox.final_layer_norm")]
    biased = fields.flag("attention_bias", True)
    for index in range(config.n_layers):
        ours, theirs = f"block_{index}", f"gpt_neox.layers.{index}"
        qkv = f"{theirs}.attention.query_key_value"
        links += [
            *layer_norm(f"{ours}/attention_norm", f"{theirs}.input_layernorm"),
            *linear(f"{ours}/attention/qkv", qkv, biased=biased, heads=config.n_heads),
            *linear(f"{ours}/attention/out", f"{theirs}.attention.dense", biased=biased),
            *layer_norm(f"{ours}/feed_forward_norm", f"{theirs}.post_attention_layernorm"),
            *linear(f"{ours}/feed_forward/up", f"{theirs}.mlp.dense_h_to_4h"),
            *linear(f"{ours}/feed_forward/down", f"{theirs}.mlp.dense_4h_to_h"),
        ]
    return links + _output(config, "embed_out")


def _read_neox(fields: Fields) -> dict[str, Any]:
    residual = "parallel" if fields.flag("use_parallel_residual", True) else "sequential"
    return {"residual": residual, "use_bias": True, **_read_rotary(fields, "rotary_emb_base", "rotary_pct", 0.25)}


def _describe_neox(spec: Spec) -> dict[str, Any]:
    rotary = _describe_rotary(spec)
    del rotary["rope_theta"]
    rotary.pop("partial_rotary_factor", None)
    rotary["rope_parameters"]["partial_rotary_factor"] = spec.rotary_fraction  # whose default is 1/4
    older = {"rotary_emb_base": spec.rotary_base, "rotary_pct": spec.rotary_fraction}
    return {"use_parallel_residual": spec.residual == "parallel", "attention_bias": True, **older, **rotary}


GPT_NEOX = Family(  # Black et al. 2022, arXiv:2204.06745; Pythia
    name="GPT-NeoX",
    model_type="gpt_neox",
    saved_as="GPTNeoXForCausalLM",
    prefix="gpt_neox.",
    entries=(
        Entry("hidden_act", "activation", "plain", "gelu"),
        Entry("num_hidden_layers", "n_layers"),
        Entry("hidden_size", "d_model"),
        Entry("num_attention_heads", "n_heads"),
        Entry("intermediate_size", "d_ff"),
        Entry("max_position_embeddings", "context"),
        Entry("vocab_size", "vocab_size"),
        Entry("layer_norm_eps", "norm_epsilon", "number", 1e-5),
        Entry("tie_word_embeddings", "tie_embeddings", "flag", False),
    ),
    fixed={"position": "rotary", "residual": ANY, "rotary_fraction": ANY, "rotary_scaling": ANY},
    written={"attention_dropout": 0.0, "hidden_dropout": 0.0},
    read=_read_neox,
    describe=_describe_neox,
    links=_neox_links,
    heads=("embed_out.", "lm_head."),
    copies={"embed_out.weight": "gpt_neox.embed_in.weight"},
    unused=r"gpt_neox\.layers\.\d+\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)",
)


class Variant(NamedTuple):
    """In what a family differs from LLaMA. A bias is always there, never, or where an entry of config.json says so."""

    # of query, key and value, of attention's output, and of the feed-forward
    biases: tuple[bool | str, bool | str, bool | str] = (False, False, False)
    fused: bool = False  # queries, keys and values are one tensor; so are gate and value
    window: str = ""  # the entry that says whether a window limits attention, or that is the window
    d_head: int | None = None  # where head_dim is missing
    activation: str = "silu"
    rotary_share: str = ""  # the entry of the share of units that rotate
    norm_plus: float = 0.0  # what is added to the stored scales of norms
    divisible: bool = False  # whether transformers wants heads that divide hidden_size, whatever head_dim is


def _read_llama(variant: Variant, fields: Fields) -> dict[str, Any]:
    d_model, n_heads = fields.whole("hidden_size"), fields.whole("num_attention_heads")
    n_kv_heads = fields.whole("num_key_value_heads", n_heads)
    if n_heads % n_kv_heads:
        fields.refuse("num_key_value_heads", f"it does not divide num_attention_heads={n_heads}")
    d_head = fields.whole("head_dim", variant.d_head or max(1, d_model // n_heads))
    width = fields.whole("intermediate_size")
    # The d_ff whose gated width this is, if our rounding to multiples of 8 reaches it; else the exact width too.
    d_ff = max(LEAST_D_FF, 3 * width // 2)
    return {
        "n_kv_heads": None if n_kv_heads == n_heads else n_kv_heads,
        "d_head": None if d_head * n_heads == d_model else d_head,
        "d_ff": d_ff,
        "d_hidden": None if gated_width(d_ff) == width else width,
        "context": min(fields.whole("max_position_embeddings"), _window(variant, fields)),
        "use_bias": any(_has(bias, fields) for bias in variant.biases),
        **_read_rotary(fields, share=variant.rotary_share),
    }


def _window(variant: Variant, fields: Fields) -> int:
    """The number of tokens up to which attention sees everything: ours has no window, but is the same up to there."""
    unlimited = 2**31 - 1
    if not variant.window or (variant.window == "use_sliding_window" and not fields.flag(variant.window, False)):
        return unlimited
    # null is no window; where the entry is missing, Mistral and Qwen have one of 4,096.
    missing = unlimited if "sliding_window" in fields or variant.fused else 4096
    return fields.whole("sliding_window", missing, low=2)


def _has(bias: bool | str, fields: Fields) -> bool:
    return fields.flag(bias, False) if isinstance(bias, str) else bias


def _describe_llama(variant: Variant, spec: Spec) -> dict[str, Any]:
    if variant.divisible and spec.d_model % spec.n_heads:
        raise UserError(
            f"config.model.n_heads={spec.n_heads} does not divide d_model={spec.d_model}, which LLaMA of transformers "
            "wants: only divisors can be saved."
        )
    window = {"": {}, "use_sliding_window": {"use_sliding_window": False}, "sliding_window": {"sliding_window": None}}
    return {
        "num_key_value_heads": spec.n_kv_heads,
        "head_dim": spec.d_head,
        "intermediate_size": spec.d_hidden,
        "max_position_embeddings": spec.context,
        **{bias: spec.use_bias for bias in variant.biases if isinstance(bias, str)},
        **window[variant.window],
        **_describe_rotary(spec),
    }


def _llama_links(variant: Variant, config: ModelConfig, fields: Fields) -> list[Link]:
    spec, norm = resolve(config), functools.partial(scale, plus=variant.norm_plus)
    qkv_bias, out_bias, mlp_bias = (_has(bias, fields) for bias in variant.biases)
    sizes = (spec.n_heads * spec.d_head, *(spec.n_kv_heads * spec.d_head,) * 2)
    links = [table("token_embedding", "model.embed_tokens"), norm("final_norm", "model.norm")]
    for index in range(config.n_layers):
        ours, theirs = f"block_{index}", f"model.layers.{index}"
        attention, up, value = f"{theirs}.self_attn", f"{ours}/feed_forward/up", f"{ours}/feed_forward/value"
        links += [
            norm(f"{ours}/attention_norm", f"{theirs}.input_layernorm"),
            *linear(f"{ours}/attention/out", f"{attention}.o_proj", biased=out_bias),
            norm(f"{ours}/feed_forward_norm", f"{theirs}.post_attention_layernorm"),
            *linear(f"{ours}/feed_forward/down", f"{theirs}.mlp.down_proj", biased=mlp_bias),
        ]
        if variant.fused:
            links += linear(f"{ours}/attention/qkv", f"{attention}.qkv_proj", biased=qkv_bias)
            both = (f"{up}/kernel", f"{value}/kernel")
            links.append(Link(both, (f"{theirs}.mlp.gate_up_proj.weight",), transposed=True))
            links.append(Link((f"{up}/bias", f"{value}/bias")))
        else:
            qkv = [f"{attention}.{letter}_proj" for letter in "qkv"]
            links += linear(f"{ours}/attention/qkv", *qkv, biased=qkv_bias, sizes=sizes)
            links += linear(up, f"{theirs}.mlp.gate_proj", biased=mlp_bias)
            links += linear(value, f"{theirs}.mlp.up_proj", biased=mlp_bias)
        if config.qk_norm:
            links += [
                scale(f"{ours}/attention/{name}_norm", f"{attention}.{name[0]}_norm") for name in ("query", "key")
            ]
    return links + _output(config)


def _like_llama(
    name: str, model_type: str, saved_as: str, variant: Variant, tied: bool = False, epsilon: float = 1e-6, **fixed: Any
) -> Family:
    activation = variant.activation
    return Family(
        name=name,
        model_type=model_type,
        saved_as=saved_as,
        prefix="model.",
        entries=(
            Entry("hidden_act", "activation", "gated", activation),
            Entry("num_hidden_layers", "n_layers"),
            Entry("hidden_size", "d_model"),
            Entry("num_attention_heads", "n_heads"),
            Entry("vocab_size", "vocab_size"),
            Entry("rms_norm_eps", "norm_epsilon", "number", epsilon),
            Entry("tie_word_embeddings", "tie_embeddings", "flag", tied),
        ),
        fixed={
            "norm": "rmsnorm",
            "position": "rotary",
            **dict.fromkeys(("n_kv_heads", "d_head", "rotary_scaling"), ANY),
            **fixed,
        },
        written={"attention_dropout": 0.0, "pad_token_id": None},  # Phi-3's default may lie beyond the vocabulary
        read=functools.partial(_read_llama, variant),
        describe=functools.partial(_describe_llama, variant),
        links=functools.partial(_llama_links, variant),
        copies={"lm_head.weight": "model.embed_tokens.weight"},
        unused=r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq",  # computed, not trained
    )


def _read_gemma(variant: Variant, fields: Fields) -> dict[str, Any]:
    # The first files call the tanh form gelu. Some say it in hidden_activation too, which transformers 5 ignores.
    found = [gated_activation(fields, name, variant.activation) for name in ("hidden_act", "hidden_activation")]
    activation, other = ("geglu_tanh" if name == "geglu" else name for name in found)
    if fields.get("hidden_activation") is not None and other != activation:
        fields.refuse("hidden_activation", f"hidden_act says {fields.get('hidden_act')!r}; remove one of them")
    return {**_read_llama(variant, fields), "activation": activation}


def _describe_gemma(variant: Variant, spec: Spec) -> dict[str, Any]:
    if spec.activation == "geglu":  # whose name would be read as the tanh form
        their_activation(spec, "Gemma", {name: gate for name, gate in GATED.items() if name != "geglu"})
    return _describe_llama(variant, spec)


# Touvron et al. 2023, arXiv:2302.13971
_LLAMA = Variant(("attention_bias", "attention_bias", "mlp_bias"), divisible=True)
LLAMA = _like_llama("LLaMA", "llama", "LlamaForCausalLM", _LLAMA)
# Jiang et al. 2023, arXiv:2310.06825
MISTRAL = _like_llama("Mistral", "mistral", "MistralForCausalLM", Variant(window="sliding_window"))
# Yang et al. 2024, arXiv:2407.10671
QWEN2 = _like_llama("Qwen2", "qwen2", "Qwen2ForCausalLM", Variant((True, False, False), window="use_sliding_window"))
# Yang et al. 2025, arXiv:2505.09388
_QWEN3 = Variant(("attention_bias", "attention_bias", False), window="use_sliding_window", d_head=128)
QWEN3 = _like_llama("Qwen3", "qwen3", "Qwen3ForCausalLM", _QWEN3, qk_norm=True)
# Abdin et al. 2024, arXiv:2404.14219
_PHI3 = Variant(fused=True, window="sliding_window", rotary_share="partial_rotary_factor")
PHI3 = _like_llama(
    "Phi-3", "phi3", "Phi3ForCausalLM", _PHI3, epsilon=1e-5, rotary_fraction=ANY, rotary_scaling="none", d_head=None
)
# Mesnard et al. 2024, arXiv:2403.08295
_GEMMA = Variant(("attention_bias", "attention_bias", False), d_head=256, activation="gelu_pytorch_tanh", norm_plus=1.0)
GEMMA = dataclasses.replace(
    _like_llama("Gemma", "gemma", "GemmaForCausalLM", _GEMMA, tied=True, scale_embeddings=True),
    read=functools.partial(_read_gemma, _GEMMA),
    describe=functools.partial(_describe_gemma, _GEMMA),
    required={"use_bidirectional_attention": None},
)

DECODERS = (GPT2, LLAMA, MISTRAL, QWEN2, QWEN3, GEMMA, PHI3, GPT_NEOX, OPT)
