"""Question: is it GELU's smooth curvature that steadies training, or that its dead half is not quite dead?

Command: python -m actlab.main --config=experiments/curvature_dose/study.py[:small|char|paper] --workdir=runs/curvature
x Phi(x / s) at five s, from ReLU's kink (s = 0) to nearly a straight line (4), and three activations that with GELU
make two by two of kink and tail; five learning rates, five seeds: 225 runs in nine programs.
Expected time: small under an hour on 2 CPU cores; --dry_run tells that of this machine.
Expected loss: small about 1.5 nats/byte at the better rates.
"""

import jax.numpy as jnp
from jax import Array
from ml_collections import config_dict

from actlab import activations
from actlab.analysis import protocol
from actlab.analysis.protocol import Arm, Contrast, falls
from actlab.config import presets


@activations.elementwise
def gelu_dose(x: Array, s: float = 1.0) -> Array:
    """c x Phi(x / s), c such that E f(Z)^2 is ReLU's, 1/2: the dose of curvature changes, the size does not."""
    size = activations.moments(f"gelu_scale(s={s!r})").second_moment
    return jnp.float32((0.5 / size) ** 0.5).astype(x.dtype) * activations.get(f"gelu_scale(s={s!r})").fn(x)


activations.register(
    activations.Activation(
        "gelu_dose",
        gelu_dose,
        r"c_s x \Phi(x / s), \; E f(Z)^2 = 1/2",
        "Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2, with sigma = s, rescaled",
        parameters={"s": 1.0},
        domain={"s": (0.0, 1e3)},
    )
)

DOSES = tuple(f"gelu_dose(s={s})" for s in (0.0, 0.0625, 0.25, 1.0, 4.0))
# kink and zero tail, kink and live tail, smooth and zero tail, smooth and live tail
FACTORS = ("relu", "leaky_relu(slope=0.1)", "gelu", "elu")
_KINK_DEAD, _KINK_LIVE, _SMOOTH_DEAD, _SMOOTH_LIVE = map(Arm, FACTORS)


def _main_effect(with_it: tuple[Arm, Arm], without: tuple[Arm, Arm]) -> Contrast:
    """That the sensitivity is lower with a factor: its main effect, which is the analysis of variance's F = t^2."""
    terms = (*((0.5, arm) for arm in with_it), *((-0.5, arm) for arm in without))
    return Contrast(terms, protocol.SENSITIVITY)


CLAIMS = {
    "A47": _main_effect((_KINK_LIVE, _SMOOTH_LIVE), (_KINK_DEAD, _SMOOTH_DEAD)),
    "B18": (
        falls(DOSES, of=protocol.SENSITIVITY),
        _main_effect((_SMOOTH_DEAD, _SMOOTH_LIVE), (_KINK_DEAD, _KINK_LIVE)),
    ),
}
BASELINE = "relu"
QUESTIONS = ("gelu<relu", "elu<gelu", "leaky_relu(slope=0.1)<relu", "gelu_dose(s=1.0)<gelu_dose(s=0.0)")


def get_config(preset: str = "small") -> config_dict.ConfigDict:
    """Doses and factors in one sweep."""
    values = presets.study(preset, presets.TINY)
    values.sweep = {
        "model.activation": (*DOSES, *FACTORS),
        "optimizer.learning_rate": (3e-4, 1e-3, 3e-3, 1e-2, 3e-2),
        "seed": (1, 2, 3, 4, 5),
    }
    return values
