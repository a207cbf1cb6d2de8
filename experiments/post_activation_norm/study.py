"""Question: what does a normalisation right behind the activation do, with ReLU and with GELU?

Command: python -m actlab.main --config=experiments/post_activation_norm/study.py[:small|char|paper] --workdir=runs/norm
ReLU and GELU, with and without RMSNorm between activation and second projection, five learning rates, five seeds: 100
runs in four programs.
Expected time: small under half an hour on 2 CPU cores; --dry_run tells that of this machine.
Expected loss: small about 1.5 nats/byte at the better rates.
"""

from ml_collections import config_dict

from actlab.analysis import protocol
from actlab.analysis.protocol import Arm, lower
from actlab.config import presets

WITH, WITHOUT = ({"model.activation_norm": kind} for kind in ("rmsnorm", "none"))
# RMSNorm does not centre; what it could undo shows as a lower loss and a lower sensitivity.
CLAIMS = {
    "A55": (
        lower(Arm("gelu", where=WITH), Arm("gelu", where=WITHOUT)),
        lower(Arm("gelu", where=WITH), Arm("gelu", where=WITHOUT), of=protocol.SENSITIVITY),
    )
}
QUESTIONS = ("gelu<relu",)


def get_config(preset: str = "small") -> config_dict.ConfigDict:
    """Two activations, two kinds of layer."""
    values = presets.study(preset, presets.TINY)
    values.sweep = {
        "model.activation_norm": ("none", "rmsnorm"),
        "model.activation": ("relu", "gelu"),
        "optimizer.learning_rate": (3e-4, 1e-3, 3e-3, 1e-2, 3e-2),
        "seed": (1, 2, 3, 4, 5),
    }
    return values
