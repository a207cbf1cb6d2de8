"""Question: how many hidden units die, of which activation, at which learning rate, and for good?

Command: python -m actlab.main --config=experiments/death_audit/study.py[:small|char|paper] --workdir=runs/death_audit
Seven activations, three learning rates, five seeds, without warmup and with 2% of it: 210 runs in 14 programs.
Expected time: small under an hour on 2 CPU cores; --dry_run tells that of this machine.
Expected loss: small about 1.5 nats/byte at the better rates.
"""

from ml_collections import config_dict

from actlab.analysis.protocol import Arm, above
from actlab.config import presets

RATES = (1e-3, 3e-3, 1e-2)
SMALL = {**presets.TINY, "train.census_every": 200, "train.probe_every": 200}
HARD = {"optimizer.warmup_steps": 0}
# D6 at mid-training. A sizeable share is taken to be 1%; that ReLU can do it asks for one setting, the hardest.
CLAIMS = {
    "A38": above(Arm("relu", 1e-2, HARD), 0.01, of="permanently_dead_fraction"),
    "B09": tuple(above(Arm(name, rate), 0.59, of="dead_fraction") for name in ("relu", "gelu") for rate in RATES[:2]),
}
BASELINE = "relu"


def get_config(preset: str = "small") -> config_dict.ConfigDict:
    """Censuses of dead units (D4) along training; D6, revival and survival follow from them."""
    values = presets.study(preset, SMALL)
    if preset != "small":
        values.train.census_every = 500
    values.sweep = {
        "optimizer.warmup_steps": (0, values.train.n_steps // 50),
        "model.activation": ("relu", "leaky_relu", "gelu", "gelu_tanh", "silu", "elu", "relu2"),
        "optimizer.learning_rate": RATES,
        "seed": (1, 2, 3, 4, 5),
    }
    return values
