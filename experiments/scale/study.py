"""Question: how does the loss above the text's exact entropy fall with the size of the model, for each activation?

Command: python -m actlab.main --config=experiments/scale/study.py:64 --workdir=runs/scale_64
Presets are widths: 32, 48, 64, 96, 128, 160 and 256, 0.05M to 3.1M parameters without embeddings, ten training tokens
for each. Four activations; five seeds, three rates up to 64, one rate above; one seed at 256.
Expected time: 10, 30, 60, 100 and 240 minutes of one CPU core for 32 to 128; a few minutes of a GPU for 160 and 256;
--dry_run tells the time of this machine.
Expected loss: the entropy is 0.84 nats/token; at width 32 about three times that.
"""

from ml_collections import config_dict

from actlab.config import presets
from actlab.errors import UserError, suggestion

N_LAYERS, TOKENS_PER_PARAMETER = 4, 10
BATCH, STORY = 8, 178.4  # stories in a batch, mean tokens of a story with bpe:1024
ACTIVATIONS = ("relu", "gelu", "swiglu", "relu2")
# In the order in which they are trained. The first is that of the fit at every width; the others say how near the best
# it is, which mup is to keep. From width 128 on 1e-2 proved too high: README.md.
_AROUND = (1e-2, 5.6e-3, 1.8e-2)
RATES = {"32": _AROUND, "48": _AROUND, "64": _AROUND} | dict.fromkeys(("96", "128", "160", "256"), _AROUND[:1])
SEEDS = {"256": (1,)}  # five for the others
QUESTIONS = ("gelu<relu", "swiglu<gelu", "relu2<gelu")


def get_config(preset: str = "64") -> config_dict.ConfigDict:
    """One size: stories of known entropy, each whole in a row, so that every token has all of its past.

    Raises:
        UserError: for an unknown width.
    """
    if preset not in RATES:
        raise UserError(f"unknown preset {preset!r}: {suggestion(preset, RATES)}")
    width = int(preset)
    n_steps = round(TOKENS_PER_PARAMETER * 12 * N_LAYERS * width**2 / (BATCH * STORY))
    values = presets.tinystories("small", {})
    values.update_from_flattened_dict(
        {
            "model.n_layers": N_LAYERS,
            "model.d_model": width,
            "model.n_heads": width // 16,
            "model.context": 240,  # the longest story has 222 tokens
            **presets.FAN_IN,
            "data.name": "story_grammar",
            "data.n_stories": 200_000,  # so that no story is read twice
            "data.packing": "padded",
            "data.batch_size": BATCH,
            "optimizer.warmup_steps": n_steps // 20,
            "train.n_steps": n_steps,
            "train.steps_per_call": 50,
            "train.log_every": 50,
            "train.eval_every": n_steps,
            "train.checkpoint_every": n_steps,
            "train.probe_every": 0,
            "train.census_every": 0,
            "devices.max_lanes": 5,
        }
    )
    values.sweep = {
        "model.activation": ACTIVATIONS,
        "optimizer.learning_rate": RATES[preset],
        "seed": SEEDS.get(preset, (1, 2, 3, 4, 5)),
    }
    return values
