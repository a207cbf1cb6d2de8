"""The config files: valid for every preset, and with a docstring that says what to expect."""

import pathlib
import runpy

import pytest

from actlab import config as config_lib
from actlab.config import presets
from actlab.errors import UserError

ROOT = pathlib.Path(__file__).parents[2]
CONFIGS = sorted([*ROOT.glob("configs/*.py"), *ROOT.glob("experiments/*/study.py")])
ENCODERS = (None, "small", "tiny", "mini", "bert_small", "base")
DECODERS = (None, "small", "char", "paper")


def presets_of(path):
    if path.parent.name == "bert_tanh_vs_gelu":
        return (None, "small", "paper")
    if path.parent.name in ("width", "scale", "polynorm"):  # whose presets are others, see tests/experiments
        return (None,)
    return ENCODERS if path.stem.startswith(("bert_", "finetune_")) else DECODERS


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem if path.stem != "study" else path.parent.name)
def test_every_config_file_is_valid_and_says_what_it_expects(path):
    names = runpy.run_path(str(path))
    for word in ("Question:", "Command:", "Expected time:", "Expected loss:"):
        assert word in names["__doc__"], f"{path} does not state its {word}"
    for preset in presets_of(path):
        config = config_lib.from_mapping(names["get_config"](*([preset] if preset else [])).to_dict())
        model, optimizer = config.model, config.optimizer
        assert (config.seed, config.train.dtype) == (1337, "float32")
        kind, _, rest = path.stem.partition("_")
        if kind == "finetune":
            assert (model.n_classes, config.finetune.task) == (2, rest)
            assert config.finetune.from_checkpoint.startswith(f"runs/bert_gelu_{preset or ''}")
        elif kind == "bert":
            assert (model.kind, config.data.tokenizer) == ("encoder", "wordpiece")
            assert (model.activation, model.head_activation) == (rest, "gelu")
        else:
            if kind == "tinystories":
                assert model.activation == rest and not config.sweep
            recipe = (0.999, "linear") if model.kind == "encoder" else (0.95, "cosine")
            assert (optimizer.b1, optimizer.b2, optimizer.schedule) == (0.9, *recipe)
            if (preset or ("small" if kind == "study" else "char")) != "small":
                assert config.train.n_steps == 5000 and model.context == 128


def test_an_unknown_preset_is_answered_with_the_nearest():
    with pytest.raises(UserError, match="did you mean 'small'"):
        presets.tinystories("smal", {})
