"""Question: what does a trained encoder lose when its activation is replaced, and how fast is it regained?

Command: python -m actlab.main --config=experiments/activation_swap/stages.py:STAGE --workdir=runs/activation_swap/STAGE
for the stages pretrain, swap, finetune and continued, in this order. The full design, for one GPU, is STAGE_paper in
runs/activation_swap_paper/STAGE.
Expected time: about an hour for all four on 2 CPU cores, by the processor time of single runs.
Expected loss: not run yet.
"""

from typing import Any

from ml_collections import config_dict

from actlab import presets
from actlab.errors import UserError, suggestion

RUNS = {"small": "runs/activation_swap", "paper": "runs/activation_swap_paper"}
SEEDS = {"small": (1, 2, 3), "paper": (1, 2, 3, 4, 5)}
RATES, SECOND_RATES = {"small": 3e-3, "paper": 5e-4}, {"small": 1e-3, "paper": 1e-4}  # of pre-training, of the rest
LAYERS = 4  # of both sizes
# 0.35M parameters, 6.1M tokens.
SMALL = {"model.d_model": 64, "model.n_heads": 2, "data.n_stories": 6_400, "train.eval_tokens": 2**15}
PAPER = {"data.n_stories": 1_000_000}
STEPS = {  # of each stage, and between evaluations: of what is fine-tuned an epoch
    "small": {"pretrain": (3000, 500), "swap": (300, 100), "finetune": (300, 100), "continued": (300, 100)},
    "paper": {"pretrain": (100_000, 5000), "swap": (5000, 500), "finetune": (3750, 1250), "continued": (3750, 1250)},
}
LABELLED = {"small": 1_600, "paper": 40_000}  # stories, of which STEPS make epochs
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
    rate = RATES[size] if name == "pretrain" else SECOND_RATES[size]
    fields = {
        **(SMALL if size == "small" else PAPER),
        "data.name": "story_grammar",
        "optimizer.learning_rate": rate,
        "optimizer.warmup_steps": n_steps // 20,
        "train.n_steps": n_steps,
        "train.eval_every": eval_every,
        "train.checkpoint_every": n_steps,
        "train.probe_every": n_steps,
        "train.census_every": n_steps,
        "devices.max_lanes": len(SEEDS[size]),
    }
    return _STAGES[name](size, fields)


def _pretrain(size: str, fields: dict[str, Any]) -> config_dict.ConfigDict:
    """What is swapped, and what had the new activation from the start."""
    return _swept(presets.bert(_PRESETS[size], fields), size, {"model.activation": ("gelu", "relu")})


def _swap(size: str, fields: dict[str, Any]) -> config_dict.ConfigDict:
    """Swapped and trained on: at step 0 the loss right after the swap. A block's mean is kept or not; 0 is no swap."""
    blocks = range(1, LAYERS + 1)
    rows = [
        NONE,
        *(("relu", k, fold) for fold in (False, True) for k in blocks),
        *(("gelu_tanh", k, False) for k in blocks),
    ]
    origin = {"finetune.from_checkpoint": f"{_pretrained(size)}-seed{{seed}}", "finetune.swap.from": "gelu"}
    return _swept(presets.bert(_PRESETS[size], {**fields, **origin}), size, {SWAP_AXIS: tuple(rows)})


def _finetune(size: str, fields: dict[str, Any]) -> config_dict.ConfigDict:
    """The task, from the pre-trained encoder: as it is, swapped, folded, null control; and ReLU's own."""
    key = f"model.activation, finetune.swap.from, {SWAP_AXIS}"
    rows = (*(("gelu", "gelu", *row) for row in (NONE, ALL, FOLDED, NULL)), ("relu", "relu", *NONE))
    return _swept(_labelled(size, fields, f"{_pretrained(size)}-seed{{seed}}"), size, {key: rows})


def _continued(size: str, fields: dict[str, Any]) -> config_dict.ConfigDict:
    """The task, from encoders that were trained on after their swap; they have it already."""
    swapped = "-to{finetune.swap.to}-blocks{finetune.swap.blocks}-fold{finetune.fold}"
    origin = f"{RUNS[size]}/swap:gelu-lr{SECOND_RATES[size]!r}-seed{{seed}}{swapped}"
    values = _labelled(size, {**fields, "finetune.swap.from": "gelu"}, origin)
    return _swept(values, size, {SWAP_AXIS: (NONE, ALL, FOLDED, NULL)})


def _labelled(size: str, fields: dict[str, Any], origin: str) -> config_dict.ConfigDict:
    task = {
        "finetune.task": "ending",
        "finetune.from_checkpoint": origin,
        "data.n_stories": LABELLED[size],
    }
    return presets.finetuned(_PRESETS[size], {**fields, **task})


def _pretrained(size: str) -> str:
    return f"{RUNS[size]}/pretrain:{{model.activation}}-lr{RATES[size]!r}"


def _swept(values: config_dict.ConfigDict, size: str, axes: dict[str, Any]) -> config_dict.ConfigDict:
    values.sweep = {**axes, "seed": SEEDS[size]}
    return values


_PRESETS = {"small": "small", "paper": "mini"}
_STAGES = {"pretrain": _pretrain, "swap": _swap, "finetune": _finetune, "continued": _continued}
