"""Question: what would the noise do that GELU does not have?

Command: python -m actlab.main --config=experiments/stochastic_gelu/study.py[:small|char|paper] --workdir=runs/noise
GELU, its stochastic original (x Bernoulli(Phi(x)) in training, GELU in evaluation) and ReLU, five learning rates, five
seeds: 75 runs in three programs.
Expected time: small under half an hour on 2 CPU cores; --dry_run tells that of this machine.
Expected loss: small about 1.5 nats/byte at the better rates with GELU.
"""

from ml_collections import config_dict

from actlab.analysis.protocol import level
from actlab.config import presets

# If GELU were its stochastic original, the two would do alike.
CLAIMS = {
    "C15": level("gelu", "stochastic_gelu"),
}
BASELINE = "gelu"
QUESTIONS = ("gelu<stochastic_gelu", "stochastic_gelu<relu", "gelu<relu")


def get_config(preset: str = "small") -> config_dict.ConfigDict:
    """With noise, without, and the usual control."""
    values = presets.study(preset, presets.TINY)
    values.sweep = {
        "model.activation": ("gelu", "stochastic_gelu", "relu"),
        "optimizer.learning_rate": (3e-4, 1e-3, 3e-3, 1e-2, 3e-2),
        "seed": (1, 2, 3, 4, 5),
    }
    return values
