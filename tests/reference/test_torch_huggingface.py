"""Random models of transformers loaded here, and ours loaded there: the same logits."""

import dataclasses
import inspect
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from actlab import models
from actlab.config import Config, replace
from actlab.data import tokenizers
from actlab.data.tokenizer_kinds import LibraryTokenizer
from actlab.interop import huggingface

pytestmark = pytest.mark.slow

GPT2 = {"vocab_size": 97, "n_positions": 19, "n_embd": 36, "n_layer": 3, "n_head": 3}
LLAMA = {
    "vocab_size": 97,
    "max_position_embeddings": 19,
    "hidden_size": 40,
    "intermediate_size": 57,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
}
THEIRS = [
    ("GPT2LMHeadModel", "GPT2Config", GPT2),
    ("GPT2Model", "GPT2Config", {**GPT2, "n_inner": 51, "activation_function": "relu"}),
    (
        "GPT2LMHeadModel",
        "GPT2Config",
        {**GPT2, "tie_word_embeddings": False, "layer_norm_epsilon": 1e-3, "activation_function": "gelu"},
    ),
    ("GPT2LMHeadModel", "GPT2Config", {**GPT2, "activation_function": "quick_gelu"}),
    ("LlamaForCausalLM", "LlamaConfig", LLAMA),
    ("LlamaForCausalLM", "LlamaConfig", {**LLAMA, "num_key_value_heads": 2, "attention_bias": True}),
    ("LlamaForCausalLM", "LlamaConfig", {**LLAMA, "num_key_value_heads": 1, "mlp_bias": True, "hidden_act": "gelu"}),
    (
        "LlamaForCausalLM",
        "LlamaConfig",
        {**LLAMA, "tie_word_embeddings": True, "rms_norm_eps": 1e-2, "intermediate_size": 64}
        | {"rope_parameters": {"rope_type": "default", "rope_theta": 700.0}},
    ),
]
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
GROUPED = {**LLAMA, "num_key_value_heads": 2}
OPT = {
    "vocab_size": 97,
    "max_position_embeddings": 19,
    "hidden_size": 36,
    "ffn_dim": 51,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
}
NEOX = {**LLAMA, "hidden_size": 64}
# Families that are also saved as themselves.
OTHERS = [
    ("LlamaForCausalLM", "LlamaConfig", {**GROUPED, "head_dim": 6}),
    (
        "LlamaForCausalLM",
        "LlamaConfig",
        {**LLAMA, "rope_parameters": {**LLAMA3, "original_max_position_embeddings": 16}},
    ),
    ("LlamaForCausalLM", "LlamaConfig", {**LLAMA, "rope_parameters": {"rope_type": "linear", "factor": 3.0}}),
    ("MistralForCausalLM", "MistralConfig", {**GROUPED, "sliding_window": None}),
    ("MistralForCausalLM", "MistralConfig", {**GROUPED, "sliding_window": 19, "max_position_embeddings": 50}),
    ("Qwen2ForCausalLM", "Qwen2Config", GROUPED),
    ("Qwen2ForCausalLM", "Qwen2Config", {**GROUPED, "tie_word_embeddings": True, "hidden_act": "gelu"}),
    ("Qwen3ForCausalLM", "Qwen3Config", {**GROUPED, "head_dim": 12}),
    ("Qwen3ForCausalLM", "Qwen3Config", {**GROUPED, "head_dim": 10, "attention_bias": True}),
    ("GemmaForCausalLM", "GemmaConfig", {**LLAMA, "num_key_value_heads": 1, "head_dim": 14}),
    ("GemmaForCausalLM", "GemmaConfig", {**GROUPED, "head_dim": 10, "hidden_act": "gelu"}),
    ("Phi3ForCausalLM", "Phi3Config", {**GROUPED, "pad_token_id": 0}),
    (
        "Phi3ForCausalLM",
        "Phi3Config",
        {**GROUPED, "hidden_size": 48, "pad_token_id": 0}
        | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e3, "partial_rotary_factor": 0.5}},
    ),
    ("GPTNeoXForCausalLM", "GPTNeoXConfig", NEOX),
    (
        "GPTNeoXForCausalLM",
        "GPTNeoXConfig",
        {**NEOX, "use_parallel_residual": False, "attention_bias": False, "tie_word_embeddings": True}
        | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e3, "partial_rotary_factor": 0.5}},
    ),
    ("OPTForCausalLM", "OPTConfig", OPT),
    ("OPTModel", "OPTConfig", {**OPT, "activation_function": "gelu"}),
]
TOKENS = np.random.default_rng(0).integers(0, 97, (4, 19))


