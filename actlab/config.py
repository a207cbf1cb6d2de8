"""The one schema of a run: every field with its default, unit and reason; validation; the ConfigDict bridge.

A ConfigDict is what configs/ and the command line edit; a frozen Config is what the package reads.
"""

import dataclasses
import hashlib
import json
import keyword
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from ml_collections import config_dict

from actlab import axes, checks
from actlab.checks import field
from actlab.errors import UserError, suggestion


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The network. Every field is static: another value is another compiled program."""

    kind: Literal["decoder", "encoder"] = field("decoder", "GPT-style causal decoder or BERT-style encoder")
    activation: str = field(
        "gelu", "feed-forward activation, a name of actlab.activations.names(), gelu_scale(s=0.25) with parameters"
    )
    n_layers: int = field(6, "Transformer blocks", low=1)
    d_model: int = field(384, "width of the residual stream", low=1)
    n_heads: int = field(6, "attention heads; must divide d_model", low=1)
    d_ff: int | None = field(None, "width F of a plain feed-forward, None is 4 d_model; gated ones take 2F/3", low=8)
    d_hidden: int | None = field(
        None, "units of the feed-forward where d_ff cannot say it, None is d_ff, or its 2/3 if gated", low=1
    )
    context: int = field(128, "longest input", unit="tokens", low=2)
    vocab_size: int | None = field(None, "None is the tokenizer's, rounded up to a multiple of 64", low=2)
    norm: Literal["layernorm", "rmsnorm"] = field("layernorm", "kind of normalisation")
    norm_epsilon: float = field(1e-5, "added to the mean square a norm divides by; BERT's is 1e-12", above=0.0)
    norm_position: Literal["pre", "post"] = field(
        "pre", "before each sublayer (GPT-2) or after its residual sum (BERT)"
    )
    activation_norm: Literal["none", "rmsnorm"] = field(
        "none", "normalisation of the hidden units, between activation and second projection"
    )
    position: Literal["learned", "rotary"] = field("learned", "position embeddings, added or rotating q with k")
    rotary_base: float = field(10_000.0, "pair k of a rotary head of size K turns by position / base^(2k/K)", above=1.0)
    tie_embeddings: bool = field(True, "the output projection is the token embedding, transposed")
    init: Literal["gpt2", "gain"] = field(
        "gpt2", "gpt2 draws all weights at 0.02; gain draws the feed-forward's so that it keeps the second moment"
    )
    use_bias: bool = field(False, "biases in projections and norms; off, so that gated matches plain to the parameter")
    head_activation: str = field("gelu", "of an encoder's masked-token head, which it has where n_classes is 0")
    pooler_activation: str = field("tanh", "of an encoder's pooler, which it has where n_classes is not 0")
    n_segments: int = field(2, "token types that an encoder tells apart", low=1)
    n_classes: int = field(0, "classes an encoder sorts inputs into, with no masked-token head; 0 is none", low=0)


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """AdamW with decoupled weight decay on matrices only. Learning rate and weight decay are traced."""

    learning_rate: float = field(1e-3, "peak of the schedule", low=0.0)
    weight_decay: float = field(0.1, "decay per unit learning rate, on arrays of two or more axes", low=0.0)
    b1: float = field(0.9, "decay of the first moment", low=0.0, high=0.999999)
    b2: float = field(0.95, "decay of the second moment", low=0.0, high=0.999999)
    eps: float = field(1e-8, "added to the root of the second moment", above=0.0)
    clip_norm: float = field(1.0, "global norm to which gradients are clipped; 0 switches clipping off", low=0.0)
    warmup_steps: int = field(100, "linear rise to the peak", unit="steps", low=0)
    schedule: Literal["cosine", "linear", "constant"] = field("cosine", "shape after warmup")
    final_lr_fraction: float = field(0.1, "last learning rate over peak; constant ignores it", low=0.0, high=1.0)


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """What is read."""

    name: str = field("auto", "prepared data set; auto is tiny_stories where prepared, else story_grammar")
    dir: str = field("data", "folder of prepared data; not part of a run's identity")
    tokenizer: str = field(
        "bytes",
        "bytes, bpe:SIZE (trained on the data), gpt2, dir:PATH, wordpiece (of the story grammar) or wordpiece:PATH",
    )
    packing: Literal["packed", "padded"] = field(
        "packed", "rows are windows of a stream of documents, or one document, cut or padded to the context"
    )
    mask_fraction: float = field(0.15, "share of ordinary tokens that an encoder has to predict", above=0.0, high=1.0)
    corruption: Literal["none", "shuffled", "random"] = field(
        "none", "tokens without order, in training and validation: drawn by the text's frequencies, or uniformly"
    )
    batch_size: int = field(64, "windows per step, over all processes", unit="windows", low=1)
    n_stories: int = field(100_000, "training stories drawn when the data is story_grammar", unit="stories", low=1)


CLASSES = {"wish": 2, "ending": 2, "sst2": 2}  # of each task


@dataclasses.dataclass(frozen=True)
class SwapConfig:
    """Another activation in the feed-forward of the first blocks of a trained model."""

    from_: str = field("", "what is replaced, config.model.activation")
    to: str = field("", "what takes its place; both are plain and elementwise and train no scalars")
    blocks: int = field(0, "in how many blocks, from the input on; those that have it already stay", low=0)


@dataclasses.dataclass(frozen=True)
class FinetuneConfig:
    """Training on from a trained model, on the same objective or on a task with labels."""

    task: Literal["", "wish", "ending", "sst2"] = field(
        "", "classes to tell: does the wish of a story come true, is its ending happy, SST-2's sentiment; '' is none"
    )
    from_checkpoint: str = field(
        "", "workdir, with :RUN after it for one of a sweep, or Hugging Face directory; '' draws all from the seed"
    )
    swap: SwapConfig = SwapConfig()
    fold: bool = field(
        False, "a swap's mean change of the hidden units goes, through the next product, into its bias: the mean stays"
    )


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """How long, how often."""

    n_steps: int = field(5000, "AdamW updates", unit="steps", low=1)
    steps_per_call: int = field(8, "updates per compiled call; more amortise dispatch", unit="steps", low=1)
    log_every: int = field(10, "a training row in metrics.jsonl", unit="steps", low=1)
    eval_every: int = field(250, "a validation row in metrics.jsonl", unit="steps", low=1)
    eval_tokens: int = field(2**17, "validation tokens, whole documents; the same for all runs", unit="tokens", low=1)
    checkpoint_every: int = field(500, "a multiple of eval_every, so that the best is known", unit="steps", low=1)
    probe_every: int = field(
        200,
        "activity and gradients of a validation batch, into metrics.jsonl; 0 is never",
        unit="steps",
        low=0,
    )
    census_every: int = field(
        1000, "dead units over the whole validation set, in the probe row; 0 is never", unit="steps", low=0
    )
    curvature_every: int = field(
        0, "top Hessian eigenvalues on a validation batch; costs some 150 steps, 0 is never", unit="steps", low=0
    )
    keep_checkpoints: int = field(2, "newest ones kept, beside the best", unit="checkpoints", low=2)
    dtype: Literal["float32", "tensorfloat32", "bfloat16"] = field(
        "float32",
        "of matrix products; softmax, norms and loss stay float32; tensorfloat32 lets a GPU round inputs to 10 bits",
    )


@dataclasses.dataclass(frozen=True)
class DevicesConfig:
    """Where a run computes; not part of its identity. The product of lane, data and fsdp is the number of devices."""

    lane: int | None = field(None, "devices among which lanes are dealt, None is as many as divide them", low=1)
    data: int | None = field(None, "devices among which a batch is dealt, None is all that are left", low=1)
    fsdp: int = field(1, "devices among which parameters, moments and batch are dealt: models too large for one", low=1)
    lanes_by: Literal["auto", "map", "vmap"] = field(
        "auto", "lanes of a device one after the other or side by side; auto is map on CPU, vmap elsewhere"
    )
    max_lanes: int | None = field(None, "most lanes in one program, None is what memory holds", low=1)


@dataclasses.dataclass(frozen=True)
class LogConfig:
    """Copies of metrics.jsonl for other viewers; not part of a run's identity."""

    tensorboard: bool = field(False, "event files in WORKDIR/tensorboard/RUN; needs the extra `tensorboard`")
    wandb_project: str = field("", "Weights & Biases project; empty is none; needs the extra `wandb`")


