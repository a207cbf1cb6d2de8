"""Sizes with a name, shared by the config files."""

from collections.abc import Mapping
from typing import Any

from ml_collections import config_dict

from actlab import config
from actlab.errors import UserError, suggestion

_SIZES = {
    # 2 CPU cores, under 3 minutes; 1.3M parameters.
    "small": {
        "model.d_model": 128,
        "model.n_heads": 4,
        "data.tokenizer": "bpe:1024",
        "data.batch_size": 8,
        "data.n_stories": 30_000,
        "optimizer.learning_rate": 3e-3,
        "train.n_steps": 1800,
        "train.eval_every": 600,
        "train.checkpoint_every": 600,
        # Batches are small beside the validation set: a census may cost 40 steps.
        "train.probe_every": 300,
        "train.census_every": 1800,
    },
    # About 10.7M parameters over bytes: the schema's own defaults.
    "char": {},
    # The same with GPT-2's vocabulary: about 30M.
    "paper": {"data.tokenizer": "gpt2", "model.vocab_size": 50_304},
}

# A run of 10 to 20 seconds on 2 CPU cores, so that a study of 200 takes an hour: 0.2M parameters over bytes, 1M tokens.
TINY = {
    "model.n_layers": 4,
    "model.d_model": 64,
    "model.n_heads": 2,
    "model.context": 64,
    "data.tokenizer": "bytes",
    "data.batch_size": 16,
    "optimizer.warmup_steps": 50,
    "train.n_steps": 1000,
    "train.steps_per_call": 50,
    "train.log_every": 50,
    "train.eval_every": 500,
    "train.checkpoint_every": 500,
    "train.probe_every": 500,
    "train.census_every": 1000,
    "devices.max_lanes": 5,  # a program per rate with its five seeds: what is done is always whole rates of everything
}


def tinystories(preset: str, overrides: Mapping[str, Any]) -> config_dict.ConfigDict:
    """A decoder on TinyStories, or on the embedded corpus where that is not prepared, with fields overridden.

    Raises:
        UserError: for a preset that is not known.
    """
    if preset not in _SIZES:
        raise UserError(f"preset {preset!r} is not known: {suggestion(preset, _SIZES)}")
    values = config.default()
    values.update_from_flattened_dict({**_SIZES[preset], **overrides})
    return values


def study(preset: str, small: Mapping[str, Any]) -> config_dict.ConfigDict:
    """A study's decoder on TinyStories, and on nothing else: "small" with a study's own `small`, or a size of the GPU.

    Raises:
        UserError: for a preset that is not known.
    """
    return tinystories(preset, {"data.name": "tiny_stories", **(small if preset == "small" else {})})
