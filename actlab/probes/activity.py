"""Activity of the hidden units of a feed-forward: moments, and seven definitions of an inactive or dead unit.

z is a unit's input to the activation f, a what it gives to the layer's last product: a = f(z) in a plain layer. In a
gated one z is the gate's input and a = f(z) v with the value path's v. A unit is one hidden coordinate of one layer,
measured on tokens of weight 1; the others are left out. All is reduced in float32, over tokens, then over units.

| id | name | definition |
|---|---|---|
| D1 | zero_fraction | P(a = 0 exactly) |
| D2 | negative_fraction | P(z < 0) |
| D3 | tau_sparsity_TAU | P(abs(a) < tau rms(a)), tau = 0.01 and 0.1, rms over the layer |
| D4 | dead_fraction | share of units with abs(f'(z)) < 1e-3 on every token; of a gated unit f is the gate's |
| D5 | gradient_dead_fraction | share of units whose sum of abs(dL/dz) is at most 1e-6 of the layer's median |
| D6 | (analysis/survival.py) | D4 here and at every later census |
| D7 | cett_sparsity | share of units, smallest output first, removable at a relative output error below 0.2 |

dL/dz = dL/da f'(z) in a plain layer and dL/da f'(z) v in a gated one. D5's comparison includes equality, so that
units without any gradient count where most of the layer has none.
"""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from actlab.activations import Activation

TAUS = (0.01, 0.1)
DEAD_SLOPE = 1e-3
GRADIENT_DEAD = 1e-6
CETT = 0.2
# D7 sorts the units of each token: a sample of them, evenly spaced, is enough for a mean. A prime, so that the sample
# does not fall on the same positions of every window.
CETT_TOKENS = 61

Scalars = dict[str, Float[Array, ""]]


def layer(
    z_TF: Float[Array, "T F"],
    a_TF: Float[Array, "T F"],
    dz_TF: Float[Array, "T F"],
    down_FD: Float[Array, "F D"],
    weights_T: Float[Array, "T"],
) -> Scalars:
    """Moments of z and a (pre_, post_) and D1, D2, D3, D5, D7 of one layer.

    Args:
        z_TF: inputs of the activation.
        a_TF: outputs of the units.
        dz_TF: gradients of the loss with respect to z.
        down_FD: weights of the layer's last product.
        weights_T: 1 for a token that counts, else 0.
    """
    z_TF, a_TF, dz_TF = (array.astype(jnp.float32) for array in (z_TF, a_TF, dz_TF))
    before = {f"pre_{name}": value for name, value in moments(z_TF, weights_T).items()}
    after = {f"post_{name}": value for name, value in moments(a_TF, weights_T).items()}
    return {
        **before,
        **after,
        "zero_fraction": mean(a_TF == 0, weights_T),
        "negative_fraction": mean(z_TF < 0, weights_T),
        **{f"tau_sparsity_{tau}": mean(jnp.abs(a_TF) < tau * after["post_rms"], weights_T) for tau in TAUS},
        "gradient_dead_fraction": gradient_dead_fraction(dz_TF),
        "cett_sparsity": cett_sparsity(a_TF, down_FD, weights_T),
    }


def mean(x_TF: Float[Array, "T F"] | Bool[Array, "T F"], weights_T: Float[Array, "T"]) -> Float[Array, ""]:
    """Mean over units and tokens of weight 1."""
    # Two divisions, so that no sum in float32 runs over more than the tokens: a count stays exact up to 2^24 of them.
    return ((x_TF * weights_T[:, None]).sum(axis=0) / weights_T.sum()).mean()


def moments(x_TF: Float[Array, "T F"], weights_T: Float[Array, "T"]) -> Scalars:
    """Mean, standard deviation, root mean square, kurtosis E(x - mean)^4 / sd^4 (normal: 3) and largest value."""
    centre = mean(x_TF, weights_T)
    square_TF = jnp.square(x_TF - centre)
    variance = mean(square_TF, weights_T)
    return {
        "mean": centre,
        "sd": jnp.sqrt(variance),
        "rms": jnp.sqrt(mean(jnp.square(x_TF), weights_T)),
        "kurtosis": mean(jnp.square(square_TF), weights_T) / jnp.square(variance),
        "max": jnp.where(weights_T[:, None] > 0, x_TF, -jnp.inf).max(),
    }


