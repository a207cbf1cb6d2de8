"""Measures a trained model (a Hugging Face directory or a workdir) and swaps its activation.

Everything about it is taken from there: its fields, its tokenizer, its activation. What a command adds is the text.
"""

import dataclasses
import json
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from rich.console import Console

from actlab import activations, config as config_lib, data
from actlab.config import Config, ModelConfig
from actlab.config.presets import CONTINUED_STEPS
from actlab.data import tokenizers
from actlab.errors import UserError, suggestion
from actlab.files import at_colon, read_json, write_atomically
from actlab.interop.architecture import GATED, OURS
from actlab.models.model import Params
from actlab.sweeps import origin, session, trained
from actlab.training import programs
from actlab.training.loop import Prober
from actlab.training.program_spec import ProgramSpec

RECORD = "swap.json"  # what the model of a swap was made of
HEADLESS = ("loss", "grad", "update_ratio")  # what a model without a head of tokens does not have


class Probed(NamedTuple):
    """What a probe found: by name, as in a probe row of metrics.jsonl, and the dead units of each layer."""

    spec: ProgramSpec
    loss: float | None  # nats per target; None without a head
    n_tokens: int  # that the census looked at
    values: dict[str, float]
    dead_UF: np.ndarray | None  # [layers, F]; None for an activation that is not elementwise


class Swapped(NamedTuple):
    """Losses in nats per target: before the swap, right after it, with its mean folded in, and healed."""

    losses: dict[str, float]
    unit: str
    family: str  # as which the model was written
    why: str  # or why it was not
    code: int  # not 0 if healing was stopped


def open_model(source: str) -> origin.Origin:
    """The model of a Hugging Face directory or a workdir, WORKDIR:RUN for one run of a sweep.

    Raises:
        UserError: for a folder that is neither, or a model with two activations.
    """
    try:
        start = origin.of(config_lib.replace(Config(), **{"finetune.from_checkpoint": source}))
    except UserError as error:
        raise UserError(str(error).removeprefix(f"{origin.FIELD}=")) from error
    assert start is not None
    if start.swap.blocks not in (0, start.model.n_layers):
        raise UserError(f"{source} has two activations, as some of its blocks were swapped: name another model.")
    return start


def activation_of(start: origin.Origin) -> str:
    """The activation of all blocks of a model."""
    return start.swap.to if start.swap.blocks else start.model.activation


def config_of(
    start: origin.Origin, base: Config, chosen: Collection[str], text: str | None, field: str, console: Console
) -> Config:
    """The config that measures a model: its fields and tokenizer, on a text or on what it was trained on.

    `base` has the other fields, of which `chosen` are the user's. A classifier is read without its classes: its hidden
    units are measured.

    Raises:
        UserError: for a model without tokenizer or text, or a chosen field that is the model's.
    """
    source = start.name
    config = config_lib.replace(base, **{"finetune.from_checkpoint": source})
    if taken := [path for path in chosen if path.startswith("model.") and path != "model.context"]:
        raise UserError(f"--config.{min(taken)} is set, but the model's fields are those of {source}: leave it out.")
    context = base.model.context if "model.context" in chosen else min(base.model.context, start.model.context)
    fields: dict[str, Any] = {**dataclasses.asdict(start.model), "context": context, "n_classes": 0}
    fields["pooler_activation"] = ModelConfig.pooler_activation
    if start.model.n_classes:
        fields["head_activation"] = ModelConfig.head_activation
        console.print("head        the classifier is left out: hidden units are measured on text, without a loss")
    fields["activation"] = activation_of(start)
    path, _, run = at_colon(source)
    folder = trained.with_runs(pathlib.Path(path))
    held = tokenizers.name_in(folder / "tokenizer" if (folder / "tokenizer").is_dir() else folder)
    changes: dict[str, Any] = {f"model.{name}": value for name, value in fields.items()}
    if "data.tokenizer" not in chosen:
        if held is None:
            raise UserError(
                f"{source} holds no tokenizer: put its tokenizer.json there, or name the one that it was trained with, "
                "--config.data.tokenizer=gpt2 or bytes."
            )
        changes["data.tokenizer"] = held
    if text is not None:
        console.print(f"text        {text}")
        changes["data.name"] = data.prepare_text(text, config.data.dir, field=field)
    elif "data.name" not in chosen:
        if start.model_type is not None:
            raise UserError("--text is missing: name a file or folder of texts to measure the model on.")
        own = config_lib.flat(trained.find(folder, run or None).config)
        names = ("name", "dir", "n_stories", "packing", "corruption", "mask_fraction")
        changes |= {path: own[path] for path in (f"data.{name}" for name in names) if path not in chosen}
    return config_lib.replace(config, **changes)


