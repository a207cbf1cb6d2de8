"""Directories in and out without torch: what lands where, to the bit; tests/reference compares logits."""

import dataclasses
import functools
import json
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from actlab import models
from actlab.config import replace
from actlab.errors import UserError
from actlab.interop import huggingface, tensors

GPT2_MODELS = [
    {},
    {"model.use_bias": True, "model.activation": "gelu_tanh", "model.d_ff": 9},
    {"model.tie_embeddings": False, "model.activation": "silu"},
    {"model.activation": "relu2", "model.norm_epsilon": 1e-6, "model.init": "gain"},
    {"model.activation": "gelu_tanh_jax"},
    {"model.d_hidden": 5},
]
LLAMA_LIKE = {"model.norm": "rmsnorm", "model.position": "rotary", "model.activation": "swiglu"}
LLAMA_MODELS = [
    LLAMA_LIKE,
    {**LLAMA_LIKE, "model.tie_embeddings": False, "model.d_hidden": 13, "model.rotary_base": 500.0},
    {**LLAMA_LIKE, "model.activation": "geglu_tanh", "model.use_bias": True},
]
GROUPED = {**LLAMA_LIKE, "model.n_kv_heads": 1, "model.d_head": 6}
LLAMA3_ENTRIES = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
LLAMA3 = "llama3(factor=8, low=1, high=4, context=8)"
NEOX_LIKE = {"model.position": "rotary", "model.rotary_fraction": 0.5, "model.residual": "parallel"}
BERT_LIKE = {"model.kind": "encoder", "model.norm_position": "post"}
NARROW = {**BERT_LIKE, "model.d_embedding": 12}
# The model_type to save as, and a model that the family has.
FAMILIES = [
    ("opt", {"model.use_bias": True, "model.activation": "relu"}),
    ("opt", {"model.tie_embeddings": False}),
    ("llama", {**GROUPED, "model.use_bias": True}),
    ("llama", {**GROUPED, "model.rotary_scaling": LLAMA3}),
    ("llama", {**LLAMA_LIKE, "model.rotary_scaling": "linear(factor=3)"}),
    ("mistral", {**GROUPED, "model.tie_embeddings": False}),
    ("qwen2", {**LLAMA_LIKE, "model.n_kv_heads": 1}),
    ("qwen3", {**GROUPED, "model.qk_norm": True}),
    ("gemma", {**GROUPED, "model.scale_embeddings": True, "model.activation": "geglu_tanh"}),
    ("phi3", {**LLAMA_LIKE, "model.n_kv_heads": 1, "model.rotary_fraction": 0.5}),
    ("gpt_neox", {**NEOX_LIKE, "model.use_bias": True}),
    ("gpt_neox", {**NEOX_LIKE, "model.residual": "sequential", "model.tie_embeddings": False}),
    ("roberta", {**BERT_LIKE, "model.activation": "relu"}),
    ("roberta", {**BERT_LIKE, "model.n_classes": 3, "model.use_bias": True}),
    ("electra", {**NARROW, "model.activation": "silu"}),
    ("electra", {**NARROW, "model.tie_embeddings": False}),
    ("electra", {**NARROW, "model.n_classes": 3, "model.pooler_activation": "gelu"}),
]
BERT_MODELS = [
    BERT_LIKE,
    {**BERT_LIKE, "model.use_bias": True, "model.activation": "tanh", "model.head_activation": "tanh"},
    {**BERT_LIKE, "model.tie_embeddings": False, "model.use_bias": True, "model.n_segments": 1},
    {**BERT_LIKE, "model.n_classes": 3, "model.norm_epsilon": 1e-12},
    {**BERT_LIKE, "model.d_embedding": 16, "model.d_hidden": 3},
]


def drawn(model):
    """Parameters of which no two are alike: an initialisation's zeros and ones would hide a mix-up."""
    draw = np.random.default_rng(0)
    shapes = models.shapes(model)
    return jax.tree.map(lambda leaf: jnp.asarray(draw.normal(size=leaf.shape), jnp.float32), shapes)


def assert_equal(left, right):
    jax.tree.map(np.testing.assert_array_equal, left, right)


