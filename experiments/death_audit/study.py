"""Question: how many hidden units die, of which activation, at which learning rate, and for good?

Command: python -m actlab.main --config=experiments/death_audit/study.py --workdir=runs/death_audit
Presets, after a colon: small (default), char, paper.
Four activations, five learning rates a factor of 1.8 apart, without warmup and with 2% of it, eight seeds: 320 runs.
Expected time: small about 1 hour of one CPU core, 11 seconds a run; --dry_run tells that of this machine.
Expected loss: small about 1.35 nats/byte at the better rates.
"""

from ml_collections import config_dict

from actlab.analysis.protocol import Arm, above
from actlab.config import presets

SMALL = {**presets.SHALLOW, "train.probe_every": 1000, "train.census_every": 100}
HARD = {"optimizer.warmup_steps": 0}
DEAD, PERMANENT, NEGATIVE = "dead_fraction", "permanently_dead_fraction", "negative_fraction"  # D4, D6, D2
# A share is taken to be meaningful from 5% on: see README.md. B09: the least share of the text's table.
CLAIMS = {
    "A38": (above("relu", 0.05, of=PERMANENT), above(Arm("relu", max(presets.RATES), HARD), 0.05, of=PERMANENT)),
    "B09": tuple(above(name, 0.59, of=share) for share in (DEAD, NEGATIVE) for name in ("relu", "gelu")),
}
QUESTIONS = ("gelu<relu", "leaky_relu<relu")


def get_config(preset: str = "small") -> config_dict.ConfigDict:
    """Censuses of dead units (D4) along training; D6, revival and survival follow from them."""
    values = presets.study(preset, SMALL, presets.FAN_IN)
    if preset != "small":
        values.train.census_every = 500
    values.sweep = {
        "optimizer.warmup_steps": (0, values.train.n_steps // 50),
        "model.activation": ("relu", "gelu", "leaky_relu", "relu2"),
        "optimizer.learning_rate": presets.RATES,
        "seed": (1, 2, 3, 4, 5, 6, 7, 8),
    }
    return values
