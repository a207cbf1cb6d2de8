"""The flag --config: a config file, or values from a config.json with which nothing is run."""

import pathlib
import re
import sys

import pytest
from absl import flags
from absl.testing import flagsaver

from actlab import activations, config_flag
from actlab.config import Config, default, from_mapping, replace, to_config_dict, to_json
from actlab.errors import UserError

ROOT = pathlib.Path(__file__).parents[1]
CONFIGS = {
    "default": Config(),
    "set": replace(Config(), seed=3, **{"model.d_ff": 512, "devices.max_lanes": 4, "train.dtype": "bfloat16"}),
    "sweep": replace(Config(), sweep={"seed": (1, 2), "optimizer.warmup_steps, train.n_steps": ((0, 100), (10, 200))}),
}


@pytest.fixture
def read(monkeypatch):
    """A function of a command line's words: what `read` makes of them."""
    if "config" not in flags.FLAGS:
        config_flag.define()

    def read(*words, after=lambda _: None):
        with flagsaver.flagsaver():
            monkeypatch.setattr(sys, "argv", ["x", *words])
            config_flag.parse(["x", *words])
            config = config_flag.read()[0]
            after(config)
            return config

    return read


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_is_read_back_from_its_json(tmp_path, read, name):
    (tmp_path / "config.json").write_text(to_json(CONFIGS[name]))
    assert read(f"--config={tmp_path}/config.json") == CONFIGS[name]
    assert from_mapping(to_config_dict(CONFIGS[name]).to_dict()) == CONFIGS[name]


def test_overrides_come_on_top(tmp_path, read):
    (tmp_path / "config.json").write_text(to_json(CONFIGS["sweep"]))
    words = ["--config.model.d_ff=64", "--config.train.eval_every=50", "--config.optimizer.learning_rate=3e-4"]
    changes = {"model.d_ff": 64, "train.eval_every": 50, "optimizer.learning_rate": 3e-4}
    assert read(f"--config={tmp_path}/config.json", *words) == replace(CONFIGS["sweep"], **changes)


def test_an_override_that_a_sweep_would_undo_is_refused(tmp_path, read):
    (tmp_path / "config.json").write_text(to_json(CONFIGS["sweep"]))
    config = read(f"--config={tmp_path}/config.json", "--config.model.d_ff=64", after=config_flag.require_effect)
    assert config.model.d_ff == 64
    with pytest.raises(UserError, match=r"--config.seed changes nothing, because the config sweeps it"):
        read(f"--config={tmp_path}/config.json", "--config.seed=7", after=config_flag.require_effect)


def test_a_default_config_is_an_empty_sweep_that_a_file_may_fill():
    config = default()
    config.sweep = {"seed": (1, 2)}
    assert from_mapping(config.to_dict()).sweep == (("seed", (1, 2)),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot be read"),
        ("import os; os._exit(9)", "not JSON"),
        ("[1]", "must be an object"),
        ('{"seeed": 1}', "did you mean 'seed'"),
    ],
)
def test_a_json_that_is_no_config_is_refused(tmp_path, read, text, words):
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises((UserError, flags.Error), match=words):
        read(f"--config={tmp_path}/config.json")


BENT = """
import jax.numpy as jnp
from actlab import activations, presets
fn = activations.elementwise(lambda x: x + jnp.abs(x))
def get_config(preset):
    activations.register(activations.Activation(preset, fn, "x + |x|", "ours"))
    return presets.tinystories("small", {"model.activation": preset})
"""


@pytest.mark.filterwarnings("ignore:the load_module")
def test_activations_of_ones_own_are_registered_by_the_file_after_the_colon(tmp_path, read):
    (tmp_path / "mine.py").write_text(BENT)
    config = replace(Config(), **{"model.activation": "bent_by_json"})
    (tmp_path / "config.json").write_text(to_json(config))
    assert read(f"--config={tmp_path}/config.json:{tmp_path}/mine.py:bent_by_json") == config
    assert not activations.is_built_in("bent_by_json") and activations.is_built_in("gelu_scale(s=0.5)")
    with pytest.raises(flags.Error, match="nowhere.py cannot be read"):
        read(f"--config={tmp_path}/config.json:{tmp_path}/nowhere.py")