def peer(class_name, config_name, fields):
    """A random model whose weights are all large enough to matter, biases and norms among them."""
    torch = pytest.importorskip("torch", reason="needs the reference extra")
    transformers = pytest.importorskip("transformers", reason="needs the reference extra")
    torch.manual_seed(0)
    config = getattr(transformers, config_name)(**fields, initializer_range=0.2, bos_token_id=None, eos_token_id=None)
    model = getattr(transformers, class_name)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def logits_of(model, tokens=TOKENS, **given):
    import torch

    with torch.no_grad():
        out = model(torch.tensor(tokens), **{name: torch.tensor(array) for name, array in given.items()})
        if hasattr(out, "logits"):
            return out.logits.numpy()
        return (out.last_hidden_state @ model.get_input_embeddings().weight.T).numpy()


def assert_close(ours, theirs):
    assert np.std(theirs) > 0.3, "a test on logits near zero would say nothing"
    np.testing.assert_allclose(ours, theirs, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize(("class_name", "config_name", "fields"), [*THEIRS, *OTHERS])
def test_theirs_is_loaded_and_goes_back(tmp_path, class_name, config_name, fields):
    theirs = peer(class_name, config_name, fields)
    theirs.save_pretrained(tmp_path / "theirs")
    loaded = huggingface.load(tmp_path / "theirs")
    ours, _ = models.build(loaded.config).apply(loaded.params, jnp.array(TOKENS))
    assert_close(ours, logits_of(theirs))
    huggingface.save(*loaded, tmp_path / "ours")
    assert_close(ours, logits_of(returned(tmp_path / "ours")))
    kind = theirs.config.model_type
    huggingface.save(*loaded, tmp_path / "same", model_type=kind)
    same = returned(tmp_path / "same")
    assert same.config.model_type == kind
    assert_close(ours, logits_of(same))


def test_attention_in_a_window_is_the_same_up_to_one_window(tmp_path):
    theirs = peer("MistralForCausalLM", "MistralConfig", {**GROUPED, "sliding_window": 12})
    theirs.save_pretrained(tmp_path / "theirs")
    config, params = huggingface.load(tmp_path / "theirs")
    assert config.context == 12
    ours, _ = models.build(config).apply(params, jnp.array(TOKENS[:, :12]))
    assert_close(ours, logits_of(theirs, TOKENS[:, :12]))


@pytest.mark.parametrize(
    ("class_name", "config_name", "fields"),
    [
        ("LlamaModel", "LlamaConfig", LLAMA),
        ("BertModel", "BertConfig", {**LLAMA, "max_position_embeddings": 19}),
        ("RobertaModel", "RobertaConfig", {**LLAMA, "max_position_embeddings": 23, "pad_token_id": 1}),
        ("DistilBertModel", "DistilBertConfig", {"vocab_size": 97, "dim": 36, "hidden_dim": 53, "n_heads": 3}),
        ("ElectraForPreTraining", "ElectraConfig", {**LLAMA, "embedding_size": 20}),
    ],
)
def test_a_bare_model_has_the_same_hidden_states(tmp_path, class_name, config_name, fields):
    theirs = peer(class_name, config_name, fields)
    theirs.save_pretrained(tmp_path / "theirs")
    opened = huggingface.open_directory(tmp_path / "theirs")
    loaded = opened.load()
    assert opened.bare
    width, identity = loaded.config.d_model, {"kernel": jnp.eye(loaded.config.d_model)}
    if loaded.config.kind == "decoder":
        config = dataclasses.replace(loaded.config, vocab_size=97)
        params = {**loaded.params, "output": {"kernel": jnp.eye(width, 97)}}
    else:
        config = dataclasses.replace(loaded.config, n_classes=width, pooler_activation="identity")
        whole = {**identity, "bias": jnp.zeros(width)}
        params = {**loaded.params, "pooler": {"dense": whole}, "classifier": whole}
    ours, _ = models.build(config).apply(params, jnp.array(np.maximum(TOKENS, 4)))
    import torch

    with torch.no_grad():
        out = theirs(torch.tensor(np.maximum(TOKENS, 4)), output_hidden_states=True)
    hidden = getattr(out, "last_hidden_state", out.hidden_states[-1]).numpy()
    assert_close(ours[..., :width], hidden if ours.shape[1] == 19 else hidden[:, :1])


def returned(folder):
    """What transformers makes of a directory of ours, every tensor of it in its place."""
    import transformers

    architecture = transformers.AutoConfig.from_pretrained(folder).architectures[0]
    model, report = getattr(transformers, architecture).from_pretrained(folder, output_loading_info=True)
    assert not any(report.values()), report
    return model.eval()


def test_shards_give_the_same_as_one_file(tmp_path):
    theirs = peer(*THEIRS[0])
    theirs.save_pretrained(tmp_path / "one")
    theirs.save_pretrained(tmp_path / "many", max_shard_size="30KB")
    assert len(list((tmp_path / "many").glob("*.safetensors"))) > 3
    one, many = huggingface.load(tmp_path / "one"), huggingface.load(tmp_path / "many")
    assert one.config == many.config
    jax.tree.map(np.testing.assert_array_equal, one.params, many.params)


def test_bfloat16_weights_are_the_same_numbers(tmp_path):
    model = peer(*THEIRS[4])
    import torch
    import transformers

    model.to(torch.bfloat16).save_pretrained(tmp_path / "m")
    loaded = huggingface.load(tmp_path / "m")
    ours, _ = models.build(loaded.config).apply(loaded.params, jnp.array(TOKENS))
    assert_close(ours, logits_of(transformers.LlamaForCausalLM.from_pretrained(tmp_path / "m", dtype=torch.float32)))


ENCODER = {
    "vocab_size": 97,
    "max_position_embeddings": 23,
    "hidden_size": 36,
    "intermediate_size": 53,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "type_vocab_size": 3,
    "pad_token_id": 0,
}
DISTILBERT = {
    "vocab_size": 97,
    "max_position_embeddings": 23,
    "dim": 36,
    "hidden_dim": 53,
    "n_layers": 2,
    "n_heads": 3,
    "pad_token_id": 0,
}
THEIR_ENCODERS = [
    ("BertForMaskedLM", "BertConfig", ENCODER),
    ("BertForMaskedLM", "BertConfig", {**ENCODER, "hidden_act": "gelu_new", "tie_word_embeddings": False}),
    ("BertForPreTraining", "BertConfig", {**ENCODER, "hidden_act": "relu", "layer_norm_eps": 1e-3}),
    ("BertForSequenceClassification", "BertConfig", {**ENCODER, "num_labels": 5}),
    ("BertForSequenceClassification", "BertConfig", ENCODER),
    ("RobertaForMaskedLM", "RobertaConfig", {**ENCODER, "pad_token_id": 1}),
    ("RobertaForMaskedLM", "RobertaConfig", {**ENCODER, "tie_word_embeddings": False, "pad_token_id": 3}),
    ("RobertaForSequenceClassification", "RobertaConfig", {**ENCODER, "num_labels": 3}),
    ("DistilBertForMaskedLM", "DistilBertConfig", DISTILBERT),
    ("DistilBertForMaskedLM", "DistilBertConfig", {**DISTILBERT, "activation": "relu", "tie_word_embeddings": False}),
    ("DistilBertForSequenceClassification", "DistilBertConfig", {**DISTILBERT, "num_labels": 4}),
    ("ElectraForMaskedLM", "ElectraConfig", {**ENCODER, "embedding_size": 20}),
    ("ElectraForMaskedLM", "ElectraConfig", {**ENCODER, "embedding_size": 36, "hidden_act": "relu"}),
    ("ElectraForMaskedLM", "ElectraConfig", {**ENCODER, "embedding_size": 20, "tie_word_embeddings": False}),
    ("ElectraForSequenceClassification", "ElectraConfig", {**ENCODER, "embedding_size": 20, "num_labels": 3}),
]
REAL = np.arange(19) < np.array([19, 12, 5, 1])[:, None]
SEGMENTS = np.random.default_rng(1).integers(0, 3, (4, 19))


def encoded(config, params, tokens):
    given = {"segments_BL": jnp.array(SEGMENTS % config.n_segments), "real_BL": jnp.array(REAL)}
    return np.asarray(models.build(config).apply(params, jnp.array(tokens), **given)[0])


def encoded_there(model, tokens):
    """Logits, of classes with a place of their own as ours have it."""
    import torch

    given = {"attention_mask": torch.tensor(REAL.astype(int))}
    if "token_type_ids" in inspect.signature(model.forward).parameters:
        given["token_type_ids"] = torch.tensor(SEGMENTS % model.config.type_vocab_size)
    with torch.no_grad():
        out = model(torch.tensor(tokens), **given)
    logits = out.prediction_logits if hasattr(out, "prediction_logits") else out.logits
    return logits.numpy() if logits.ndim == 3 else logits.numpy()[:, None]


def assert_alike(ours, theirs):
    """At real tokens: what stands at padding means nothing."""
    where = REAL if ours.shape[1] == 19 else np.ones((4, 1), bool)
    assert_close(ours[where], theirs[where])


@pytest.mark.parametrize(("class_name", "config_name", "fields"), THEIR_ENCODERS)
def test_an_encoder_of_theirs_is_loaded_with_padding_and_segments_and_goes_back(
    tmp_path, class_name, config_name, fields
):
    theirs = peer(class_name, config_name, fields)
    tokens = np.where(REAL, np.maximum(TOKENS, 4), fields["pad_token_id"])  # RoBERTa tells padding by its token
    theirs.save_pretrained(tmp_path / "theirs")
    loaded = huggingface.load(tmp_path / "theirs")
    ours = encoded(*loaded, tokens)
    assert_alike(ours, encoded_there(theirs, tokens))
    # RoBERTa becomes BERT, and ELECTRA with ReLU becomes RoBERTa, which counts positions from its padding.
    huggingface.save(*loaded, tmp_path / "ours", padding=fields["pad_token_id"])
    assert_alike(ours, encoded_there(returned(tmp_path / "ours"), tokens))
    kind = theirs.config.model_type
    huggingface.save(*loaded, tmp_path / "same", model_type=kind, padding=fields["pad_token_id"])
    same = returned(tmp_path / "same")
    assert same.config.model_type == kind
    assert_alike(ours, encoded_there(same, np.where(REAL, tokens, same.config.pad_token_id)))


OUR_ENCODERS = [
    {"model.activation": "gelu"},
    {"model.activation": "gelu_tanh", "model.head_activation": "gelu_tanh", "model.use_bias": True},
    {"model.tie_embeddings": False, "model.use_bias": True, "model.norm_epsilon": 1e-12},
    {"model.activation": "relu", "model.n_classes": 4, "model.use_bias": True},
    {"model.activation": "relu", "model.head_activation": "gelu"},  # which becomes RoBERTa
]


PADDING = 4


@pytest.mark.parametrize("changes", OUR_ENCODERS)
def test_an_encoder_of_ours_is_loaded_there(tmp_path, changes):
    shape = {"kind": "encoder", "norm_position": "post", "n_segments": 3}
    config, params = ours_with(**{f"model.{name}": value for name, value in shape.items()}, **changes)
    huggingface.save(config, params, tmp_path / "m", padding=PADDING)
    tokens = np.where(REAL, np.where(TOKENS == PADDING, 1, TOKENS), PADDING)  # 1 is RoBERTa's own padding
    assert (tokens == 1).any()
    assert_alike(encoded(config, params, tokens), encoded_there(returned(tmp_path / "m"), tokens))


OURS = [
    {"model.activation": "gelu"},
    {"model.activation": "gelu_tanh", "model.use_bias": True, "model.d_ff": 50},
    {"model.activation": "tanh", "model.tie_embeddings": False, "model.norm_epsilon": 1e-3},
    {"model.activation": "swiglu", "model.norm": "rmsnorm", "model.position": "rotary"},
    {
        "model.activation": "geglu",
        "model.norm": "rmsnorm",
        "model.position": "rotary",
        "model.use_bias": True,
        "model.rotary_base": 300.0,
        "model.d_hidden": 31,
    },
    {"model.activation": "reglu", "model.norm": "rmsnorm", "model.position": "rotary", "model.tie_embeddings": False},
]


@pytest.mark.parametrize("changes", OURS)
def test_ours_is_loaded_there(tmp_path, changes):
    config, params = ours_with(**changes)
    huggingface.save(config, params, tmp_path / "m")
    ours, _ = models.build(config).apply(params, jnp.array(TOKENS))
    assert_close(ours, logits_of(returned(tmp_path / "m")))


TEXT = "Once upon a time, she  didn't like caf\u00e9s!\n\n 12345 \u65e5\u672c, the END. "


def byte_pairs():
    return tokenizers.train([TEXT] * 50, 300)


def word_pieces():
    return tokenizers.make("wordpiece", pathlib.Path(), ())


def cased_pieces():
    """Of the library, with settings that no family has."""
    import tokenizers as library
    from tokenizers import models as kinds, normalizers, pre_tokenizers, trainers

    made = library.Tokenizer(kinds.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=False)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made.train_from_iterator([TEXT] * 50, trainers.WordPieceTrainer(vocab_size=80, special_tokens=specials))
    roles = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), specials, strict=True))
    return LibraryTokenizer("dir:theirs", made.to_str(), roles)