@dataclasses.dataclass(frozen=True)
class Config:
    """One run; with a `sweep`, the runs of its axes (see axes.py), which override the fields above."""

    seed: int = field(1337, "initialisation and order of data; traced", low=0, high=2**31 - 1)
    model: ModelConfig = ModelConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    data: DataConfig = DataConfig()
    finetune: FinetuneConfig = FinetuneConfig()
    train: TrainConfig = TrainConfig()
    devices: DevicesConfig = DevicesConfig()
    log: LogConfig = LogConfig()
    sweep: tuple[axes.Axis, ...] = field((), "fields and the values they take; the product of the axes is trained")


OLDEST = ("seed", "model", "optimizer", "data", "train")  # what config.json has had from the first version on

# Where the data lies, where the program runs and who looks on change nothing of what is computed, but for the order of
# its sums.
NOT_IDENTITY = (
    "data.dir",
    *(f"devices.{entry.name}" for entry in dataclasses.fields(DevicesConfig)),
    *(f"log.{entry.name}" for entry in dataclasses.fields(LogConfig)),
)


def fields(schema: type = Config, prefix: str = "") -> Iterator[tuple[str, dataclasses.Field[Any]]]:
    """All leaf fields with their dotted paths, in the order of the schema."""
    for entry in dataclasses.fields(schema):
        if dataclasses.is_dataclass(entry.type):
            yield from fields(typing.cast(type, entry.type), f"{prefix}{_key(entry)}.")
        else:
            yield prefix + _key(entry), entry


