"""Question: what if BERT had used tanh in its feed-forward layers instead of GELU?

Command: python -m actlab.main --config=experiments/bert_tanh_vs_gelu/study.py[:small|paper] --workdir=runs/bert
small: tanh, GELU, ReLU, SwiGLU; paper, for one GPU: those and GELU by tanh, ELU, SiLU, GEGLU. Five learning rates, five
seeds, the norm behind the residual sum as BERT has it and before the sublayer: 200 or 400 runs, a rate at a time.
Expected time: small about 100 minutes of one CPU core, half a minute a run; paper is not run yet.
Expected loss: small at the better rates 2.3 to 2.9 nats/masked token behind the sum, 3.0 to 3.6 before the sublayer;
without context 5.8, which is where 8e-3 stays behind the sum.
"""

from ml_collections import config_dict

from actlab.analysis import protocol
from actlab.analysis.protocol import lower
from actlab.config import presets
from actlab.errors import UserError, suggestion

FEW = ("tanh", "gelu", "relu", "swiglu")
ALL = (*FEW, "gelu_tanh", "elu", "silu", "geglu")
# In the order in which they are trained.
RATES = {"small": (2e-3, 4e-3, 1e-3, 8e-3, 5e-4), "paper": (1e-3, 3e-4, 3e-3, 1e-4, 1e-2)}
# 0.3M parameters, 1.0M tokens.
SMALL = {
    "model.d_model": 64,
    "model.context": 64,
    "data.n_stories": 10_000,
    "optimizer.warmup_steps": 100,
    "train.n_steps": 1000,
    "train.steps_per_call": 50,
    "train.log_every": 50,
    "train.eval_every": 500,
    "train.eval_tokens": 2**16,
    "train.checkpoint_every": 500,
    "train.probe_every": 500,
    "train.census_every": 1000,
    "devices.max_lanes": 5,  # a program per rate with its five seeds: what is done is always whole rates of everything
}
# BERT mini, 164M tokens: 1e16 FLOP a run.
PAPER = {
    "model.position": "rotary",
    "data.n_stories": 1_000_000,
    "optimizer.warmup_steps": 500,
    "train.n_steps": 5000,
    "train.eval_every": 1000,
    "train.checkpoint_every": 1000,
    "train.probe_every": 1000,
    "train.census_every": 5000,
}
# C19, another tuning strategy: GELU depends more on its learning rate than tanh does.
CLAIMS = {"C19": lower("tanh", "gelu", of=protocol.SENSITIVITY)}
QUESTIONS = ("gelu<tanh", "relu<gelu", "swiglu<gelu")


def get_config(preset: str = "small") -> config_dict.ConfigDict:
    """Encoders that predict 15% of the tokens, masked 80/10/10.

    Raises:
        UserError: for a preset that is not known.
    """
    if preset not in RATES:
        raise UserError(f"preset {preset!r} is not known: {suggestion(preset, RATES)}")
    size, fields = ("small", SMALL) if preset == "small" else ("mini", PAPER)
    values = presets.bert(size, {"data.name": "story_grammar", **fields})
    values.sweep = {
        "model.norm_position": ("post", "pre"),
        "model.activation": FEW if preset == "small" else ALL,
        "optimizer.learning_rate": RATES[preset],
        "seed": (1, 2, 3, 4, 5),
    }
    return values
