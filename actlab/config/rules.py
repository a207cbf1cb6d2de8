"""What a config may be: the values of each field, the axes of a sweep, and the rules between fields."""

import dataclasses
import math
import pathlib
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from actlab.config.schema import CLASSES, Axis, Config, DataConfig, ModelConfig, fields, types_of
from actlab.errors import CONTROL, UserError, shown, suggestion
from actlab.files import at_colon, fault_of_path

MOST_RUNS = 10_000  # of a sweep: each is checked before the first is trained, in milliseconds
MOST_PARAMETERS = 10**12  # twice the largest dense models
MOST_TOKENS = 2**27  # of a step: larger batches than anybody's, and half a gigabyte of ids
_LARGEST_FLOAT, _LARGEST_INT = (2 - 2**-23) * 2.0**127, 2**31 - 1  # of float32 and int32, as a program computes
_LONGEST_TEXT = 4096  # characters; a path has as many


# What nanoGPT, transformers and others call a field, and what they have that actlab lacks.
_ELSEWHERE = {
    **dict.fromkeys(("n_layer", "depth", "num_layers", "num_hidden_layers"), "model.n_layers"),
    **dict.fromkeys(("n_embd", "width", "hidden_size"), "model.d_model"),
    **dict.fromkeys(("n_head", "num_heads", "num_attention_heads"), "model.n_heads"),
    **dict.fromkeys(("d_mlp", "mlp_dim", "intermediate_size"), "model.d_ff"),
    **dict.fromkeys(("block_size", "seq_len", "sequence_length", "max_position_embeddings"), "model.context"),
    **dict.fromkeys(("max_iters", "max_steps", "num_steps", "steps"), "train.n_steps"),
    **dict.fromkeys(("grad_clip", "clip"), "optimizer.clip_norm"),
    **dict.fromkeys(("path", "folder", "dataset_dir"), "data.dir"),
    "dataset": "data.name",
}
_ABSENT = {
    **dict.fromkeys(("epochs", "n_epochs", "num_epochs"), "a run is as long as train.n_steps says"),
    **dict.fromkeys(("dropout", "p_dropout", "dropout_rate"), "actlab trains without dropout"),
    **dict.fromkeys(
        ("grad_accum", "gradient_accumulation", "gradient_accumulation_steps"), "actlab does not accumulate gradients"
    ),
    **dict.fromkeys(
        ("optimizer.name", "optimizer.type", "optimizer.momentum", "momentum"), "AdamW is the only optimizer"
    ),
}


def unknown(path: str, valid: Iterable[str]) -> str:
    """The sentence about a field that does not exist: the nearest of the `valid` ones, or that there is none."""
    last = path.rpartition(".")[2]
    if absent := _ABSENT.get(path, _ABSENT.get(last)):
        return f"unknown field config.{path}: {absent}; leave this field out."
    return f"unknown field config.{path}: {suggestion(_ELSEWHERE.get(last, path), valid)}"


def require_path(path: str) -> None:
    """Raises UserError, with the nearest valid path, unless `path` names a field."""
    inner = [known for known in fields() if known.startswith(f"{path}.")]
    if inner:
        raise UserError(f"config.{path} is a section, not a field: set one of its fields, such as config.{inner[0]}.")
    if path not in fields():
        raise UserError(unknown(path, fields()))