def common_share(down_FD: Float[Array, "F D"]) -> Float[Array, ""]:
    """Share of the squared weights that all units have in common, F sum_d (mean_f w_fd)^2 / sum w^2.

    About 1/F for independent weights, 1 where all rows are equal. Units whose outputs have a mean of one sign move
    their rows together (LeCun et al. 1998, Efficient BackProp, section 4.3). The mean over all weights would not show
    it: behind a LayerNorm of the residual stream the gradient of each row sums to 0.
    """
    down_FD = down_FD.astype(jnp.float32)
    return len(down_FD) * jnp.square(down_FD.mean(axis=0)).sum() / jnp.square(down_FD).sum()


def gradient_dead_fraction(dz_TF: Float[Array, "T F"]) -> Float[Array, ""]:
    """D5: the share of units whose sum of abs(dL/dz) over the batch is at most 1e-6 of the layer's median."""
    sums_F = jnp.abs(dz_TF).sum(axis=0)
    return (sums_F <= GRADIENT_DEAD * jnp.median(sums_F)).astype(jnp.float32).mean()


def cett_sparsity(
    a_TF: Float[Array, "T F"], down_FD: Float[Array, "F D"], weights_T: Float[Array, "T"]
) -> Float[Array, ""]:
    """D7: mean over tokens of the share of units, smallest output first, removable at an error below CETT.

    Unit i adds a_i w_i to the output, w_i a row of `down_FD`. The error of removing units S is
    norm(sum_S a_i w_i) / norm(sum a_i w_i) (CETT, Zhang et al. 2024, arXiv:2402.03804). Bisection finds a number of
    units whose error is below 0.2 while that of one more is not: the only one, unless errors fall as more units go.
    Units of equal output go together. At most CETT_TOKENS tokens, evenly spaced, are looked at.
    """
    n = min(len(a_TF), CETT_TOKENS)
    places_S = np.arange(n) * len(a_TF) // n
    a_TF, weights_T = a_TF[places_S], weights_T[places_S]
    down_FD = down_FD.astype(jnp.float32)
    n_units = a_TF.shape[1]
    size_TF = jnp.abs(a_TF) * jnp.linalg.norm(down_FD, axis=1)[None]
    # In front of all, what is below the smallest: no unit goes.
    sorted_TF = jnp.pad(jnp.sort(size_TF, axis=1), ((0, 0), (1, 0)), constant_values=-1.0)
    removable_T = CETT * jnp.linalg.norm(a_TF @ down_FD, axis=1)

    def goes(k_T: Array) -> Array:
        return size_TF <= jnp.take_along_axis(sorted_TF, k_T[:, None], axis=1)

    def halve(_: Any, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low_T, high_T = bounds
        middle_T = (low_T + high_T) // 2
        removed_TD = jnp.where(goes(middle_T), a_TF, 0) @ down_FD
        fits_T = jnp.linalg.norm(removed_TD, axis=1) <= removable_T
        return jnp.where(fits_T, middle_T, low_T), jnp.where(fits_T, high_T, middle_T)

    start = (jnp.zeros(len(a_TF), jnp.int32), jnp.full(len(a_TF), n_units + 1, jnp.int32))
    low_T, _ = jax.lax.fori_loop(0, math.ceil(math.log2(n_units + 1)), halve, start)
    return mean(goes(low_T), weights_T)


def fires(
    activation: Activation, theta: Mapping[str, Array], z_TF: Float[Array, "T F"], weights_T: Float[Array, "T"]
) -> Bool[Array, "F"]:
    """Which units have abs(f'(z)) >= DEAD_SLOPE on some token of weight 1; the others are dead (D4) on these tokens.

    Raises:
        ValueError: for an activation that is not elementwise, whose units have no slope of their own.
    """
    if not activation.elementwise:
        raise ValueError(f"{activation.name} looks at a whole vector: D4 is not defined for it.")
    slope_TF = slopes(activation, theta, z_TF.astype(jnp.float32))
    return ((jnp.abs(slope_TF) >= DEAD_SLOPE) & (weights_T[:, None] > 0)).any(axis=0)


def slopes(activation: Activation, theta: Mapping[str, Array], z: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """f'(z), elementwise."""
    return jax.jvp(lambda z: activation.fn(z, **theta), (z,), (jnp.ones_like(z),))[1]


def silent_rate_bound(n_tokens: int) -> float:
    """Upper bound at 95%, one-sided, on the rate of a unit that fired on none of n tokens: 1 - 0.05^(1 / n).

    About 3 / n (Clopper and Pearson 1934). Tokens of a text depend on each other, which the bound does not know.
    """
    return -math.expm1(math.log(0.05) / n_tokens)
