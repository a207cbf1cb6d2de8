"""The one schema of a run: every field with its default, unit and reason, as frozen dataclasses."""

import dataclasses
from typing import Literal

from actlab import axes
from actlab.checks import field


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
        "bytes, bpe:SIZE (trained on the data), gpt2, dir:PATH, wordpiece (of the story grammar), wordpiece:PATH "
        "(uncased)",
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
