"""LLaMA (Touvron et al. 2023, arXiv:2302.13971): RMSNorm, rotary positions, a gated feed-forward.

Directories with fewer key-value heads than heads (Ainslie et al. 2023, arXiv:2305.13245) are loaded with each
key-value head repeated for the query heads that share it: the same function, with more parameters to train.
"""

import re
from typing import Any

from actlab.config import ModelConfig
from actlab.interop.architecture import (
    GATED,
    Architecture,
    Fields,
    Link,
    gated_activation,
    linear,
    require,
    their_activation,
)
from actlab.models.spec import gated_width, resolve

FAMILY = "LLaMA"


def _read(fields: Fields) -> dict[str, Any]:
    d_model, n_heads, width = fields.whole("hidden_size"), fields.whole("num_attention_heads"), _width(fields)
    if d_model % n_heads or fields.whole("head_dim", d_model // n_heads) != d_model // n_heads:
        fields.refuse("head_dim", f"heads here have hidden_size / num_attention_heads = {d_model}/{n_heads} entries")
    if n_heads % fields.whole("num_key_value_heads", n_heads):
        fields.refuse("num_key_value_heads", f"it does not divide num_attention_heads={n_heads}")
    return {
        "activation": gated_activation(fields, "hidden_act", "silu"),
        "n_layers": fields.whole("num_hidden_layers"),
        "d_model": d_model,
        "n_heads": n_heads,
        **width,
        "context": fields.whole("max_position_embeddings"),
        "vocab_size": fields.whole("vocab_size"),
        "norm": "rmsnorm",
        "norm_epsilon": fields.number("rms_norm_eps", 1e-6),
        "position": "rotary",
        "rotary_base": _rotary_base(fields),
        "tie_embeddings": fields.flag("tie_word_embeddings", False),
        "use_bias": fields.flag("attention_bias", False) or fields.flag("mlp_bias", False),
    }


def _width(fields: Fields) -> dict[str, int]:
    width = fields.whole("intermediate_size")
    # The d_ff whose gated width this is, if our rounding to multiples of 8 reaches it; else the exact width too.
    d_ff = max(8, 3 * width // 2)
    return {"d_ff": d_ff} if gated_width(d_ff) == width else {"d_ff": d_ff, "d_hidden": width}


def _rotary_base(fields: Fields) -> float:
    # transformers 5 keeps everything in rope_parameters, 4 the base in rope_theta and the rest in rope_scaling.
    for name in ("rope_parameters", "rope_scaling"):
        known = {"type": "default", "rope_type": "default", "rope_theta": fields.get("rope_theta"), "factor": 1.0}
        value = fields.get(name, {})
        if not isinstance(value, dict):
            fields.refuse(name, "it must hold fields")
        for key, entry in value.items():
            if key not in known or (key != "rope_theta" and entry != known[key]):
                fields.refuse(name, "rotary positions here are not scaled; take other weights")
    inner = Fields(fields.get("rope_parameters", {}), fields.place)
    base = inner.number("rope_theta", fields.number("rope_theta", 10_000.0))
    if base != fields.number("rope_theta", base):
        fields.refuse("rope_theta", f"rope_parameters has {base:g}")
    return base


def _describe(config: ModelConfig) -> dict[str, Any]:
    require(config, FAMILY, norm_position="pre", position="rotary", norm="rmsnorm", activation_norm="none")
    activation, spec = their_activation(config, FAMILY, among=GATED), resolve(config)
    return {
        "architectures": ["LlamaForCausalLM"],
        "hidden_act": activation,
        "num_hidden_layers": spec.n_layers,
        "hidden_size": spec.d_model,
        "num_attention_heads": spec.n_heads,
        "num_key_value_heads": spec.n_heads,
        "head_dim": spec.d_model // spec.n_heads,
        "intermediate_size": spec.d_hidden,
        "max_position_embeddings": spec.context,
        "vocab_size": spec.vocab_size,
        "rms_norm_eps": spec.norm_epsilon,
        "rope_theta": spec.rotary_base,
        "rope_parameters": {"rope_type": "default", "rope_theta": spec.rotary_base},
        "tie_word_embeddings": spec.tie_embeddings,
        "attention_bias": spec.use_bias,
        "mlp_bias": spec.use_bias,
        "attention_dropout": 0.0,
    }


def _links(config: ModelConfig, fields: Fields) -> list[Link]:
    links = [
        Link("token_embedding/embedding", ("model.embed_tokens.weight",)),
        Link("final_norm/scale", ("model.norm.weight",)),
    ]
    for index in range(config.n_layers):
        links += _block(config, fields, f"block_{index}", f"model.layers.{index}")
    if not config.tie_embeddings:
        links += linear("output", "lm_head", biased=False)
    return links


def _block(config: ModelConfig, fields: Fields, ours: str, theirs: str) -> list[Link]:
    shared = config.n_heads // fields.whole("num_key_value_heads", config.n_heads)
    qkv = [f"{theirs}.self_attn.{letter}_proj" for letter in "qkv"]
    head = config.d_model // config.n_heads
    attention, mlp = fields.flag("attention_bias", False), fields.flag("mlp_bias", False)
    return [
        Link(f"{ours}/attention_norm/scale", (f"{theirs}.input_layernorm.weight",)),
        *linear(f"{ours}/attention/qkv", *qkv, repeats=(1, shared, shared), width=head, biased=attention),
        *linear(f"{ours}/attention/out", f"{theirs}.self_attn.o_proj", biased=attention),
        Link(f"{ours}/feed_forward_norm/scale", (f"{theirs}.post_attention_layernorm.weight",)),
        *linear(f"{ours}/feed_forward/up", f"{theirs}.mlp.gate_proj", biased=mlp),
        *linear(f"{ours}/feed_forward/value", f"{theirs}.mlp.up_proj", biased=mlp),
        *linear(f"{ours}/feed_forward/down", f"{theirs}.mlp.down_proj", biased=mlp),
    ]


LLAMA = Architecture(
    family=FAMILY,
    model_type="llama",
    prefix="model.",
    read=_read,
    describe=_describe,
    links=_links,
    heads=("lm_head.",),
    copies={"lm_head.weight": "model.embed_tokens.weight"},
    unused=re.compile(r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq"),  # computed, not trained
)
