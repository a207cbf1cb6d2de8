"""Question: does it matter to training which form of GELU is computed: exact, by tanh, or the quick one?

Command: python -m actlab.main --config=experiments/exact_vs_tanh/study.py --workdir=runs/exact_vs_tanh
Presets, after a colon: small (default), char, paper; the latter two in bfloat16 as well.
Four forms, three learning rates a factor of 1.8 apart, forty seeds: 480 runs.
Expected time: small about 70 minutes of one CPU core, 9 seconds a run; --dry_run tells that of this machine.
Expected loss: small about 1.34 nats/byte.
"""

from ml_collections import config_dict

from actlab.analysis.protocol import Arm, Contrast
from actlab.config import presets

# gelu_tanh is computed by the sigmoid, gelu_tanh_jax by tanh as jax.nn has it: one function, rounded differently.
FORMS = ("gelu", "gelu_tanh", "gelu_tanh_jax", "quick_gelu")
RATES = presets.RATES[:3]
N_SEEDS = 40  # see README.md
SMALL = {**presets.SHALLOW, "devices.max_lanes": N_SEEDS}
# That the exact form is better: its mean over the rates is lower. Equivalence says that the form does not matter.
CLAIMS = {
    "A13": Contrast(
        tuple((sign / len(RATES), Arm(name, rate)) for sign, name in ((1, "gelu"), (-1, "gelu_tanh")) for rate in RATES)
    )
}
QUESTIONS = ("gelu_tanh<gelu", "gelu_tanh_jax<gelu_tanh", "quick_gelu<gelu")


def get_config(preset: str = "small") -> config_dict.ConfigDict:
    """Many seeds about the best rate: equality needs more of them than a difference."""
    values = presets.study(preset, SMALL, presets.FAN_IN)
    values.sweep = {
        **({} if preset == "small" else {"train.dtype": ("float32", "bfloat16")}),
        "model.activation": FORMS,
        "optimizer.learning_rate": RATES,
        "seed": tuple(range(1, N_SEEDS + 1)),
    }
    return values