@pytest.mark.parametrize("changes", [*GPT2_MODELS, *LLAMA_MODELS, *BERT_MODELS])
def test_what_was_saved_is_loaded_to_the_bit(tiny, tmp_path, changes):
    config = replace(tiny, **changes).model
    params = jax.tree.map(lambda leaf: leaf.at[(0,) * leaf.ndim].set(-0.0), drawn(models.build(config)))
    huggingface.save(config, params, tmp_path / "a" / "model", padding=3)
    loaded = huggingface.load(tmp_path / "a" / "model")
    assert loaded.config == config
    bits = functools.partial(jax.tree.map, lambda leaf: np.asarray(leaf).view(np.int32))  # 0.0 is not -0.0
    assert_equal(bits(loaded.params), bits(params))
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["model"], "nothing temporary stays"
    assert len({path.stat().st_mode for path in (tmp_path / "a" / "model").iterdir()}) == 1, "one file is private"


FOUR = [("gpt2", GPT2_MODELS[0]), ("llama", LLAMA_MODELS[1]), ("llama", LLAMA_MODELS[2]), ("bert", BERT_MODELS[0])]


@pytest.mark.parametrize(("model_type", "changes"), [*FOUR, *FAMILIES])
def test_without_our_own_entry_the_same_function_is_loaded(tiny, tmp_path, model_type, changes):
    config = replace(tiny, **changes, **{"model.n_layers": 1}).model
    model, tokens = models.build(config), jnp.arange(8)[None]
    params = drawn(model)
    huggingface.save(config, params, tmp_path / "model", model_type=model_type, padding=3)
    edited = edit(tmp_path / "model", actlab=None)
    assert edited["model_type"] == model_type
    loaded = huggingface.load(tmp_path / "model")
    ours = model.apply(params, tokens)[0]
    theirs = models.build(loaded.config).apply(loaded.params, tokens)[0]
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("model_type", "changes"), FAMILIES)
def test_each_family_comes_back_with_its_own_fields(tiny, tmp_path, model_type, changes):
    config = replace(tiny, **changes).model
    params = drawn(models.build(config))
    huggingface.save(config, params, tmp_path / "model", model_type=model_type, padding=3)
    loaded = huggingface.load(tmp_path / "model")
    assert loaded.config == config
    tolerance = 1e-6 if model_type == "gemma" else 0  # whose norms are stored less 1
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=tolerance), loaded.params, params)


MUP = {"model.parametrization": "mup", "model.base_width": 5}


@pytest.mark.parametrize(
    "changes", [GPT2_MODELS[1], LLAMA_MODELS[0], LLAMA_MODELS[1], *BERT_MODELS[1:4], {**GROUPED, "model.qk_norm": True}]
)
def test_the_factors_of_mup_are_folded_into_the_weights(tiny, tmp_path, changes):
    config = replace(tiny, **changes, **MUP, **{"model.n_layers": 1}).model
    model, tokens = models.build(config), jnp.arange(8)[None]
    params = drawn(model)
    ours = model.apply(params, tokens)[0]
    huggingface.save(config, params, tmp_path / "model", padding=3)
    loaded = huggingface.load(tmp_path / "model")
    assert loaded.config == dataclasses.replace(config, parametrization="standard")
    apply = models.build(loaded.config).apply
    np.testing.assert_allclose(ours, apply(loaded.params, tokens)[0], rtol=1e-4, atol=1e-4)
    unfolded = apply(params, tokens)[0]
    assert not np.allclose(ours, unfolded, rtol=1e-2)


def test_a_family_that_is_not_known_is_refused_and_a_failed_replacement_leaves_the_old(tiny, tmp_path, monkeypatch):
    params = models.build(tiny.model).init(jax.random.key(0))
    with pytest.raises(UserError, match="did you mean 'gpt2'"):
        huggingface.save(tiny.model, params, tmp_path / "model", model_type="gpt")
    huggingface.save(tiny.model, params, tmp_path / "model")
    before = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    rename, moved = os.rename, []

    def failing(source, target):
        moved.append(source)
        if len(moved) == 2:
            raise OSError(28, "No space left on device")
        rename(source, target)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(UserError, match="No space left"):
        huggingface.save(tiny.model, params, tmp_path / "model")
    assert {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()} == before


