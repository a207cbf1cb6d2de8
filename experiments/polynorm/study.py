"""Question: does polynorm's lead on GELU last in longer trainings, a wider model and another text?

Command: python -m actlab.main --config=experiments/polynorm/study.py --workdir=runs/polynorm
Presets, after a colon: small (default), 2,500 steps at width 64; long, four times as many; wide, 1,000 steps at width
128; code, 2,500 steps on Python code (experiments/gates/python_code.py); norm, GELU with an RMSNorm behind it.
GELU, SwiGLU (not in wide) and polynorm, three learning rates a factor of 1.8 apart (small: four), eight seeds: 72 runs,
small 96, wide 48.
Expected time: small and code half an hour of one CPU core, long two and a half, wide a quarter; --dry_run tells that of
this machine.
Expected loss: small about 1.16 nats/byte, long about 1.0, wide about 1.23, code about 1.5.
"""

from ml_collections import config_dict

from actlab.config import presets
from actlab.errors import UserError, suggestion

MODERATE, LOW = (5.6e-3, 1e-2, 3.2e-3), (3.2e-3, 1.8e-3, 5.6e-3)  # a longer training is best at a lower rate
# Steps, rates and fields of each preset.
ARMS = {
    "small": (2500, (*MODERATE, 1.8e-3), {}),
    "long": (10_000, LOW, {}),
    "wide": (1000, MODERATE, {"model.d_model": 128, "model.n_heads": 4}),
    "code": (2500, MODERATE, {"data.name": "python_code"}),
    "norm": (2500, MODERATE, {"model.activation_norm": "rmsnorm"}),
}
NAMES = {"wide": ("gelu", "polynorm"), "norm": ("gelu",)}  # of the other presets: with swiglu
QUESTIONS = ("polynorm<gelu", "polynorm<swiglu")


def get_config(preset: str = "small") -> config_dict.ConfigDict:
    """The models of experiments/gates and experiments/width, whose rows of GELU and SwiGLU are used.

    Raises:
        UserError: for an unknown preset.
    """
    if preset not in ARMS:
        raise UserError(f"unknown preset {preset!r}: {suggestion(preset, ARMS)}")
    n_steps, rates, fields = ARMS[preset]
    small = {
        **presets.SHALLOW,
        "train.n_steps": n_steps,
        "optimizer.warmup_steps": n_steps // 20,
        "train.eval_every": min(n_steps, 2500),
        "train.checkpoint_every": n_steps,
    }
    values = presets.study("small", small, presets.FAN_IN)
    values.update_from_flattened_dict(fields)
    values.sweep = {
        "model.activation": NAMES.get(preset, ("gelu", "swiglu", "polynorm")),
        "optimizer.learning_rate": rates,
        "seed": (1, 2, 3, 4, 5, 6, 7, 8),
    }
    return values
