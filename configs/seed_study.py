"""Question: ReLU or GELU, at which learning rate, and how much of the difference is the seed's?

Command: python -m actlab.main --config=configs/seed_study.py[:small|char|paper] [--dry_run]
Two activations, three learning rates a factor of 1.8 apart, six seeds, the fewest with which a difference at own best
rates can be found: 36 runs in two programs.
Expected time: small about 90 minutes on 2 CPU cores; --dry_run tells the time of this machine.
Expected loss: small at 3.2e-3 as configs/tinystories_relu.py and configs/tinystories_gelu.py, about 1.23 nats/token.
"""

from ml_collections import config_dict

from actlab.config import presets


def get_config(preset: str = "char") -> config_dict.ConfigDict:
    """Overrides of the schema's defaults."""
    sweep = {
        "model.activation": ("relu", "gelu"),
        "optimizer.learning_rate": (3.2e-3, 1.8e-3, 5.6e-3),
        "seed": (1, 2, 3, 4, 5, 6),
    }
    return presets.tinystories(preset, {"sweep": sweep})