@pytest.mark.parametrize(("changes", "held"), [({}, {7}), (LLAMA_LIKE, {7}), (BERT_LIKE, {"absent"})])
def test_a_decoder_begins_and_ends_at_the_end_of_a_text(tiny, tmp_path, changes, held):
    config = replace(tiny, **changes).model
    huggingface.save(config, drawn(models.build(config)), tmp_path / "model", begin_of_text=7, end_of_text=7)
    fields = json.loads((tmp_path / "model" / "config.json").read_text())
    assert {fields.get(name, "absent") for name in ("bos_token_id", "eos_token_id")} == held
    assert huggingface.load(tmp_path / "model").config == config


def edit(folder, **changes):
    fields = {**json.loads((folder / "config.json").read_text()), **changes}
    (folder / "config.json").write_text(json.dumps(fields))
    return fields


def test_gpt2_tensors_land_in_their_places(by_hand, tmp_path):
    given = by_hand.gpt2.tensors
    config, params = huggingface.load(by_hand.write(tmp_path / "m", by_hand.gpt2.fields, given))
    assert (config.activation, config.d_model, config.n_heads, config.n_layers) == ("gelu_tanh", 6, 2, 2)
    assert (config.context, config.vocab_size, config.tie_embeddings, config.use_bias) == (5, 7, True, True)
    assert models.build(config).spec.d_hidden == 24 and config.norm_epsilon == 1e-5
    assert_equal(params["token_embedding"]["embedding"], given["wte.weight"])
    assert_equal(params["position_embedding"]["embedding"], given["wpe.weight"])
    assert_equal(params["final_norm"], {"scale": given["ln_f.weight"], "bias": given["ln_f.bias"]})
    for index in range(2):
        block = params[f"block_{index}"]
        both = lambda name, first, at=f"h.{index}": {
            first: given[f"{at}.{name}.weight"],
            "bias": given[f"{at}.{name}.bias"],
        }
        assert_equal(block["attention_norm"], both("ln_1", "scale"))
        assert_equal(block["attention"]["qkv"], both("attn.c_attn", "kernel"))
        assert_equal(block["attention"]["out"], both("attn.c_proj", "kernel"))
        assert_equal(block["feed_forward_norm"], both("ln_2", "scale"))
        assert_equal(block["feed_forward"]["up"], both("mlp.c_fc", "kernel"))
        assert_equal(block["feed_forward"]["down"], both("mlp.c_proj", "kernel"))


def test_llama_tensors_land_in_their_places_and_grouped_heads_stay_grouped(by_hand, tmp_path):
    given = {name.removeprefix("model.layers.0."): array for name, array in by_hand.llama.tensors.items()}
    config, params = huggingface.load(by_hand.write(tmp_path / "m", by_hand.llama.fields, by_hand.llama.tensors))
    assert (config.activation, config.norm, config.norm_epsilon) == ("swiglu", "rmsnorm", 1e-6)
    assert (config.position, config.rotary_base) == ("rotary", 10_000)
    assert (models.build(config).spec.d_hidden, config.tie_embeddings, config.use_bias) == (11, False, False)
    assert_equal(params["output"]["kernel"], given["lm_head.weight"].T)
    block = params["block_0"]
    assert (config.n_heads, config.n_kv_heads) == (4, 2)
    parts = np.split(np.asarray(block["attention"]["qkv"]["kernel"]), (8, 12), axis=1)
    for part, letter in zip(parts, "qkv", strict=True):
        assert_equal(part, given[f"self_attn.{letter}_proj.weight"].T)
    assert_equal(block["attention"]["out"]["kernel"], given["self_attn.o_proj.weight"].T)
    for ours, name in (("up", "gate_proj"), ("value", "up_proj"), ("down", "down_proj")):
        assert_equal(block["feed_forward"][ours]["kernel"], given[f"mlp.{name}.weight"].T)
    assert_equal(block["feed_forward_norm"]["scale"], given["post_attention_layernorm.weight"])


