"""Question: is it GELU's smooth curvature that steadies training, or that its dead half is not quite dead?

Command: python -m actlab.main --config=experiments/curvature_dose/study.py --workdir=runs/curvature_dose
Presets, after a colon: small (default), char, paper.
x Phi(x / s) at five s, from ReLU's kink (s = 0) to nearly a straight line (4), and two with a live tail, which make two
by two of kink and tail; six learning rates a factor of 1.8 apart, eight seeds: 336 runs.
Expected time: small about 50 minutes of one CPU core, 9 seconds a run; --dry_run tells that of this machine.
Expected loss: small about 1.35 nats/byte at the better rates.
"""

import jax.numpy as jnp
from jax import Array
from ml_collections import config_dict

from actlab import activations
from actlab.analysis import protocol
from actlab.analysis.protocol import Arm, Contrast, falls
from actlab.config import presets


@activations.elementwise
def gelu_dose(x: Array, s: float = 1.0, tail: float = 0.0) -> Array:
    """c (a x + (1 - a) x Phi(x / s)), a the slope of the tail, c such that E f(Z)^2 is ReLU's, 1/2.

    So doses of curvature and of tail change the shape, not the size. By symmetry E Z^2 Phi(Z / s) = 1/2, and the second
    moment before c is a + (1 - a)^2 E (Z Phi(Z / s))^2.
    """
    plain = f"gelu_scale(s={s!r})"
    size = tail + (1 - tail) ** 2 * activations.moments(plain).second_moment
    shape = tail * x + (1 - tail) * activations.get(plain).fn(x)
    return jnp.float32((0.5 / size) ** 0.5).astype(x.dtype) * shape


activations.register(
    activations.Activation(
        "gelu_dose",
        gelu_dose,
        r"c_{s,a} (a x + (1 - a) x \Phi(x / s)), \; E f(Z)^2 = 1/2",
        "Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2, with sigma = s, rescaled, plus a leak",
        parameters={"s": 1.0, "tail": 0.0},
        domain={"s": (0.0, 1e3), "tail": (0.0, 1.0)},
    )
)

# s in standard deviations of the activation's inputs, which start at 1.
DOSES = tuple(f"gelu_dose(s={s})" for s in (0.0, 0.0625, 0.25, 1.0, 4.0))
# ReLU, leaky ReLU, GELU, leaky GELU. With a = 1/4 the negative half has 5.9% of ReLU's mean squared slope; of GELU's
# it has 5.1%.
FACTORS = (DOSES[0], "gelu_dose(s=0.0,tail=0.25)", DOSES[3], "gelu_dose(s=1.0,tail=0.25)")
_KINK_DEAD, _KINK_LIVE, _SMOOTH_DEAD, _SMOOTH_LIVE = map(Arm, FACTORS)


def _main_effect(with_it: tuple[Arm, Arm], without: tuple[Arm, Arm], of: str) -> Contrast:
    """That `of` is lower with a factor: its main effect, which is the analysis of variance's F = t^2."""
    terms = (*((0.5, arm) for arm in with_it), *((-0.5, arm) for arm in without))
    return Contrast(terms, of)


CLAIMS = {
    "A47": _main_effect((_KINK_LIVE, _SMOOTH_LIVE), (_KINK_DEAD, _SMOOTH_DEAD), protocol.LOSS),
    "B18": (
        falls(DOSES, of=protocol.SENSITIVITY),
        _main_effect((_SMOOTH_DEAD, _SMOOTH_LIVE), (_KINK_DEAD, _KINK_LIVE), protocol.SENSITIVITY),
    ),
}
QUESTIONS = (f"{DOSES[3]}<{DOSES[0]}", f"{FACTORS[1]}<{FACTORS[0]}", f"{FACTORS[3]}<{FACTORS[2]}")


def get_config(preset: str = "small") -> config_dict.ConfigDict:
    """Doses and factors in one sweep, up to rates at which trouble may show."""
    values = presets.study(preset, presets.SHALLOW, presets.FAN_IN)
    values.sweep = {
        "model.activation": tuple(dict.fromkeys((*DOSES, *FACTORS))),
        "optimizer.learning_rate": (*presets.RATES, 5.6e-2),
        "seed": (1, 2, 3, 4, 5, 6, 7, 8),
    }
    return values
