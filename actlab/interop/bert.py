"""BERT (Devlin et al. 2018, arXiv:1810.04805) and RoBERTa (Liu et al. 2019, arXiv:1907.11692): post-norm encoders.

Both with their head for masked tokens, or with pooler and classifier (ForSequenceClassification). What BERT has for
telling next sentences is left out. RoBERTa counts positions from its padding token's id on; the rows before are left
out, so that padding must come last. It is saved as BERT, the same function.
"""

import re
from collections.abc import Callable
from typing import Any

from actlab.config import ModelConfig
from actlab.errors import UserError
from actlab.interop.architecture import (
    Architecture,
    Fields,
    Link,
    layer_norm,
    linear,
    plain_activation,
    require,
    their_activation,
)
from actlab.models.spec import resolve

FAMILY = "BERT"


def _read_bert(fields: Fields) -> dict[str, Any]:
    read = _read(fields)
    head = {} if read["n_classes"] else {"head_activation": read["activation"]}
    return {**read, **head, "context": fields.whole("max_position_embeddings")}


def _read_roberta(fields: Fields) -> dict[str, Any]:
    context = fields.whole("max_position_embeddings") - _first_position(fields)
    return {**_read(fields), "head_activation": "gelu", "context": context}  # exact, whatever hidden_act is


def _first_position(fields: Fields) -> int:
    return fields.whole("pad_token_id", 1, low=0) + 1


def _read(fields: Fields) -> dict[str, Any]:
    fields.require("position_embedding_type", "absolute", default="absolute")
    fields.require("is_decoder", False, default=False)
    fields.require("add_cross_attention", False, default=False)
    return {
        "kind": "encoder",
        "activation": plain_activation(fields, "hidden_act", "gelu"),
        "n_layers": fields.whole("num_hidden_layers"),
        "d_model": fields.whole("hidden_size"),
        "n_heads": fields.whole("num_attention_heads"),
        "d_ff": fields.whole("intermediate_size"),
        "vocab_size": fields.whole("vocab_size"),
        "norm_epsilon": fields.number("layer_norm_eps", 1e-12),
        "norm_position": "post",
        "tie_embeddings": fields.flag("tie_word_embeddings", True),
        "use_bias": True,
        "n_segments": fields.whole("type_vocab_size", 2),
        "n_classes": _n_classes(fields),
    }


def _n_classes(fields: Fields) -> int:
    architectures = fields.get("architectures", [])
    if not isinstance(architectures, list):
        fields.refuse("architectures", "it must be a list")
    if not any(str(name).endswith("ForSequenceClassification") for name in architectures):
        return 0
    labels = fields.get("id2label", {"0": "", "1": ""})
    if not isinstance(labels, dict) or not labels:
        fields.refuse("id2label", "it must hold the classes")
    return len(labels)


def _describe(config: ModelConfig) -> dict[str, Any]:
    require(config, FAMILY, norm_position="post", position="learned", norm="layernorm", activation_norm="none")
    activation, spec = their_activation(config, FAMILY), resolve(config)
    return {
        **_described_head(config, activation),
        "hidden_act": activation,
        "num_hidden_layers": spec.n_layers,
        "hidden_size": spec.d_model,
        "num_attention_heads": spec.n_heads,
        "intermediate_size": spec.d_hidden,
        "max_position_embeddings": spec.context,
        "vocab_size": spec.vocab_size,
        "layer_norm_eps": spec.norm_epsilon,
        "type_vocab_size": spec.n_segments,
        "tie_word_embeddings": spec.tie_embeddings,
        **dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0),
    }


def _described_head(config: ModelConfig, activation: str) -> dict[str, Any]:
    if config.n_classes:
        require(config, FAMILY, pooler_activation="tanh")
        labels = [f"LABEL_{index}" for index in range(config.n_classes)]
        return {
            "architectures": ["BertForSequenceClassification"],
            "id2label": {str(index): label for index, label in enumerate(labels)},
            "label2id": {label: index for index, label in enumerate(labels)},
        }
    if their_activation(config, FAMILY, "head_activation") != activation:
        raise UserError(
            f"config.model.head_activation={config.head_activation!r} has no counterpart in {FAMILY} of transformers, "
            f"whose head has the feed-forward's activation: only {config.activation!r} can be saved."
        )
    return {"architectures": ["BertForMaskedLM"]}


