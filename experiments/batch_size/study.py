"""Question: does GELU tolerate larger batches and larger learning rates than ReLU, at a fixed number of tokens?

Command: python -m actlab.main --config=experiments/batch_size/study.py --workdir=runs/batch_size
Presets, after a colon: small (default), char, paper.
ReLU and GELU, batches of 8, 32 and 128 windows with as many fewer steps, six learning rates a factor of 1.8 apart,
eight seeds: 288 runs.
Expected time: small about 1 hour of one CPU core, 9 to 16 seconds a run; --dry_run tells that of this machine.
Expected loss: small about 1.3 nats/byte with the smallest batch, 2.0 with the largest.
"""

from ml_collections import config_dict

from actlab.analysis.protocol import Arm, gap_grows
from actlab.config import presets

BATCHES = (8, 32, 128)
_SMALL, _LARGE = ({"data.batch_size": size} for size in (BATCHES[0], BATCHES[-1]))
_RATE, _HIGH = 1e-2, 3.2e-2
# GELU's lead over ReLU grows with the batch, each at its own best rate; and from about the best rate to three times it,
# at every batch.
CLAIMS = {
    "B21": (
        gap_grows(
            (Arm("relu", where=_SMALL), Arm("gelu", where=_SMALL)),
            (Arm("relu", where=_LARGE), Arm("gelu", where=_LARGE)),
        ),
        gap_grows((Arm("relu", _RATE), Arm("gelu", _RATE)), (Arm("relu", _HIGH), Arm("gelu", _HIGH))),
    )
}
QUESTIONS = ("gelu<relu",)


def get_config(preset: str = "small") -> config_dict.ConfigDict:
    """Steps and warmup shrink as the batch grows."""
    values = presets.study(preset, presets.SHALLOW, presets.FAN_IN)
    windows = values.train.n_steps * values.data.batch_size
    steps = {size: windows // size for size in BATCHES}
    together = ("data.batch_size", "train.n_steps", "optimizer.warmup_steps", "train.eval_every")
    values.sweep = {
        ", ".join((*together, "train.checkpoint_every")): tuple((size, n, n // 20, n, n) for size, n in steps.items()),
        "model.activation": ("relu", "gelu"),
        "optimizer.learning_rate": (*presets.RATES, 5.6e-2),
        "seed": (1, 2, 3, 4, 5, 6, 7, 8),
    }
    return values
