"""Question: does it matter to training which form of GELU is computed: exact, by tanh, or the quick one?

Command: python -m actlab.main --config=experiments/exact_vs_tanh/study.py[:small|char|paper] --workdir=runs/forms
Four forms, two learning rates, float32 and bfloat16, ten seeds: 160 runs in eight programs.
Expected time: small under an hour on 2 CPU cores; --dry_run tells that of this machine.
Expected loss: small about 1.5 nats/byte.
"""

from ml_collections import config_dict

from actlab.analysis.protocol import lower
from actlab.config import presets

# gelu_tanh is computed by the sigmoid, gelu_tanh_jax by tanh as jax.nn has it.
FORMS = ("gelu", "gelu_tanh", "gelu_tanh_jax", "quick_gelu")
CLAIMS = {"A13": lower("gelu", "gelu_tanh")}
BASELINE = "gelu"
QUESTIONS = tuple(f"{name}<gelu" for name in FORMS[1:])


def get_config(preset: str = "small") -> config_dict.ConfigDict:
    """Ten seeds about the best rate: equality needs more of them than a difference."""
    values = presets.study(preset, {**presets.TINY, "devices.max_lanes": 10})
    values.sweep = {
        "train.dtype": ("float32", "bfloat16"),
        "model.activation": FORMS,
        "optimizer.learning_rate": (3e-3, 1e-2),
        "seed": tuple(range(1, 11)),
    }
    return values