def checked(entry: dataclasses.Field[Any], value: Any, path: str) -> Any:
    """The value of a field, with an int turned into a float where the field is one.

    Raises:
        UserError: for a wrong type, an unknown choice, a text that is too long or has control characters, or a number
            that is not finite or out of bounds.
    """
    allowed = types_of(entry)
    if type(value).__module__ == "numpy" and not getattr(value, "shape", True):
        # A scalar, as of np.geomspace; float32's 0.01 is meant, not 0.009999999776 as .item() gives.
        value = float(str(value)) if isinstance(value.item(), float) else value.item()
    if isinstance(value, pathlib.PurePath):
        value = str(value)
    if float in allowed and type(value) is int:
        value = float(value) if abs(value) <= _LARGEST_FLOAT else math.inf
    if type(value) not in allowed:
        names = " or ".join("None" if kind is types.NoneType else kind.__name__ for kind in allowed)
        raise UserError(f"{path}={shown(value)} has type {type(value).__name__}, but the field takes {names}.")
    choices = typing.get_args(entry.type) if typing.get_origin(entry.type) is Literal else entry.metadata["choices"]
    if choices and value not in choices:
        raise UserError(f"{path}={shown(value)} is not one of the choices: {suggestion(value, choices)}")
    if isinstance(value, str):
        if len(value) > _LONGEST_TEXT:
            raise UserError(f"{path}={shown(value)} has {len(value):,} characters: the maximum is {_LONGEST_TEXT:,}.")
        if CONTROL.search(value):
            raise UserError(f"{path}={shown(value)} has a control character: leave it out.")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        _check_bounds(entry.metadata, value, path)
    return value