def measure(start: origin.Origin, config: Config, console: Console) -> Probed:
    """Loss, activity, gradients and dead units of a model of `config_of`, by layer.

    Raises:
        UserError: for whatever does not fit together; see session.prepare.
    """
    spec, program, state = _started(_for_steps(config, 1), console)
    values, dead = Prober(spec.config, program, spec.feed.validation).measure(state, 0)
    n_tokens = int(spec.feed.validation.counted.sum(dtype=np.float64))
    lacking = HEADLESS if start.headless else ()
    found = {name: value for name, value in values[0].items() if not any(word in name for word in lacking)}
    loss = None if start.headless else _loss(spec, program, state)
    return Probed(spec, loss, n_tokens, found, None if dead is None else dead[0])


def swap(
    start: origin.Origin,
    config: Config,
    to: str,
    blocks: int,
    fold: bool,
    steps: int,
    workdir: pathlib.Path,
    command: Sequence[str],
    console: Console,
) -> Swapped:
    """Replaces the activation of the first `blocks` blocks, and measures what that costs before and after healing.

    The model is written to WORKDIR/model as a Hugging Face directory, if all its blocks have the activation: no other
    library has two. Healing trains in WORKDIR/training, whose manifest notes the `command`, and resumes from there.

    Raises:
        UserError: for whatever does not fit together, see session.prepare, or a workdir that cannot be written.
    """
    source = pathlib.Path(at_colon(start.name)[0])
    if (workdir / "config.json").is_file() or workdir.resolve() == source.resolve():
        raise UserError(f"--workdir={workdir} holds a model already: choose another folder, which gets the new one.")
    if not steps and (workdir / "training").exists():
        raise UserError(
            f"--workdir={workdir} holds a healed model, which --steps=0 would replace: choose another folder, or give "
            "its number of --steps."
        )
    made = {"from": start.digest(), "to": to, "blocks": blocks, "fold": fold}
    record, fix = workdir / RECORD, "choose another folder"
    written = record.is_file() or (workdir / "model").is_dir()
    if written and not (record.is_file() and read_json(record, fix) == made):
        raise UserError(f"--workdir={workdir} holds another model than this swap makes: {fix}.")
    changes: dict[str, Any] = {
        "finetune.swap.from": config.model.activation,
        "finetune.swap.to": to,
        "finetune.swap.blocks": blocks,
    }
    if fold:
        changes["model.use_bias"] = True
    after = config_lib.replace(_for_steps(config, max(1, steps)), **changes)
    quiet = Console(quiet=True)
    spec, program, state = _started(_for_steps(config, 1), quiet)
    losses = {"before": _loss(spec, program, state)}
    spec, program, state = _started(after, quiet if steps else console)  # training prints the same
    losses["after"] = _loss(spec, program, state)
    if fold:
        after = config_lib.replace(after, **{"finetune.fold": True})
        spec, program, state = _started(after, quiet)
        losses["folded"] = _loss(spec, program, state)
    params = jax.tree.map(lambda array_R: array_R[0], state.params)
    if steps:
        # The model is written only after healing, so an earlier healed model stays until then.
        if reason := _write(start, after, params, None, made)[1]:
            console.print(f"warning     the model will not be written: {reason}")
        if code := session.run(after, "swap", workdir / "training", command):
            return Swapped(losses, spec.unit, "", "it is not healed yet; the same command resumes", code)
        params = trained.load(workdir / "training").params
        losses["healed"] = _loss(spec, program, program.init([params]))
    return Swapped(losses, spec.unit, *_write(start, after, params, workdir, made), 0)


