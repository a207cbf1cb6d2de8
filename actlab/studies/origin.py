"""Where a run starts that does not start from its seed: another run of ours, or a Hugging Face directory."""

import dataclasses
import json
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from actlab import config as config_lib
from actlab import models
from actlab.config import Config, ModelConfig, SwapConfig
from actlab.data import gpt2, tokenizers, wordpiece
from actlab.data.tokenizer import Tokenizer
from actlab.errors import UserError
from actlab.models.model import Params
from actlab.studies import swap, trained
from actlab.training.losses import Examples
from actlab.training.setting import Setting

FIELD = "config.finetune.from_checkpoint"
VOCABULARIES = {"wordpiece": (wordpiece.VOCABULARY,), "dir": (gpt2.VOCABULARY, gpt2.MERGES)}  # files of tokenizers
HEADS = ("pooler", "classifier", "head", "head_norm", "output_bias", "output")
# Told apart by other rules, or without meaning once there are parameters.
_FREE = ("activation", "context", "init", "n_classes", "head_activation", "pooler_activation")


class Origin(NamedTuple):
    """A trained model: its shape, the tokenizer it was trained with where that is known, its parameters when asked."""

    name: str
    model: ModelConfig
    swap: SwapConfig
    tokenizer: Tokenizer | None
    load: Callable[[], tuple[Params, str]]  # parameters, and words on which


def of(config: Config) -> Origin | None:
    """The origin of a run, None where all is drawn from the seed; parameters are not read yet.

    `{seed}`, or any other field in braces, stands for the run's own value.

    Raises:
        UserError: for a folder that is neither a workdir with a checkpoint nor a Hugging Face directory.
    """
    if not config.finetune.from_checkpoint:
        return None
    name = name_of(config)
    path, _, run = name.partition(":")
    folder = pathlib.Path(path)
    if (folder / "manifest.json").is_file():
        return _ours(name, folder, run or None)
    if _is_hugging_face(folder):
        return _theirs(name, folder)
    raise UserError(
        f"{FIELD}={name!r} is neither a workdir of actlab.main that has been trained nor a Hugging Face directory: "
        "give the path of one."
    )


def name_of(config: Config) -> str:
    """The checkpoint that a run names, fields in braces filled in; raises UserError for one that is no field."""
    values = config_lib.flat(config)

    def value(match: re.Match[str]) -> str:
        config_lib.require_path(match[1])
        return str(values[match[1]])

    return re.sub(r"\{([^{}]*)\}", value, config.finetune.from_checkpoint)


def adopt(config: Config, origin: Origin | None) -> Config:
    """The config with what it leaves open as the origin has it."""
    if origin is None:
        return config
    open_fields = [name for name, value in vars(config.model).items() if value is None]
    return config_lib.replace(config, **{f"model.{name}": getattr(origin.model, name) for name in open_fields})


def require_fitting(config: Config, origin: Origin, tokenizer: Tokenizer) -> None:
    """Raises UserError, with the field, unless the origin's parameters fit a resolved config and its tokenizer."""
    ours, theirs = dataclasses.asdict(config.model), dataclasses.asdict(origin.model)
    for name in ours:
        if name not in _FREE and None not in (ours[name], theirs[name]) and ours[name] != theirs[name]:
            raise _differs(f"model.{name}", repr(ours[name]), repr(theirs[name]), origin)
    if config.model.context > origin.model.context:
        raise _differs("model.context", config.model.context, f"at most {origin.model.context}", origin)
    for name, classes in (("head_activation", 0), ("pooler_activation", config.model.n_classes)):
        if config.model.n_classes == origin.model.n_classes == classes and ours[name] != theirs[name]:
            raise _differs(f"model.{name}", repr(ours[name]), repr(theirs[name]), origin)
    before, after = _activations(origin.model, origin.swap), _activations(config.model, config.finetune.swap)
    wanted = config.finetune.swap
    for index, (theirs_have, ours_have) in enumerate(zip(before, after, strict=True)):
        swapped = (theirs_have, ours_have) == (wanted.from_, wanted.to)
        if theirs_have != ours_have and not swapped:
            raise _differs(f"model.activation (block {index})", repr(ours_have), repr(theirs_have), origin)
    if origin.tokenizer is not None and origin.tokenizer.hash != tokenizer.hash:
        raise _differs("data.tokenizer", repr(config.data.tokenizer), f"another, {origin.tokenizer.name!r}", origin)


