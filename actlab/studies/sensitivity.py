"""How much a model's loss depends on its learning rate."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Array


def lr_sensitivity(losses: Sequence[float | int] | np.ndarray | Array, initial_loss: float | int) -> float:
    """Learning-rate sensitivity, mean_i min(l_i, l_0) - min_i min(l_i, l_0); Wortsman et al. 2023, section 2.2.

    Args:
        losses: final validation losses l_i over a log-spaced grid of learning rates, [n], in nats; NaN and inf are
            runs that diverged and count as l_0.
        initial_loss: loss at initialisation l_0, in nats.

    Returns:
        The sensitivity in nats; 0 where the loss does not depend on the learning rate, and where every run diverged.

    Raises:
        ValueError: for losses that are no list of one or more real numbers, or an initial loss that is not finite.

    Source: arXiv:2309.14322.
    """
    grid = np.asarray(losses, np.float64)
    if grid.ndim != 1 or grid.size == 0:
        raise ValueError(f"losses has shape {grid.shape}: give a list of one loss per learning rate.")
    if np.any(grid == -np.inf):
        raise ValueError("losses holds -inf: a diverged run is NaN or inf.")
    if not np.isfinite(initial_loss):
        raise ValueError(f"initial_loss={initial_loss} is not a finite number: give the loss at initialisation.")
    clipped = np.where(np.isnan(grid), initial_loss, np.minimum(grid, initial_loss))
    return float(clipped.mean() - clipped.min())
