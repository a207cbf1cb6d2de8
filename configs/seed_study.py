"""Question: ReLU or GELU, at which learning rate, and how much of the difference is the seed's?

Command: python -m actlab.main --config=configs/seed_study.py[:small|char|paper] [--dry_run]
Two activations, three learning rates, three seeds: 18 runs in two programs.
Expected time: small about 45 minutes on 2 CPU cores; --dry_run tells the time of this machine.
Expected loss: small at 3e-3 as configs/tinystories_relu.py and configs/tinystories_gelu.py, about 1.22 nats/token.
"""

from ml_collections import config_dict

from actlab.config import presets


def get_config(preset: str = "char") -> config_dict.ConfigDict:
    """Overrides of the schema's defaults."""
    sweep = {
        "model.activation": ("relu", "gelu"),
        "optimizer.learning_rate": (1e-4, 1e-3, 3e-3),
        "seed": (1, 2, 3),
    }
    return presets.tinystories(preset, {"sweep": sweep})