def _check_bounds(bounds: Mapping[str, Any], value: int | float, path: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{path}={value!r} must be finite: give another number.")
    if bounds["above"] is not None and value <= bounds["above"]:
        raise UserError(f"{path}={shown(value)} is too small: it must be greater than {bounds['above']:g}.")
    if bounds["low"] is not None and value < bounds["low"]:
        raise UserError(f"{path}={shown(value)} is too small: the minimum is {bounds['low']:g}.")
    high = min(bounds["high"], _LARGEST_INT if type(value) is int else _LARGEST_FLOAT)
    if value > high:
        most = f"{high:,}" if isinstance(high, int) else f"{high:g}"
        raise UserError(f"{path}={shown(value)} is too large: the maximum is {most}.")


def axis_fields(key: str) -> tuple[str, ...]:
    """The fields of an axis of a sweep, given its key."""
    return tuple(path.strip() for path in key.split(","))


def axis_rows(axis: Axis) -> tuple[tuple[Any, ...], ...]:
    """The values of an axis, each as a row of one value per field."""
    key, values = axis
    return values if len(axis_fields(key)) > 1 else tuple((value,) for value in values)


def parse_sweep(sweep: Any) -> tuple[Axis, ...]:
    """The axes of `config.sweep`, a mapping or pairs, with every value checked.

    Axes multiply: {"seed": (1, 2), "optimizer.learning_rate": (1e-3, 3e-3)} is four runs. Fields that change together
    share an axis, whose values are rows: {"train.n_steps, optimizer.warmup_steps": ((1600, 0), (1600, 32))}.

    Raises:
        UserError: for an unknown field, one that the runs of a sweep share or that has two axes, an axis without
            values, a row of the wrong length, a repeated value, a value that the field does not take, or more than
            MOST_RUNS runs.
    """
    if not isinstance(sweep, Mapping | Sequence) or isinstance(sweep, str):
        raise UserError(f"config.sweep={shown(sweep)} must map fields to lists of values, as in {{'seed': (1, 2)}}.")
    pairs = list(sweep.items() if isinstance(sweep, Mapping) else sweep)
    if wrong := [pair for pair in pairs if not isinstance(pair, list | tuple) or len(pair) != 2]:
        raise UserError(f"config.sweep has {shown(wrong[0])}, which is not a field and a list of values: correct it.")
    # Before the values are looked at, let alone multiplied.
    n_runs = math.prod(len(values) for _, values in pairs if isinstance(values, list | tuple | range))
    if n_runs > MOST_RUNS:
        raise UserError(f"config.sweep has {n_runs:,} runs, more than the maximum of {MOST_RUNS:,}: shorten an axis.")
    axes = tuple(_axis(key, values) for key, values in pairs)
    seen: set[str] = set()
    for path in (path for key, _ in axes for path in axis_fields(key)):
        if path in seen:
            raise UserError(f"config.sweep names {path!r} twice: give each field one axis.")
        seen.add(path)
    return axes


def _axis(key: Any, values: Any) -> Axis:
    where = f"config.sweep[{shown(key)}]"
    if not isinstance(key, str):
        raise UserError(f"{where} is not the name of a field: write it as text, such as 'seed'.")
    entries = {path: entry for path, entry in fields().items() if path != "sweep"}
    paths = axis_fields(key)
    for path in paths:
        if path not in entries:
            raise UserError(f"{where}: {unknown(path, entries)}")
        if entries[path].metadata["roles"] & {"shared", "external"}:
            raise UserError(f"{where}: all runs of a sweep share {path}: start one sweep for each value.")
    if not isinstance(values, list | tuple | range) or not values:
        hint = "; of an array write .tolist()" if hasattr(values, "tolist") else ""
        raise UserError(f"{where}={shown(values)} must be a list of at least one value{hint}.")
    rows: list[Any] = list(values)
    if len(paths) == 1:
        given = tuple(checked(entries[paths[0]], value, where) for value in rows)
    else:
        for row in rows:
            if not isinstance(row, list | tuple) or len(row) != len(paths):
                raise UserError(f"{where}: {shown(row)} must have {len(paths)} values, one for each field.")
        given = tuple(
            tuple(checked(entries[path], value, f"{where} ({path})") for path, value in zip(paths, row, strict=True))
            for row in rows
        )
    seen: set[Any] = set()
    for value in given:
        if value in seen:
            raise UserError(f"{where} lists {value!r} twice: list each value once.")
        seen.add(value)
    return ", ".join(paths), given


def require_model(model: ModelConfig) -> None:
    """Raises UserError for a field that takes other values, or fields that contradict each other."""
    for entry in dataclasses.fields(ModelConfig):
        checked(entry, getattr(model, entry.name), f"config.model.{entry.name}")
    _check_model(model)


def check(config: Config) -> None:
    """Raises UserError for fields that contradict each other, each within its own bounds."""
    _check_model(config.model)
    _check_data(config)
    _check_steps(config)
    _check_finetuning(config)


def _check_model(model: ModelConfig) -> None:
    _check_heads(model)
    _check_size(model)
    if model.residual == "parallel" and model.norm_position == "post":
        raise UserError(
            "config.model.residual='parallel' needs norms before the sublayers: set config.model.norm_position='pre'."
        )
    if model.kind == "decoder" and model.n_segments != ModelConfig.n_segments:
        raise UserError(
            f"config.model.n_segments={model.n_segments} has no effect in a decoder: set config.model.kind='encoder', "
            "or keep the default."
        )
    if model.scale_embeddings and model.kind == "encoder":
        raise UserError("config.model.scale_embeddings=True has no effect in an encoder: set it to False.")
    if model.d_embedding is not None and model.kind == "decoder":
        raise UserError(
            f"config.model.d_embedding={model.d_embedding} is a field of encoders: set config.model.kind='encoder', or "
            "leave it at None."
        )
    if model.parametrization == "mup" and (model.scale_embeddings or model.d_embedding is not None):
        which = "scale_embeddings" if model.scale_embeddings else "d_embedding"
        raise UserError(
            f"config.model.{which}={getattr(model, which)} is not part of mup: set "
            "config.model.parametrization='standard', or leave it at its default."
        )
    if model.kind == "decoder" and model.n_classes:
        raise UserError(
            f"config.model.n_classes={model.n_classes} needs a pooler, which only encoders have: "
            "set config.model.kind='encoder' or n_classes=0."
        )
    if not model.n_classes and model.pooler_activation != ModelConfig.pooler_activation:
        raise UserError(
            f"config.model.pooler_activation={model.pooler_activation!r} has no effect, because a model with "
            "config.model.n_classes=0 has no pooler: set n_classes, or keep the default activation."
        )
    if model.head_activation != ModelConfig.head_activation and (model.kind == "decoder" or model.n_classes):
        without = "a decoder" if model.kind == "decoder" else f"a model with config.model.n_classes={model.n_classes}"
        raise UserError(
            f"config.model.head_activation={model.head_activation!r} has no effect, because {without} has no "
            "masked-token head: take an encoder with n_classes=0, or keep the default activation."
        )


def _check_heads(model: ModelConfig) -> None:
    if model.d_head is None and model.d_model % model.n_heads:
        raise UserError(
            f"config.model.d_model={model.d_model} is not divisible by config.model.n_heads={model.n_heads}: "
            f"choose a multiple of {model.n_heads}, or another number of heads."
        )
    if model.n_kv_heads is not None and model.n_heads % model.n_kv_heads:
        raise UserError(
            f"config.model.n_kv_heads={model.n_kv_heads} does not divide config.model.n_heads={model.n_heads}: choose "
            f"a divisor of {model.n_heads}."
        )
    scaling = rotary_scaling(model.rotary_scaling)
    if model.position != "rotary":
        for name in ("rotary_base", "rotary_fraction", "rotary_scaling"):
            if getattr(model, name) != getattr(ModelConfig, name):
                raise UserError(
                    f"config.model.{name}={getattr(model, name)!r} has no effect with "
                    f"config.model.position={model.position!r}: set position='rotary', or keep the default."
                )
        return
    d_head = model.d_head or model.d_model // model.n_heads
    if (n_rotating := int(model.rotary_fraction * d_head)) % 2 or not n_rotating:
        which = "heads of even size" if model.rotary_fraction == 1 else f"an even share of a head's {d_head} units"
        raise UserError(
            f"config.model.position='rotary' needs {which}, not {n_rotating}: change config.model.d_model, "
            "config.model.n_heads, d_head or rotary_fraction."
        )
    if scaling and scaling.kind == "llama3" and scaling.low >= scaling.high:
        raise UserError(
            f"config.model.rotary_scaling={model.rotary_scaling!r}: low must be less than high: exchange them."
        )


def _check_size(model: ModelConfig) -> None:
    d_heads = (model.d_head or model.d_model // model.n_heads) * model.n_heads
    d_hidden = model.d_hidden or model.d_ff or 4 * model.d_model
    n_least = model.n_layers * 2 * model.d_model * (d_heads + d_hidden)
    n_least += (model.vocab_size or 0) * (model.d_embedding or model.d_model)
    if n_least > MOST_PARAMETERS:
        raise UserError(
            f"config.model.n_layers={model.n_layers} and config.model.d_model={model.d_model} give over "
            f"{n_least:,} parameters, more than the maximum of {MOST_PARAMETERS:,}: lower one of them."
        )


class RotaryScaling(NamedTuple):
    """How rotations are slowed down; see `rotary_scaling`."""

    kind: str  # linear or llama3
    factor: float
    low: float = 0.0
    high: float = 0.0
    context: float = 0.0


def rotary_scaling(text: str) -> RotaryScaling | None:
    """The scaling that `config.model.rotary_scaling` names; None for "none".

    Raises:
        UserError: for anything but none, linear(factor=F) and llama3(factor=F, low=A, high=B, context=N), with numbers
            above 0.
    """
    if text == "none":
        return None
    form = re.fullmatch(r"(linear|llama3)\((.*)\)", text)
    if form:
        number = r"[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]{1,2})?"
        parts = [re.fullmatch(rf" *(\w+) *= *({number}) *", part) for part in form[2].split(",")]
        given = {part[1]: float(part[2]) for part in parts if part}
        names = {"linear": ["factor"], "llama3": ["factor", "low", "high", "context"]}[form[1]]
        if len(given) == len(parts) and list(given) == names and min(given.values()) > 0:
            return RotaryScaling(form[1], **given)
    raise UserError(
        f"config.model.rotary_scaling={text!r} is unknown: take none, linear(factor=2) or "
        "llama3(factor=8, low=1, high=4, context=8192), with numbers above 0."
    )


def _check_data(config: Config) -> None:
    if config.model.kind == "decoder" and config.data.mask_fraction != DataConfig.mask_fraction:
        raise UserError(
            f"config.data.mask_fraction={config.data.mask_fraction} has no effect in a decoder, which masks nothing: "
            "set config.model.kind='encoder', or keep the default."
        )
    if config.finetune.task and config.data.mask_fraction != DataConfig.mask_fraction:
        raise UserError(
            f"config.data.mask_fraction={config.data.mask_fraction} has no effect with config.finetune.task="
            f"{config.finetune.task!r}, which masks nothing: keep the default."
        )
    if config.data.packing == "padded" and config.data.corruption != "none":
        raise UserError(
            f"config.data.corruption={config.data.corruption!r} leaves no documents to pad: "
            "set config.data.packing='packed'."
        )
    n_tokens = config.data.batch_size * config.model.context
    if n_tokens > MOST_TOKENS:
        raise UserError(
            f"config.data.batch_size={config.data.batch_size} windows of config.model.context={config.model.context} "
            f"are {n_tokens:,} tokens a step, more than the maximum of {MOST_TOKENS:,}: lower one of them."
        )
    origin = config.finetune.from_checkpoint
    paths = {"data.dir": config.data.dir} | ({"finetune.from_checkpoint": at_colon(origin)[0]} if origin else {})
    for path, text in paths.items():
        if fault := fault_of_path(text):
            raise UserError(f"config.{path}={text!r} {fault}: name a folder.")


def _check_steps(config: Config) -> None:
    train, optimizer = config.train, config.optimizer
    if optimizer.warmup_steps > train.n_steps:
        raise UserError(
            f"config.optimizer.warmup_steps={optimizer.warmup_steps} is longer than the run, "
            f"config.train.n_steps={train.n_steps}: shorten the warmup."
        )


def _check_finetuning(config: Config) -> None:
    model, finetune, swap = config.model, config.finetune, config.finetune.swap
    if finetune.task and model.n_classes != CLASSES[finetune.task]:
        raise UserError(
            f"config.finetune.task={finetune.task!r} has {CLASSES[finetune.task]} classes, but config.model.n_classes="
            f"{model.n_classes}: set it to {CLASSES[finetune.task]}, with config.model.kind='encoder'."
        )
    if swap.from_ and swap.from_ != model.activation:
        raise UserError(
            f"config.finetune.swap.from={swap.from_!r} is not the model's activation, "
            f"config.model.activation={model.activation!r}: set both to the same."
        )
    if swap.blocks > model.n_layers:
        raise UserError(
            f"config.finetune.swap.blocks={swap.blocks} exceeds config.model.n_layers={model.n_layers}: "
            "choose fewer blocks."
        )
    if swap.blocks and not (swap.from_ and swap.to and finetune.from_checkpoint):
        raise UserError(
            f"config.finetune.swap.blocks={swap.blocks} needs config.finetune.swap.from, config.finetune.swap.to and "
            "a trained model, config.finetune.from_checkpoint: set all three."
        )
    if finetune.task and config.data.corruption != "none":
        raise UserError(
            f"config.data.corruption={config.data.corruption!r} leaves no documents for config.finetune.task="
            f"{finetune.task!r}: set corruption='none'."
        )
    if finetune.task and model.context < 3:
        raise UserError(
            f"config.model.context={model.context} is too short for config.finetune.task={finetune.task!r}, since two "
            "marks stand around each document: set it to 3 or more."
        )
    if finetune.task and config.data.packing == "packed":
        raise UserError(
            f"config.data.packing='packed' has no effect with config.finetune.task={finetune.task!r}, whose rows are a "
            "document each: set it to 'padded'."
        )
    if finetune.fold and model.activation_norm != "none":
        raise UserError(
            f"config.finetune.fold=True cannot keep a mean through config.model.activation_norm="
            f"{model.activation_norm!r}: use a model without it, or fold=False."
        )
    if finetune.fold and not model.use_bias:
        raise UserError(
            "config.finetune.fold=True needs biases, but config.model.use_bias=False: use a model with biases, or "
            "fold=False."
        )
    if finetune.fold and not (finetune.from_checkpoint and swap.to):
        raise UserError(
            "config.finetune.fold=True has no effect without config.finetune.from_checkpoint and "
            "config.finetune.swap.to: set both, or fold=False."
        )
