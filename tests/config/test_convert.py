"""A config as ConfigDict, JSON and dotted paths, and whether two configs are the same run."""

import json

import pytest
from hypothesis import given, settings, strategies as st

from actlab import config as config_lib
from actlab.config import Config, SwapConfig, replace
from actlab.errors import UserError


def test_a_default_is_the_schema_and_takes_any_change():
    values = config_lib.default()
    assert config_lib.from_mapping(values.to_dict()) == Config()
    values.model.d_ff = 64
    values.sweep = {"seed": (1, 2)}
    values.finetune.swap = {"from": "gelu", "to": "relu", "blocks": 0}
    swap = {"finetune.swap.from": "gelu", "finetune.swap.to": "relu"}
    config = config_lib.from_mapping(values.to_dict())
    assert config == replace(Config(), **{"model.d_ff": 64, "sweep": {"seed": (1, 2)}, **swap})
    assert config.finetune.swap == SwapConfig("gelu", "relu", 0)
    assert config_lib.flat(config)["finetune.swap.from"] == "gelu"
    assert json.loads(config_lib.to_json(config))["finetune"]["swap"] == {"from": "gelu", "to": "relu", "blocks": 0}
    values.model.d_fff = 64
    with pytest.raises(UserError, match="config.model.d_fff: did you mean 'model.d_ff'"):
        config_lib.from_mapping(values.to_dict())


@settings(max_examples=20)
@given(seed=st.integers(0, 2**31 - 1), rate=st.floats(0, 3e38), size=st.one_of(st.none(), st.integers(8, 10**5)))
def test_json_gives_the_config_back(seed, rate, size):
    config = replace(Config(), **{"seed": seed, "optimizer.learning_rate": rate, "model.d_ff": size})
    assert config_lib.from_json(config_lib.to_json(config)) == config


def test_a_workdir_of_an_earlier_version_has_the_defaults_of_what_came_later():
    swept = {"model.activation": "relu", "sweep": {"seed": (1, 2), "model.d_ff, model.n_layers": ((8, 1), (16, 2))}}
    ours = replace(Config(), **swept)
    values = json.loads(config_lib.to_json(ours))
    del values["model"]["norm_epsilon"], values["finetune"], values["devices"], values["log"]
    assert config_lib.from_json(json.dumps(values)) == ours
    for section in ("seed", "model", "optimizer", "data", "train"):  # which every version had
        with pytest.raises(UserError, match=f"config.{section}"):
            config_lib.from_json(json.dumps({name: value for name, value in values.items() if name != section}))
    values["model"]["of_old"] = 1
    with pytest.raises(UserError, match="config.model.of_old"):
        config_lib.from_json(json.dumps(values))
    with pytest.raises(UserError, match="config.model=3"):
        config_lib.from_json(json.dumps({**values, "model": 3}))


def test_a_missing_field_is_named():
    values = json.loads(config_lib.to_json(Config()))
    del values["optimizer"]["b2"]
    with pytest.raises(UserError, match=r"config\.optimizer\.b2"):
        config_lib.from_mapping(values)


def test_a_missing_section_is_named_without_its_fields():
    with pytest.raises(UserError, match=r"^config.model is missing: add it, with its fields\.$"):
        config_lib.from_mapping({"seed": 1})


def test_a_file_that_holds_no_config_is_named(tmp_path):
    path = tmp_path / "config.json"
    for text in (None, "{", "[1]", "\udcff", config_lib.to_json(Config()).replace('"n_layers"', '"n_layer"')):
        if text is not None:
            path.write_text(text, errors="surrogateescape")
        with pytest.raises(UserError, match=str(path)):
            config_lib.load(path)


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
        (
            {"finetune.from_checkpoint": "w", "model.d_ff": 64},
            {"finetune.from_checkpoint": "w", "model.d_ff": 32},
            "model.d_ff",
        ),
    ],
)
def test_what_is_left_open_becomes_only_what_it_can(ours, theirs, differs):
    first, second = (replace(Config(), **changes) for changes in (ours, theirs))
    assert config_lib.first_difference(first, second) == differs


def test_fingerprints_stay_as_they_are():
    """A default workdir is named after its config's: another one would not find the work of an earlier version."""
    changes = {"model.activation": "relu", "finetune.swap.from": "relu", "sweep": {"seed": (1, 2)}}
    digests = [config_lib.fingerprint(config)[:12] for config in (Config(), replace(Config(), **changes))]
    assert digests == ["44136fa355b3", "4d01820a0e6c"]
