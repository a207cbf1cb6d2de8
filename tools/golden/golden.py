"""The golden runs of tools/compare_checkouts.py: tiny, and together they take most branches of the training code.

Command: python -m actlab.main --config=golden.py:[sweep|encoder|labels|decoder] --workdir=runs/NAME
in a copy's folder; `labels` wants `encoder` trained before. It imports nothing but `config.default()`, so that it runs
whatever moves in the package.
"""

from actlab import config

TINY = {
    "model.n_layers": 1,
    "model.d_model": 16,
    "model.n_heads": 2,
    "model.context": 32,
    "data.name": "story_grammar",
    "data.batch_size": 4,
    "data.n_stories": 200,
    "optimizer.warmup_steps": 4,
    "optimizer.learning_rate": 3e-3,
    "train.n_steps": 24,
    "train.steps_per_call": 4,
    "train.log_every": 2,
    "train.eval_every": 6,
    "train.eval_tokens": 2000,
    "train.checkpoint_every": 12,
    "train.probe_every": 6,
    "train.census_every": 12,
}
ENCODER = {
    "model.kind": "encoder",
    "model.n_layers": 2,
    "model.norm_position": "post",
    "model.use_bias": True,
    "data.tokenizer": "wordpiece",
    "data.packing": "padded",
    "optimizer.schedule": "linear",
    "optimizer.weight_decay": 0.01,
}
LABELS = {
    **ENCODER,
    "finetune.task": "wish",
    "finetune.from_checkpoint": "runs/encoder",
    "model.n_classes": 2,
    "finetune.swap.from": "gelu",
    "finetune.swap.to": "relu",
    "finetune.swap.blocks": 1,
    "finetune.fold": True,
}
DECODER = {
    "model.activation": "gelu_scale(s=0.25)",
    "model.activation_norm": "rmsnorm",
    "model.init": "gain",
    "model.norm": "rmsnorm",
    "model.position": "rotary",
    "model.tie_embeddings": False,
    "train.dtype": "bfloat16",
    "optimizer.schedule": "constant",
    "data.tokenizer": "bpe:300",
    "data.corruption": "shuffled",
}
SWEEP = {
    "model.activation, optimizer.warmup_steps": (("gelu", 4), ("swiglu", 0)),
    "optimizer.learning_rate": (3e-3, 1e3),
    "seed": (1, 2),
}
RUNS = {"sweep": {"train.curvature_every": 12}, "encoder": ENCODER, "labels": LABELS, "decoder": DECODER}
BAD_SWEEPS = {  # for the exit codes
    "unknown_axis": {"model.activatoin": ("gelu", "relu")},
    "twice": {"seed": (1, 2), "seed, train.n_steps": ((3, 4),)},
    "wrong_type": {"seed": (1, "two")},
    "shared": {"data.tokenizer": ("bytes", "bpe:300")},
    "gleu": {"model.activation": ("gelu", "gleu")},
}


def get_config(name):
    """A run of RUNS, a sweep that must be refused, or a config file's own mistakes."""
    if name == "number":
        return 3
    values = config.default()
    values.update_from_flattened_dict({**TINY, **RUNS.get(name, {})})
    if name == "typo":
        values.sed = 3
    if name == "sweep" or name in BAD_SWEEPS:
        values.sweep = BAD_SWEEPS.get(name, SWEEP)
    return values