WRONG = [
    ('values.model.activatoin = "relu"', "config.model.activatoin is no field: did you mean 'model.activation'"),
    ('values.update_from_flattened_dict({"train.n_step": 3})', "config.train.n_step is no field: did you mean 'train."),
    ("values.optimizer.warmup = 3", "config.optimizer.warmup is no field: "),
    ("values.finetune.swap.blokcs = 2", "config.finetune.swap.blokcs is no field: did you mean 'finetune.swap.blocks'"),
    ("values.xyzzyq.d_model = 3", "xyzzyq is no field: valid: "),
    ("values.sede = 3", "config.sede is no field: did you mean 'seed'"),
    ("values.modle.d_model = 3", "modle is no field: did you mean 'model'"),
    ('values.model.d_model = "wide"', "d_model='wide' is a str: give a whole number"),
    ("values.model.rotary_base = print", "rotary_base='<built-in function print>' is a "),
    ("1 / 0", "the config file fails with ZeroDivisionError: division by zero"),
    ("print.wide", "the config file fails with AttributeError: 'builtin_function_or_method' object has no"),
]


@pytest.mark.filterwarnings("ignore:the load_module")
@pytest.mark.parametrize(("line", "words"), WRONG)
def test_what_a_config_file_does_wrong_is_one_sentence(tmp_path, read, line, words):
    lines = ["from actlab import config", "def get_config():", "    values = config.default()"]
    (tmp_path / "mine.py").write_text("\n".join([*lines, f"    {line}", "    return values"]))
    with pytest.raises((UserError, flags.Error), match=re.escape(words)) as refused:
        read(f"--config={tmp_path}/mine.py")
    assert "\n" not in str(refused.value) and "FieldReference" not in str(refused.value)


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("--config.seed=1.5", "--config.seed=1.5 is no whole number: give one."),
        ("--config.optimizer.learning_rate=fast", "--config.optimizer.learning_rate=fast is no number: give one."),
        ("--config.model.use_bias=maybe", "--config.model.use_bias=maybe is neither true nor false"),
        ("--config.sweep=3", "config.sweep cannot be set on the command line"),
        ("--config.model.width=3", "config.model.width is no field"),
    ],
)
def test_an_override_that_is_no_such_value_is_one_sentence(tmp_path, read, word, told):
    (tmp_path / "config.json").write_text(to_json(Config()))
    with pytest.raises(UserError, match=re.escape(told)):
        read(f"--config={tmp_path}/config.json", word)


def test_an_override_before_the_config_says_so(tmp_path, read):
    (tmp_path / "config.json").write_text(to_json(Config()))
    with pytest.raises(UserError, match="--config.seed=1 stands before --config: name the config file first"):
        read("--config.seed=1", f"--config={tmp_path}/config.json")


def test_a_field_whose_name_python_keeps_for_itself_can_be_overridden(tmp_path, read):
    (tmp_path / "config.json").write_text(to_json(Config()))
    words = [f"--config={tmp_path}/config.json", "--config.finetune.swap.from=gelu"]
    seen = []
    config = read(*words, after=lambda _: seen.append((config_flag.overrides(), sys.argv[1:])))
    assert config.finetune.swap.from_ == "gelu"
    assert seen == [({"finetune.swap.from"}, words)], "the command line is recorded as it was typed"


@pytest.mark.filterwarnings("ignore:the load_module")
@pytest.mark.parametrize("registers", [False, True])
def test_what_a_config_file_refuses_is_told_in_its_own_words(tmp_path, read, registers):
    (tmp_path / "config.json").write_text(to_json(Config()))
    before = f"{tmp_path}/config.json:" if registers else ""
    with pytest.raises((UserError, flags.Error), match="preset 'smal' is not known: did you mean 'small'") as refused:
        read(f"--config={before}{ROOT}/configs/tinystories_gelu.py:smal")
    assert "Traceback" not in str(refused.value)
