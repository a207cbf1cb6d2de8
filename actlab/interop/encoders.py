"""Encoders of transformers: BERT, RoBERTa, DistilBERT and ELECTRA, post-norm and with learned positions.

Each with its head for masked tokens, with a classifier on the first token (ForSequenceClassification), or bare. What
BERT has for telling next sentences is left out, and so is what ELECTRA has for telling replaced tokens. RoBERTa counts
positions from its padding token's id on, and gives that token itself no position; the rows before are left out, so that
padding must come last.
"""

import functools
from typing import Any, NamedTuple

from actlab.config import ModelConfig
from actlab.errors import UserError
from actlab.interop.architecture import ANY, OURS, Entry, Family, Fields, Link, layer_norm, linear, table
from actlab.models.spec import Spec


class Names(NamedTuple):
    """Where the tensors of an encoder are."""

    model: str
    layers: str
    attention: tuple[str, str, str, str, str]  # query, key, value, output, the norm after it
    feed_forward: tuple[str, str, str]  # up, down, the norm after it
    head: tuple[str, str]  # of masked tokens: dense, norm
    output: tuple[str, str]  # its bias, its projection
    pooler: str
    classifier: str
    segments: bool = True
    head_activation: str = ""  # exact, whatever the feed-forward's; '' is the feed-forward's
    pooler_activation: str = "tanh"


_BERT_ATTENTION = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "attention.output.LayerNorm",
)
_BERT_FEED_FORWARD = ("intermediate.dense", "output.dense", "output.LayerNorm")
_BERT = Names(
    "bert",
    "bert.encoder.layer",
    _BERT_ATTENTION,
    _BERT_FEED_FORWARD,
    head=("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm"),
    output=("cls.predictions.bias", "cls.predictions.decoder"),
    pooler="bert.pooler.dense",
    classifier="classifier",
)
_ROBERTA = Names(
    "roberta",
    "roberta.encoder.layer",
    _BERT_ATTENTION,
    _BERT_FEED_FORWARD,
    head=("lm_head.dense", "lm_head.layer_norm"),
    output=("lm_head.bias", "lm_head.decoder"),
    pooler="classifier.dense",
    classifier="classifier.out_proj",
    head_activation="gelu",
)
_DISTILBERT = Names(
    "distilbert",
    "distilbert.transformer.layer",
    ("attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin", "sa_layer_norm"),
    ("ffn.lin1", "ffn.lin2", "output_layer_norm"),
    head=("vocab_transform", "vocab_layer_norm"),
    output=("vocab_projector.bias", "vocab_projector"),
    pooler="pre_classifier",
    classifier="classifier",
    segments=False,
    pooler_activation="relu",
)
_ELECTRA = Names(
    "electra",
    "electra.encoder.layer",
    _BERT_ATTENTION,
    _BERT_FEED_FORWARD,
    head=("generator_predictions.dense", "generator_predictions.LayerNorm"),
    output=("generator_lm_head.bias", "generator_lm_head"),
    pooler="classifier.dense",
    classifier="classifier.out_proj",
    head_activation="gelu",
    pooler_activation="gelu",
)


def _links(names: Names, config: ModelConfig, fields: Fields) -> list[Link]:
    embeddings = f"{names.model}.embeddings"
    links = [
        table("token_embedding", f"{embeddings}.word_embeddings"),
        table("position_embedding", f"{embeddings}.position_embeddings", skip=_first_position(names, fields)),
        *layer_norm("embedding_norm", f"{embeddings}.LayerNorm"),
        table("segment_embedding", f"{embeddings}.token_type_embeddings")
        if names.segments
        else Link(("segment_embedding/embedding",)),
    ]
    if config.d_embedding not in (None, config.d_model):
        links += linear("embedding_projection", f"{names.model}.embeddings_project")
    *qkv, out, norm = names.attention
    up, down, last_norm = names.feed_forward
    for index in range(config.n_layers):
        ours, theirs = f"block_{index}", f"{names.layers}.{index}"
        links += [
            *linear(f"{ours}/attention/qkv", *(f"{theirs}.{name}" for name in qkv)),
            *linear(f"{ours}/attention/out", f"{theirs}.{out}"),
            *layer_norm(f"{ours}/attention_norm", f"{theirs}.{norm}"),
            *linear(f"{ours}/feed_forward/up", f"{theirs}.{up}"),
            *linear(f"{ours}/feed_forward/down", f"{theirs}.{down}"),
            *layer_norm(f"{ours}/feed_forward_norm", f"{theirs}.{last_norm}"),
        ]
    if config.n_classes:
        return [*links, *linear("pooler/dense", names.pooler), *linear("classifier", names.classifier)]
    dense, head_norm = names.head
    bias, projection = names.output
    links += [*linear("head/dense", dense), *layer_norm("head_norm", head_norm)]
    if config.tie_embeddings:
        return [*links, Link(("output_bias",), (bias,))]
    # The bias of its own and that of the projection are two names of one array.
    return [*links, Link(("output/bias",), (bias,)), *linear("output", projection)]


def _first_position(names: Names, fields: Fields) -> int:
    return fields.whole("pad_token_id", 1, low=0) + 1 if names is _ROBERTA else 0