def default() -> config_dict.ConfigDict:
    """The schema's defaults as a locked ConfigDict, for a config file to override."""
    return to_config_dict(Config())


def to_config_dict(config: Config) -> config_dict.ConfigDict:
    """A config as a locked ConfigDict, the inverse of from_mapping."""
    return _to_config_dict(config).lock()


def from_mapping(values: Mapping[str, Any]) -> Config:
    """A validated Config from nested mappings that hold exactly the schema's fields.

    Raises:
        UserError: for an unknown or missing field, a wrong type, a value out of bounds or fields at odds.
    """
    config = _build(Config, values, "")
    _check_relations(config)
    return config


def flat(config: Config) -> dict[str, Any]:
    """Dotted path -> value, in the order of the schema."""
    return {path: _get(config, path) for path, _ in fields()}


def replace(config: Config, **changes: Any) -> Config:
    """A copy with dotted fields changed: replace(c, **{"model.activation": "relu"}); validated again.

    Raises:
        UserError: as from_mapping.
    """
    values = _nested(config)
    for path, value in changes.items():
        require_path(path)
        *parents, leaf = path.split(".")
        node = values
        for parent in parents:
            node = node[parent]
        node[leaf] = value
    return from_mapping(values)


def require_path(path: str) -> None:
    """Raises UserError, with the nearest valid path, unless `path` names a field."""
    valid = [known for known, _ in fields()]
    if path not in valid:
        raise UserError(f"config.{path} is no field: {suggestion(path, valid)}")


def to_json(config: Config) -> str:
    """Every field, resolved, as indented JSON."""
    return json.dumps({**_nested(config), "sweep": dict(config.sweep)}, indent=2) + "\n"


