"""f, f' and f'' of every elementwise activation at any points: one compiled program per dtype for all of them.

Compiling takes longer than running, so points are filled up to one length and the programs are shared by the tests.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from actlab import activations

N_POINTS = 2**17
# Beside the catalogue at its defaults. Trained scalars are float32 numbers.
WITH_PARAMETERS = (
    "leaky_relu(slope=0.2)",
    "elu(alpha=0.7)",
    "celu(alpha=2)",
    "celu(alpha=0.3)",
    "gelu_scale(s=0.3)",
    "gelu_scale(s=4)",
)
THETA = {
    name: {key: float(np.float32(value)) for key, value in scalars.items()}
    for name, scalars in {
        "xielu": activations.get("xielu").theta,
        "swish(beta=1.3)": {"beta": 1.3},
        "swish(beta=-0.7)": {"beta": -0.7},
    }.items()
}
NAMES = tuple(name for name in activations.names() if activations.get(name).elementwise)


def function(name):
    """An activation by the names used here: `swish(beta=1.3)` sets a trained scalar."""
    fn = activations.get("swish" if name.startswith("swish(") else name).fn
    return functools.partial(fn, **THETA[name]) if name in THETA else fn


# Gated forms share the function of their gate.
_FIRST = {}
for _name in (*NAMES, *WITH_PARAMETERS, *THETA):
    _FIRST.setdefault(function(_name) if _name not in THETA else _name, _name)
_SAME = {name: _FIRST[function(name)] for name in NAMES if name not in THETA}


@jax.jit
def _all(x):
    """f, f' by reverse mode, f'' by forward over reverse mode."""

    def slope(f, x):
        y, pull = jax.vjp(f, x)
        return pull(jnp.ones_like(y))[0]

    def rows(f):
        return f(x), *jax.jvp(functools.partial(slope, f), (x,), (jnp.ones_like(x),))

    return {name: rows(function(name)) for name in _FIRST.values()}


def evaluate(x):
    """By name, f, f' and f'' at the points x, in their dtype."""
    with jax.enable_x64(x.dtype == np.float64):
        parts = [_all(np.resize(part, N_POINTS)) for part in np.split(x, range(N_POINTS, len(x), N_POINTS))]
    joined = jax.tree.map(lambda *rows: np.concatenate(rows)[: len(x)], *parts)
    return joined | {name: joined[first] for name, first in _SAME.items()}
