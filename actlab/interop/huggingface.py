"""Weights to and from directories of transformers: config.json and safetensors. Neither it nor torch is needed."""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from actlab import config as config_lib, models
from actlab.config import Config, ModelConfig
from actlab.errors import UserError, suggestion
from actlab.files import flush, read_json
from actlab.interop import tensors
from actlab.interop.architecture import CONFIG, Family, Fields, Link, Shape, Weights, flat, nested, read_fields
from actlab.interop.decoders import DECODERS
from actlab.interop.encoders import ENCODERS
from actlab.interop.tensors import Stored
from actlab.models.model import Params

FAMILIES = {family.model_type: family for family in (*DECODERS, *ENCODERS)}
RECORD = "actlab"  # the entry of config.json that holds our own fields
# What the names of classes may end in: the bare model, and those with a head that ours have too.
TASKS = ("Model", "ForCausalLM", "ForMaskedLM", "ForPreTraining", "ForSequenceClassification")
HEADS = ("head", "head_norm", "output", "output_bias")  # what a bare model lacks


class Loaded(NamedTuple):
    """A model's fields and its parameters, as `models.build(config).apply(params, tokens)` takes them."""

    config: ModelConfig
    params: Params


class Opened(NamedTuple):
    """A directory whose config.json and headers of weights have been read and fit together; `load` reads the rest."""

    family: Family
    config: ModelConfig
    bare: bool  # without a head: there are hidden units, but no logits
    text_ids: tuple[Any, Any]  # the ids that begin and end a text
    load: Callable[[], Loaded]


class NoCounterpart(UserError):
    """No family of transformers has such a model."""


def open_directory(directory: str | pathlib.Path) -> Opened:
    """Checks a directory without reading its weights; raises UserError as `load` does."""
    directory = pathlib.Path(directory)
    fields = read_fields(directory)
    family = family_of(fields)
    config = _config(family, fields)
    stored = _full_names(family, tensors.find(directory))
    if config.n_layers > len(stored):  # before a model of that depth is traced
        raise UserError(f"{fields.place} has {config.n_layers} layers, but {directory} holds {len(stored)} tensors.")
    # The families have biases. Those that our config lacks must be zero in the files.
    full = _shapes(dataclasses.replace(config, use_bias=True))
    every = family.links(config, fields)
    links = _present(every, stored)
    _check(family, links, full, stored, fields)

    def read() -> Loaded:
        leaves: dict[str, Weights] = {}
        for link in links:
            leaves |= link.join([stored[name].read() for name in link.theirs], full)
        own = {path: shape for path, shape in _shapes(config).items() if path in leaves}
        return Loaded(config, nested(_without_biases(leaves, own, fields)))

    text_ids = (fields.get("bos_token_id"), fields.get("eos_token_id"))
    return Opened(family, config, len(links) < len(every), text_ids, read)


def load(directory: str | pathlib.Path) -> Loaded:
    """Reads a decoder or encoder of FAMILIES, from any float dtype, as float32.

    What `save` wrote comes back bit for bit, with its own fields, but for Gemma's norms: it stores their scales less 1,
    which rounds. An encoder has its masked-token head, or pooler and classifier if the directory is
    ForSequenceClassification. A bare model, saved without its head, has no parameters for one. Attention in a sliding
    window is read with a context of one window, up to which it sees everything.

    Raises:
        UserError: if the directory or its safetensors are missing or damaged, do not match config.json, or config.json
            has a field that our models cannot express; the first is named.
    """
    return open_directory(directory).load()


def family_for(config: ModelConfig, params: Params, model_type: str | None = None, padding: int | None = None) -> str:
    """The name of the family that `save` would write a model as; raises UserError as it does."""
    return FAMILIES[_described(config, params, model_type, padding)[0]["model_type"]].name


def save(
    config: ModelConfig,
    params: Params,
    directory: str | pathlib.Path,
    beside: Mapping[str, bytes] | None = None,
    begin_of_text: Any = None,
    end_of_text: Any = None,
    model_type: str | None = None,
    padding: int | None = None,
) -> str:
    """Writes a directory that transformers' from_pretrained reads, of the first family that has such a model.

    Returns the family's name.

    The family of that `model_type` is tried first. Parameters are written in float32, with the factors of mup folded
    in; biases that only the family has are zeros. Files `beside`, such as a vocabulary, are written too, by their
    names. A decoder begins and ends generation at the ids `begin_of_text` and `end_of_text`. An encoder's rows are
    filled up with the id `padding`, on which RoBERTa's positions depend. The directory appears at once and whole, and
    replaces only one that this function wrote.

    Raises:
        NoCounterpart: naming the field that no family has.
        UserError: for parameters of another model; for a directory that holds anything else or cannot be written.
    """
    described, theirs, config = _described(config, params, model_type, padding)
    if config.kind == "decoder":
        # Also where it is None: the defaults of transformers are ids of their own vocabularies.
        described |= {"bos_token_id": begin_of_text, "eos_token_id": end_of_text}
    record = {RECORD: {"model": dataclasses.asdict(config), "beside": sorted(beside or ())}}
    with _replacing(pathlib.Path(directory)) as draft:
        tensors.write(theirs, draft / tensors.WEIGHTS)
        (draft / CONFIG).write_text(json.dumps({**described, **record}, indent=2) + "\n")
        for name, content in (beside or {}).items():
            (draft / name).write_bytes(content)
    return FAMILIES[described["model_type"]].name