def from_json(text: str) -> Config:
    """The inverse of to_json; raises UserError as from_mapping, also for text that is not JSON.

    A workdir of an earlier version lacks the fields that came later: each takes its default, which is what was done
    before it came. Fields that are known no more are refused, and so is a file without the sections every version had.
    """
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"config.json is not JSON ({error}): restore the file or take another workdir.") from error
    if not isinstance(values, Mapping):
        raise UserError("config.json must be an object of fields: restore the file or take another workdir.")
    defaults = {**_nested(Config()), "sweep": {}}
    later = {name: default for name, default in defaults.items() if name in values or name not in OLDEST}
    return from_mapping(_completed(later, values))


def _completed(defaults: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """`values`, with `defaults` for what is not there."""
    inner = {
        name: _completed(default, values[name])
        for name, default in defaults.items()
        if default and isinstance(default, Mapping) and isinstance(values.get(name), Mapping)
    }
    return {**defaults, **values, **inner}


def fingerprint(config: Config) -> str:
    """SHA-256, in hex, over all fields that are part of a run's identity."""
    identity = {path: value for path, value in flat(config).items() if path not in NOT_IDENTITY}
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def first_difference(ours: Config, theirs: Config) -> str | None:
    """The first field, in the order of the schema, that differs; None if the two can be the same run.

    A field that ours leaves open, to be resolved once the data is known, does not differ.
    """
    for path, value in flat(ours).items():
        left_open = value is None or (path, value) == ("data.name", "auto")
        if path not in NOT_IDENTITY and not left_open and value != _get(theirs, path):
            return path
    return None


def _get(config: Any, path: str) -> Any:
    for name in path.split("."):
        config = getattr(config, f"{name}_" if keyword.iskeyword(name) else name)
    return config


def _key(entry: dataclasses.Field[Any]) -> str:
    """A field's name for the user: from_ is `from`, a word that Python keeps for itself."""
    return entry.name.removesuffix("_")


def _nested(node: Any) -> dict[str, Any]:
    values = {_key(entry): getattr(node, entry.name) for entry in dataclasses.fields(node)}
    return {key: _nested(value) if dataclasses.is_dataclass(value) else value for key, value in values.items()}


def _to_config_dict(node: Any) -> config_dict.ConfigDict:
    # A sweep's fields have dots, which a ConfigDict refuses; finetune.swap may be set to a dictionary.
    result = config_dict.ConfigDict(convert_dict=not isinstance(node, Config))
    for entry in dataclasses.fields(node):
        value = getattr(node, entry.name)
        if dataclasses.is_dataclass(value):
            result[_key(entry)] = _to_config_dict(value)
        elif entry.name == "sweep":
            result[entry.name] = dict(value)
        elif value is None:
            # A plain None could not be overridden from the command line.
            result[_key(entry)] = config_dict.placeholder(checks.types_of(entry)[0])
        else:
            result[_key(entry)] = value
    return result


def _build(schema: type, values: Mapping[str, Any], prefix: str) -> Any:
    names = [_key(entry) for entry in dataclasses.fields(schema)]
    for name in values:
        if name not in names:
            raise UserError(f"config.{prefix}{name} is no field: {suggestion(name, names)}")
    built = {}
    for entry in dataclasses.fields(schema):
        key = _key(entry)
        if key not in values:
            raise UserError(f"config.{prefix}{key} is missing: add it, for example {entry.default!r}.")
        value = values[key]
        if dataclasses.is_dataclass(entry.type):
            if not isinstance(value, Mapping):
                raise UserError(f"config.{prefix}{key}={value!r} must hold fields, not a single value.")
            built[entry.name] = _build(typing.cast(type, entry.type), value, f"{prefix}{key}.")
        elif entry.name == "sweep":
            built[entry.name] = axes.parse(value, {path: known for path, known in fields() if path != "sweep"})
        else:
            built[entry.name] = checks.checked(entry, value, f"config.{prefix}{key}")
    return schema(**built)


def _check_relations(config: Config) -> None:
    model, train, optimizer = config.model, config.train, config.optimizer
    _check_finetuning(config)
    if model.d_model % model.n_heads:
        raise UserError(
            f"config.model.d_model={model.d_model} is not divisible by config.model.n_heads={model.n_heads}: "
            f"take a d_model that is a multiple of {model.n_heads}, or another number of heads."
        )
    if model.position == "rotary" and (model.d_model // model.n_heads) % 2:
        raise UserError(
            f"config.model.position='rotary' rotates pairs, but heads of size {model.d_model // model.n_heads} "
            "are odd: change config.model.d_model or config.model.n_heads."
        )
    if config.data.packing == "padded" and config.data.corruption != "none":
        raise UserError(
            f"config.data.corruption={config.data.corruption!r} has no documents to pad: "
            "set config.data.packing='packed'."
        )
    if model.kind == "decoder" and config.data.packing == "padded":
        raise UserError(
            "config.data.packing='padded' is for encoders, which can be told what is padding: "
            "set config.model.kind='encoder' or packing='packed'."
        )
    if model.kind == "decoder" and model.n_classes:
        raise UserError(
            f"config.model.n_classes={model.n_classes} needs a pooler, which a decoder has not: "
            "set config.model.kind='encoder' or n_classes=0."
        )
    if not model.n_classes and model.pooler_activation != ModelConfig.pooler_activation:
        raise UserError(
            f"config.model.pooler_activation={model.pooler_activation!r} changes nothing where "
            "config.model.n_classes=0 leaves out the pooler: set n_classes, or leave the activation alone."
        )
    if model.kind == "decoder" and model.head_activation != ModelConfig.head_activation:
        raise UserError(
            f"config.model.head_activation={model.head_activation!r} changes nothing in a decoder: "
            "set config.model.kind='encoder', or leave the activation alone."
        )
    if train.checkpoint_every % train.eval_every:
        raise UserError(
            f"config.train.checkpoint_every={train.checkpoint_every} is not a multiple of "
            f"config.train.eval_every={train.eval_every}: make it one, so that every checkpoint has a validation loss."
        )
    if optimizer.warmup_steps > train.n_steps:
        raise UserError(
            f"config.optimizer.warmup_steps={optimizer.warmup_steps} is longer than the run of "
            f"config.train.n_steps={train.n_steps}: shorten the warmup."
        )


def _check_finetuning(config: Config) -> None:
    model, finetune, swap = config.model, config.finetune, config.finetune.swap
    classes = CLASSES.get(finetune.task)
    if classes is not None and model.n_classes != classes:
        raise UserError(
            f"config.finetune.task={finetune.task!r} has {classes} classes, but config.model.n_classes="
            f"{model.n_classes}: set it to {classes}, with config.model.kind='encoder'."
        )
    if swap.from_ and swap.from_ != model.activation:
        raise UserError(
            f"config.finetune.swap.from={swap.from_!r} is not the model's activation, "
            f"config.model.activation={model.activation!r}: make them the same."
        )
    if swap.blocks > model.n_layers:
        raise UserError(
            f"config.finetune.swap.blocks={swap.blocks} is more than config.model.n_layers={model.n_layers}: "
            "replace the activation in as many at most."
        )
    if swap.blocks and not (swap.from_ and swap.to and finetune.from_checkpoint):
        raise UserError(
            f"config.finetune.swap.blocks={swap.blocks} needs config.finetune.swap.from, config.finetune.swap.to and "
            "the trained model, config.finetune.from_checkpoint: set all three."
        )
    if finetune.task and config.data.corruption != "none":
        raise UserError(
            f"config.data.corruption={config.data.corruption!r} leaves no document for config.finetune.task="
            f"{finetune.task!r} to tell: set corruption='none'."
        )
    if finetune.fold and model.activation_norm != "none":
        raise UserError(
            f"config.finetune.fold=True keeps no mean through config.model.activation_norm={model.activation_norm!r}: "
            "take a model without, or fold=False."
        )
    if finetune.fold and not model.use_bias:
        raise UserError(
            "config.finetune.fold=True needs a bias to fold the mean into, but config.model.use_bias=False: "
            "take a model with biases, or fold=False."
        )
