"""traces.jsonl: what metrics.jsonl is too coarse for. Every step's loss and gradient norm, every census's dead units.

A row holds base64 of little-endian float32 (`steps`: the steps since the row before) or of bits (`dead`).
"""

import base64
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Int

from actlab.training.rows import Row


class Steps(NamedTuple):
    """Training loss and gradient norm before clipping of steps 1 to S."""

    loss_S: Float32[np.ndarray, "S"]
    grad_norm_S: Float32[np.ndarray, "S"]


class Censuses(NamedTuple):
    """Which units were dead (D4) at each census."""

    steps_P: Int[np.ndarray, "P"]
    dead_PLF: Bool[np.ndarray, "P layers F"]


class StepBuffer:
    """Steps of the lanes since the last rows: kept in memory, since a file grows by calls but is read by runs."""

    def __init__(self, names: Sequence[str]):
        self._names = names
        self._parts: dict[int, list[Float32[np.ndarray, "2 K"]]] = {}
        self._ends: dict[int, int] = {}

    def add(self, lane: int, end: int, loss_K: Float32[np.ndarray, "K"], grad_norm_K: Float32[np.ndarray, "K"]) -> None:
        """Steps of a lane up to `end`."""
        self._parts.setdefault(lane, []).append(np.stack([loss_K, grad_norm_K]))
        self._ends[lane] = end

    def take(self) -> list[Row]:
        """A row per lane; must be taken where a run may go on from, for a row is kept or dropped as a whole."""
        rows: list[Row] = []
        for lane, parts in self._parts.items():
            loss_S, grad_norm_S = np.concatenate(parts, axis=1)
            values = {"loss": _text(loss_S.astype("<f4")), "grad_norm": _text(grad_norm_S.astype("<f4"))}
            rows.append({"run": self._names[lane], "step": self._ends[lane], "kind": "steps", **values})
        self._parts.clear()
        return rows


def dead_row(name: str, step: int, dead_LF: Bool[np.ndarray, "layers F"]) -> Row:
    """The row of a census of one run."""
    return {"run": name, "step": step, "kind": "dead", "shape": dead_LF.shape, "units": _text(np.packbits(dead_LF))}


def read_steps(rows: Iterable[Row], name: str) -> Steps:
    """Of a run, from rows of Workdir.traces()."""
    mine = [row for row in rows if row["run"] == name and row["kind"] == "steps"]
    loss, grad_norm = (b"".join(base64.b64decode(row[field]) for row in mine) for field in ("loss", "grad_norm"))
    return Steps(np.frombuffer(loss, "<f4"), np.frombuffer(grad_norm, "<f4"))


def read_censuses(rows: Iterable[Row], name: str) -> Censuses | None:
    """Of a run, from rows of Workdir.traces(); None where there was no census."""
    mine = [row for row in rows if row["run"] == name and row["kind"] == "dead"]
    if not mine:
        return None
    return Censuses(np.array([row["step"] for row in mine]), np.stack([_dead(row) for row in mine]))


def _dead(row: Row) -> Bool[np.ndarray, "layers F"]:
    bits = np.frombuffer(base64.b64decode(row["units"]), np.uint8)
    shape = tuple(row["shape"])
    return np.unpackbits(bits, count=int(np.prod(shape))).astype(bool).reshape(shape)


def _text(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode()
