"""Question: is GELU better than ReLU in a small decoder, at which learning rates, and does ReLU break at high ones?

Command: python -m actlab.main --config=experiments/relu_vs_gelu/study.py[:small|char|paper] --workdir=runs/relu_vs_gelu
Two activations, five learning rates, six seeds, without warmup and with 2% of it: 120 runs, a rate at a time.
Expected time: small about 5 hours on 2 CPU cores; --dry_run tells the time of this machine.
Expected loss: small on the excerpt of TinyStories about 1.1 to 1.3 nats/byte at the better rates (a prototype's).
"""

from ml_collections import config_dict

from actlab import presets

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


def get_config(preset: str = "small") -> config_dict.ConfigDict:
    """The sweep of text B's two activations over more rates and seeds, with the warmup that it did not state."""
    values = presets.tinystories(preset, SMALL if preset == "small" else {})
    values.sweep = {
        "optimizer.warmup_steps": (0, values.train.n_steps // WARMUP_SHARE),
        "model.activation": ("relu", "gelu"),
        "optimizer.learning_rate": (1e-3, 3e-3, 3e-4, 1e-2, 1e-4),
        "seed": (1, 2, 3, 4, 5, 6),
    }
    return values
