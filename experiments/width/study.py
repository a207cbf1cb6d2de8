"""Question: does the gap between ReLU and GELU depend on the width, and on how weights and rates move with it?

Command: python -m actlab.main --config=experiments/width/study.py:gpt2-64 --workdir=runs/width_gpt2_64
Presets: gpt2 (weights of 0.02), gain or mup (fan_in at the base width 64), and the width: 64, 128, 256, on a GPU 512.
Two activations, five learning rates a factor of 1.8 apart, eight seeds: 80 runs in each of nine arms.
Expected time: 10, 30 and 150 minutes of one CPU core an arm; --dry_run tells the time of this machine.
Expected loss: 1.4 to 1.5 nats/byte at width 64.
"""

import itertools

from ml_collections import config_dict

from actlab.config import presets
from actlab.errors import UserError, suggestion

SETTINGS = {
    "gpt2": presets.GPT2_INIT,
    "gain": {"model.init": "gain"},
    "mup": presets.FAN_IN,
}
WIDTHS = (64, 128, 256, 512)
ARMS = tuple(f"{setting}-{width}" for setting, width in itertools.product(SETTINGS, WIDTHS))
# In the order in which they are trained. Without mup the best rate is expected to fall as the width grows.
RATES = {
    "gpt2": {
        64: (1e-2, 5.6e-3, 1.8e-2, 3.2e-3, 3.2e-2),
        128: (5.6e-3, 3.2e-3, 1e-2, 1.8e-3, 1.8e-2),
        256: (3.2e-3, 1.8e-3, 5.6e-3, 1e-3, 1e-2),
        512: (1.8e-3, 1e-3, 3.2e-3, 5.6e-4, 5.6e-3),
    },
}
RATES |= {"gain": RATES["gpt2"], "mup": dict.fromkeys(WIDTHS, RATES["gpt2"][64])}
QUESTIONS = ("gelu<relu",)


def get_config(preset: str = "gpt2-64") -> config_dict.ConfigDict:
    """One arm: a setting at a width.

    Raises:
        UserError: for an unknown arm.
    """
    setting, _, width = preset.partition("-")
    if preset not in ARMS:
        raise UserError(f"unknown preset {preset!r}: {suggestion(preset, ARMS)}")
    shape = {"model.d_model": int(width), "model.n_heads": int(width) // 32}
    values = presets.study("small", {**presets.SHALLOW, **shape}, SETTINGS[setting])
    values.sweep = {
        "model.activation": ("relu", "gelu"),
        "optimizer.learning_rate": RATES[setting][int(width)],
        "seed": (1, 2, 3, 4, 5, 6, 7, 8),
    }
    return values