def tokenizer_in(folder: pathlib.Path) -> str | None:
    """The data.tokenizer whose files a Hugging Face directory holds."""
    held = (kind for kind, names in VOCABULARIES.items() if all((folder / name).is_file() for name in names))
    return next((f"{kind}:{folder}" for kind in held), None)


def given(setting: Setting) -> tuple[list[Params], list[str]] | None:
    """The parameters that each lane does not draw from its seed, and words for who reads; None where all are drawn.

    Raises:
        UserError: for an origin without a sound checkpoint.
    """
    if not setting.config.finetune.from_checkpoint:
        return None
    pairs = [_lane(setting, config) for config in setting.configs]
    return [params for params, _ in pairs], list(dict.fromkeys(words for _, words in pairs))


def _lane(setting: Setting, config: Config) -> tuple[Params, str]:
    origin = of(config)
    assert origin is not None
    params, words = origin.load()
    if config.finetune.fold:
        before = models.build(origin.model, swap=origin.swap)
        params = swap.folded(before, setting.model, params, *_batches(setting, config))
    kept, drawn = _fitted(setting.model, params)
    return kept, f"{words}; drawn from the seed: {', '.join(drawn) or 'nothing'}"


def _batches(setting: Setting, config: Config) -> tuple[Array, Callable[[Array, Array], Examples]]:
    """The first training batches of a run, as many as a mean asks for: their rows, and what makes examples of them."""
    n_batches = -(-swap.FOLD_TOKENS // (config.data.batch_size * config.model.context))
    rows_NBW = np.stack([setting.feed.batch(config.seed, step, slice(None)) for step in range(n_batches)])
    key = jax.random.key(config.seed)
    return jnp.asarray(rows_NBW), lambda rows, step: setting.objective.training(rows, jax.random.fold_in(key, step))


def _fitted(model: models.Model, params: Params) -> tuple[Params, list[str]]:
    """The arrays that a model takes over, and the names of the heads that it does not find among them."""
    wanted = jax.eval_shape(model.init, jax.random.key(0))
    kept = {name: part for name, part in params.items() if name in wanted and _alike(part, wanted[name])}
    if "position_embedding" in wanted and "position_embedding" not in kept:
        rows = len(wanted["position_embedding"]["embedding"])
        kept["position_embedding"] = {"embedding": params["position_embedding"]["embedding"][:rows]}
    drawn = [name for name in wanted if name not in kept]
    lost = [name for name in [*drawn, *params] if name not in kept and name not in HEADS]
    if lost:
        raise UserError(f"{FIELD}: {lost[0]} is not in both models, or of other shapes: take a model of the same kind.")
    return kept, sorted(drawn)


def _alike(part: Any, wanted: Any) -> bool:
    shapes = [jax.tree.map(lambda leaf: tuple(leaf.shape), tree) for tree in (part, wanted)]
    return shapes[0] == shapes[1]


def _ours(name: str, folder: pathlib.Path, run: str | None) -> Origin:
    try:
        found = trained.find(folder, run)
    except UserError as error:
        raise UserError(f"{FIELD}={name!r}: {error} A run of a sweep is named after a colon.") from error

    def load() -> tuple[Params, str]:
        whole = trained.load(folder, run)
        return whole.params, f"{name}, step {whole.step}"

    return Origin(name, found.config.model, found.config.finetune.swap, found.tokenizer, load)


def _theirs(name: str, folder: pathlib.Path) -> Origin:
    from actlab.interop import huggingface  # needs safetensors, an extra

    loaded = huggingface.load(folder)
    held = tokenizer_in(folder)
    tokenizer = tokenizers.make(held, folder, ()) if held else None
    return Origin(name, loaded.config, SwapConfig(), tokenizer, lambda: (loaded.params, name))


def _is_hugging_face(folder: pathlib.Path) -> bool:
    try:
        fields = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError):
        return False
    return isinstance(fields, Mapping) and "model_type" in fields


def _activations(model: ModelConfig, swapped: SwapConfig) -> Sequence[str]:
    return [swapped.to] * swapped.blocks + [model.activation] * (model.n_layers - swapped.blocks)


def _differs(path: str, ours: object, theirs: object, origin: Origin) -> UserError:
    return UserError(
        f"config.{path}={ours}, but {FIELD}={origin.name!r} was trained with {theirs}: set the same, or name another "
        "checkpoint."
    )
