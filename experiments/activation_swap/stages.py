"""Question: what does a trained encoder lose when its activation is replaced, and how fast is it regained?

Command: python -m actlab.main --config=experiments/activation_swap/stages.py:STAGE --workdir=runs/activation_swap/STAGE
for the stages pretrain, swap, finetune and continued, in this order. The full design, for one GPU, is STAGE_paper in
runs/activation_swap_paper/STAGE.
Expected time: about an hour of one CPU core for all four.
Expected loss: pretrain 1.61 nats/masked token with GELU and 1.60 with ReLU; swap 1.81 with ReLU in all blocks before a
step, 1.61 after the last; finetune and continued 0.014 nats/document with GELU. paper is not run yet.
"""

from typing import Any

from ml_collections import config_dict

from actlab.config import presets
from actlab.errors import UserError, suggestion

RUNS = {"small": "runs/activation_swap", "paper": "runs/activation_swap_paper"}
SEEDS = (1, 2, 3, 4, 5)
RATES = {  # low enough in small for the losses of the task to fall over several epochs
    "small": {"pretrain": 2e-3, "swap": 1e-3, "finetune": 3e-4, "continued": 3e-4},
    "paper": {"pretrain": 5e-4, "swap": 1e-4, "finetune": 1e-4, "continued": 1e-4},
}
LAYERS = 4  # of both sizes
# BERT's norm. Learned positions would take many more steps to find a token's neighbours.
SHARED = {"model.norm_position": "post", "model.position": "rotary"}
# 0.3M parameters, 4.1M tokens.
SMALL = {"model.d_model": 64, "data.n_stories": 10_000, "train.steps_per_call": 50, "train.eval_tokens": 2**15}
PAPER = {"data.n_stories": 1_000_000}
STEPS = {  # of each stage, and between evaluations: of what is fine-tuned an epoch
    "small": {"pretrain": (2000, 500), "swap": (200, 50), "finetune": (300, 50), "continued": (300, 50)},
    "paper": {"pretrain": (100_000, 5000), "swap": (5000, 500), "finetune": (3750, 1250), "continued": (3750, 1250)},
}
LABELLED = {"small": 800, "paper": 40_000}  # stories, of which STEPS make epochs
SWAP_AXIS = "finetune.swap.to, finetune.swap.blocks, finetune.fold"
NONE, ALL, FOLDED, NULL = (
    ("relu", 0, False),
    ("relu", LAYERS, False),
    ("relu", LAYERS, True),
    ("gelu_tanh", LAYERS, False),
)


def get_config(stage: str = "pretrain") -> config_dict.ConfigDict:
    """One of the study's sweeps.

    Raises:
        UserError: for a stage that is not known.
    """
    name, _, size = stage.partition("_")
    if name not in _STAGES or size not in ("", "paper"):
        raise UserError(f"stage {stage!r} is not known: {suggestion(stage, _STAGES)}")
    size = size or "small"
    n_steps, eval_every = STEPS[size][name]
    fields = {
        **SHARED,
        **(SMALL if size == "small" else PAPER),
        "data.name": "story_grammar",
        "optimizer.learning_rate": RATES[size][name],
        "optimizer.warmup_steps": n_steps // 20,
        "train.n_steps": n_steps,
        "train.eval_every": eval_every,
        "train.checkpoint_every": eval_every if name == "pretrain" else n_steps,
        "train.probe_every": n_steps,
        "train.census_every": n_steps,
        "devices.max_lanes": len(SEEDS),
    }
    return _STAGES[name](size, fields)


def _pretrain(size: str, fields: dict[str, Any]) -> config_dict.ConfigDict:
    """What is swapped, and what had the new activation from the start."""
    return _swept(presets.bert(_PRESETS[size], fields), {"model.activation": ("gelu", "relu")})


def _swap(size: str, fields: dict[str, Any]) -> config_dict.ConfigDict:
    """Swapped and trained on: at step 0 the loss right after the swap. A block's mean is kept or not; 0 is no swap."""
    blocks = range(1, LAYERS + 1)
    rows = [
        NONE,
        *(("relu", k, fold) for fold in (False, True) for k in blocks),
        *(("gelu_tanh", k, False) for k in blocks),
    ]
    origin = {"finetune.from_checkpoint": f"{_pretrained(size)}-seed{{seed}}", "finetune.swap.from": "gelu"}
    return _swept(presets.bert(_PRESETS[size], {**fields, **origin}), {SWAP_AXIS: tuple(rows)})


def _finetune(size: str, fields: dict[str, Any]) -> config_dict.ConfigDict:
    """The task, from the pre-trained encoder: as it is, swapped, folded, null control; and ReLU's own."""
    key = f"model.activation, finetune.swap.from, {SWAP_AXIS}"
    rows = (*(("gelu", "gelu", *row) for row in (NONE, ALL, FOLDED, NULL)), ("relu", "relu", *NONE))
    return _swept(_labelled(size, fields, f"{_pretrained(size)}-seed{{seed}}"), {key: rows})


def _continued(size: str, fields: dict[str, Any]) -> config_dict.ConfigDict:
    """The task, from encoders that were trained on after their swap; they have it already."""
    swapped = "-to{finetune.swap.to}-blocks{finetune.swap.blocks}-fold{finetune.fold}"
    origin = f"{RUNS[size]}/swap:gelu-lr{RATES[size]['swap']!r}-seed{{seed}}{swapped}"
    values = _labelled(size, {**fields, "finetune.swap.from": "gelu"}, origin)
    return _swept(values, {SWAP_AXIS: (NONE, ALL, FOLDED, NULL)})


def _labelled(size: str, fields: dict[str, Any], origin: str) -> config_dict.ConfigDict:
    task = {
        "finetune.task": "ending",
        "finetune.from_checkpoint": origin,
        "data.n_stories": LABELLED[size],
    }
    return presets.finetuned(_PRESETS[size], {**fields, **task})


def _pretrained(size: str) -> str:
    return f"{RUNS[size]}/pretrain:{{model.activation}}-lr{RATES[size]['pretrain']!r}"


def _swept(values: config_dict.ConfigDict, axes: dict[str, Any]) -> config_dict.ConfigDict:
    values.sweep = {**axes, "seed": SEEDS}
    return values


_PRESETS = {"small": "small", "paper": "mini"}
_STAGES = {"pretrain": _pretrain, "swap": _swap, "finetune": _finetune, "continued": _continued}