FAMILIES = {
    "gpt2": {},
    "llama": {"activation": "swiglu", "norm": "rmsnorm", "position": "rotary"},
    "gemma": {"activation": "geglu_tanh", "norm": "rmsnorm", "position": "rotary", "scale_embeddings": True},
    "bert": {"kind": "encoder", "norm_position": "post", "norm_epsilon": 1e-12},
}


@pytest.mark.parametrize(
    ("make", "family"),
    [
        *((byte_pairs, family) for family in ("gpt2", "llama", "gemma")),
        *((word_pieces, family) for family in ("bert", "llama")),
        *((cased_pieces, family) for family in ("bert", "gpt2")),
    ],
)
def test_a_tokenizer_of_ours_gives_the_same_ids_there_and_comes_back(tmp_path, make, family):
    transformers = pytest.importorskip("transformers", reason="needs the reference extra")

    tokenizer = make()
    tokenizer.save(tmp_path / "kept")
    sizes = {"vocab_size": 2048, "n_layers": 1, "d_model": 8, "n_heads": 2, "context": 8}
    fields = {f"model.{name}": value for name, value in {**sizes, **FAMILIES[family]}.items()}
    config = replace(Config(), **fields).model
    params = models.build(config).init(jax.random.key(0))
    beside = tokenizers.for_transformers(tmp_path / "kept")
    huggingface.save(config, params, tmp_path / "m", beside, tokenizer.end_of_text, tokenizer.end_of_text, family)
    assert json.loads((tmp_path / "m/config.json").read_text())["model_type"] == family
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "m")
    assert theirs.encode(TEXT, add_special_tokens=False) == tokenizer.encode(TEXT).tolist()
    if "cls_token" in tokenizer.roles and make is word_pieces:
        first, last = tokenizer.specials.first, tokenizer.specials.last
        assert theirs.encode("the cat") == [first, *tokenizer.encode("the cat").tolist(), last]
    again = tokenizers.make(tokenizers.name_in(tmp_path / "m"), tmp_path, ())
    assert again.hash == tokenizer.hash


