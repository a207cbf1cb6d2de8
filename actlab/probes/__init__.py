"""Probes: what happens inside a network while it trains. Pure functions of arrays; programs.py compiles them.

Here: when they run, and what they cost.
"""

from actlab.config import TrainConfig
from actlab.probes import curvature

CADENCES = ("probe_every", "census_every", "curvature_every")  # fields of config.train, in steps; 0 is never


def spans(train: TrainConfig) -> tuple[int, ...]:
    """The cadences that are in use: at multiples of each some probe runs."""
    return tuple(every for name in CADENCES if (every := getattr(train, name)))


def is_due(train: TrainConfig, every: int, step: int) -> bool:
    """Whether a probe of this cadence runs at `step`: at multiples of `every`, 0 included, and at the last step."""
    return every > 0 and (step % every == 0 or step == train.n_steps)


def work(train: TrainConfig, n_batches: int) -> float:
    """The cost of all probes of a run, in training updates; `n_batches` is the size of the validation set.

    A probe costs one gradient. A census costs at most a forward pass, a third of a gradient, for every batch. An
    iteration of curvature takes two products with a matrix, each about two gradients.
    """
    updates = {"probe_every": 1, "census_every": n_batches / 3, "curvature_every": 4 * curvature.ITERATIONS}
    return sum(updates[name] * _times(train, getattr(train, name)) for name in CADENCES)


def _times(train: TrainConfig, every: int) -> int:
    return 1 + -(-train.n_steps // every) if every else 0