def _read(names: Names, activation: str, fields: Fields) -> dict[str, Any]:
    n_classes = _n_classes(fields)
    context = fields.whole("max_position_embeddings") - _first_position(names, fields)
    read: dict[str, Any] = {"context": context, "n_classes": n_classes, "use_bias": True}
    if names is _ELECTRA:
        width = fields.whole("embedding_size", 128)
        read["d_embedding"] = None if width == fields.whole("hidden_size") else width
    if n_classes:
        return {**read, "pooler_activation": names.pooler_activation}
    # Their name was checked with the entries.
    return {**read, "head_activation": names.head_activation or OURS[fields.text(activation, "gelu")]}


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


def _describe(names: Names, name: str, saved_as: str, spec: Spec) -> dict[str, Any]:
    own: dict[str, Any] = {"max_position_embeddings": spec.context}
    if names is _ELECTRA:
        own["embedding_size"] = spec.d_embedding
    if not spec.n_classes:
        _require(name, spec, "head_activation", names.head_activation or spec.activation)
        return own
    _require(name, spec, "pooler_activation", names.pooler_activation)
    labels = [f"LABEL_{index}" for index in range(spec.n_classes)]
    return {
        **own,
        "architectures": [saved_as.replace("ForMaskedLM", "ForSequenceClassification")],
        "id2label": {str(index): label for index, label in enumerate(labels)},
        "label2id": {label: index for index, label in enumerate(labels)},
    }


def _require(name: str, spec: Spec, field: str, only: str) -> None:
    if getattr(spec, field) != only:
        raise UserError(
            f"config.model.{field}={getattr(spec, field)!r} has no counterpart in {name} of transformers, where it is "
            f"{only!r} in a model with activation {spec.activation!r}: only that can be saved."
        )


def _family(name: str, names: Names, saved_as: str, entries: tuple[Entry, ...], **how: Any) -> Family:
    bias, projection = names.output
    shared = (Entry("vocab_size", "vocab_size"), Entry("tie_word_embeddings", "tie_embeddings", "flag", True))
    return Family(
        name=name,
        model_type=names.model,
        saved_as=saved_as,
        prefix=f"{names.model}.",
        entries=entries + shared,
        fixed={"kind": "encoder", "norm_position": "post", **how.pop("fixed", {})},
        read=functools.partial(_read, names, entries[0].theirs),
        describe=functools.partial(_describe, names, name, saved_as),
        links=functools.partial(_links, names),
        heads=tuple({f"{tensor.partition('.')[0]}." for tensor in (*names.head, bias, names.classifier, names.pooler)}),
        copies={f"{projection}.weight": f"{names.model}.embeddings.word_embeddings.weight", f"{projection}.bias": bias},
        # Position ids are counted, and the pooler reads nothing where there are no classes.
        unused=rf"{names.model}\.(embeddings\.position_ids|pooler\.dense\.(weight|bias)){how.pop('unused', '')}",
        **how,
    )


_BERT_ENTRIES = (
    Entry("hidden_act", "activation", "plain", "gelu"),
    Entry("num_hidden_layers", "n_layers"),
    Entry("hidden_size", "d_model"),
    Entry("num_attention_heads", "n_heads"),
    Entry("intermediate_size", "d_ff"),
    Entry("type_vocab_size", "n_segments", default=2),
    Entry("layer_norm_eps", "norm_epsilon", "number", 1e-12),
)
_BERT_REQUIRED = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
_BERT_WRITTEN = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)

BERT = _family(  # Devlin et al. 2018, arXiv:1810.04805
    "BERT",
    _BERT,
    "BertForMaskedLM",
    _BERT_ENTRIES,
    required=_BERT_REQUIRED,
    written=_BERT_WRITTEN,
    unused=r"|cls\.seq_relationship\.(weight|bias)",
)
ROBERTA = _family(  # Liu et al. 2019, arXiv:1907.11692
    "RoBERTa",
    _ROBERTA,
    "RobertaForMaskedLM",
    _BERT_ENTRIES,
    required=_BERT_REQUIRED,
    written=_BERT_WRITTEN,
    counts_from_padding=True,
)
DISTILBERT = _family(  # Sanh et al. 2019, arXiv:1910.01108
    "DistilBERT",
    _DISTILBERT,
    "DistilBertForMaskedLM",
    (
        Entry("activation", "activation", "plain", "gelu"),
        Entry("n_layers", "n_layers"),
        Entry("dim", "d_model"),
        Entry("n_heads", "n_heads"),
        Entry("hidden_dim", "d_ff"),
    ),
    fixed={"norm_epsilon": 1e-12, "n_segments": 1},
    written=dict.fromkeys(("dropout", "attention_dropout", "qa_dropout", "seq_classif_dropout"), 0.0),
)
ELECTRA = _family(  # Clark et al. 2020, arXiv:2003.10555
    "ELECTRA",
    _ELECTRA,
    "ElectraForMaskedLM",
    _BERT_ENTRIES,
    fixed={"d_embedding": ANY},
    required={name: only for name, only in _BERT_REQUIRED.items() if name != "position_embedding_type"},
    written=_BERT_WRITTEN,
    unused=r"|discriminator_predictions\.(dense|dense_prediction)\.(weight|bias)",
)

ENCODERS = (BERT, ROBERTA, DISTILBERT, ELECTRA)
