"""Named sizes, shared by the config files: dotted fields that override the defaults of the schema."""

from collections.abc import Mapping
from typing import Any

from ml_collections import config_dict

from actlab import config
from actlab.errors import UserError, suggestion

_DECODERS = {
    # 2 CPU cores, about 3 minutes; 1.3M parameters.
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
        # Rare, because a census of the validation set costs as much as 40 of these small batches.
        "train.probe_every": 300,
        "train.census_every": 1800,
    },
    # About 10.7M parameters over bytes: the schema's own defaults.
    "char": {},
    # The same with GPT-2's vocabulary: about 30M.
    "paper": {"data.tokenizer": "gpt2", "model.vocab_size": 50_304},
}

# 10 to 20 seconds on 2 CPU cores, so that a study of 200 runs takes an hour: 0.2M parameters over bytes, 1M tokens.
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
    "devices.max_lanes": 5,  # one program for the seeds of each rate, so that a stopped study has whole rates
}
# The same with half of the layers, 0.12M parameters, and evaluated at the start and the end only: about 9 seconds of a
# CPU core. Nothing is probed.
SHALLOW = {
    **TINY,
    "model.n_layers": 2,
    "train.eval_every": 1000,
    "train.checkpoint_every": 1000,
    "train.probe_every": 0,
    "train.census_every": 0,
    "devices.max_lanes": 8,
}
# Weights of a study, at every size. GPT-2's 0.02 gives the activation inputs of standard deviation 0.02 sqrt(D), at
# width 64 0.16, where GELU is a straight line; with fan_in it is 1 at every width. mup keeps the rates of width 64.
GPT2_INIT = {"model.init": "gpt2"}
FAN_IN = {"model.init": "fan_in", "model.parametrization": "mup"}
# Learning rates for FAN_IN in the order in which they are trained, a factor of 1.8 apart; a pilot of SHALLOW, one seed
# each, had its best at 5.6e-3 to 1.8e-2.
RATES = (1e-2, 5.6e-3, 1.8e-2, 3.2e-3, 3.2e-2)


def compared() -> config_dict.ConfigDict:
    """The decoder of `actlab compare`: 0.12M parameters over bytes, 1M of them a run, weights by their inputs."""
    return tinystories("small", {**SHALLOW, **FAN_IN, "seed": 1})


def continued() -> config_dict.ConfigDict:
    """How `actlab probe` and `swap` read a trained model, and how a swap is healed: a small rate, no weight decay.

    The model's fields are those of the checkpoint, with a context of at most 256.
    """
    changes = {
        "model.context": 256,
        "data.batch_size": 8,
        "optimizer.learning_rate": 1e-4,
        "optimizer.weight_decay": 0.0,
        "train.eval_tokens": 2**14,
    }
    return tinystories("char", changes)


# Fields that these two commands set themselves; swap sets them by its --steps.
CONTINUED_STEPS = (
    *(f"train.{name}" for name in ("n_steps", "eval_every", "checkpoint_every", "probe_every", "census_every")),
    "optimizer.warmup_steps",
)

