"""Weights to and from directories of transformers: config.json and safetensors. Neither it nor torch is needed."""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from actlab import config as config_lib
from actlab import models
from actlab.config import Config, ModelConfig
from actlab.errors import UserError
from actlab.files import flush
from actlab.interop import tensors
from actlab.interop.architecture import CONFIG, Architecture, Fields, Link, Shape, Weights, flat, nested, read_fields
from actlab.interop.bert import BERT, ROBERTA
from actlab.interop.gpt2 import GPT2
from actlab.interop.llama import LLAMA
from actlab.interop.tensors import Stored
from actlab.models.model import Params

ARCHITECTURES = {architecture.model_type: architecture for architecture in (GPT2, LLAMA, BERT, ROBERTA)}
RECORD = "actlab"  # the entry of config.json that holds our own fields


class Loaded(NamedTuple):
    """A model's fields and its parameters, as `models.build(config).apply(params, tokens)` takes them."""

    config: ModelConfig
    params: Params


def load(directory: str | pathlib.Path) -> Loaded:
    """Reads GPT-2, LLaMA, BERT or RoBERTa, from any float dtype, as float32.

    What `save` wrote comes back bit for bit, with its own fields. Key-value heads that query heads share are repeated.
    An encoder has its masked-token head, or pooler and classifier if the directory is ForSequenceClassification.

    Raises:
        UserError: if the directory or its safetensors are missing or damaged, do not match config.json, or config.json
            has a field that our models cannot express; it is named.
    """
    directory = pathlib.Path(directory)
    fields = read_fields(directory)
    architecture = _of_type(fields)
    config = _config(architecture, fields)
    stored = _full_names(architecture, tensors.find(directory))
    if config.n_layers > len(stored):  # before a model of that depth is traced
        raise UserError(f"{fields.place} has {config.n_layers} layers, but {directory} holds {len(stored)} tensors.")
    # The families have biases. Those that our config lacks must be zero in the files.
    full = _shapes(dataclasses.replace(config, use_bias=True))
    links = architecture.links(config, fields)
    _check(architecture, links, full, stored, fields)
    leaves = {
        link.ours: link.join([stored[name].read() for name in link.theirs])
        if link.theirs
        else np.zeros(full[link.ours], np.float32)
        for link in links
    }
    return Loaded(config, nested(_without_biases(leaves, _shapes(config), fields)))


def save(
    config: ModelConfig,
    params: Params,
    directory: str | pathlib.Path,
    beside: Sequence[pathlib.Path] = (),
    end_of_text: int | None = None,
) -> None:
    """Writes a directory that transformers' from_pretrained reads: GPT-2, LLaMA or BERT, whichever the model is.

    Parameters are written in float32, with the factors of mup folded in; biases that only the family has are zeros.
    Files `beside`, such as a vocabulary, are copied too. `end_of_text` is the token between a decoder's texts, with
    which it begins and ends generation. The directory appears at once and whole, and replaces only one that this
    function wrote.

    Raises:
        UserError: for a model without a counterpart, naming the field; for parameters of another model; for a
            directory that holds anything else or cannot be written.
    """
    params, config = models.build(config).standard(params), dataclasses.replace(config, parametrization="standard")
    architecture = _like(config)
    described = {"model_type": architecture.model_type, **architecture.describe(config)}
    if config.kind == "decoder":
        # Also where it is None: the defaults of transformers are ids of their own vocabularies.
        described |= {"bos_token_id": end_of_text, "eos_token_id": end_of_text}
    full = _shapes(dataclasses.replace(config, use_bias=True))
    leaves = _with_biases(params, _shapes(config), full)
    theirs: dict[str, Weights] = {}
    links = architecture.links(config, Fields(described, CONFIG))
    if unlinked := leaves.keys() - {link.ours for link in links}:
        raise UserError(f"{min(unlinked)} of this model has no counterpart in {architecture.family} of transformers.")
    for link in links:
        if link.theirs:
            theirs |= link.part(leaves[link.ours])
        elif leaves[link.ours].any():
            raise UserError(
                f"config.model.use_bias=True: {link.ours} is not zero, and {architecture.family} of transformers has "
                "no such parameter: train with use_bias=False or tied embeddings."
            )
    record = {RECORD: {"model": dataclasses.asdict(config)}}
    with _replacing(pathlib.Path(directory)) as draft:
        tensors.write(theirs, draft / tensors.WEIGHTS)
        (draft / CONFIG).write_text(json.dumps({**described, **record}, indent=2) + "\n")
        for path in beside:
            shutil.copyfile(path, draft / path.name)


def _like(config: ModelConfig) -> Architecture:
    if config.kind == "encoder":
        return BERT
    return LLAMA if config.position == "rotary" else GPT2


def _of_type(fields: Fields) -> Architecture:
    name = fields.text("model_type", "")
    if name not in ARCHITECTURES:
        fields.refuse("model_type", f"known are {', '.join(ARCHITECTURES)}")
    fields.require("quantization_config", None)
    return ARCHITECTURES[name]


