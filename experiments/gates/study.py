"""Question: do gated feed-forwards beat plain ones of equal size, and in the order that was published?

Command: python -m actlab.main --config=experiments/gates/study.py --workdir=runs/gates
Presets, after a colon: small (default), char, paper; pair, the small size with GELU and SwiGLU only; 1600 and 5000,
these two after as many steps; long, the small size with four times the steps, for ReLU, GELU and SwiGLU; grammar, the
small size on the story grammar, for ReLU and GELU; code, on Python code (python_code.py), for these and SwiGLU;
code_pair, on it too, with GELU and SwiGLU only.
Three plain activations and four gated ones at 2/3 of the width, five learning rates a factor of 1.8 apart, ten seeds:
350 runs. pair: thirty further seeds, 300 runs; code_pair: these at four rates, 240 runs. 1600 and long: eight seeds
at three rates, 48 and 72 runs. 5000, grammar and code: eight seeds at four rates, 64, 64 and 96 runs. Those of 2,500
steps read 21 bytes for each parameter, long 83.
Expected time: small, pair and long about 2 hours of one CPU core each, 23 seconds a run (long: 90), 5000 an hour and a
half, code an hour, code_pair two and a half, 1600 and grammar half an hour; --dry_run tells that of the machine.
Expected loss: small about 1.2 nats/byte at the better rates, long about 1.0, grammar about 0.8, 0.5 above the
text's entropy, code about 1.5.
"""

from ml_collections import config_dict

from actlab.analysis import protocol
from actlab.analysis.protocol import lower
from actlab.config import presets
from actlab.errors import UserError, suggestion

N_STEPS = {"1600": 1600, "5000": 5000, "long": 10_000}  # of the other presets: 2,500
SIZES = ("small", "char", "paper")
PLAIN, GATED = ("relu", "gelu", "relu2"), ("bilinear", "reglu", "geglu", "swiglu")
SEEDS, FURTHER = tuple(range(1, 11)), tuple(range(11, 41))
# Activations, rates and seeds; a longer training is best at a lower rate.
ARMS = {
    "pair": (("gelu", "swiglu"), presets.RATES, FURTHER),
    "1600": (("gelu", "swiglu"), (5.6e-3, 1e-2, 3.2e-3), SEEDS[:8]),
    "5000": (("gelu", "swiglu"), (3.2e-3, 5.6e-3, 1.8e-3, 1e-2), SEEDS[:8]),
    "long": (("gelu", "relu", "swiglu"), (3.2e-3, 1.8e-3, 5.6e-3), SEEDS[:8]),
    "grammar": (("gelu", "relu"), (5.6e-3, 1e-2, 3.2e-3, 1.8e-2), SEEDS[:8]),
    "code": (("gelu", "relu", "swiglu"), (5.6e-3, 1e-2, 3.2e-3, 1.8e-2), SEEDS[:8]),
    "code_pair": (("gelu", "swiglu"), (5.6e-3, 1e-2, 3.2e-3, 1.8e-2), FURTHER),
}
DATA = {"grammar": "story_grammar", "code": "python_code", "code_pair": "python_code"}
CLAIMS = {"B19": (lower("gelu", "relu"), lower("gelu", "relu", of=protocol.SENSITIVITY))}
QUESTIONS = ("swiglu<gelu", "geglu<gelu", "reglu<relu", "bilinear<gelu", "relu2<gelu", "gelu<relu")
# Losses that were published, to be set beside ours as orders. Neither table has ReLU^2.
ORDERS = {
    "Shazeer 2020, arXiv:2002.05202, table 1, 524,288 steps": {
        "relu": 1.677,
        "gelu": 1.679,
        "bilinear": 1.648,
        "reglu": 1.645,
        "geglu": 1.633,
        "swiglu": 1.636,
    },
    "Narang et al. 2021, arXiv:2102.11972, final loss": {
        "relu": 1.838,
        "gelu": 1.838,
        "bilinear": 1.798,
        "reglu": 1.803,
        "geglu": 1.792,
        "swiglu": 1.789,
    },
}


def get_config(preset: str = "small") -> config_dict.ConfigDict:
    """Plain and gated at equal parameters.

    Raises:
        UserError: for an unknown preset.
    """
    if preset not in (known := (*SIZES, *ARMS)):
        raise UserError(f"unknown preset {preset!r}: {suggestion(preset, known)}")
    names, rates, seeds = ARMS.get(preset, ((*PLAIN, *GATED), presets.RATES, SEEDS))
    n_steps = N_STEPS.get(preset, 2500)
    small = {
        **presets.SHALLOW,
        "train.n_steps": n_steps,
        "optimizer.warmup_steps": n_steps // 20,
        "train.eval_every": min(n_steps, 2500),
        "train.checkpoint_every": n_steps,
        "devices.max_lanes": len(seeds),
    }
    values = presets.study("small" if preset in ARMS else preset, small, presets.FAN_IN)
    values.data.name = DATA.get(preset, values.data.name)
    values.sweep = {"model.activation": names, "optimizer.learning_rate": rates, "seed": seeds}
    return values
