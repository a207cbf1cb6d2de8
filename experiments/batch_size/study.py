"""Question: does GELU bear larger batches than ReLU, at a fixed number of tokens?

Command: python -m actlab.main --config=experiments/batch_size/study.py[:small|char|paper] --workdir=runs/batch_size
ReLU and GELU, batches of 16, 64 and 256 windows, four learning rates, five seeds: 120 runs in six programs.
Expected time: small under an hour on 2 CPU cores; --dry_run tells that of this machine.
Expected loss: small about 1.4 nats/byte with the smallest batch.
"""

from ml_collections import config_dict

from actlab.analysis.protocol import Arm, gap_grows, lower
from actlab.config import presets

BATCHES = (16, 64, 256)
_SMALL, _LARGE = ({"data.batch_size": size} for size in (BATCHES[0], BATCHES[-1]))
# Larger batches: GELU's lead over ReLU grows with them. Faster: 3e-3 is better than 1e-3, at every batch.
CLAIMS = {
    "B21": (
        gap_grows(
            (Arm("relu", where=_SMALL), Arm("gelu", where=_SMALL)),
            (Arm("relu", where=_LARGE), Arm("gelu", where=_LARGE)),
        ),
        lower(Arm("gelu", 3e-3), Arm("gelu", 1e-3)),
    )
}
QUESTIONS = ("gelu<relu",)


def get_config(preset: str = "small") -> config_dict.ConfigDict:
    """Steps, warmup and evaluations shrink as the batch grows."""
    values = presets.study(preset, {**presets.TINY, "train.n_steps": 2000})
    tokens = values.train.n_steps * values.data.batch_size
    places = []
    for size in BATCHES:
        steps = tokens // size
        every = steps // 2 if steps % 2 == 0 else steps
        places.append((size, steps, steps // 20, every, every))
    together = ("data.batch_size", "train.n_steps", "optimizer.warmup_steps", "train.eval_every")
    values.sweep = {
        ", ".join((*together, "train.checkpoint_every")): tuple(places),
        "model.activation": ("relu", "gelu"),
        "optimizer.learning_rate": (1e-3, 3e-3, 1e-2, 3e-2),
        "seed": (1, 2, 3, 4, 5),
    }
    return values
