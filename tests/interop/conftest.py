"""Directories as transformers writes them, tiny and written by hand."""

import json
import types

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

DTYPES = {"F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16, "F64": np.float64}

GPT2 = {
    "model_type": "gpt2",
    "activation_function": "gelu_new",
    "n_embd": 6,
    "n_head": 2,
    "n_inner": None,
    "n_layer": 2,
    "n_positions": 5,
    "vocab_size": 7,
}
LLAMA = {
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": 8,
    "intermediate_size": 11,
    "max_position_embeddings": 6,
    "num_attention_heads": 4,
    "num_hidden_layers": 1,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-6,
    "vocab_size": 7,
}


BERT = {
    "architectures": ["BertForPreTraining"],
    "model_type": "bert",
    "hidden_act": "relu",
    "hidden_size": 6,
    "intermediate_size": 9,
    "max_position_embeddings": 5,
    "num_attention_heads": 3,
    "num_hidden_layers": 1,
    "type_vocab_size": 2,
    "vocab_size": 7,
}


def gpt2_shapes():
    shapes = {"wte.weight": (7, 6), "wpe.weight": (5, 6), "ln_f.weight": (6,), "ln_f.bias": (6,)}
    for index in range(2):
        for name, shape in {
            "ln_1": (6,),
            "attn.c_attn": (6, 18),
            "attn.c_proj": (6, 6),
            "ln_2": (6,),
            "mlp.c_fc": (6, 24),
            "mlp.c_proj": (24, 6),
        }.items():
            shapes[f"h.{index}.{name}.weight"], shapes[f"h.{index}.{name}.bias"] = shape, shape[-1:]
    return shapes


def llama_shapes():
    layer = {
        "input_layernorm": (8,),
        "self_attn.q_proj": (8, 8),
        "self_attn.k_proj": (4, 8),
        "self_attn.v_proj": (4, 8),
        "self_attn.o_proj": (8, 8),
        "post_attention_layernorm": (8,),
        "mlp.gate_proj": (11, 8),
        "mlp.up_proj": (11, 8),
        "mlp.down_proj": (8, 11),
    }
    return {
        "model.embed_tokens.weight": (7, 8),
        **{f"model.layers.0.{name}.weight": shape for name, shape in layer.items()},
        "model.norm.weight": (8,),
        "lm_head.weight": (7, 8),
    }


def bert_shapes():
    """As the files of 2018 have it: norms with gamma and beta, a pooler, a head for next sentences."""
    shapes = {
        "bert.embeddings.word_embeddings.weight": (7, 6),
        "bert.embeddings.position_embeddings.weight": (5, 6),
        "bert.embeddings.token_type_embeddings.weight": (2, 6),
        "cls.predictions.bias": (7,),
    }
    layer = "bert.encoder.layer.0"
    for name in ("bert.embeddings", f"{layer}.attention.output", f"{layer}.output", "cls.predictions.transform"):
        shapes[f"{name}.LayerNorm.gamma"] = shapes[f"{name}.LayerNorm.beta"] = (6,)
    for name, shape in {
        f"{layer}.attention.self.query": (6, 6),
        f"{layer}.attention.self.key": (6, 6),
        f"{layer}.attention.self.value": (6, 6),
        f"{layer}.attention.output.dense": (6, 6),
        f"{layer}.intermediate.dense": (9, 6),
        f"{layer}.output.dense": (6, 9),
        "bert.pooler.dense": (6, 6),
        "cls.predictions.transform.dense": (6, 6),
        "cls.seq_relationship": (2, 6),
    }.items():
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = shape, shape[:1]
    return shapes


def random(shapes):
    draw = np.random.default_rng(0)
    return {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def write(folder, fields, tensors, dtype="F32", files=None):
    """Writes config.json and the tensors, into one file or into `files`, with an index: file -> names."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(fields))
    cast = {name: np.ascontiguousarray(array).astype(DTYPES[dtype]) for name, array in tensors.items()}
    if files is None:
        save_file(cast, folder / "model.safetensors", metadata={"format": "pt"})
        return folder
    for file, names in files.items():
        save_file({name: cast[name] for name in names}, folder / file)
    weight_map = {name: file for file, names in files.items() for name in names}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return folder


@pytest.fixture
def by_hand():
    """Fields and random tensors of a tiny GPT-2 (without prefix), LLaMA and BERT, and what writes them."""
    gpt2 = types.SimpleNamespace(fields=GPT2, tensors=random(gpt2_shapes()))
    llama = types.SimpleNamespace(fields=LLAMA, tensors=random(llama_shapes()))
    bert = types.SimpleNamespace(fields=BERT, tensors=random(bert_shapes()))
    return types.SimpleNamespace(gpt2=gpt2, llama=llama, bert=bert, write=write)
