"""The schema of a run: every field with its default, purpose, unit, bounds and roles, as frozen dataclasses."""

import dataclasses
import functools
import keyword
import math
import types
import typing
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

Role = Literal[
    "traced",  # may differ between the lanes of a program; every other field is static
    "coordinate",  # identifies a run: part of its name, with a column of its own in results.csv
    "shared",  # the same for all runs of a sweep, so that their losses can be compared
    "external",  # where a run reads, computes and logs: shared as well, and no part of its identity
    "recording",  # when rows and checkpoints are written: the final loss does not depend on it
    "adaptable",  # a fine-tuned run may differ from its origin in it
    "original",  # in config.json since the first version: a file without it is refused
]
# Beyond what anybody has trained, so that a slip of the pen is refused before memory or hours are spent on it.
MOST_LAYERS = 1000  # each is traced and compiled by itself; DeepNet has as many (Wang et al. 2022, arXiv:2203.00555)
WIDEST = 2**16  # units; GPT-3 has 12,288
MOST_HEADS = 2**12
MOST_STORIES = 10_000_000  # 8 GB of text, and hours
TINIEST = 2**-126  # float32 rounds what is less to 0
Axis = tuple[str, tuple[Any, ...]]  # of a sweep, see rules.parse_sweep


def field(
    default: Any,
    why: str,
    *,
    roles: Collection[Role] = (),
    unit: str = "",
    low: int | float | None = None,
    above: int | float | None = None,
    high: int | float = math.inf,
    choices: Collection[str] = (),
) -> Any:
    """A field or section of the schema. The bounds `low` and `high` are allowed values, `above` is not.

    The `choices` of a text that is no Literal are those that a table of this module gives.
    """
    metadata = {"why": why, "roles": frozenset(roles), "unit": unit, "low": low, "above": above, "high": high}
    return dataclasses.field(default=default, metadata={**metadata, "choices": tuple(choices)})


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The network."""

    kind: Literal["decoder", "encoder"] = field("decoder", "GPT-style causal decoder or BERT-style encoder")
    activation: str = field(
        "gelu",
        "activation of the feed-forward layers: a name from actlab.activations.names(), or with parameters, such as "
        "gelu_scale(s=0.25)",
        roles={"coordinate", "adaptable"},
    )
    n_layers: int = field(6, "Transformer blocks", low=1, high=MOST_LAYERS)
    d_model: int = field(384, "width of the residual stream", low=1, high=WIDEST)
    n_heads: int = field(6, "attention heads; must divide d_model unless d_head is set", low=1, high=MOST_HEADS)
    n_kv_heads: int | None = field(
        None,
        "heads with keys and values of their own; each serves n_heads / n_kv_heads query heads. None is n_heads",
        low=1,
        high=MOST_HEADS,
    )
    d_head: int | None = field(None, "size K of a head; None is d_model / n_heads", low=1, high=WIDEST)
    qk_norm: bool = field(False, "RMSNorm over each query and key of a head, with trained scales")
    residual: Literal["sequential", "parallel"] = field(
        "sequential", "parallel adds attention and feed-forward, both of the same input, at once (GPT-NeoX)"
    )
    d_ff: int | None = field(
        None,
        "width F of an ungated feed-forward layer; a gated one has 2F/3 units. None is 4 d_model",
        low=8,
        high=4 * WIDEST,
    )
    d_hidden: int | None = field(
        None,
        "exact number of hidden units, whatever d_ff is; None follows from d_ff: F, or 2F/3 if gated",
        low=1,
        high=4 * WIDEST,
    )
    context: int = field(128, "longest input", unit="tokens", low=2, high=2**20, roles={"adaptable"})
    vocab_size: int | None = field(None, "None is the tokenizer's, rounded up to a multiple of 64", low=2, high=2**24)
    norm: Literal["layernorm", "rmsnorm"] = field("layernorm", "kind of normalisation")
    norm_epsilon: float = field(
        1e-5, "added to the mean square that a norm divides by; BERT uses 1e-12", above=0.0, low=TINIEST, high=1.0
    )
    norm_position: Literal["pre", "post"] = field(
        "pre", "before each sublayer (GPT-2) or after its residual sum (BERT)"
    )
    activation_norm: Literal["none", "rmsnorm", "layernorm"] = field(
        "none", "normalisation of the hidden units, between the activation and the second projection"
    )
    position: Literal["learned", "rotary"] = field(
        "learned", "position embeddings: learned ones are added to the input, rotary ones rotate queries and keys"
    )
    rotary_base: float = field(
        10_000.0, "pair k of a rotary head of size K rotates by position / base^(2k/K)", above=1.0
    )
    rotary_fraction: float = field(
        1.0, "share of a head's units that rotate, from the first; K above is their number", above=0.0, high=1.0
    )
    rotary_scaling: str = field(
        "none",
        "slows rotations down for longer contexts: none, linear(factor=F), or LLaMA 3's "
        "llama3(factor=F, low=A, high=B, context=N)",
    )
    scale_embeddings: bool = field(False, "multiplies a decoder's token embeddings by sqrt(d_model), as Gemma does")
    d_embedding: int | None = field(
        None, "width of an encoder's embeddings, which ELECTRA projects to d_model; None is d_model", low=1, high=WIDEST
    )
    tie_embeddings: bool = field(True, "the output projection is the transposed token embedding")
    init: Literal["gpt2", "gain", "fan_in"] = field(
        "gpt2",
        "gpt2 draws weights with standard deviation 0.02, projections into the residual stream with 0.02 / sqrt(2 "
        "n_layers); gain draws those of the feed-forward layers so that they "
        "preserve the second moment; fan_in draws those of all other matrices at 1/sqrt(inputs) as well, attention's "
        "into the residual stream over sqrt(2 n_layers)",
        roles={"adaptable"},
    )
    parametrization: Literal["standard", "mup"] = field(
        "standard",
        "mup scales initialisation, learning rates, attention scores and logits with the width, so that the best "
        "learning rate is that of a model of width base_width",
    )
    base_width: int = field(
        64, "d_model at which mup, with heads of 32 units, is the standard parametrization", low=1, high=WIDEST
    )
    use_bias: bool = field(
        False, "biases in projections and norms; without them gated and ungated models have equally many parameters"
    )
    head_activation: str = field(
        "gelu", "activation of an encoder's masked-token head, present if n_classes is 0", roles={"adaptable"}
    )
    pooler_activation: str = field(
        "tanh", "activation of an encoder's pooler, present if n_classes is not 0", roles={"adaptable"}
    )
    n_segments: int = field(2, "token types of an encoder", low=1, high=WIDEST)
    n_classes: int = field(
        0,
        "classes of an encoder with a classification head; 0 gives it a masked-token head instead",
        low=0,
        high=WIDEST,
        roles={"adaptable"},
    )


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """AdamW with decoupled weight decay on matrices only."""

    learning_rate: float = field(1e-3, "peak of the schedule", low=0.0, roles={"traced", "coordinate"})
    weight_decay: float = field(
        0.1, "decay per unit learning rate, on arrays of two or more axes", low=0.0, roles={"traced"}
    )
    b1: float = field(0.9, "decay of the first moment", low=0.0, high=0.999999)
    b2: float = field(0.95, "decay of the second moment", low=0.0, high=0.999999)
    eps: float = field(1e-8, "added to the root of the second moment", above=0.0, low=TINIEST)
    clip_norm: float = field(1.0, "global norm to which gradients are clipped; 0 disables clipping", low=0.0)
    warmup_steps: int = field(100, "linear rise to the peak", unit="steps", low=0)
    schedule: Literal["cosine", "linear", "constant"] = field("cosine", "shape after the warmup")
    final_lr_fraction: float = field(
        0.1,
        "learning rate over peak that the schedule reaches after the last step; not used by the constant schedule",
        low=0.0,
        high=1.0,
    )


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """The training text."""

    name: str = field(
        "auto", "prepared data set; auto is tiny_stories where prepared, else story_grammar", roles={"shared"}
    )
    dir: str = field("data", "folder of prepared data", roles={"external"})
    tokenizer: str = field(
        "bytes",
        "bytes, bpe:SIZE (trained on the data), gpt2, dir:PATH (Hugging Face), wordpiece (our own), wordpiece:PATH "
        "(uncased)",
        roles={"shared"},
    )
    packing: Literal["packed", "padded"] = field(
        "packed",
        "rows are windows of a stream of documents, or one document each, cut or padded to the context",
        roles={"shared"},
    )
    mask_fraction: float = field(
        0.15, "share of ordinary tokens that an encoder has to predict", above=0.0, high=1.0, roles={"shared"}
    )
    corruption: Literal["none", "shuffled", "random"] = field(
        "none",
        "replaces the text of all splits by tokens without order, drawn with the text's frequencies (shuffled) "
        "or uniformly (random)",
    )
    batch_size: int = field(64, "windows per step, over all processes", unit="windows", low=1, high=2**20)
    n_stories: int = field(
        100_000,
        "training stories generated if the data is story_grammar",
        unit="stories",
        low=1,
        high=MOST_STORIES,
        roles={"shared"},
    )


CLASSES = {"wish": 2, "ending": 2, "sst2": 2}  # of each task of finetune.task
# Of each objective, as results.csv names it.
LOSS_UNITS = {"next_token": "nats/token", "masked_token": "nats/masked token", "classification": "nats/document"}


def loss_unit(objective: str, tokenizer: str) -> str:
    """The unit of losses: bytes are no tokens."""
    unit = LOSS_UNITS[objective]
    return unit.replace("token", "byte") if tokenizer == "bytes" else unit


@dataclasses.dataclass(frozen=True)
class SwapConfig:
    """Another activation in the feed-forward layers of the first blocks of a trained model."""

    from_: str = field("", "the activation that is replaced, config.model.activation")
    to: str = field(
        "", "its replacement; both must be elementwise, without trained parameters, and both plain or both gated"
    )
    blocks: int = field(0, "number of blocks, counted from the input, that have the replacement", low=0)


@dataclasses.dataclass(frozen=True)
class FinetuneConfig:
    """Training that starts from a trained model, on the same objective or on a labelled task."""

    task: str = field(
        "",
        "classification task: whether the wish of a story comes true, whether its ending is happy, or the sentiment "
        "labels of SST-2; '' is none",
        roles={"shared"},
        choices=("", *CLASSES),
    )
    from_checkpoint: str = field(
        "",
        "workdir (WORKDIR:RUN for one run of a sweep) or Hugging Face directory; '' draws all parameters from the seed",
    )
    swap: SwapConfig = field(SwapConfig(), "activation swap")
    fold: bool = field(
        False, "keeps a swapped layer's mean output, by adding the mean change to the bias of its second projection"
    )


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """Length of training, and intervals."""

    n_steps: int = field(5000, "AdamW updates", unit="steps", low=1)
    steps_per_call: int = field(
        8, "updates per compiled call; larger values amortise dispatch", unit="steps", low=1, roles={"recording"}
    )
    log_every: int = field(10, "interval of training rows in metrics.jsonl", unit="steps", low=1, roles={"recording"})
    eval_every: int = field(
        250, "interval of validation rows in metrics.jsonl", unit="steps", low=1, roles={"recording"}
    )
    eval_tokens: int = field(
        2**17, "tokens of validation, and of test, in whole documents; the same for all runs", unit="tokens", low=1
    )
    checkpoint_every: int = field(500, "interval of checkpoints", unit="steps", low=1, roles={"recording"})
    probe_every: int = field(
        200, "interval of probes: activity and gradients on a validation batch; 0 is never", unit="steps", low=0
    )
    census_every: int = field(
        1000, "interval of counts of dead units over the whole validation set; 0 is never", unit="steps", low=0
    )
    curvature_every: int = field(
        0,
        "interval of top Hessian eigenvalues; each takes the time of 80 steps, the memory of 4 to 14; 0 is never",
        unit="steps",
        low=0,
    )
    keep_checkpoints: int = field(2, "newest checkpoints kept", unit="checkpoints", low=2, roles={"recording"})
    dtype: Literal["float32", "tensorfloat32", "bfloat16"] = field(
        "float32",
        "precision of matrix products; softmax, norms and loss stay float32. tensorfloat32 lets a GPU round inputs to "
        "10 bits",
    )


@dataclasses.dataclass(frozen=True)
class DevicesConfig:
    """The device mesh. The product of lane, data and fsdp is the number of devices."""

    lane: int | None = field(
        None, "devices over which lanes are split; None is as many as divide them", low=1, roles={"external"}
    )
    data: int | None = field(
        None, "devices over which a batch is split; None is all that are left", low=1, roles={"external"}
    )
    fsdp: int = field(
        1,
        "devices over which parameters, moments and batch are split, for models too large for one device",
        low=1,
        roles={"external"},
    )
    lanes_by: Literal["auto", "map", "vmap"] = field(
        "auto",
        "lanes of a device one after the other or side by side; auto is map on CPU, vmap elsewhere",
        roles={"external"},
    )
    remat: bool = field(
        False,
        "computes each block's activations again in the backward pass instead of keeping them (jax.checkpoint): less "
        "memory on a GPU or TPU, a third more work; on CPU it saves nothing",
        roles={"external"},
    )
    max_lanes: int | None = field(
        None,
        "most lanes trained together, at least one per device; None is as many as fit",
        low=1,
        roles={"external"},
    )


@dataclasses.dataclass(frozen=True)
class LogConfig:
    """Copies of metrics.jsonl for other viewers."""

    tensorboard: bool = field(
        False, "event files in WORKDIR/tensorboard/RUN; needs the extra `tensorboard`", roles={"external"}
    )
    wandb_project: str = field("", "Weights & Biases project, '' is none; needs the extra `wandb`", roles={"external"})


@dataclasses.dataclass(frozen=True)
class Config:
    """One run; with a `sweep`, the runs of its axes, which override the fields above."""

    seed: int = field(
        1337, "initialisation and order of data", low=0, high=2**31 - 1, roles={"traced", "coordinate", "original"}
    )
    model: ModelConfig = field(ModelConfig(), "the network", roles={"original"})
    optimizer: OptimizerConfig = field(OptimizerConfig(), "AdamW", roles={"original"})
    data: DataConfig = field(DataConfig(), "the training text", roles={"original"})
    finetune: FinetuneConfig = field(FinetuneConfig(), "training that starts from a trained model")
    train: TrainConfig = field(TrainConfig(), "length of training, and intervals", roles={"original"})
    devices: DevicesConfig = field(DevicesConfig(), "the device mesh")
    log: LogConfig = field(LogConfig(), "copies of metrics.jsonl for other viewers")
    sweep: tuple[Axis, ...] = field((), "fields and lists of values, whose product is trained")

    @property
    def objective(self) -> str:
        """The name of its objective, as results.csv has it."""
        if self.finetune.task:
            return "classification"
        return "next_token" if self.model.kind == "decoder" else "masked_token"


def key_of(entry: dataclasses.Field[Any]) -> str:
    """The name of a field for users: `from` for from_, because Python reserves the word."""
    return entry.name.removesuffix("_")


@functools.cache
def fields() -> Mapping[str, dataclasses.Field[Any]]:
    """All fields but the sections, by their dotted paths, in the order of the schema."""
    return types.MappingProxyType(dict(_fields(Config, "")))  # read-only, because callers share it


def _fields(schema: Any, prefix: str) -> Iterator[tuple[str, dataclasses.Field[Any]]]:
    for entry in dataclasses.fields(schema):
        if dataclasses.is_dataclass(entry.type):
            yield from _fields(entry.type, f"{prefix}{key_of(entry)}.")
        else:
            yield prefix + key_of(entry), entry


@functools.cache
def paths(role: Role) -> tuple[str, ...]:
    """The paths of the fields that play a role, in the order of the schema."""
    return tuple(path for path, entry in fields().items() if role in entry.metadata["roles"])


def get(config: Any, path: str) -> Any:
    """The value of a field, or of a section."""
    for name in path.split("."):
        config = getattr(config, f"{name}_" if keyword.iskeyword(name) else name)
    return config


def traced(config: Config) -> dict[str, Any]:
    """Path -> value of the fields that may differ between the lanes of a program."""
    return {path: get(config, path) for path in paths("traced")}


@functools.cache
def types_of(entry: dataclasses.Field[Any]) -> tuple[type, ...]:
    """The types a field takes, NoneType last if it is optional; a Literal is a str."""
    if isinstance(entry.type, types.UnionType):
        return typing.get_args(entry.type)
    origin = typing.get_origin(entry.type)
    return (str,) if origin is Literal else (origin or typing.cast(type, entry.type),)