def test_bert_tensors_land_in_their_places(by_hand, tmp_path):
    given = by_hand.bert.tensors
    config, params = huggingface.load(by_hand.write(tmp_path / "m", by_hand.bert.fields, given))
    assert (config.kind, config.activation, config.head_activation, config.n_classes) == ("encoder", "relu", "relu", 0)
    assert (config.norm_position, config.norm_epsilon, config.n_segments, config.context) == ("post", 1e-12, 2, 5)
    table = lambda name: {"embedding": given[f"bert.embeddings.{name}_embeddings.weight"]}
    norm = lambda name: {
        "scale": given[f"{name}.LayerNorm.gamma"],
        "bias": given[f"{name}.LayerNorm.beta"],
    }
    linear = lambda *names: {
        "kernel": np.concatenate([given[f"{name}.weight"].T for name in names], axis=1),
        "bias": np.concatenate([given[f"{name}.bias"] for name in names]),
    }
    layer = "bert.encoder.layer.0"
    block = {
        "attention": {
            "qkv": linear(*(f"{layer}.attention.self.{name}" for name in ("query", "key", "value"))),
            "out": linear(f"{layer}.attention.output.dense"),
        },
        "attention_norm": norm(f"{layer}.attention.output"),
        "feed_forward": {"up": linear(f"{layer}.intermediate.dense"), "down": linear(f"{layer}.output.dense")},
        "feed_forward_norm": norm(f"{layer}.output"),
    }
    expected = {
        "token_embedding": table("word"),
        "position_embedding": table("position"),
        "segment_embedding": table("token_type"),
        "embedding_norm": norm("bert.embeddings"),
        "block_0": block,
        "head": {"dense": linear("cls.predictions.transform.dense")},
        "head_norm": norm("cls.predictions.transform"),
        "output_bias": given["cls.predictions.bias"],
    }
    assert_equal(params, expected)


def test_roberta_begins_to_count_positions_after_its_padding_token(by_hand, tmp_path):
    of_head = {"transform.dense": "dense", "transform.LayerNorm": "layer_norm", "bias": "bias"}
    tensors = {}
    for name, array in by_hand.bert.tensors.items():
        for old, new in of_head.items():
            name = name.replace(f"cls.predictions.{old}", f"lm_head.{new}")
        name = name.replace("gamma", "weight").replace("beta", "bias")
        if not name.startswith("cls."):
            tensors[name.replace("bert.", "roberta.", 1)] = array
    fields = {**by_hand.bert.fields, "model_type": "roberta", "pad_token_id": 2}
    config, params = huggingface.load(by_hand.write(tmp_path / "m", fields, tensors))
    assert (config.context, config.activation, config.head_activation) == (2, "relu", "gelu")
    rows = by_hand.bert.tensors["bert.embeddings.position_embeddings.weight"][3:]
    assert_equal(params["position_embedding"]["embedding"], rows)
    assert_equal(params["output_bias"], by_hand.bert.tensors["cls.predictions.bias"])


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_half_precision_becomes_float32_without_another_rounding(by_hand, tmp_path, dtype):
    halves = {name: array.astype(np.float16) for name, array in by_hand.gpt2.tensors.items()}
    folder = by_hand.write(tmp_path / "m", by_hand.gpt2.fields, halves, dtype)
    table = huggingface.load(folder).params["token_embedding"]["embedding"]
    expected = jnp.asarray(halves["wte.weight"]).astype({"F16": jnp.float16, "BF16": jnp.bfloat16}[dtype])
    assert table.dtype == jnp.float32
    assert_equal(table, expected.astype(jnp.float32))


def test_shards_prefixes_masks_and_copies_change_nothing(by_hand, tmp_path):
    gpt2 = by_hand.gpt2
    plain = huggingface.load(by_hand.write(tmp_path / "plain", gpt2.fields, gpt2.tensors))
    prefixed = {f"transformer.{name}": array for name, array in gpt2.tensors.items()}
    prefixed["transformer.h.0.attn.bias"] = np.tril(np.ones((1, 1, 5, 5), np.float32))
    prefixed["lm_head.weight"] = gpt2.tensors["wte.weight"]
    names = sorted(prefixed)
    files = {"model-00001-of-00002.safetensors": names[:9], "model-00002-of-00002.safetensors": names[9:]}
    sharded = huggingface.load(by_hand.write(tmp_path / "sharded", gpt2.fields, prefixed, files=files))
    assert plain.config == sharded.config
    assert_equal(plain.params, sharded.params)