def _config(architecture: Architecture, fields: Fields) -> ModelConfig:
    config = _validated(architecture.read(fields), fields.place)
    record = fields.get(RECORD)
    if record is None:
        return config
    own = record.get("model") if isinstance(record, dict) else None
    if not isinstance(own, dict):
        fields.refuse(RECORD, "it must hold the fields of a model; remove it")
    recorded = _validated(own, fields.place)
    before, now = architecture.describe(recorded), architecture.describe(config)
    changed = [name for name in now if now[name] != before.get(name)]
    if changed:
        raise UserError(
            f"{fields.place}: {changed[0]} is {now[changed[0]]!r}, but {before.get(changed[0])!r} by the entry "
            f"{RECORD!r} that was written with it: remove that entry, or undo the change."
        )
    return recorded


def _validated(changes: dict[str, Any], place: str) -> ModelConfig:
    try:
        return config_lib.replace(Config(), **{f"model.{name}": value for name, value in changes.items()}).model
    except UserError as error:
        raise UserError(f"{place} describes a model that is not supported: {error}") from error


def _shapes(config: ModelConfig) -> dict[str, Shape]:
    tree = jax.eval_shape(models.build(config).init, jax.random.key(0))
    return {path: leaf.shape for path, leaf in flat(tree).items()}


def _full_names(architecture: Architecture, found: dict[str, Stored]) -> dict[str, Stored]:
    """Names with the prefix that a directory of the bare model omits, and with today's names of norms."""
    for old, new in (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")):
        found = {name.replace(old, new): stored for name, stored in found.items()}
    if any(name.startswith(architecture.prefix) for name in found):
        return found
    return {
        name if name.startswith(architecture.heads) else architecture.prefix + name: stored
        for name, stored in found.items()
    }


def _check(
    architecture: Architecture, links: list[Link], full: dict[str, Shape], stored: dict[str, Stored], fields: Fields
) -> None:
    wanted = {name: shape for link in links for name, shape in link.shapes(full[link.ours]).items()}
    for name, shape in wanted.items():
        if name not in stored:
            raise UserError(f"{fields.place} describes a model with {name} {list(shape)}, which the weights lack.")
        if stored[name].shape != shape:
            which = f" (vocab_size={fields.get('vocab_size')})" if fields.get("vocab_size") in shape else ""
            raise UserError(
                f"{stored[name].path}: {stored[name].name} is {list(stored[name].shape)}, but {list(shape)} by "
                f"config.json{which}: use files that belong together."
            )
    for name, tensor in stored.items():
        if name in wanted or architecture.unused.fullmatch(name):
            continue
        original = stored.get(architecture.copies.get(name, ""))
        if original is None:
            raise UserError(
                f"{tensor.path}: {tensor.name} {list(tensor.shape)} is not part of the {architecture.family} that "
                "config.json describes: use files that belong together."
            )
        if not np.array_equal(tensor.read(), original.read()):
            raise UserError(
                f"{tensor.path}: {tensor.name} differs from {original.name}, but tie_word_embeddings in config.json "
                "says that they are equal: set it to false."
            )


def _without_biases(leaves: dict[str, Weights], own: dict[str, Shape], fields: Fields) -> dict[str, jax.Array]:
    for path in leaves.keys() - own.keys():
        if leaves[path].any():
            raise UserError(
                f"{fields.place}: {path} is not zero, but the entry {RECORD!r} says use_bias=False: remove that entry."
            )
    return {path: jnp.asarray(leaves[path]) for path in own}


def _with_biases(params: Params, own: dict[str, Shape], full: dict[str, Shape]) -> dict[str, Weights]:
    leaves = {path: np.asarray(leaf, np.float32) for path, leaf in flat(params).items()}
    for path in sorted(own.keys() | leaves.keys()):
        shape = leaves[path].shape if path in leaves else None
        if shape != own.get(path):
            raise UserError(
                f"params has {path} as {shape}, but config.model wants {own.get(path)}: give matching ones."
            )
    return {path: leaves.get(path, np.zeros(shape, np.float32)) for path, shape in full.items()}


OURS = (CONFIG, tensors.WEIGHTS, "vocab.json", "merges.txt", "vocab.txt")  # the files that `save` writes


@contextlib.contextmanager
def _replacing(target: pathlib.Path) -> Iterator[pathlib.Path]:
    """A new folder that becomes `target` at the end, or is removed on an error.

    Raises:
        UserError: if `target` cannot be written, or holds other files than ours, with our record in config.json.
    """
    target = target.absolute()
    _require_ours(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        place = pathlib.Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            (place / "new").mkdir()
            yield place / "new"
            flush(*(place / "new").iterdir(), place / "new")
            if target.exists():  # a folder with files cannot be replaced in one step
                os.rename(target, place / "old")
            os.rename(place / "new", target)
        finally:
            shutil.rmtree(place, ignore_errors=True)
    except OSError as error:
        raise UserError(
            f"{target} cannot be written ({error.strerror or error}): make room, or choose another folder."
        ) from error


def _require_ours(target: pathlib.Path) -> None:
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    try:
        ours = RECORD in json.loads((target / CONFIG).read_bytes())
        strange = [path.name for path in sorted(target.iterdir()) if path.name not in OURS]
    except (OSError, ValueError, TypeError):
        ours, strange = False, []
    if not ours or strange:
        what = f"holds {strange[0]}" if strange else "exists"
        raise UserError(f"{target} {what} and was not written by this command: choose another folder.")
