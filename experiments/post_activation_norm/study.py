"""Question: what does a normalisation right behind the activation do, and is it centring that does it?

Command: python -m actlab.main --config=experiments/post_activation_norm/study.py --workdir=runs/post_activation_norm
Presets, after a colon: small (default), char, paper.
ReLU and GELU, with RMSNorm, LayerNorm or nothing between activation and second projection, five learning rates a factor
of 1.8 apart, eight seeds: 240 runs.
Expected time: small about 45 minutes of one CPU core, 11 seconds a run; --dry_run tells that of this machine.
Expected loss: small about 1.35 nats/byte at the better rates.
"""

from ml_collections import config_dict

from actlab.analysis.protocol import Arm, lower
from actlab.config import presets

SMALL = {**presets.SHALLOW, "train.probe_every": 1000}
NORMS = ("none", "rmsnorm", "layernorm")
_NONE, _RMS, _LAYER = (Arm("gelu", where={"model.activation_norm": norm}) for norm in NORMS)
# It removes what is biased, and removing it is worth something: LayerNorm and RMSNorm differ in centring only.
CLAIMS = {"A55": (lower(_LAYER, _NONE, of="down_common"), lower(_LAYER, _RMS))}
QUESTIONS = ("gelu<relu",)


def get_config(preset: str = "small") -> config_dict.ConfigDict:
    """Two activations, three kinds of layer."""
    values = presets.study(preset, SMALL, presets.FAN_IN)
    values.sweep = {
        "model.activation_norm": NORMS,
        "model.activation": ("relu", "gelu"),
        "optimizer.learning_rate": presets.RATES,
        "seed": (1, 2, 3, 4, 5, 6, 7, 8),
    }
    return values
