"""The schema: what it accepts, what it refuses and in which words."""

import dataclasses
import json
import pathlib
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actlab import config as config_lib
from actlab.config import Config, SwapConfig, replace
from actlab.errors import UserError

ROOT = pathlib.Path(__file__).parents[1]
CONFIGS = sorted([*ROOT.glob("configs/*.py"), *ROOT.glob("experiments/*/study.py")])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model.activatoin": "relu"}, "did you mean 'model.activation'"),
        ({"model.n_layer": 2}, "did you mean 'model.n_layers'"),
        ({"seed": 1.5}, "config.seed=1.5 has type float, but the field takes int"),
        ({"seed": True}, "has type bool"),
        ({"seed": -1}, "too small"),
        ({"seed": 2**31}, "too large"),
        ({"model.use_bias": 1}, "takes bool"),
        ({"model.d_ff": "wide"}, "takes int or None"),
        ({"optimizer.learning_rate": float("nan")}, "not a finite number"),
        ({"optimizer.learning_rate": -1e-3}, "too small"),
        ({"optimizer.b2": 1.0}, "too large"),
        ({"optimizer.eps": 0.0}, "greater than 0"),
        ({"train.dtype": "float16"}, "did you mean 'bfloat16'"),
        ({"optimizer.schedule": "cosin"}, "did you mean 'cosine'"),
        ({"train.n_steps": 0}, "too small"),
        ({"train.n_steps": 10**14}, "too large"),
        ({"train.keep_checkpoints": 1}, "too small"),
        ({"model.d_model": 100}, "config.model.n_heads=6"),
        ({"model.d_model": 18, "model.position": "rotary"}, "odd"),
        ({"train.eval_every": 300}, "config.train.checkpoint_every=500 is not a multiple"),
        ({"optimizer.warmup_steps": 5001}, "config.train.n_steps=5000"),
        ({"data": 3}, "must hold fields"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence_that_names_it(change, words):
    with pytest.raises(UserError) as caught:
        if "data" in change:
            config_lib.from_mapping({**json.loads(config_lib.to_json(Config())), **change})
        replace(Config(), **change)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_missing_field_is_named():
    values = json.loads(config_lib.to_json(Config()))
    del values["optimizer"]["b2"]
    with pytest.raises(UserError, match=r"config\.optimizer\.b2 is missing"):
        config_lib.from_mapping(values)


def test_a_workdir_of_an_earlier_version_has_the_defaults_of_what_came_later():
    swept = {"model.activation": "relu", "sweep": {"seed": (1, 2), "model.d_ff, model.n_layers": ((8, 1), (16, 2))}}
    ours = replace(Config(), **swept)
    values = json.loads(config_lib.to_json(ours))
    del values["model"]["norm_epsilon"], values["devices"]
    assert config_lib.from_json(json.dumps(values)) == ours
    values["model"]["of_old"] = 1
    with pytest.raises(UserError, match=r"config\.model\.of_old is no field"):
        config_lib.from_json(json.dumps(values))
    with pytest.raises(UserError, match=r"config\.model=3 must hold fields"):
        config_lib.from_json(json.dumps({**values, "model": 3}))
    for other in ("{}", '{"model": {}}'):
        with pytest.raises(UserError, match=r"config\.\w+ is missing"):
            config_lib.from_json(other)


def test_a_file_that_is_no_config_is_told_by_its_path(tmp_path):
    path = tmp_path / "config.json"
    path.write_text("{")
    with pytest.raises(UserError, match=f"{path}: the file is not JSON"):
        config_lib.load(path)
    path.write_text(config_lib.to_json(Config()).replace('"n_layers"', '"n_layer"'))
    with pytest.raises(UserError, match=f"{path}: config.model.n_layer is no field: did you mean 'n_layers'"):
        config_lib.load(path)
    path.unlink()
    with pytest.raises(UserError, match=f"{path} cannot be read"):
        config_lib.load(path)


def test_every_field_has_a_reason_and_its_default_is_valid():
    for path, field in config_lib.fields():
        assert field.metadata["why"], path
    assert config_lib.from_json(config_lib.to_json(Config())) == Config()


def test_the_bridge_gives_the_defaults_and_lets_none_be_overridden():
    values = config_lib.default()
    assert config_lib.from_mapping(values.to_dict()) == Config()
    values.model.d_ff = 64
    assert config_lib.from_mapping(values.to_dict()).model.d_ff == 64
    with pytest.raises(AttributeError, match="d_ff"):
        values.model.d_fff = 64


@given(seed=st.integers(0, 2**31 - 1), rate=st.floats(0, 1e300), size=st.one_of(st.none(), st.integers(8, 10**9)))
def test_json_gives_the_config_back(seed, rate, size):
    config = replace(Config(), **{"seed": seed, "optimizer.learning_rate": rate, "model.d_ff": size})
    assert config_lib.from_json(config_lib.to_json(config)) == config


def test_broken_json_is_a_sentence():
    with pytest.raises(UserError, match="not JSON"):
        config_lib.from_json("{")


def test_identity_is_every_field_but_the_folder_of_the_data_and_the_devices():
    base = Config()
    for path, field in config_lib.fields():
        value = config_lib.flat(base)[path]
        other = 64 if value is None else _another(path, value, field)
        if path == "model.kind":
            continue  # has a single choice so far
        changed = _forced(base, path, other)
        same = path in config_lib.NOT_IDENTITY
        assert (config_lib.fingerprint(changed) == config_lib.fingerprint(base)) == same, path
        # A field that is still open differs from nothing, so the resolved one asks.
        assert config_lib.first_difference(changed, base) == (None if same else path)


@pytest.mark.parametrize(
    ("ours", "theirs", "differs"),
    [
        ({}, {"model.vocab_size": 1024}, None),
        ({}, {"model.d_ff": 4 * Config().model.d_model}, None),
        ({}, {"model.d_ff": 3072}, "model.d_ff"),
        ({}, {"model.d_hidden": 100}, "model.d_hidden"),
        ({"data.name": "auto"}, {"data.name": "tiny_stories"}, None),
        ({"data.name": "tiny_stories"}, {"data.name": "auto"}, "data.name"),
        ({"finetune.from_checkpoint": "w"}, {"finetune.from_checkpoint": "w", "model.d_ff": 3072}, None),
    ],
)
def test_what_is_left_open_becomes_only_what_it_can(ours, theirs, differs):
    first, second = (config_lib.replace(Config(), **changes) for changes in (ours, theirs))
    assert config_lib.first_difference(first, second) == differs


def _another(path, value, field):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    choices = [choice for choice in typing.get_args(field.type) if choice != value]
    if path == "sweep":
        return (("seed", (1, 2)),)
    return choices[0] if typing.get_origin(field.type) is typing.Literal and choices else value + "2"


def _forced(base, path, value):
    """A copy with one field changed and nothing validated."""
    first, _, rest = path.partition(".")
    if rest:
        return dataclasses.replace(base, **{first: _forced(getattr(base, first), rest, value)})
    return dataclasses.replace(base, **{"from_" if first == "from" else first: value})


ENCODERS = (None, "small", "tiny", "mini", "bert_small", "base")
DECODERS = (None, "small", "char", "paper")


def presets_of(path):
    if path.parent.name == "bert_tanh_vs_gelu":
        return (None, "small", "paper")
    return ENCODERS if path.stem.startswith(("bert_", "finetune_")) else DECODERS


PRESETS = [(path, preset) for path in CONFIGS for preset in presets_of(path)]


@pytest.mark.parametrize(("path", "preset"), PRESETS, ids=lambda part: getattr(part, "stem", part))
def test_every_config_file_is_valid_says_what_it_expects_and_only_overrides(path, preset):
    namespace: dict = {}
    exec(compile(path.read_text(), path, "exec"), namespace)
    config = config_lib.from_mapping(namespace["get_config"](*([preset] if preset else [])).to_dict())
    if path.stem.startswith("tinystories_"):
        assert config.model.activation == path.stem.removeprefix("tinystories_") and not config.sweep
    for word in ("Question:", "Command:", "Expected time:", "Expected loss:"):
        assert word in namespace["__doc__"], f"{path} does not state its {word}"
    assert (config.seed, config.train.dtype) == (1337, "float32")
    if path.stem.startswith("finetune_"):
        assert (config.model.n_classes, config.finetune.task) == (2, path.stem.removeprefix("finetune_"))
        assert config.finetune.from_checkpoint.startswith(f"runs/bert_gelu_{preset or ''}")
        return
    if path.stem.startswith("bert_"):
        assert (config.model.kind, config.data.tokenizer) == ("encoder", "wordpiece")
        assert config.model.activation == path.stem.removeprefix("bert_") and config.model.head_activation == "gelu"
        return
    encoder = config.model.kind == "encoder"
    recipe = (0.999, "linear") if encoder else (0.95, "cosine")
    assert (config.optimizer.b1, config.optimizer.b2, config.optimizer.schedule) == (0.9, *recipe)
    if (preset or ("small" if path.stem == "study" else "char")) != "small":
        assert config.train.n_steps == 5000 and config.model.context == 128


def test_a_swap_may_be_set_as_a_mapping_and_its_fields_on_their_own():
    values = config_lib.default()
    values.finetune.swap = {"from": "gelu", "to": "relu", "blocks": 0}
    config = config_lib.from_mapping(values.to_dict())
    assert config.finetune.swap == SwapConfig("gelu", "relu", 0)
    assert replace(Config(), **{"finetune.swap.from": "gelu", "finetune.swap.to": "relu"}) == config
    assert config_lib.flat(config)["finetune.swap.from"] == "gelu"
    assert json.loads(config_lib.to_json(config))["finetune"]["swap"] == {"from": "gelu", "to": "relu", "blocks": 0}


SWAP = {"finetune.swap.from": "gelu", "finetune.swap.to": "relu", "finetune.from_checkpoint": "runs/x"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"finetune.task": "wishes"}, "did you mean 'wish'"),
        ({"finetune.task": "wish"}, "has 2 classes, but config.model.n_classes=0: set it to 2"),
        ({**SWAP, "finetune.swap.blocks": 7}, "blocks=7 is more than config.model.n_layers=6"),
        ({**SWAP, "finetune.swap.blocks": -1}, "the least it takes is 0"),
        (
            {**SWAP, "finetune.swap.from": "silu"},
            "from='silu' is not the model's activation, config.model.activation='gelu'",
        ),
        ({**SWAP, "finetune.swap.blocks": 1, "finetune.from_checkpoint": ""}, "blocks=1 needs .*from_checkpoint"),
        ({**SWAP, "finetune.swap.blocks": 1, "finetune.swap.to": ""}, "blocks=1 needs .*swap.to"),
        ({**SWAP, "finetune.fold": True}, "needs a bias to fold the mean into"),
        (
            {**SWAP, "finetune.fold": True, "model.activation_norm": "rmsnorm"},
            "no mean through .*activation_norm='rmsnorm'",
        ),
        (
            {"finetune.task": "wish", "model.kind": "encoder", "model.n_classes": 2, "data.corruption": "random"},
            "corruption='random' leaves no document",
        ),
    ],
)
def test_a_finetuning_that_cannot_be_is_refused_by_field(changes, words):
    with pytest.raises(UserError, match=words):
        replace(Config(), **changes)


def test_an_unknown_preset_is_answered_with_the_nearest():
    from actlab import presets

    with pytest.raises(UserError, match="did you mean 'small'"):
        presets.tinystories("smal", {})


def test_a_config_file_may_hold_no_key_of_its_own():
    groups = {"model", "optimizer", "data", "finetune", "train", "devices", "log"}
    assert json.loads(config_lib.to_json(Config())).keys() == {"seed", "sweep", *groups}
