"""traces.jsonl: loss and gradient norm of every step with their spikes, and the dead units of every census.

A row holds base64 of little-endian float32 (`steps`: the steps since the row before) or of bits (`dead`); documents.py
has the rows of a third kind.
"""

import base64
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32, Int

from actlab.errors import UserError
from actlab.workdir.records import TRACES, Row

SPIKE_WINDOW = 128  # MaxText's skip_step_interval
SPIKE_DEVIATIONS = 6.0  # MaxText's skip_step_scaling_factor


class Steps(NamedTuple):
    """Training loss and gradient norm before clipping of steps 1 to S."""

    loss_S: Float32[np.ndarray, "S"]
    grad_norm_S: Float32[np.ndarray, "S"]


class Censuses(NamedTuple):
    """Which units were dead (D4) at each census."""

    steps_P: Int[np.ndarray, "P"]
    dead_PLF: Bool[np.ndarray, "P layers F"]


class StepBuffer:
    """Steps of the lanes since the last rows.

    They stay in memory until a checkpoint, so that a run has one row per checkpoint rather than one per compiled call.
    """

    def __init__(self, names: Sequence[str]):
        self._names = names
        self._parts: dict[int, list[Float32[np.ndarray, "2 K"]]] = {}
        self._ends: dict[int, int] = {}

    def add(self, lane: int, end: int, loss_S: Float32[np.ndarray, "S"], grad_norm_S: Float32[np.ndarray, "S"]) -> None:
        """Steps of a lane up to `end`."""
        self._parts.setdefault(lane, []).append(np.stack([loss_S, grad_norm_S]))
        self._ends[lane] = end

    def take(self) -> list[Row]:
        """One row per lane. Call it at checkpoints only: a resume drops whole rows, so none may reach across one."""
        rows: list[Row] = []
        for lane, parts in self._parts.items():
            loss_S, grad_norm_S = np.concatenate(parts, axis=1)
            values = {"loss": encoded(loss_S.astype("<f4")), "grad_norm": encoded(grad_norm_S.astype("<f4"))}
            rows.append({"run": self._names[lane], "step": self._ends[lane], "kind": "steps", **values})
        self._parts.clear()
        return rows


def dead_row(name: str, step: int, dead_LF: Bool[np.ndarray, "layers F"]) -> Row:
    """The row of one run's census."""
    return {"run": name, "step": step, "kind": "dead", "shape": dead_LF.shape, "units": encoded(np.packbits(dead_LF))}


def read_steps(rows: Iterable[Row], name: str) -> Steps:
    """The steps of a run, from rows of Workdir.traces()."""
    mine = [row for row in rows if row["run"] == name and row["kind"] == "steps"]
    loss, grad_norm = ([decoded(row, field, "<f4") for row in mine] for field in ("loss", "grad_norm"))
    nothing = np.zeros(0, "<f4")
    return Steps(np.concatenate([nothing, *loss]), np.concatenate([nothing, *grad_norm]))


def read_censuses(rows: Iterable[Row], name: str) -> Censuses | None:
    """The censuses of a run, from rows of Workdir.traces(); None if there was none."""
    mine = [row for row in rows if row["run"] == name and row["kind"] == "dead"]
    if not mine:
        return None
    return Censuses(np.array([row["step"] for row in mine]), np.stack([_dead(row) for row in mine]))


def _dead(row: Row) -> Bool[np.ndarray, "layers F"]:
    bits, shape = decoded(row, "units", "u1"), row.get("shape", ())
    try:
        n_layers, n_units = shape
        return np.unpackbits(bits, count=n_layers * n_units).astype(bool).reshape(n_layers, n_units)
    except (TypeError, ValueError) as error:
        raise UserError(f"{_where(row)}: shape={shape!r} is not that of its units: restore the file.") from error


def encoded(array: np.ndarray) -> str:
    """The bytes of an array, in base64."""
    return base64.b64encode(array.tobytes()).decode()


def decoded(row: Row, field: str, dtype: str) -> np.ndarray:
    """The array that `encoded` made a text of.

    Raises:
        UserError: for anything else.
    """
    try:
        return np.frombuffer(base64.b64decode(row[field], validate=True), dtype)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{_where(row)}: {field} is not an array in base64: restore the file.") from error


def _where(row: Row) -> str:
    return f"{TRACES}, {row['run']} at step {row['step']}"


def spikes(series_S: Float[np.ndarray, "S"]) -> Bool[np.ndarray, "S"]:
    """Where a series of one value per step exceeds the mean + 6 standard deviations of the 128 steps before.

    The first 128 steps have no such window and no spikes, but a value that is not finite is always one. A window with
    such a value has no bound. The standard deviation is the population's.
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
    """Counts a run's spikes as its steps come: `n` is that of `summary` over the steps so far."""

    def __init__(self) -> None:
        self.n = 0
        self._recent_2S = np.zeros((2, 0))

    def add(self, loss_S: Float[np.ndarray, "S"], grad_norm_S: Float[np.ndarray, "S"]) -> None:
        """Adds the next steps."""
        series_2S = np.concatenate([self._recent_2S, [loss_S, grad_norm_S]], axis=1)
        found = spikes(series_2S[0]) | spikes(series_2S[1])
        self.n += int(found[self._recent_2S.shape[1] :].sum())
        self._recent_2S = series_2S[:, -SPIKE_WINDOW:]


def tail(series_S: Float[np.ndarray, "S"]) -> Float[np.ndarray, "_"]:
    """The last fifth of a series, rounded up: gradient norms after the learning rate has decayed."""
    return series_S[4 * len(series_S) // 5 :]


def summary(loss_S: Float[np.ndarray, "S"], grad_norm_S: Float[np.ndarray, "S"]) -> dict[str, int | float]:
    """The columns of results.csv about a run's steps: `spikes` of loss or gradient norm, `grad_norm_p50` and `_p99`.

    The quantiles are over the finite norms before clipping of the last fifth of the steps taken; NaN if there are none.
    """
    late = tail(grad_norm_S)
    late = late[np.isfinite(late)]
    p50, p99 = np.quantile(late, (0.5, 0.99)) if len(late) else (np.nan, np.nan)
    n_spikes = int((spikes(loss_S) | spikes(grad_norm_S)).sum())
    return {"spikes": n_spikes, "grad_norm_p50": float(p50), "grad_norm_p99": float(p99)}
