"""Question: is the order of activations one of activations, or of the scale at which their inputs start?

Command: python -m actlab.main --config=experiments/initialisation/study.py --workdir=runs/initialisation
Presets, after a colon: small (default), char, paper.
Nine activations, three initialisations, six learning rates a factor of 1.8 apart, nine seeds: 1,458 runs.
Expected time: small about 4 hours of one CPU core; --dry_run tells the time of this machine.
Expected loss: small about 1.4 nats/byte with gain and fan_in, 1.4 to 1.6 with gpt2.
"""

from ml_collections import config_dict

from actlab.config import presets

INITS = ("gpt2", "gain", "fan_in")
RATES = (5.6e-3, 1e-2, 3.2e-3, 1.8e-2, 1.8e-3, 3.2e-2)  # in the order in which they are trained
ACTIVATIONS = ("relu", "gelu", "swiglu", "gelu_scale(s=0.16)", "leaky_relu", "silu", "geglu", "relu2", "polynorm")
QUESTIONS = tuple(f"{name}<gelu" for name in ACTIVATIONS if name != "gelu")


def get_config(preset: str = "small") -> config_dict.ConfigDict:
    """The same activations, rates and seeds at three initialisations."""
    values = presets.study(preset, {**presets.SHALLOW, "devices.max_lanes": 9}, presets.GPT2_INIT)
    values.sweep = {
        "model.activation": ACTIVATIONS,
        "model.init": INITS,
        "optimizer.learning_rate": RATES,
        "seed": (1, 2, 3, 4, 5, 6, 7, 8, 9),
    }
    return values
