"""Question: does it help that an activation's outputs are centred on 0, and do the weights behind it drift if not?

Command: python -m actlab.main --config=experiments/centring/study.py --workdir=runs/centring
Presets, after a colon: small (default), char, paper.
GELU and tanh, each centred and not, and ReLU; five learning rates a factor of 1.8 apart, eight seeds: 200 runs.
Expected time: small about 30 minutes of one CPU core, 9 seconds a run; --dry_run tells that of this machine.
Expected loss: small about 1.35 nats/byte at the better rates, tanh about 1.45.
"""

import jax.numpy as jnp
from jax import Array
from ml_collections import config_dict

from actlab import activations
from actlab.analysis.protocol import Arm, lower
from actlab.config import presets

GELU_MEAN = 0.28209479  # of N(0, 1), 1 / (2 sqrt pi)


@activations.elementwise
def tanh_shifted(x: Array) -> Array:
    """tanh(x) + 1 / (2 sqrt pi): tanh with GELU's mean."""
    return jnp.tanh(x) + GELU_MEAN


activations.register(
    activations.Activation(
        "tanh_shifted", tanh_shifted, r"\tanh(x) + 1 / (2 \sqrt{\pi})", "this study: tanh with the mean of GELU"
    )
)

SMALL = {**presets.SHALLOW, "train.probe_every": 1000}
# What moves the weights behind one way shows in the share that all their rows have in common; what moves those before
# it one way, in the share of negative inputs, which a mean of 0 keeps at a half.
COMMON, NEGATIVE = "down_common", "negative_fraction"
STEADY = (3.2e-3, 5.6e-3, 1e-2)  # rates at which no run of the pilot collapsed
CLAIMS = {
    "A54": tuple(
        lower(Arm("gelu_centred", rate), Arm("gelu", rate), of=of) for of in (COMMON, NEGATIVE) for rate in STEADY
    ),
    "C10": lower("tanh", "tanh_shifted"),
}
QUESTIONS = ("tanh<tanh_shifted", "gelu_centred<gelu", "gelu<tanh", "gelu<relu")


def get_config(preset: str = "small") -> config_dict.ConfigDict:
    """Two pairs that differ by a constant, and ReLU."""
    values = presets.study(preset, SMALL, presets.FAN_IN)
    values.sweep = {
        "model.activation": ("gelu", "gelu_centred", "tanh", "tanh_shifted", "relu"),
        "optimizer.learning_rate": presets.RATES,
        "seed": (1, 2, 3, 4, 5, 6, 7, 8),
    }
    return values
