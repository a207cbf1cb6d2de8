"""GPT-2 (Radford et al. 2019): pre-norm decoder with learned positions, LayerNorm and a plain feed-forward."""

import re
from typing import Any

from actlab.config import ModelConfig
from actlab.interop.architecture import (
    Architecture,
    Fields,
    Link,
    layer_norm,
    plain_activation,
    require,
    their_activation,
)
from actlab.models.spec import resolve

FAMILY = "GPT-2"


def _read(fields: Fields) -> dict[str, Any]:
    fields.require("scale_attn_weights", True, default=True)
    fields.require("scale_attn_by_inverse_layer_idx", False, default=False)
    fields.require("add_cross_attention", False, default=False)
    d_model = fields.whole("n_embd")
    return {
        "activation": plain_activation(fields, "activation_function", "gelu_new"),
        "n_layers": fields.whole("n_layer"),
        "d_model": d_model,
        "n_heads": fields.whole("n_head"),
        "d_ff": fields.whole("n_inner", 4 * d_model),
        "context": fields.whole("n_positions"),
        "vocab_size": fields.whole("vocab_size"),
        "norm_epsilon": fields.number("layer_norm_epsilon", 1e-5),
        "tie_embeddings": fields.flag("tie_word_embeddings", True),
        "use_bias": True,
    }


def _describe(config: ModelConfig) -> dict[str, Any]:
    require(config, FAMILY, norm_position="pre", position="learned", norm="layernorm", activation_norm="none")
    activation, spec = their_activation(config, FAMILY), resolve(config)
    return {
        "architectures": ["GPT2LMHeadModel"],
        "activation_function": activation,
        "n_layer": spec.n_layers,
        "n_embd": spec.d_model,
        "n_head": spec.n_heads,
        "n_inner": spec.d_hidden,
        "n_positions": spec.context,
        "vocab_size": spec.vocab_size,
        "layer_norm_epsilon": spec.norm_epsilon,
        "tie_word_embeddings": spec.tie_embeddings,
        **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0),
    }


def _links(config: ModelConfig, fields: Fields) -> list[Link]:
    links = [
        Link("token_embedding/embedding", ("transformer.wte.weight",)),
        Link("position_embedding/embedding", ("transformer.wpe.weight",)),
        *layer_norm("final_norm", "transformer.ln_f"),
    ]
    for index in range(config.n_layers):
        ours, theirs = f"block_{index}", f"transformer.h.{index}"
        links += [
            *layer_norm(f"{ours}/attention_norm", f"{theirs}.ln_1"),
            *_convolution(f"{ours}/attention/qkv", f"{theirs}.attn.c_attn"),
            *_convolution(f"{ours}/attention/out", f"{theirs}.attn.c_proj"),
            *layer_norm(f"{ours}/feed_forward_norm", f"{theirs}.ln_2"),
            *_convolution(f"{ours}/feed_forward/up", f"{theirs}.mlp.c_fc"),
            *_convolution(f"{ours}/feed_forward/down", f"{theirs}.mlp.c_proj"),
        ]
    if not config.tie_embeddings:
        links += [Link("output/kernel", ("lm_head.weight",), transposed=True), Link("output/bias")]
    return links


def _convolution(ours: str, theirs: str) -> list[Link]:
    # Their Conv1D stores [in, out], as we do.
    return [Link(f"{ours}/kernel", (f"{theirs}.weight",)), Link(f"{ours}/bias", (f"{theirs}.bias",))]


GPT2 = Architecture(
    family=FAMILY,
    model_type="gpt2",
    prefix="transformer.",
    read=_read,
    describe=_describe,
    links=_links,
    heads=("lm_head.",),
    copies={"lm_head.weight": "transformer.wte.weight"},
    unused=re.compile(r"transformer\.h\.\d+\.attn\.(bias|masked_bias)"),  # the causal mask, in files of 2019
)
