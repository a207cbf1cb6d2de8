"""Question: ReLU or GELU, at which learning rate, and how much of the difference is the seed's?

Command: python -m actlab.main --config=configs/seed_study.py[:small|char|paper] [--dry_run]
Two activations, three learning rates a factor of 1.8 apart, six seeds, the fewest with which a difference at own best
rates can be found: 36 runs in two programs. Weights are drawn by fan_in and rates move with the width by mup, as in the
studies.
Expected time: small about 90 minutes on 2 CPU cores; --dry_run tells the time of this machine.
Expected loss: small with one seed, at 5.6e-3, 1e-2 and 1.8e-2: GELU 1.20, 1.20 and 1.25 nats/token, ReLU 1.21, 1.21 and
1.25; floor 0.841.
"""

from ml_collections import config_dict

from actlab.config import presets


def get_config(preset: str = "char") -> config_dict.ConfigDict:
    """Overrides of the schema's defaults."""
    sweep = {
        "model.activation": ("relu", "gelu"),
        "optimizer.learning_rate": presets.RATES[:3],
        "seed": (1, 2, 3, 4, 5, 6),
    }
    return presets.tinystories(preset, {**presets.FAN_IN, "sweep": sweep})
