"""Question: does an activation of one's own, x times the Cauchy distribution function, beat ReLU and GELU?

    python -m actlab activations --activations=examples/my_activation.py --names=mine,relu,gelu
    python -m actlab.main --config=examples/my_activation.py --workdir=runs/mine
    python -m actlab verdict runs/mine --question='mine<relu' --question='mine<gelu'

Copy this file and write a function of yours. Three activations, four learning rates, eight seeds: 96 runs of 0.12M
parameters, about 35 minutes on 2 CPU cores; --dry_run tells the time of this machine.
"""

import jax.numpy as jnp
from ml_collections import config_dict

from actlab import activations
from actlab.config import presets


@activations.elementwise  # bfloat16 in, float32 inside, bfloat16 out
def mine(x, width: float = 1.0):
    """GELU has the normal distribution function in its place, which falls faster: x F(x / width)."""
    return x * jnp.arctan2(width, -x) / jnp.pi  # 1/2 + arctan(x / width) / pi would lose its digits on the left


activations.register(
    activations.Activation(
        "mine",
        mine,
        formula=r"x (1/2 + \arctan(x / w) / \pi)",
        source="ours",
        parameters={"width": 1.0},  # set by a name such as mine(width=0.5)
        domain={"width": (1e-3, 1e3)},
    )
)


def get_config() -> config_dict.ConfigDict:
    """The study: each activation at each learning rate with each seed."""
    sweep = {
        "model.activation": ("mine", "relu", "gelu"),
        "optimizer.learning_rate": (5.6e-3, 1e-2, 3.2e-3, 1.8e-2),
        "seed": tuple(range(1, 9)),
    }
    return presets.tinystories("small", {**presets.SHALLOW, **presets.FAN_IN, "sweep": sweep})
