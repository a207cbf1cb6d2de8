"""Question: do gated feed-forwards beat plain ones of equal size, and in the order that was published?

Command: python -m actlab.main --config=experiments/gates/study.py[:small|char|paper] --workdir=runs/gates
Four plain activations and five gated ones at 2/3 of the width, five learning rates, five seeds: 225 runs in nine
programs.
Expected time: small under an hour on 2 CPU cores; --dry_run tells that of this machine.
Expected loss: small about 1.5 nats/byte at the better rates.
"""

from ml_collections import config_dict

from actlab.analysis import protocol
from actlab.analysis.protocol import lower
from actlab.config import presets

PLAIN = ("relu", "gelu", "silu", "relu2")
GATED = ("glu", "bilinear", "reglu", "geglu", "swiglu")
CLAIMS = {"B19": (lower("gelu", "relu"), lower("gelu", "relu", of=protocol.SENSITIVITY))}
BASELINE = "relu"
# Losses that were published, to be set beside ours as orders.
ORDERS = {
    "Shazeer 2020, arXiv:2002.05202, table 1, 524,288 steps": {
        "relu": 1.677,
        "gelu": 1.679,
        "silu": 1.683,
        "glu": 1.663,
        "bilinear": 1.648,
        "geglu": 1.633,
        "swiglu": 1.636,
        "reglu": 1.645,
    },
    "Narang et al. 2021, arXiv:2102.11972, final loss": {
        "relu": 1.838,
        "gelu": 1.838,
        "silu": 1.847,
        "glu": 1.814,
        "bilinear": 1.798,
        "geglu": 1.792,
        "swiglu": 1.789,
        "reglu": 1.803,
    },
}


def get_config(preset: str = "small") -> config_dict.ConfigDict:
    """Plain and gated at equal parameters."""
    values = presets.study(preset, presets.TINY)
    values.sweep = {
        "model.activation": (*PLAIN, *GATED),
        "optimizer.learning_rate": (3e-4, 1e-3, 3e-3, 1e-2, 3e-2),
        "seed": (1, 2, 3, 4, 5),
    }
    return values