def without(tensors, name):
    return {key: array for key, array in tensors.items() if key != name}


WRONG_TENSORS = [
    (lambda t: without(t, "h.1.mlp.c_fc.bias"), ["transformer.h.1.mlp.c_fc.bias [24]", "lack"]),
    (lambda t: {**t, "score.weight": np.ones((2, 6))}, ["score.weight [2, 6]", "GPT-2"]),
    (lambda t: {**t, "h.0.ln_1.weight": np.ones(5)}, ["h.0.ln_1.weight is [5], but [6]"]),
    (lambda t: {**t, "wte.weight": np.ones((9, 6))}, ["wte.weight is [9, 6], but [7, 6]", "vocab_size=7"]),
    (lambda t: {**t, "lm_head.weight": np.ones((7, 6))}, ["lm_head.weight differs from wte.weight", "tie_word_embed"]),
]


@pytest.mark.parametrize(("change", "words"), WRONG_TENSORS)
def test_tensors_that_do_not_fit_are_named_with_their_shapes(by_hand, tmp_path, change, words):
    folder = by_hand.write(tmp_path / "m", by_hand.gpt2.fields, change(by_hand.gpt2.tensors))
    refused(folder, *words)


def refused(folder, *words):
    with pytest.raises(UserError) as caught:
        huggingface.load(folder)
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert message.endswith((".", "?")) and "\n" not in message


