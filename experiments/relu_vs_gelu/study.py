"""Question: is GELU better than ReLU in a small decoder, at which learning rates, and does ReLU break at high ones?

Command: python -m actlab.main --config=experiments/relu_vs_gelu/study.py[:small|char|paper] --workdir=runs/relu_vs_gelu
Two activations, five learning rates, six seeds, without warmup and with 2% of it: 120 runs, a rate at a time.
Follow-up arms: presets gain, fan_in, twice, four_times, biases, no_decay, of the small size with warmup at two rates
(24 runs); char-gain, paper-gain and so on in full.
Expected time: small about 5 hours on 2 CPU cores, an arm about 1 (twice 2, four_times 4); --dry_run tells that of this
machine.
Expected loss: small on the excerpt of TinyStories 1.10 (GELU) and 1.11 nats/byte (ReLU) at 3e-3 with warmup, 1.4 to 1.6
without; 1.13 to 1.27 at 1e-3; 1.33 (ReLU) and 1.61 (GELU) at 3e-4; 2.0 to 2.1 at 1e-4; 1.1 to 2.2 at 1e-2.
"""

from ml_collections import config_dict

from actlab.analysis import protocol
from actlab.analysis.protocol import Arm, Contrast, level, lower
from actlab.config import presets
from actlab.errors import UserError, suggestion

WARMUP_SHARE = 50  # one step in so many

# As the prototype of the study had it: 1.3M parameters over bytes, 3.3M tokens.
SMALL = {
    "data.tokenizer": "bytes",
    "data.batch_size": 16,
    "train.n_steps": 1600,
    "train.eval_every": 400,
    "train.checkpoint_every": 400,
    "train.log_every": 20,
    "devices.max_lanes": 6,  # a program per rate, so that what is done is always whole rates of everything
}
SIZES = ("small", "char", "paper")
ARMS = {
    "gain": {"model.init": "gain"},
    "fan_in": {"model.init": "fan_in"},
    "twice": {"longer": 2},
    "four_times": {"longer": 4},
    "biases": {"model.use_bias": True},
    "no_decay": {"optimizer.weight_decay": 0.0},
}
RATES = (1e-3, 3e-3, 3e-4, 1e-2, 1e-4)  # in the order in which they are trained
# Each claim at every warmup. An explosion is growth by orders of magnitude: more than ten times GELU's norm.
CLAIMS = {
    "B06": lower("relu", "gelu", at=1e-4),
    "B07": lower("gelu", "relu", at=1e-3),
    "B08": lower("gelu", "relu", at=3e-3),
    "B11": Contrast(
        ((1.0, Arm("relu", 3e-3)), (-1.0, Arm("gelu", 3e-3))), "grad_norm_p99", "above", bound=1.0, log=True
    ),
    "B12": lower("gelu", "relu", of=protocol.SENSITIVITY),
    "B13": tuple(level("relu", "gelu", at=rate) for rate in (1e-4, 3e-4)),
    "B14": tuple(
        lower(Arm(name, 1e-3), Arm(name, rate)) for name in ("relu", "gelu") for rate in RATES if rate != 1e-3
    ),
    "B19": (lower("gelu", "relu"), lower("gelu", "relu", of=protocol.SENSITIVITY)),
    # From 1e-3 to 3e-3 and to 1e-2 ReLU loses more than GELU does.
    "B22": tuple(
        protocol.gap_grows((Arm("relu", 1e-3), Arm("gelu", 1e-3)), (Arm("relu", rate), Arm("gelu", rate)))
        for rate in (3e-3, 1e-2)
    ),
}
QUESTIONS = ("gelu<relu",)


def get_config(preset: str = "small") -> config_dict.ConfigDict:
    """The sweep of text B's two activations over more rates and seeds, with the warmup that it did not state.

    Raises:
        UserError: for a preset that is not known.
    """
    size, _, arm = ("small", "", preset) if preset in ARMS else preset.partition("-")
    if size not in SIZES or (arm and arm not in ARMS):
        names = (*SIZES, *ARMS, *(f"{size}-{arm}" for size in SIZES for arm in ARMS))
        raise UserError(f"preset {preset!r} is not known: {suggestion(preset, names)}")
    values = presets.tinystories(size, SMALL if size == "small" else {})
    overrides = dict(ARMS.get(arm, {}))
    values.train.n_steps *= overrides.pop("longer", 1)
    values.update_from_flattened_dict(overrides)
    warmup = values.train.n_steps // WARMUP_SHARE
    short = arm and size == "small"
    values.sweep = {
        "optimizer.warmup_steps": (warmup,) if short else (0, warmup),
        "model.activation": ("relu", "gelu"),
        "optimizer.learning_rate": (3e-3, 1e-3) if short else RATES,
        "seed": (1, 2, 3, 4, 5, 6),
    }
    return values
