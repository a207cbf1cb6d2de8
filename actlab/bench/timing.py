"""Timing in turns: contenders that run in the same seconds share the machine's slow moments and can be compared."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.stats

Contender = Callable[[], float]  # runs once; seconds

RESAMPLES = 2000


def take_turns(contenders: Mapping[str, Contender], repetitions: int) -> dict[str, list[float]]:
    """Seconds of each contender per repetition, after one turn of each that is not counted."""
    for run in contenders.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repetitions):
        for name, run in contenders.items():
            seconds[name].append(run())
    return seconds


def repeated(call: Callable[[], None], at_least: float) -> Contender:
    """A contender that makes so many calls per turn that one turn takes about `at_least` seconds; seconds per call."""

    def run() -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        return (time.perf_counter() - begin) / calls

    calls = 1
    run()
    calls = max(1, round(at_least / run()))
    return run


def ratio_interval(seconds: list[float], reference: list[float]) -> tuple[float, float, float]:
    """Ratio of the medians, with the ends of its 95% percentile bootstrap interval.

    Repetitions are drawn as pairs: what slowed one contender in a repetition slowed its neighbour too.

    Source: Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapter 13.
    """

    def ratio(seconds: np.ndarray, reference: np.ndarray, axis: int = -1) -> Any:
        return np.median(seconds, axis=axis) / np.median(reference, axis=axis)

    pairs = (np.asarray(seconds), np.asarray(reference))
    interval = scipy.stats.bootstrap(
        pairs, ratio, paired=True, n_resamples=RESAMPLES, method="percentile", rng=np.random.default_rng(0)
    ).confidence_interval
    return float(ratio(*pairs)), float(interval.low), float(interval.high)