def _encoder(config: ModelConfig, model: str, first_position: int) -> list[Link]:
    embeddings = f"{model}.embeddings"
    links = [
        Link("token_embedding/embedding", (f"{embeddings}.word_embeddings.weight",)),
        Link("position_embedding/embedding", (f"{embeddings}.position_embeddings.weight",), skip=first_position),
        Link("segment_embedding/embedding", (f"{embeddings}.token_type_embeddings.weight",)),
        *layer_norm("embedding_norm", f"{embeddings}.LayerNorm"),
    ]
    for index in range(config.n_layers):
        ours, theirs = f"block_{index}", f"{model}.encoder.layer.{index}"
        qkv = [f"{theirs}.attention.self.{name}" for name in ("query", "key", "value")]
        links += [
            *linear(f"{ours}/attention/qkv", *qkv),
            *linear(f"{ours}/attention/out", f"{theirs}.attention.output.dense"),
            *layer_norm(f"{ours}/attention_norm", f"{theirs}.attention.output.LayerNorm"),
            *linear(f"{ours}/feed_forward/up", f"{theirs}.intermediate.dense"),
            *linear(f"{ours}/feed_forward/down", f"{theirs}.output.dense"),
            *layer_norm(f"{ours}/feed_forward_norm", f"{theirs}.output.LayerNorm"),
        ]
    return links


def _bert_links(config: ModelConfig, fields: Fields) -> list[Link]:
    links = _encoder(config, "bert", 0)
    if config.n_classes:
        return [*links, *linear("pooler/dense", "bert.pooler.dense"), *linear("classifier", "classifier")]
    head = [
        *linear("head/dense", "cls.predictions.transform.dense"),
        *layer_norm("head_norm", "cls.predictions.transform.LayerNorm"),
    ]
    return links + head + _output(config, "cls.predictions")


def _roberta_links(config: ModelConfig, fields: Fields) -> list[Link]:
    links = _encoder(config, "roberta", _first_position(fields))
    if config.n_classes:
        return [*links, *linear("pooler/dense", "classifier.dense"), *linear("classifier", "classifier.out_proj")]
    head = [*linear("head/dense", "lm_head.dense"), *layer_norm("head_norm", "lm_head.layer_norm")]
    return links + head + _output(config, "lm_head")


def _output(config: ModelConfig, theirs: str) -> list[Link]:
    if config.tie_embeddings:
        return [Link("output_bias", (f"{theirs}.bias",))]
    # An untied decoder's own bias is what they add, and comes last here; they keep the other one all the same.
    return [Link("output/bias", (f"{theirs}.bias",)), *linear("output", f"{theirs}.decoder")]


def _architecture(
    family: str, read: Callable[..., Any], links: Callable[..., Any], head: str, unused: str
) -> Architecture:
    model_type = family.lower()
    return Architecture(
        family=family,
        model_type=model_type,
        prefix=f"{model_type}.",
        read=read,
        describe=_describe,
        links=links,
        heads=(f"{head.partition('.')[0]}.", "classifier."),
        copies={
            f"{head}.decoder.weight": f"{model_type}.embeddings.word_embeddings.weight",
            f"{head}.decoder.bias": f"{head}.bias",
        },
        # Position ids are counted, and the pooler reads nothing where there are no classes.
        unused=re.compile(rf"{model_type}\.(embeddings\.position_ids|pooler\.dense\.(weight|bias)){unused}"),
    )


BERT = _architecture("BERT", _read_bert, _bert_links, "cls.predictions", r"|cls\.seq_relationship\.(weight|bias)")
ROBERTA = _architecture("RoBERTa", _read_roberta, _roberta_links, "lm_head", "")