@pytest.mark.parametrize(
    ("family", "changes", "words"),
    [
        ("gpt2", {"model_type": "mamba"}, ["model_type='mamba'", "gpt2"]),
        ("gpt2", {"model_type": None}, ["model_type=None"]),
        ("gpt2", {"n_embd": None}, ["lacks n_embd"]),
        ("gpt2", {"n_embd": "6"}, ["n_embd='6'", "integer"]),
        ("gpt2", {"n_head": True}, ["n_head=True"]),
        ("gpt2", {"n_head": 0}, ["n_head=0"]),
        ("gpt2", {"n_head": 4}, ["config.model.n_heads=4"]),
        ("gpt2", {"n_layer": 10**6}, ["n_layers=1000000 is too large"]),
        ("gpt2", {"n_layer": 1000}, ["1000 layers", "28 tensors"]),
        ("gpt2", {"activation_function": "gelu_10"}, ["activation_function='gelu_10'"]),
        ("gpt2", {"activation_function": 3}, ["activation_function=3"]),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, ["scale_attn_by_inverse_layer_idx=True"]),
        ("gpt2", {"layer_norm_epsilon": "small"}, ["layer_norm_epsilon='small'"]),
        ("gpt2", {"tie_word_embeddings": "yes"}, ["tie_word_embeddings='yes'"]),
        ("gpt2", {"quantization_config": {"bits": 4}}, ["quantization_config"]),
        ("gpt2", {"is_causal": False}, ["is_causal=False"]),
        ("gpt2", {"actlab": 3}, ["actlab=3"]),
        ("gpt2", {"actlab": {"model": {"parametrization": "mup"}}}, ["'mup'", "parametrization must be 'standard'"]),
        ("gpt2", {"actlab": {"model": {"colour": 3}}}, ["config.model.colour"]),
        ("gpt2", {"actlab": {"model": {"vocab_size": 8}}}, ["'actlab'"]),
        ("llama", {"is_causal": False}, ["is_causal=False"]),
        ("llama", {"hidden_act": "tanh"}, ["hidden_act='tanh'", "gate"]),
        ("llama", {"head_dim": 3}, ["heads of even size, not 3"]),
        ("llama", {"head_dim": 4}, ["o_proj.weight is [8, 8], but [8, 16]"]),
        ("llama", {"num_key_value_heads": 3}, ["num_key_value_heads=3"]),
        ("llama", {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, ["rope_scaling", "linear, llama3"]),
        ("llama", {"rope_scaling": {"type": "llama3", "factor": 2.0}}, ["lacks low_freq_factor"]),
        ("llama", {"rope_scaling": {"type": "linear", "factor": -2.0}}, ["rotary_scaling='linear(factor=-2)'"]),
        ("llama", {"rope_scaling": {"type": "linear", "factor": 2.0, "rope_type": "llama3"}}, ["rope_scaling"]),
        ("llama", {"rope_scaling": {"type": []}}, ["rope_scaling"]),
        (
            "llama",
            {"rope_scaling": {"type": "linear", "factor": 3.0}, "rope_parameters": {"rope_type": "default"}},
            ["rope_scaling", "rope_parameters says"],
        ),
        (
            "llama",
            {"rope_scaling": {"type": "llama3", **LLAMA3_ENTRIES}, "original_max_position_embeddings": 8},
            ["original_max_position_embeddings=8", "16"],
        ),
        ("llama", {"model_type": "gemma", "hidden_act": "gelu", "hidden_activation": "relu"}, ["hidden_activation="]),
        ("llama", {"rms_norm_eps": 1e308}, ["norm_epsilon"]),
        ("llama", {"architectures": ["LlamaForTokenClassification"]}, ["architectures=['LlamaForTokenCl"]),
        ("llama", {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, ["rope_parameters"]),
        ("llama", {"rope_parameters": {"rope_theta": 1e6, "partial_rotary_factor": 0.5}}, ["rope_parameters"]),
        ("llama", {"rope_parameters": {"rope_theta": 1e6}, "rope_theta": 1e4}, ["rope_theta=10000.0"]),
        ("llama", {"rope_parameters": [1]}, ["rope_parameters=[1]"]),
        ("llama", {"vocab_size": 9}, ["model.embed_tokens.weight is [7, 8], but [9, 8]", "vocab_size=9"]),
        ("llama", {"tie_word_embeddings": True}, ["lm_head.weight differs from model.embed_tokens.weight"]),
        ("bert", {"position_embedding_type": "relative_key"}, ["position_embedding_type='relative_key'"]),
        ("bert", {"is_decoder": True}, ["is_decoder=True"]),
        ("bert", {"architectures": ["BertForSequenceClassification"]}, ["classifier.weight [2, 6]", "lack"]),
        ("bert", {"architectures": ["BertForSequenceClassification"], "id2label": 3}, ["id2label=3"]),
        ("bert", {"architectures": 3}, ["architectures=3"]),
        ("bert", {"type_vocab_size": 4}, ["token_type_embeddings.weight is [2, 6], but [4, 6]"]),
        ("llama", {"mlp_bias": True}, ["down_proj.bias [8]", "lack"]),
    ],
)
def test_a_config_that_our_models_cannot_express_is_refused_by_its_field(by_hand, tmp_path, family, changes, words):
    given = getattr(by_hand, family)
    refused(by_hand.write(tmp_path / "m", {**given.fields, **changes}, given.tensors), *words)


def test_a_long_value_is_cut_in_a_message(by_hand, tmp_path):
    folder = by_hand.write(tmp_path / "m", {**by_hand.llama.fields, "hidden_act": "x" * 5000}, by_hand.llama.tensors)
    with pytest.raises(UserError) as caught:
        huggingface.load(folder)
    assert len(str(caught.value)) < 500 + len(str(folder))


def test_the_numbers_of_a_rotary_scaling_are_kept_whole(by_hand, tmp_path):
    entries = {**LLAMA3_ENTRIES, "factor": 3.123456789, "original_max_position_embeddings": 1_048_576}
    fields = {**by_hand.llama.fields, "rope_scaling": {"rope_type": "llama3", **entries}}
    loaded = huggingface.load(by_hand.write(tmp_path / "m", fields, by_hand.llama.tensors))
    assert loaded.config.rotary_scaling == "llama3(factor=3.123456789, low=1, high=4, context=1048576)"
    huggingface.save(*loaded, tmp_path / "back")
    back = json.loads((tmp_path / "back" / "config.json").read_text())["rope_scaling"]
    assert {name: back[name] for name in entries} == entries


def test_heads_that_llama_cannot_have_are_saved_as_another_family(tiny, tmp_path):
    config = replace(tiny, **{**GROUPED, "model.n_heads": 3, "model.d_head": 6}).model
    params = drawn(models.build(config))
    assert huggingface.save(config, params, tmp_path / "m") == huggingface.family_for(config, params) == "Mistral"


def test_the_entries_of_a_config_are_in_the_same_order_in_every_process(tiny, tmp_path):
    config = replace(tiny, **LLAMA_LIKE).model
    huggingface.save(config, drawn(models.build(config)), tmp_path / "m")
    fields = list(json.loads((tmp_path / "m" / "config.json").read_text()))
    assert fields.index("mlp_bias") == fields.index("attention_bias") + 1, "a set has another order in each"


def test_a_field_that_was_changed_after_saving_is_told(tiny, tmp_path):
    model = models.build(tiny.model)
    huggingface.save(tiny.model, drawn(model), tmp_path / "m")
    edit(tmp_path / "m", n_head=4)
    refused(tmp_path / "m", "n_head is 4, but 2", "'actlab'")


def test_files_that_are_no_weights_are_refused(by_hand, tmp_path):
    gpt2 = by_hand.gpt2
    refused(tmp_path / "nowhere", "no config.json")
    folder = by_hand.write(tmp_path / "m", gpt2.fields, gpt2.tensors)
    weights = (folder / "model.safetensors").read_bytes()
    for cut in (0, 4, 100, len(weights) - 1):
        (folder / "model.safetensors").write_bytes(weights[:cut])
        refused(folder, "model.safetensors is not a whole safetensors file")
    (folder / "model.safetensors").unlink()
    refused(folder, "holds no weights")
    (folder / "pytorch_model.bin").write_bytes(b"never read")
    refused(folder, "pytorch_model.bin", "only safetensors")
    (folder / "config.json").write_text("{")
    refused(folder, "not JSON")
    (folder / "config.json").write_text("[]")
    refused(folder, "not a JSON object")
    refused(by_hand.write(tmp_path / "wide", gpt2.fields, gpt2.tensors, "F64"), "is F64")


def test_an_index_is_not_trusted(by_hand, tmp_path):
    gpt2, names = by_hand.gpt2, sorted(by_hand.gpt2.tensors)
    files = {"a.safetensors": names[:9], "b.safetensors": names[9:]}
    folder = by_hand.write(tmp_path / "m", gpt2.fields, gpt2.tensors, files=files)
    index = folder / "model.safetensors.index.json"
    sound = json.loads(index.read_text())["weight_map"]
    for place in ("../m/a.safetensors", str(folder / "a.safetensors"), "..", "a.bin", 3, "c.safetensors"):
        index.write_text(json.dumps({"weight_map": {**sound, names[0]: place}}))
        refused(folder, "c.safetensors" if place == "c.safetensors" else f"{names[0]} is in {place!r}")
    index.write_text(json.dumps({"weight_map": {**sound, names[0]: "b.safetensors"}}))
    refused(folder, f"b.safetensors lacks {names[0]}")
    for text, words in (("{", "not JSON"), ("{}", "weight_map"), ('{"weight_map": [1]}', "weight_map")):
        index.write_text(text)
        refused(folder, "index.json", words)
    twice = {**files, "b.safetensors": names[8:]}
    refused(by_hand.write(tmp_path / "n", gpt2.fields, gpt2.tensors, files=twice), f"{names[8]} is in a.safetensors")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model.norm_position": "post"}, "config.model.norm_position='post'"),
        ({"model.norm": "rmsnorm"}, "config.model.norm='rmsnorm'"),
        ({"model.activation_norm": "rmsnorm"}, "config.model.activation_norm='rmsnorm'"),
        ({"model.activation": "xielu"}, "config.model.activation='xielu'"),
        ({"model.activation": "swish"}, "config.model.activation='swish'"),
        ({"model.activation": "leaky_relu(slope=0.2)"}, "config.model.activation='leaky_relu(slope=0.2)'"),
        ({"model.activation": "swiglu"}, "config.model.activation='swiglu'"),
        ({"model.position": "rotary", "model.activation_norm": "rmsnorm"}, "config.model.norm='layernorm'"),
        ({**LLAMA_LIKE, "model.residual": "parallel"}, "config.model.residual='parallel'"),
        ({**NARROW, "model.n_classes": 2}, "config.model.d_embedding=12"),
        ({**LLAMA_LIKE, "model.activation": "gelu"}, "config.model.activation='gelu'"),
        ({**LLAMA_LIKE, "model.activation": "drelu"}, "config.model.activation='drelu'"),
        ({**LLAMA_LIKE, "model.norm_position": "post"}, "config.model.norm_position='post'"),
        ({**BERT_LIKE, "model.norm_position": "pre"}, "config.model.norm_position='pre'"),
        ({**BERT_LIKE, "model.head_activation": "relu"}, "config.model.head_activation='relu'"),
        (
            {**BERT_LIKE, "model.n_classes": 2, "model.pooler_activation": "relu"},
            "config.model.pooler_activation='relu'",
        ),
        ({**GROUPED, "model.qk_norm": True, "model.use_bias": True}, "config.model.qk_norm=True"),
    ],
)
def test_a_model_without_counterpart_is_refused_by_its_field(tiny, tmp_path, changes, words):
    config = replace(tiny, **changes).model
    with pytest.raises(UserError) as caught:
        huggingface.save(config, drawn(models.build(config)), tmp_path / "m")
    assert words in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_parameters_of_another_model_are_refused(tiny, tmp_path):
    params = drawn(models.build(tiny.model))
    wider = dataclasses.replace(tiny.model, d_ff=128)
    with pytest.raises(UserError, match=r"block_0/feed_forward/down/kernel as \(64, 16\).*wants \(128, 16\)"):
        huggingface.save(wider, params, tmp_path / "m")


