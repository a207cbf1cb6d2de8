"""Timing in turns, and the tables that show it.

Contenders that run in the same seconds share the machine's slow moments and can be compared.
"""

import itertools
import platform
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import scipy.stats
from rich import box
from rich.table import Table

from actlab.console import counted
from actlab.files import cpuinfo, n_cores

Row = Mapping[str, Any]
Contender = Callable[[], float]  # runs once; seconds

RESAMPLES = 2000


def take_turns(
    contenders: Mapping[str, Contender], repetitions: int, progress: Callable[[int], None] = lambda turn: None
) -> dict[str, list[float]]:
    """Seconds of each contender per repetition, after one turn of each that is not counted.

    `progress` is called with the number of repetitions that are done, after each.
    """
    for run in contenders.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for repetition in range(repetitions):
        for name, run in contenders.items():
            seconds[name].append(run())
        progress(repetition + 1)
    return seconds


def repeated(call: Callable[[], None], at_least: float) -> Contender:
    """A contender that repeats the call until a turn takes about `at_least` seconds; returns seconds per call."""

    def run() -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        return (time.perf_counter() - begin) / calls

    calls = 1
    run()
    calls = max(1, round(at_least / run()))
    return run


def device_name() -> str:
    """The device, for a row; of a CPU its name, family and model (its generation), vector width and number of cores."""
    if jax.default_backend() != "cpu":
        return jax.devices()[0].device_kind
    facts = dict(re.findall(r"^(model name|cpu family|model|flags)\s*: (.*)$", cpuinfo(), re.MULTILINE))
    parts = [facts.get("model name", platform.machine())]
    if "cpu family" in facts:
        parts.append(f"family {facts['cpu family']} model {facts['model']}")
    widths = {"avx512f": 512, "avx2": 256}
    parts += [f"{widths[flag]}-bit vectors" for flag in widths if flag in facts.get("flags", "").split()][:1]
    cores = n_cores()
    return ", ".join([*parts, *([counted(cores, "core")] if cores else [])])


def ratio_interval(seconds: list[float], reference: list[float]) -> tuple[float, float, float]:
    """Ratio of the medians, with the ends of its 95% percentile bootstrap interval.

    Repetitions are resampled in pairs, because what slows one contender in a repetition slows the other too.

    Source: Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapter 13.
    """

    def ratio(seconds: np.ndarray, reference: np.ndarray, axis: int = -1) -> Any:
        return np.median(seconds, axis=axis) / np.median(reference, axis=axis)

    pairs = (np.asarray(seconds), np.asarray(reference))
    interval = scipy.stats.bootstrap(
        pairs, ratio, paired=True, n_resamples=RESAMPLES, method="percentile", rng=np.random.default_rng(0)
    ).confidence_interval
    return float(ratio(*pairs)), float(interval.low), float(interval.high)


_COLUMNS = {
    ("alone", "forward"): "alone,\nforward",
    ("alone", "forward_backward"): "alone, forward\nand backward",
    ("feed_forward", "forward"): "feed-forward,\nforward",
    ("feed_forward", "forward_backward"): "feed-forward,\nwith backward",
}


def plain(rows: Sequence[Row]) -> Table:
    """All fields of all rows."""
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*map(str, row.values()))
    return table


def speeds(rows: Sequence[Row]) -> Table:
    """Rows of `bench training`: a contender per line, its speed and that over actlab's, median (minimum to maximum)."""
    first, n_turns = rows[0], max(row["repetitions"] for row in rows)
    table = Table(
        box=box.SIMPLE_HEAD,
        title=f"Training in {first['dtype']}, {counted(n_turns, 'turn')} on {first['device']}",
        caption="median (minimum to maximum) of the turns; share of the speed of the feed-forward's products alone",
    )
    for heading in ("shape", "contender", "tokens/s", "speed over actlab's", "GFLOP/s", "share of the products' speed"):
        table.add_column(heading, justify="left" if heading in ("shape", "contender") else "right")
    before = None
    for row in rows:
        if before not in (None, row["shape"]):
            table.add_section()
        cells = [_range(row, "tokens_per_second") or "does not fit", _range(row, "speed_over_actlab")]
        cells += [str(row["gflops"]), str(row["share_of_matmul_peak"])]
        table.add_row(row["shape"] if row["shape"] != before else "", row["contender"], *cells)
        before = row["shape"]
    return table


def _range(row: Row, of: str) -> str:
    if row[f"{of}_median"] == "":
        return ""
    return f"{row[f'{of}_median']:,} ({row[f'{of}_min']:,} to {row[f'{of}_max']:,})"


def relative(rows: Iterable[Row]) -> list[Table]:
    """A table per dtype and size: an activation per line, its time over ReLU's, and its counts when alone."""
    tables: dict[tuple[str, str], dict[str, dict[tuple[str, str], Row]]] = {}
    for row in rows:
        activations = tables.setdefault((row["dtype"], row["size"]), {})
        activations.setdefault(row["activation"], {})[row["setting"], row["pass"]] = row
    return [_relative(f"{dtype}, {size}", activations) for (dtype, size), activations in tables.items()]


def _relative(title: str, activations: Mapping[str, Mapping[tuple[str, str], Row]]) -> Table:
    first = next(itertools.chain.from_iterable(cells.values() for cells in activations.values()))
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        title=f"Time over ReLU's with 95% intervals, {title}; {first['repetitions']} repetitions on {first['device']}",
        caption="FLOPs and transcendentals per element: the compiler's counts, alone, forward / forward and backward",
    )
    table.add_column("activation", no_wrap=True)
    for heading in (*_COLUMNS.values(), "FLOPs", "transcen-\ndentals"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, cells in activations.items():
        alone = [cells["alone", passes] for passes in ("forward", "forward_backward")]
        counts = (
            " / ".join(f"{row[f'{kind}_per_element']:.0f}" for row in alone) for kind in ("flops", "transcendentals")
        )
        table.add_row(name, *(_ratio(cells[key]) for key in _COLUMNS), *counts)
    return table


def _ratio(row: Row) -> str:
    ratio, low, high = (f"{row[key]:.{2 if row[key] < 10 else 1}f}" for key in ("ratio", "ratio_low", "ratio_high"))
    return f"{ratio} ({low}-{high})"