def counterpart(start: origin.Origin, to: str) -> str:
    """The activation that replaces a model's own: of a gated unit the one whose gate is `to`.

    Raises:
        UserError: for a model without a head, whose swap has no loss, a gated activation in the place of a plain one,
            or a gate that no gated unit has.
    """
    if start.headless:
        raise UserError(
            f"{start.name} has no head for tokens, so that a swap has no loss: take a model that predicts tokens."
        )
    own = activation_of(start)
    record, gated = activations.get(to, "--to"), activations.get(own).gated
    if record.theta or not record.elementwise:
        raise UserError(
            f"--to={to} has trained scalars or is not elementwise, so that the weights do not match: name another "
            "activation."
        )
    if record.gated == gated:
        if record.name == activations.get(own).name:
            raise UserError(f"--to={to} is what the model has already: name another activation.")
        return to
    if record.gated:
        raise UserError(f"--to={to} is gated and the model's {own} is not: name a plain activation.")
    gates = {OURS[gate]: unit for unit, gate in GATED.items()}
    if record.name not in gates:
        raise UserError(
            f"--to={to}: the model's {own} is gated, and no gated unit has that gate: {suggestion(to, gates)}"
        )
    return counterpart(start, gates[record.name])


def _for_steps(config: Config, n_steps: int) -> Config:
    """The config for so many updates, probed before the first and after the last, saved every tenth of them."""
    saved = dict.fromkeys(("train.eval_every", "train.checkpoint_every"), max(1, n_steps // 10))
    warmup = {"optimizer.warmup_steps": n_steps // 10}
    return config_lib.replace(config, **dict.fromkeys(CONTINUED_STEPS, n_steps) | saved | warmup)


def _started(config: Config, console: Console) -> tuple[ProgramSpec, programs.Program, Any]:
    """A model before its first update: its spec, its compiled functions, its state."""
    spec = session.prepare(console, config, trains=False).specs[0]
    program = programs.build(spec.model, spec.config, spec.lanes, spec.objective)
    given = origin.given(spec)
    assert given is not None
    return spec, program, program.init(given[0])


def _loss(spec: ProgramSpec, program: programs.Program, state: Any) -> float:
    scores, _ = program.evaluate(state, [spec.feed.validation])
    return float(scores.loss[0])


def _write(
    start: origin.Origin, after: Config, params: Params, workdir: pathlib.Path | None, made: Mapping[str, Any]
) -> tuple[str, str]:
    """Writes the swapped model if transformers has such a one; (its family there or '', why it was not written).

    What it was `made` of is noted beside it. Without a workdir it only says so.
    """
    from actlab.interop import huggingface

    swap = after.finetune.swap
    if swap.blocks < after.model.n_layers:
        return "", f"it has two activations, {after.model.activation} and {swap.to}, and other libraries have one"
    model = dataclasses.replace(start.model, activation=swap.to, use_bias=after.model.use_bias)
    if start.model.context > after.model.context and start.model.position == "learned":
        # Positions beyond those that were looked at are as they were.
        table = np.array(start.load()[0]["position_embedding"]["embedding"])
        table[: after.model.context] = params["position_embedding"]["embedding"]
        params = {**params, "position_embedding": {"embedding": table}}
    folder = pathlib.Path(at_colon(start.name)[0])
    kept = trained.with_runs(folder) / "tokenizer" if start.model_type is None else folder
    begin, end = start.text_ids or (start.tokenizer.end_of_text if start.tokenizer else None,) * 2
    padding = start.tokenizer.specials.padding if start.tokenizer else None
    beside = tokenizers.for_transformers(kept)
    try:
        family = huggingface.family_for(model, params, start.model_type, padding)
        if workdir is None:
            return family, ""
        workdir.mkdir(parents=True, exist_ok=True)
        write_atomically(workdir / RECORD, json.dumps(made, indent=2) + "\n")
        family = huggingface.save(model, params, workdir / "model", beside, begin, end, start.model_type, padding)
        return family, ""
    except huggingface.NoCounterpart as error:
        return "", str(error)
