"""test_documents.npz: the loss of every run on every document of the test set, in nats summed over its targets.

The losses come from rows of traces.jsonl, which survive any kill; the file beside results.csv is made from them
whenever that is. Its arrays: `runs` [R], `nats` [R, D] in float32, `targets` [R, D], the numbers of targets. Runs of a
sweep may be tested on different numbers of documents: those that a run lacks have 0 nats and 0 targets.
"""

import io
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int, Int32

from actlab.errors import UserError
from actlab.workdir.records import Row
from actlab.workdir.traces import decoded, encoded

FILE = "test_documents.npz"


class Documents(NamedTuple):
    """A run's test loss by document: sum(nats) / sum(targets) is the test loss."""

    nats: Float32[np.ndarray, "D"]
    targets: Int32[np.ndarray, "D"]


def row(name: str, step: int, nats_D: Float[np.ndarray, "D"], targets_D: Int[np.ndarray, "D"]) -> Row:
    """The row of a run in traces.jsonl."""
    values = {"nats": encoded(nats_D.astype("<f4")), "targets": encoded(targets_D.astype("<i4"))}
    return {"run": name, "step": step, "kind": "documents", **values}


def made(traces: Iterable[Row], names: Sequence[str]) -> dict[str, bytes]:
    """The file by its name, of what the rows of Workdir.traces() have of these runs; none if they have nothing."""
    found = {row["run"]: row for row in traces if row["kind"] == "documents"}
    dtypes = {"nats": "<f4", "targets": "<i4"}
    return packed(
        {
            name: Documents(*(decoded(found[name], field, dtype) for field, dtype in dtypes.items()))
            for name in names
            if name in found
        }
    )


def packed(tested: Mapping[str, Documents]) -> dict[str, bytes]:
    """The file by its name, of the documents of each run; none without runs."""
    if not tested:
        return {}
    nats_RD, targets_RD = (_stacked(arrays) for arrays in zip(*tested.values(), strict=True))
    buffer = io.BytesIO()
    np.savez_compressed(buffer, runs=np.array(list(tested)), nats=nats_RD, targets=targets_RD)
    return {FILE: buffer.getvalue()}


def _stacked(arrays: Sequence[np.ndarray]) -> np.ndarray:
    most = max(map(len, arrays))
    return np.stack([np.pad(array, (0, most - len(array))) for array in arrays])


def read(path: pathlib.Path) -> dict[str, Documents]:
    """The documents of each run in a file, in the order of results.csv.

    Raises:
        UserError: for a file that is damaged.
    """
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
            runs, nats_RD, targets_RD = (arrays[name] for name in ("runs", "nats", "targets"))
        if not len(runs) == len(nats_RD) == len(targets_RD) or nats_RD.shape != targets_RD.shape:
            raise ValueError(f"{len(runs)} runs, nats {nats_RD.shape}, targets {targets_RD.shape}")
        if (runs.dtype.kind, nats_RD.dtype.kind, targets_RD.dtype.kind, nats_RD.ndim) != ("U", "f", "i", 2):
            raise ValueError(f"runs are {runs.dtype}, nats {nats_RD.dtype}, targets {targets_RD.dtype}")
    except Exception as error:  # a damaged archive raises nearly anything
        raise UserError(f"{path} is damaged ({error}): restore the file, or remove it.") from error
    return {str(run): Documents(nats, targets) for run, nats, targets in zip(runs, nats_RD, targets_RD, strict=True)}
