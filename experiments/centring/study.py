"""Question: does it help that an activation's outputs are centred on 0, and do the weights behind it drift if not?

Command: python -m actlab.main --config=experiments/centring/study.py[:small|char|paper] --workdir=runs/centring
GELU, GELU less its mean, ReLU, tanh, ELU, SELU, five learning rates, five seeds: 150 runs in six programs.
Expected time: small under an hour on 2 CPU cores; --dry_run tells that of this machine.
Expected loss: small about 1.5 nats/byte at the better rates.
"""

from ml_collections import config_dict

from actlab.analysis.protocol import Arm, lower
from actlab.config import presets

DRIFT = "down_mean"  # the mean of the second projection's weights, over layers
# Drift: behind GELU the weights' mean is more negative than behind the centred GELU, at each of these rates.
CLAIMS = {
    "A54": tuple(lower(Arm("gelu", rate), Arm("gelu_centred", rate), of=DRIFT) for rate in (1e-3, 3e-3, 1e-2)),
    "C10": lower("gelu_centred", "gelu"),
}
BASELINE = "gelu"
QUESTIONS = ("gelu_centred<gelu", "tanh<gelu", "elu<gelu", "selu<gelu")


def get_config(preset: str = "small") -> config_dict.ConfigDict:
    """The pair that differs by a constant, and activations with less of a mean."""
    values = presets.study(preset, presets.TINY)
    values.sweep = {
        "model.activation": ("gelu", "gelu_centred", "relu", "tanh", "elu", "selu"),
        "optimizer.learning_rate": (3e-4, 1e-3, 3e-3, 1e-2, 3e-2),
        "seed": (1, 2, 3, 4, 5),
    }
    return values
