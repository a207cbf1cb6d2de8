"""What a config may be: values, axes of a sweep, and rules between fields. Messages name the field."""

import pathlib

import numpy as np
import pytest

from actlab import config as config_lib
from actlab.config import Config, replace, rules, schema, sweep
from actlab.errors import UserError

ENCODER = {"model.kind": "encoder", "model.n_classes": 2}
SWAP = {"finetune.swap.from": "gelu", "finetune.swap.to": "relu", "finetune.from_checkpoint": "runs/x"}


def refused(changes, *names):
    with pytest.raises(UserError) as caught:
        replace(Config(), **changes)
    assert "\n" not in str(caught.value)
    for name in names:
        assert name in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"model.activatoin": "relu"}, "did you mean 'model.activation'"),
        ({"model.n_layer": 2}, "did you mean 'model.n_layers'"),
        ({"model": 3}, "config.model "),
        ({"seed": 1.5}, "config.seed=1.5 has type float"),
        ({"seed": True}, "type bool"),
        ({"seed": -1}, "config.seed=-1"),
        ({"seed": 2**31}, "config.seed=2147483648"),
        ({"model.use_bias": 1}, "takes bool"),
        ({"model.d_ff": "wide"}, "takes int or None"),
        ({"optimizer.learning_rate": float("nan")}, "config.optimizer.learning_rate=nan"),
        ({"optimizer.learning_rate": -1e-3}, "-0.001"),
        ({"optimizer.b2": 1.0}, "maximum"),
        ({"optimizer.eps": 0.0}, "greater than 0"),
        ({"train.dtype": "float16"}, "did you mean 'bfloat16'"),
        ({"train.n_steps": 0}, "minimum is 1"),
        ({"train.n_steps": 10**14}, "maximum"),
        ({"finetune.task": "wishes"}, "did you mean 'wish'"),
        ({"finetune.swap.blocks": -1}, "minimum is 0"),
    ],
)
def test_a_value_that_its_field_does_not_take_is_refused(changes, names):
    refused(changes, names)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"model.d_model": 100}, ("config.model.d_model=100", "config.model.n_heads=6")),
        ({"model.d_model": 18, "model.position": "rotary"}, ("config.model.position='rotary'", "not 3")),
        ({"model.n_kv_heads": 4}, ("config.model.n_kv_heads=4", "config.model.n_heads=6")),
        ({"model.rotary_fraction": 0.5}, ("config.model.rotary_fraction=0.5", "config.model.position='learned'")),
        ({"model.rotary_base": 500.0}, ("config.model.rotary_base=500.0", "config.model.position='learned'")),
        ({"finetune.fold": True, "model.use_bias": True}, ("config.finetune.fold=True", "finetune.from_checkpoint")),
        ({"model.rotary_scaling": "linear(factor=2)"}, ("config.model.rotary_scaling='linear(factor=2)'", "learned")),
        ({"model.rotary_scaling": "yarn(factor=2)"}, ("config.model.rotary_scaling='yarn(factor=2)'", "llama3(")),
        ({"model.rotary_scaling": "linear(factor=0)"}, ("above 0",)),
        ({"model.rotary_scaling": "linear(2, factor=2)"}, ("llama3(",)),
        (
            {"model.position": "rotary", "model.rotary_scaling": "llama3(factor=8, low=4, high=4, context=64)"},
            ("low must be less than high",),
        ),
        ({"model.position": "rotary", "model.rotary_fraction": 0.01}, ("a head's 64 units", "not 0")),
        ({"model.residual": "parallel", "model.norm_position": "post"}, ("config.model.residual='parallel'",)),
        ({"model.kind": "encoder", "model.scale_embeddings": True}, ("config.model.scale_embeddings=True",)),
        ({"model.d_embedding": 64}, ("config.model.d_embedding=64", "config.model.kind='encoder'")),
        ({"model.scale_embeddings": True, "model.parametrization": "mup"}, ("scale_embeddings=True", "standard")),
        ({"model.n_classes": 2}, ("config.model.n_classes=2", "config.model.kind='encoder'")),
        ({"model.kind": "encoder", "model.pooler_activation": "relu"}, ("config.model.pooler_activation='relu'",)),
        ({"model.head_activation": "relu"}, ("config.model.head_activation='relu'", "decoder")),
        ({**ENCODER, "model.head_activation": "relu"}, ("config.model.head_activation='relu'", "n_classes=2")),
        ({**ENCODER, "data.packing": "padded", "data.corruption": "random"}, ("config.data.corruption='random'",)),
        ({"model.n_segments": 5}, ("config.model.n_segments=5", "decoder")),
        ({"data.mask_fraction": 0.5}, ("config.data.mask_fraction=0.5", "decoder")),
        (
            {"data.mask_fraction": 0.5, "model.kind": "encoder", "model.n_classes": 2, "finetune.task": "sst2"},
            ("config.data.mask_fraction=0.5", "config.finetune.task='sst2'"),
        ),
        ({"optimizer.warmup_steps": 5001}, ("config.optimizer.warmup_steps=5001", "config.train.n_steps=5000")),
        ({"finetune.task": "wish"}, ("config.finetune.task='wish'", "config.model.n_classes=0")),
        ({**ENCODER, "finetune.task": "wish", "data.corruption": "random"}, ("config.data.corruption='random'",)),
        ({**ENCODER, "finetune.task": "wish", "model.context": 2}, ("config.model.context=2", "3 or more")),
        ({**ENCODER, "finetune.task": "wish"}, ("config.data.packing='packed'", "config.finetune.task='wish'")),
        ({**SWAP, "finetune.swap.blocks": 7}, ("config.finetune.swap.blocks=7", "config.model.n_layers=6")),
        ({**SWAP, "finetune.swap.from": "silu"}, ("swap.from='silu'", "config.model.activation='gelu'")),
        ({**SWAP, "finetune.swap.blocks": 1, "finetune.from_checkpoint": ""}, ("config.finetune.from_checkpoint",)),
        ({**SWAP, "finetune.swap.blocks": 1, "finetune.swap.to": ""}, ("config.finetune.swap.to",)),
        (
            {**SWAP, "finetune.swap.blocks": 1, "finetune.fold": True},
            ("config.finetune.fold=True", "config.model.use_bias=False"),
        ),
        ({"finetune.fold": True, "model.activation_norm": "rmsnorm"}, ("config.model.activation_norm='rmsnorm'",)),
    ],
)
def test_fields_that_contradict_each_other_are_refused(changes, names):
    refused(changes, *names)


