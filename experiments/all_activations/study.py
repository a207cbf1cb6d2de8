"""Question: which of all the activations of the catalogue does best in a decoder, and which cannot be told apart?

Command: python -m actlab.main --config=experiments/all_activations/study.py --workdir=runs/all_activations
Presets, after a colon: small (default), char, paper.
Every activation of the catalogue, seven learning rates over three decades, five seeds: 1,330 runs, a rate at a time.
Programs of an activation are alike: with JAX_COMPILATION_CACHE_DIR set to a folder, each is compiled once.
Expected time: small about 5 hours of one CPU core; --dry_run tells the time of this machine.
Expected loss: small 1.37 (polynorm) to 2.03 nats/byte (hard_sigmoid) at the best rate of each, GELU 1.58.
"""

from ml_collections import config_dict

from actlab import activations
from actlab.config import presets

# So small that 1,330 runs are hours, and activations still come apart: 0.12M parameters over bytes, 1.0M tokens.
SMALL = {**presets.TINY, "model.n_layers": 2, "train.probe_every": 1000}

QUESTIONS = tuple(f"{name}<gelu" for name in activations.names() if name != "gelu")


def get_config(preset: str = "small") -> config_dict.ConfigDict:
    """The catalogue over the grid of Wortsman et al. 2023 (arXiv:2309.14322, section 2.2), 3e-4 to 3e-1."""
    values = presets.study(preset, SMALL, presets.GPT2_INIT)
    values.sweep = {
        "model.activation": activations.names(),
        "optimizer.learning_rate": (1e-2, 3e-3, 1e-3, 3e-2, 3e-4, 1e-1, 3e-1),
        "seed": (1, 2, 3, 4, 5),
    }
    return values
