"""The axes of a sweep: what a config may say, and the sentence for what it may not."""

import pytest

from actlab import config as config_lib
from actlab.config import Config, replace
from actlab.errors import UserError


def sweep_of(sweep):
    values = config_lib.default()
    values.sweep = sweep
    return config_lib.from_mapping(values.to_dict())


def test_values_are_those_of_their_fields_and_survive_json():
    sweep = {"optimizer.learning_rate": [1, 1e-3], "train.n_steps,optimizer.warmup_steps": [[1600, 0], [3200, 32]]}
    config = sweep_of(sweep)
    assert config.sweep == (
        ("optimizer.learning_rate", (1.0, 1e-3)),
        ("train.n_steps, optimizer.warmup_steps", ((1600, 0), (3200, 32))),
    )
    assert config_lib.from_json(config_lib.to_json(config)) == config
    assert replace(config, seed=3).sweep == config.sweep
    assert config_lib.fingerprint(config) != config_lib.fingerprint(Config())


@pytest.mark.parametrize(
    ("sweep", "words"),
    [
        ({"optimizer.learning_rat": (1,)}, "did you mean 'optimizer.learning_rate'"),
        ({"sweep": (1,)}, "'sweep' is no field"),
        ({"seed": ()}, r"config.sweep\['seed'\]=\(\) must be a list of at least one value"),
        ({"seed": 3}, "must be a list"),
        ({"model.activation": "relu"}, "must be a list"),
        ({"seed": (1, 2, 1)}, "has 1 twice"),
        ({"optimizer.learning_rate": (1, 1.0)}, "has 1.0 twice"),
        ({"optimizer.learning_rate": (1e-3, float("nan"))}, "not a finite number"),
        ({"optimizer.learning_rate": (1e-3, -1.0)}, "too small"),
        ({"seed": (1, "two")}, "has type str"),
        ({"model.norm": ("layernorm", "batchnorm")}, "is not one of its choices"),
        ({"model.activation, optimizer.learning_rate": (("relu", 1e-3), ("gelu",))}, "must hold 2 values"),
        ({"model.activation, optimizer.learning_rate": ("relu", "gelu")}, "must hold 2 values"),
        ({"model.activation, optimizer.learning_rate": (("relu", 1), ("gelu", "x"))}, r"\(optimizer.learning_rate\)"),
        ({"seed": (1,), "seed, train.n_steps": ((1, 2),)}, "names 'seed' twice"),
        ({"data.tokenizer": ("bytes", "gpt2")}, "share data.tokenizer"),
        ({"devices.data": (1, 2)}, "share devices.data"),
        ({3: (1,)}, "names no field"),
        ("seed", "must map fields"),
        (7, "must map fields"),
    ],
)
def test_what_no_sweep_can_be_is_one_sentence(sweep, words):
    with pytest.raises(UserError, match=words) as caught:
        replace(Config(), sweep=sweep)
    assert "\n" not in str(caught.value)
