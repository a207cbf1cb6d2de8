"""Question: do the gaps between ReLU, GELU and tanh depend on the width, and on how weights and rates move with it?

Command: python -m actlab.main --config=experiments/width/study.py:mup --workdir=runs/width
Presets: mup (default; fan_in at the base width 64), gain, gpt2 (weights of 0.02).
Widths 32, 64 and 128, eight seeds, learning rates a factor of 1.8 apart. mup: ReLU, GELU and tanh, five rates, 360
runs; gain and gpt2: ReLU and GELU, seven rates, 336 runs.
Expected time: about 90 minutes of one CPU core a preset, 5 to 35 seconds a run; --dry_run tells that of this machine.
Expected loss: 1.4 to 1.5 nats/byte at width 32, 1.2 to 1.3 at 128.
"""

from ml_collections import config_dict

from actlab.analysis.protocol import Arm, gap_grows
from actlab.config import presets
from actlab.errors import UserError, suggestion

SETTINGS = {"mup": presets.FAN_IN, "gain": {"model.init": "gain"}, "gpt2": presets.GPT2_INIT}
WIDTHS = (32, 64, 128)
# In the order in which they are trained. Without mup the best rate is expected to fall as the width grows.
RATES = {"mup": presets.RATES, "gain": (*presets.RATES, 1.8e-3, 5.6e-2), "gpt2": (*presets.RATES, 1.8e-3, 5.6e-2)}
_NARROW, _WIDE = ({"model.d_model": width} for width in (WIDTHS[0], WIDTHS[-1]))
# Tanh's loss less GELU's, each at its own best rate, is greater in the wider model.
CLAIMS = {
    "C21": gap_grows(
        (Arm("tanh", where=_NARROW), Arm("gelu", where=_NARROW)), (Arm("tanh", where=_WIDE), Arm("gelu", where=_WIDE))
    )
}
QUESTIONS = ("gelu<relu",)


def get_config(preset: str = "mup") -> config_dict.ConfigDict:
    """One setting at three widths.

    Raises:
        UserError: for an unknown preset.
    """
    if preset not in SETTINGS:
        raise UserError(f"unknown preset {preset!r}: {suggestion(preset, SETTINGS)}")
    values = presets.study("small", presets.SHALLOW, SETTINGS[preset])
    values.sweep = {
        "model.d_model, model.n_heads": tuple((width, width // 32) for width in WIDTHS),
        "model.activation": ("relu", "gelu", "tanh") if preset == "mup" else ("relu", "gelu"),
        "optimizer.learning_rate": RATES[preset],
        "seed": (1, 2, 3, 4, 5, 6, 7, 8),
    }
    return values