def _described(
    config: ModelConfig, params: Params, model_type: str | None, padding: int | None
) -> tuple[dict[str, Any], dict[str, Weights], ModelConfig]:
    """config.json and the tensors in the first family that has such a model, and the config without mup's factors."""
    params, config = models.build(config).standard(params), dataclasses.replace(config, parametrization="standard")
    leaves = _with_biases(params, _shapes(config), _shapes(dataclasses.replace(config, use_bias=True)))
    if model_type is not None and model_type not in FAMILIES:
        raise UserError(f"model_type={model_type!r} is not known: {suggestion(model_type, FAMILIES)}")
    nearest = "bert" if config.kind == "encoder" else "llama" if config.position == "rotary" else "gpt2"
    refusals: dict[str, UserError] = {}
    for name in dict.fromkeys([model_type or nearest, nearest, *FAMILIES]):
        try:
            described = FAMILIES[name].described(config)
        except UserError as error:
            refusals[name] = error
            continue
        if config.kind == "encoder":
            described |= _padded(FAMILIES[name], config, padding)
        try:
            return described, _parts(FAMILIES[name], config, described, leaves), config
        except UserError as error:
            refusals[name] = error
    raise NoCounterpart(str(refusals[nearest]))


def _padded(family: Family, config: ModelConfig, padding: int | None) -> dict[str, int]:
    """The entries of config.json that the padding's id decides."""
    if not family.counts_from_padding:
        return {} if padding is None else {"pad_token_id": padding}
    if padding is None:
        raise UserError(f"{family.name} of transformers counts positions from its padding's id: give `padding`.")
    return {"pad_token_id": padding, "max_position_embeddings": config.context + padding + 1}


def _parts(
    family: Family, config: ModelConfig, described: dict[str, Any], leaves: dict[str, Weights]
) -> dict[str, Weights]:
    theirs: dict[str, Weights] = {}
    links = family.links(config, Fields(described, CONFIG))
    if unlinked := leaves.keys() - {path for link in links for path in link.ours}:
        raise UserError(f"{min(unlinked)} of this model has no counterpart in {family.name} of transformers.")
    for link in links:
        if link.theirs:
            theirs |= link.part(leaves)
            continue
        for path in link.ours:
            if leaves[path].any():
                raise UserError(
                    f"config.model.use_bias=True: {path} is not zero, and {family.name} of transformers has no such "
                    "parameter: train with use_bias=False or tied embeddings."
                )
    return theirs


def family_of(fields: Fields) -> Family:
    """The family of a config.json; raises UserError for an unknown one, and for weights in other formats."""
    name = fields.text("model_type", "")
    if name not in FAMILIES:
        fields.refuse("model_type", f"known are {', '.join(FAMILIES)}")
    fields.require("quantization_config", None)
    for architecture in fields.get("architectures", []) if isinstance(fields.get("architectures"), list) else []:
        if not str(architecture).endswith(TASKS):
            fields.refuse("architectures", f"models here end in {', '.join(TASKS)}")
    return FAMILIES[name]


def _config(family: Family, fields: Fields) -> ModelConfig:
    config = _validated(family.model_fields(fields), fields.place)
    record = fields.get(RECORD)
    if record is None:
        return config
    own = record.get("model") if isinstance(record, dict) else None
    if not isinstance(own, dict):
        fields.refuse(RECORD, "it must hold the fields of a model; remove it")
    recorded = _validated(own, fields.place)
    if recorded.parametrization != "standard":
        fields.refuse(RECORD, "the factors of mup are in the weights, so its parametrization must be 'standard'")
    before, now = family.described(recorded), family.described(config)
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
    return {path: leaf.shape for path, leaf in flat(models.shapes(models.build(config))).items()}


def _full_names(family: Family, found: dict[str, Stored]) -> dict[str, Stored]:
    """Names with the prefix that a directory of the bare model omits, and with today's names of norms."""
    for old, new in (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")):
        found = {name.replace(old, new): stored for name, stored in found.items()}
    if any(name.startswith(family.prefix) for name in found):
        return found
    return {name if name.startswith(family.heads) else family.prefix + name: stored for name, stored in found.items()}


def _present(links: list[Link], stored: dict[str, Stored]) -> list[Link]:
    """The links of a model, without those of its head if the directory holds nothing of that."""
    of_head = [link for link in links if link.ours[0].split("/")[0] in HEADS]
    if of_head and not any(name in stored for link in of_head for name in link.theirs):
        return [link for link in links if link not in of_head]
    return links


def _check(
    family: Family, links: list[Link], full: dict[str, Shape], stored: dict[str, Stored], fields: Fields
) -> None:
    wanted = {name: shape for link in links for name, shape in link.shapes(full).items()}
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
        if name in wanted or re.fullmatch(family.unused, name):
            continue
        original = stored.get(family.copies.get(name, ""))
        if original is None:
            raise UserError(
                f"{tensor.path}: {tensor.name} {list(tensor.shape)} is not part of the {family.name} that "
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


@contextlib.contextmanager
def _replacing(target: pathlib.Path) -> Iterator[pathlib.Path]:
    """A new folder that becomes `target` at the end, or is removed on an error.

    Raises:
        UserError: if `target` cannot be written, or holds other files than ours, with our record in config.json.
    """
    target = target.resolve()  # a link stays one
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
            try:
                os.rename(place / "new", target)
            except OSError:
                if (place / "old").exists():
                    os.rename(place / "old", target)
                raise
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
        ours = read_json(target / CONFIG, "")[RECORD]
        known = (CONFIG, tensors.WEIGHTS, *ours["beside"])
        strange = [path.name for path in sorted(target.iterdir()) if path.name not in known]
    except (OSError, UserError, TypeError, KeyError, AttributeError):
        ours, strange = None, []
    if not ours or strange:
        what = f"holds {strange[0]}" if strange else "exists"
        raise UserError(f"{target} {what} and was not written by this command: choose another folder.")
