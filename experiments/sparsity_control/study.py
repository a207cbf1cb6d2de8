"""Question: is a large share of inactive units a sign of grammar learned, or do tokens without order give it too?

Command: python -m actlab.main --config=experiments/sparsity_control/study.py[:small|char|paper] --workdir=runs/sparsity
ReLU and GELU on the text, on tokens drawn by its frequencies and on tokens drawn uniformly, three learning rates, five
seeds: 90 runs in 18 programs of five lanes.
Expected time: small under half an hour on 2 CPU cores; --dry_run tells that of this machine.
Expected loss: small about 1.5 nats/byte on the text; without order the entropy of the draws, which the run prints.
"""

import dataclasses

from ml_collections import config_dict

from actlab.analysis.protocol import Arm, Contrast, lower
from actlab.config import presets

RATES = (1e-3, 3e-3, 1e-2)
TEXT, RANDOM = ({"data.corruption": kind} for kind in ("none", "random"))
SHARE = "negative_fraction"  # D2, a mean over layers
# That inactive units show grammar: without any, they are fewer than with it, and fewer than 80%. Both can
# only refute it.
CLAIMS = {
    "B15": tuple(
        contrast
        for name in ("relu", "gelu")
        for rate in RATES
        for contrast in (
            dataclasses.replace(lower(Arm(name, rate, RANDOM), Arm(name, rate, TEXT), of=SHARE), control=True),
            Contrast(((1.0, Arm(name, rate, RANDOM)),), SHARE, "below", 0.8, control=True),
        )
    )
}
QUESTIONS = ("gelu<relu",)


def get_config(preset: str = "small") -> config_dict.ConfigDict:
    """The text and two texts without order."""
    values = presets.study(preset, presets.TINY, presets.GPT2_INIT)
    values.sweep = {
        "data.corruption": ("none", "shuffled", "random"),
        "model.activation": ("relu", "gelu"),
        "optimizer.learning_rate": RATES,
        "seed": (1, 2, 3, 4, 5),
    }
    return values