def test_a_limit_itself_is_allowed():
    limits = {**SWAP, "finetune.swap.blocks": 6, "optimizer.warmup_steps": 5000, "model.d_ff": 8, "seed": 2**31 - 1}
    assert config_lib.flat(replace(Config(), **limits)).items() >= limits.items()


@pytest.mark.parametrize(
    ("sweep", "names"),
    [
        ({"optimizer.learning_rat": (1,)}, "did you mean 'optimizer.learning_rate'"),
        ({"sweep": (1,)}, "'sweep'"),
        ({3: (1,)}, "[3]"),
        ({"seed": ()}, "config.sweep['seed']=()"),
        ({"seed": 3}, "config.sweep['seed']=3"),
        ({"model.activation": "relu"}, "config.sweep['model.activation']='relu'"),
        ({"seed": (1, 2, 1)}, "lists 1 twice"),
        ({"optimizer.learning_rate": (1, 1.0)}, "lists 1.0 twice"),
        ({"optimizer.learning_rate": (1e-3, float("nan"))}, "=nan"),
        ({"seed": (1, "two")}, "has type str"),
        ({"model.activation, optimizer.learning_rate": (("relu", 1e-3), ("gelu",))}, "2 values"),
        ({"model.activation, optimizer.learning_rate": ("relu", "gelu")}, "2 values"),
        ({"model.activation, optimizer.learning_rate": (("relu", 1), ("gelu", "x"))}, "(optimizer.learning_rate)"),
        ({"seed": (1,), "seed, train.n_steps": ((1, 2),)}, "names 'seed' twice"),
        ({"data.tokenizer": ("bytes", "gpt2")}, "share data.tokenizer"),
        ({"finetune.task": ("", "wish")}, "share finetune.task"),
        ({"devices.data": (1, 2)}, "share devices.data"),
        ({"data.dir": ("a", "b")}, "share data.dir"),
        ("seed", "config.sweep='seed'"),
        (7, "config.sweep=7"),
    ],
)
def test_an_axis_that_no_sweep_can_have_is_refused(sweep, names):
    refused({"sweep": sweep}, names)


def test_the_values_of_a_sweep_take_the_types_of_their_fields():
    sweep = {"optimizer.learning_rate": [1, 1e-3], "train.n_steps,optimizer.warmup_steps": [[1600, 0], [3200, 32]]}
    config = replace(Config(), sweep=sweep)
    assert config.sweep == (
        ("optimizer.learning_rate", (1.0, 1e-3)),
        ("train.n_steps, optimizer.warmup_steps", ((1600, 0), (3200, 32))),
    )
    assert config_lib.from_json(config_lib.to_json(config)) == config
    assert replace(config, seed=3).sweep == config.sweep
    assert config_lib.fingerprint(config) != config_lib.fingerprint(Config())


def test_a_swap_in_no_block_is_refused_unless_it_is_a_value_of_a_sweep():
    with pytest.raises(UserError, match="config.finetune.swap.to='relu' swaps nothing"):
        sweep.expand(replace(Config(), **SWAP))
    runs = sweep.expand(replace(Config(), **SWAP, sweep={"finetune.swap.blocks": (0, 1)}))
    assert [run.config.finetune.swap.blocks for run in runs] == [0, 1]


def test_scalars_of_numpy_are_numbers():
    axes = {"optimizer.learning_rate": tuple(np.geomspace(1e-3, 1e-2, 2)), "seed": tuple(np.arange(2))}
    runs = sweep.expand(replace(Config(), sweep=axes))
    assert [(type(run.config.seed), type(run.config.optimizer.learning_rate)) for run in runs] == [(int, float)] * 4
    assert replace(Config(), **{"optimizer.learning_rate": np.float32(0.01)}).optimizer.learning_rate == 0.01
    with pytest.raises(UserError, match="has type ndarray"):
        replace(Config(), **{"optimizer.learning_rate": np.ones(2)})


def test_a_path_is_a_folder():
    assert replace(Config(), **{"data.dir": pathlib.Path("some", "where")}).data.dir == "some/where"
    with pytest.raises(UserError, match="has type float"):
        replace(Config(), **{"data.dir": 1.0})


def test_names_of_other_codebases_are_answered_by_the_field_that_is_meant():
    assert set(rules._ELSEWHERE.values()) <= set(schema.fields())
    for name, told in [
        ("model.n_embd", "'model.d_model'"),
        ("model.dropout", "without dropout"),
        ("momentum", "AdamW"),
    ]:
        with pytest.raises(UserError, match=told):
            rules.require_path(name)