def test_only_a_directory_of_ours_is_replaced_and_only_by_a_whole_one(tiny, tmp_path, monkeypatch):
    config, target = tiny.model, tmp_path / "m"
    first = drawn(models.build(config))
    second = jax.tree.map(lambda leaf: leaf + 1, first)
    target.mkdir()
    huggingface.save(config, first, target)
    (tmp_path / "link").symlink_to(target)
    huggingface.save(config, second, tmp_path / "link")
    assert_equal(huggingface.load(target).params, second)
    assert (tmp_path / "link").is_symlink()
    (tmp_path / "link").unlink()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tensors.safetensors_numpy, "save_file", full)
    with pytest.raises(UserError, match="No space left"):
        huggingface.save(config, first, target)
    monkeypatch.undo()
    assert_equal(huggingface.load(target).params, second)
    (target / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="holds notes.txt"):
        huggingface.save(config, first, target)
    (target / "notes.txt").unlink()
    fields = json.loads((target / "config.json").read_text())
    del fields["actlab"]
    (target / "config.json").write_text(json.dumps(fields))
    for taken in (target, target / "config.json"):
        with pytest.raises(UserError, match="was not written by this command"):
            huggingface.save(config, first, taken)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_parameter_without_a_place_is_never_dropped(tiny, tmp_path, monkeypatch):
    gpt2 = huggingface.FAMILIES["gpt2"]
    without_first = dataclasses.replace(gpt2, links=lambda config, fields: gpt2.links(config, fields)[1:])
    monkeypatch.setattr(huggingface, "FAMILIES", {"gpt2": without_first})
    with pytest.raises(UserError, match="token_embedding/embedding of this model has no counterpart"):
        huggingface.save(tiny.model, drawn(models.build(tiny.model)), tmp_path / "m")


def test_positions_of_a_roberta_begin_behind_the_padding_that_is_given(tiny, tmp_path):
    config = replace(tiny, **BERT_LIKE, **{"model.activation": "relu"}).model
    params = drawn(models.build(config))
    with pytest.raises(UserError, match="counts positions from its padding's id: give `padding`"):
        huggingface.save(config, params, tmp_path / "m")
    assert huggingface.save(config, params, tmp_path / "m", padding=5) == "RoBERTa"
    told = json.loads((tmp_path / "m/config.json").read_text())
    assert (told["pad_token_id"], told["max_position_embeddings"]) == (5, config.context + 6)
    bert = replace(tiny, **BERT_LIKE, **{"model.head_activation": "gelu"}).model
    assert huggingface.save(bert, drawn(models.build(bert)), tmp_path / "b", padding=5) == "BERT"
    assert json.loads((tmp_path / "b/config.json").read_text())["pad_token_id"] == 5
