"""Gradients: norms by layer and kind of parameter, update-to-weight ratios, spikes, the tail of a run's norms."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

SPIKE_WINDOW = 128  # MaxText's skip_step_interval
SPIKE_DEVIATIONS = 6.0  # MaxText's skip_step_scaling_factor
TAIL = 5  # the last fifth of the steps

Groups = dict[str, list[Array]]


def groups(params: Mapping[str, Any]) -> Groups:
    """Arrays by layer and kind: layer_0/attention, layer_0/feed_forward, layer_0/norm, embedding, norm, head.

    An output projection of its own counts as an embedding, an encoder's pooler and classes as its head.
    """
    found: Groups = {}
    for name, value in params.items():
        parts = {name: value}
        prefix = ""
        if name.startswith("block_"):
            parts, prefix = value, f"layer_{name.removeprefix('block_')}/"
        for part, tree in parts.items():
            found.setdefault(prefix + _kind(part), []).extend(jax.tree.leaves(tree))
    return found


def _kind(name: str) -> str:
    if name.endswith("_norm"):
        return "norm"
    if name in ("head", "pooler", "classifier"):
        return "head"
    return name if name in ("attention", "feed_forward") else "embedding"


def by_group(params: Any, grads: Any, updates: Any) -> dict[str, Float[Array, ""]]:
    """GROUP/grad_norm and GROUP/update_ratio: L2 norms of the gradient, and of the update over that of the weights."""
    result = {}
    all_grads, all_updates = groups(grads), groups(updates)
    for group, weights in groups(params).items():
        result[f"{group}/grad_norm"] = norm(all_grads[group])
        result[f"{group}/update_ratio"] = norm(all_updates[group]) / norm(weights)
    return result


def norm(arrays: Any) -> Float[Array, ""]:
    """L2 norm over all arrays, in float32."""
    return jnp.sqrt(sum(jnp.square(array.astype(jnp.float32)).sum() for array in jax.tree.leaves(arrays)))


def spikes(series_S: Float[np.ndarray, "S"]) -> Bool[np.ndarray, "S"]:
    """Where a series of one value per step lies above mean + 6 sd of the 128 steps before it.

    The first 128 steps have no such window and are no spikes; a value that is not finite is one anywhere. A window
    that holds a value that is not finite has no bound. The standard deviation is the population's.
    """
    series = np.asarray(series_S, np.float64)
    above = np.zeros(len(series), bool)
    if len(series) > SPIKE_WINDOW:
        windows = np.lib.stride_tricks.sliding_window_view(series[:-1], SPIKE_WINDOW)
        with np.errstate(invalid="ignore"):
            bound = windows.mean(axis=1) + SPIKE_DEVIATIONS * windows.std(axis=1)
            above[SPIKE_WINDOW:] = series[SPIKE_WINDOW:] > bound
    return above | ~np.isfinite(series)


class SpikeCount:
    """The number of a run's spikes while its steps come: `n` is that of `summary` over the steps so far."""

    def __init__(self) -> None:
        self.n = 0
        self._recent_2S = np.zeros((2, 0))

    def add(self, loss_K: Float[np.ndarray, "K"], grad_norm_K: Float[np.ndarray, "K"]) -> None:
        """Takes the next steps."""
        series_2S = np.concatenate([self._recent_2S, [loss_K, grad_norm_K]], axis=1)
        found = spikes(series_2S[0]) | spikes(series_2S[1])
        self.n += int(found[self._recent_2S.shape[1] :].sum())
        self._recent_2S = series_2S[:, -SPIKE_WINDOW:]


def summary(loss_S: Float[np.ndarray, "S"], grad_norm_S: Float[np.ndarray, "S"]) -> dict[str, int | float]:
    """Of a run: `spikes`, the steps at which the loss or the gradient norm spikes, and `grad_norm_p50`, `_p99`.

    The quantiles are those of the norms before clipping that are finite, over the last fifth of the steps taken;
    NaN where there are none.
    """
    tail = grad_norm_S[len(grad_norm_S) - -(-len(grad_norm_S) // TAIL) :]
    tail = tail[np.isfinite(tail)]
    p50, p99 = np.quantile(tail, (0.5, 0.99)) if len(tail) else (np.nan, np.nan)
    n_spikes = int((spikes(loss_S) | spikes(grad_norm_S)).sum())
    return {"spikes": n_spikes, "grad_norm_p50": float(p50), "grad_norm_p99": float(p99)}