# Layers, width and heads of Turc et al. 2019, arXiv:1908.08962, table 1; base is Devlin et al. 2018.
_BERT_SIZES = {"tiny": (2, 128, 2), "mini": (4, 256, 4), "bert_small": (4, 512, 8), "base": (12, 768, 12)}
# Devlin et al. 2018, sections A.2 and A.3, but without dropout, as in the decoder.
_BERT = {
    "model.kind": "encoder",
    "model.norm_position": "post",
    "model.norm_epsilon": 1e-12,
    "model.use_bias": True,
    "optimizer.weight_decay": 0.01,
    "optimizer.b2": 0.999,
    "optimizer.learning_rate": 1e-4,
    "optimizer.warmup_steps": 10_000,
    "optimizer.schedule": "linear",
    "optimizer.final_lr_fraction": 0.0,
    "data.tokenizer": "wordpiece",
    "data.batch_size": 256,
    "train.n_steps": 100_000,
    "train.eval_every": 2000,
    "train.checkpoint_every": 2000,
    "train.probe_every": 2000,
    "train.census_every": 10_000,
}
_ENCODERS = {
    # Minutes on 2 CPU cores. Rotary positions, because learned ones need many more steps to find a token's neighbours:
    # with them and BERT's norms the loss was 5.39 after 2,400 steps.
    "small": {
        "model.norm_position": "pre",
        "model.position": "rotary",
        "model.n_layers": 4,
        "model.d_model": 128,
        "model.n_heads": 2,
        "data.batch_size": 16,
        "data.n_stories": 30_000,
        "optimizer.learning_rate": 2e-3,
        "optimizer.warmup_steps": 200,
        "train.n_steps": 2400,
        "train.eval_every": 600,
        "train.checkpoint_every": 600,
        "train.probe_every": 600,
        "train.census_every": 2400,
    },
    **{
        name: {"model.n_layers": n_layers, "model.d_model": d_model, "model.n_heads": n_heads}
        for name, (n_layers, d_model, n_heads) in _BERT_SIZES.items()
    },
}

# Devlin et al. 2018, section A.3. Smaller models take larger learning rates.
_FINETUNED = {
    "optimizer.learning_rate": 5e-5,
    "optimizer.warmup_steps": 600,
    "optimizer.clip_norm": 1.0,
    "data.packing": "padded",
    "data.batch_size": 32,
    "model.n_classes": 2,
    "train.n_steps": 6000,
    "train.eval_every": 500,
    "train.checkpoint_every": 500,
    "train.probe_every": 500,
    "train.census_every": 6000,
}
_FINETUNED_SMALL = {
    "optimizer.learning_rate": 3e-4,
    "optimizer.warmup_steps": 40,
    "data.batch_size": 16,
    "data.n_stories": 6_400,
    "train.n_steps": 400,
    "train.eval_every": 100,
    "train.eval_tokens": 2**15,
    "train.checkpoint_every": 100,
    "train.probe_every": 200,
    "train.census_every": 400,
}


def tinystories(preset: str, overrides: Mapping[str, Any]) -> config_dict.ConfigDict:
    """A decoder on TinyStories, or on the story grammar if that is not prepared, with fields overridden.

    Raises:
        UserError: for an unknown preset.
    """
    return _overridden(_DECODERS, preset, overrides)


def bert(preset: str, overrides: Mapping[str, Any]) -> config_dict.ConfigDict:
    """A BERT-style encoder, by masked language modelling on the same text; otherwise as `tinystories`."""
    return _overridden({name: {**_BERT, **size} for name, size in _ENCODERS.items()}, preset, overrides)


def finetuned(preset: str, overrides: Mapping[str, Any]) -> config_dict.ConfigDict:
    """An encoder of `bert` with two classes, to start from the checkpoint that the overrides name."""
    sizes = {
        name: {**_BERT, **size, **_FINETUNED, **(_FINETUNED_SMALL if name == "small" else {})}
        for name, size in _ENCODERS.items()
    }
    return _overridden(sizes, preset, overrides)


def _overridden(
    sizes: Mapping[str, Mapping[str, Any]], preset: str, overrides: Mapping[str, Any]
) -> config_dict.ConfigDict:
    if preset not in sizes:
        raise UserError(f"unknown preset {preset!r}: {suggestion(preset, sizes)}")
    values = config.default()
    values.update_from_flattened_dict({**sizes[preset], **overrides})
    return values


def study(preset: str, small: Mapping[str, Any], weights: Mapping[str, Any]) -> config_dict.ConfigDict:
    """A study's decoder, always on TinyStories: "small" with the study's own fields `small`, or a size for GPUs.

    `weights` are the fields that say how they are drawn, GPT2_INIT or FAN_IN, at every size.

    Raises:
        UserError: for an unknown preset.
    """
    return tinystories(preset, {"data.name": "tiny_stories", **weights, **(small if preset == "small" else {})})