@pytest.mark.parametrize("changes", [OURS[0], OURS[-1]])
def test_theirs_stops_at_the_end_of_a_text(tmp_path, changes):
    config, params = ours_with(**changes)

    def written(end):
        huggingface.save(config, params, tmp_path / "m", begin_of_text=end, end_of_text=end)
        import torch

        prompt = torch.tensor(TOKENS[:1, :8])
        mask = torch.ones_like(prompt)
        drawn = returned(tmp_path / "m").generate(prompt, attention_mask=mask, max_new_tokens=6, do_sample=False)
        return drawn[0, 8:].tolist()

    freely = written(None)
    end = freely[2]
    assert len(freely) == 6 and written(end) == freely[: freely.index(end) + 1]


def ours_with(**changes):
    """A model of ours with odd sizes, and weights all large enough to matter."""
    pytest.importorskip("transformers", reason="needs the reference extra")
    sizes = {"n_layers": 2, "d_model": 36, "n_heads": 3, "context": 19, "vocab_size": 97}
    config = replace(Config(), **{f"model.{name}": value for name, value in sizes.items()}, **changes).model
    draw = np.random.default_rng(0)
    noisy = lambda leaf: jnp.array(leaf + 0.2 * draw.normal(size=leaf.shape))
    return config, jax.tree.map(noisy, models.build(config).init(jax.random.key(0)))
