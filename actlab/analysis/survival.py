"""Survival of hidden units, from the censuses of a run: permanent death (D6), revival, survival curves.

At each census a unit is dead (D4) or not. probes/activity.py defines both, workdir/traces.py stores the censuses.
"""

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.stats
from jaxtyping import Bool, Float, Int

from actlab.workdir.traces import Censuses


class Curve(NamedTuple):
    """Kaplan-Meier: the share of units that survive beyond a step, with its 95% interval; 1 before the first step."""

    steps_E: Float[np.ndarray, "E"]
    share_E: Float[np.ndarray, "E"]
    low_E: Float[np.ndarray, "E"]
    high_E: Float[np.ndarray, "E"]


def permanently_dead(dead_PU: Bool[np.ndarray, "P *units"]) -> Bool[np.ndarray, "P *units"]:
    """D6: dead at this census and at every later one. At the last census that is D4."""
    return np.logical_and.accumulate(dead_PU[::-1], axis=0)[::-1]


def revival_rate(dead_PU: Bool[np.ndarray, "P *units"]) -> Float[np.ndarray, "P"]:
    """1 - D6 / D4 at each census: the share of its dead units that are alive at some later one; NaN without any.

    No census follows the last one: its rate is 0 by definition, not by observation.
    """
    units = tuple(range(1, dead_PU.ndim))
    # Dividing by NaN instead of 0 gives NaN without numpy's warning.
    n_dead, n_permanent = dead_PU.sum(axis=units), permanently_dead(dead_PU).sum(axis=units)
    return 1 - n_permanent / np.where(n_dead > 0, n_dead, np.nan)


def kaplan_meier(runs: Sequence[Censuses]) -> Curve:
    """Survival of the units of some runs, all layers together, over training steps (Kaplan and Meier 1958).

    S(t) = prod over steps s <= t of (1 - deaths at s / units at risk at s). A unit dies at the first census at which it
    is dead (D4) if it is dead at all later ones too; at least one later census must confirm that. All other units are
    censored at their run's last census: those that are alive, those that were dead and came back, and those that are
    dead at the last census alone. A late death is confirmed by few censuses, so the curve counts some units that would
    have come back.

    The interval is Greenwood's on the log-log scale, NaN where the share is 0 or 1; it takes units for independent,
    which the units of one run are not.
    """
    ends, events = zip(*(_lives(run) for run in runs), strict=True)
    end_U, event_U = np.concatenate(ends), np.concatenate(events)
    survival = scipy.stats.ecdf(scipy.stats.CensoredData.right_censored(end_U, ~event_U)).sf
    with warnings.catch_warnings(), np.errstate(invalid="ignore", divide="ignore"):
        warnings.filterwarnings("ignore", "The confidence interval is undefined", RuntimeWarning)
        interval = survival.confidence_interval(0.95, method="log-log")
    return Curve(
        survival.quantiles.astype(np.float64),
        survival.probabilities,
        interval.low.probabilities,
        interval.high.probabilities,
    )


def _lives(run: Censuses) -> tuple[Int[np.ndarray, "U"], Bool[np.ndarray, "U"]]:
    """The step at which each unit was last known, and whether it died there."""
    gone_PU = permanently_dead(run.dead_PLF.reshape(len(run.steps_P), -1))
    event_U = np.logical_or.reduce(gone_PU[:-1], axis=0)  # the last census has no later one that could confirm a death
    return np.where(event_U, run.steps_P[gone_PU.argmax(axis=0)], run.steps_P[-1]), event_U
