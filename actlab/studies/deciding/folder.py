"""The folder of a study: study.py says what decides which claim, results.csv is the table that it is decided by.

The table is a workdir's, with columns that its other files hold: all that a verdict rests on is in it.
"""

import csv
import dataclasses
import importlib.util
import io
import pathlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from actlab.errors import UserError
from actlab.files import write_atomically
from actlab.protocol import LOSS, SENSITIVITY, Claims, Contrast
from actlab.studies.deciding.orders import Orders
from actlab.studies.survival import permanently_dead, revival_rate
from actlab.studies.table import FINGERPRINT
from actlab.training.records import Workdir
from actlab.training.traces import read_censuses

FILE, RESULTS = "study.py", "results.csv"
_DIGITS = 9


@dataclasses.dataclass(frozen=True)
class Study:
    """What a study.py says beside its config: the claims it decides, the pairs it asks for, a baseline for Dunnett,
    published losses whose orders ours is set beside.
    """

    folder: pathlib.Path
    claims: Claims
    questions: tuple[str, ...]
    baseline: str | None
    orders: Orders

    @property
    def columns(self) -> set[str]:
        """What its contrasts are of, beside losses and sensitivities."""
        contrasts = [_as_tuple(entry) for entry in self.claims.values()]
        return {contrast.of for entry in contrasts for contrast in entry} - {LOSS, SENSITIVITY}

    def of(self, names: Collection[str]) -> "Study":
        """The study as far as it can be asked of a table with these activations, while it is being trained."""
        pairs = {text: [name.strip() for name in text.split("<")] for text in self.questions}
        questions = tuple(text for text, pair in pairs.items() if set(pair) <= set(names))
        baseline = self.baseline if self.baseline in names else None
        orders = {source: order for source, order in self.orders.items() if len(order.keys() & set(names)) > 1}
        return dataclasses.replace(self, questions=questions, baseline=baseline, orders=orders)


def find(folder: pathlib.Path) -> Study | None:
    """The study of a folder or, for one of its arms, of the folder above; None where there is none.

    Raises:
        UserError: for a study.py that fails, or whose CLAIMS are no contrasts.
    """
    path = next((place / FILE for place in (folder, folder.absolute().parent) if (place / FILE).is_file()), None)
    if path is None:
        return None
    module = _load(path)
    claims = getattr(module, "CLAIMS", {})
    wrong = [id for id, entry in claims.items() if not all(isinstance(one, Contrast) for one in _as_tuple(entry))]
    if wrong:
        raise UserError(f"{path}: CLAIMS[{wrong[0]!r}] is no contrast: write it with actlab.protocol.")
    questions, baseline = tuple(getattr(module, "QUESTIONS", ())), getattr(module, "BASELINE", None)
    return Study(folder, claims, questions, baseline, getattr(module, "ORDERS", {}))


def table_of(study: Study, folder: pathlib.Path) -> pathlib.Path:
    """The study's results.csv: its own if `folder` is the study's, else that of the workdir, collected into it."""
    if folder.resolve() == study.folder.resolve():
        return study.folder / RESULTS
    return collect(folder, study)


def collect(workdir: pathlib.Path, study: Study) -> pathlib.Path:
    """Writes a workdir's results.csv into the study's folder, with what its other files add; returns where.

    Added are `data_fingerprint`, `curve` (validation losses, "step:loss ..."), D6 and revival at the first census in
    the second half (`permanently_dead_fraction`, `revival_rate`), and what else the study's claims ask of the last
    probe, a mean over layers.
    """
    records = Workdir(workdir, writes=False)
    rows = records.results()
    if not rows:
        raise UserError(f"{workdir} holds no results.csv: give a workdir whose runs are done.")
    fingerprint = records.manifest().get("data", {}).get("fingerprint", "")
    metrics, traces = _by_run(records.metrics()), _by_run(records.traces())
    wanted = sorted(study.columns - set(rows[0]) - {"permanently_dead_fraction", "revival_rate"})
    for row in rows:
        mine = metrics.get(row["run"], [])
        row["data_fingerprint"] = fingerprint[:FINGERPRINT]
        row["curve"] = _curve(mine)
        row |= _deaths(row["run"], traces.get(row["run"], []))
        row |= {name: _last_probe(mine, name) for name in wanted}
    path = study.folder / RESULTS
    write_atomically(path, _as_csv(rows))
    return path


def _load(path: pathlib.Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"study_{path.parent.name}", path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path} cannot be read: give a study's folder.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"{path} fails with {type(error).__name__}: {error}") from error
    return module


def _as_tuple(entry: Any) -> tuple[Any, ...]:
    return tuple(entry) if isinstance(entry, list | tuple) else (entry,)


def _by_run(rows: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["run"], []).append(row)
    return found


def _curve(rows: Iterable[Mapping[str, Any]]) -> str:
    points = [(row["step"], row["loss"]) for row in rows if row["split"] == "validation" and row["loss"] is not None]
    return " ".join(f"{step}:{loss:.{_DIGITS}g}" for step, loss in sorted(points))


def _deaths(run: str, rows: list[dict[str, Any]]) -> dict[str, str]:
    """D6 and revival of the units that are dead at the first census of the second half; empty without later ones."""
    censuses = read_censuses(rows, run)
    if censuses is None or len(censuses.steps_P) < 2:
        return {"permanently_dead_fraction": "", "revival_rate": ""}
    at = int(np.argmax(censuses.steps_P >= censuses.steps_P[-1] / 2))
    if at == len(censuses.steps_P) - 1:
        return {"permanently_dead_fraction": "", "revival_rate": ""}
    share = float(permanently_dead(censuses.dead_PLF)[at].mean())
    rate = float(revival_rate(censuses.dead_PLF)[at])
    return {"permanently_dead_fraction": f"{share:.{_DIGITS}g}", "revival_rate": f"{rate:.{_DIGITS}g}"}


def _last_probe(rows: Iterable[Mapping[str, Any]], name: str) -> str:
    """Of the last probe, a mean over layers; empty where no probe has it."""
    for row in reversed([row for row in rows if row["split"] == "probe"]):
        layers = [value for key, value in row.items() if key == name or key.endswith(f"/{name}")]
        if layers and None not in layers:
            return f"{float(np.mean(layers)):.{_DIGITS}g}"
    return ""


def _as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, rows[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()
