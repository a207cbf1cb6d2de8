"""Question: what does the noise cost that GELU is the mean of?

Command: python -m actlab.main --config=experiments/stochastic_gelu/study.py --workdir=runs/stochastic_gelu
Presets, after a colon: small (default), char, paper.
GELU and its stochastic original (x Bernoulli(Phi(x)) in training, GELU in evaluation), five learning rates a factor of
1.8 apart, eight seeds: 80 runs.
Expected time: small about 15 minutes of one CPU core, 10 seconds a run; --dry_run tells that of this machine.
Expected loss: small about 1.34 nats/byte with GELU, 1.5 with noise.
"""

from ml_collections import config_dict

from actlab.analysis.protocol import level
from actlab.config import presets

# If GELU were its stochastic original, the two would do alike.
CLAIMS = {"C15": level("gelu", "stochastic_gelu")}
QUESTIONS = ("gelu<stochastic_gelu",)


def get_config(preset: str = "small") -> config_dict.ConfigDict:
    """With noise and without."""
    values = presets.study(preset, presets.SHALLOW, presets.FAN_IN)
    values.sweep = {
        "model.activation": ("gelu", "stochastic_gelu"),
        "optimizer.learning_rate": presets.RATES,
        "seed": (1, 2, 3, 4, 5, 6, 7, 8),
    }
    return values
