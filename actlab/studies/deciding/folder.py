"""The folder of a study: study.py says what decides which claim, results.csv is the table that it is decided by.

The table is a workdir's, with columns that its other files hold: all that a verdict rests on is in it.
"""

import contextlib
import csv
import dataclasses
import importlib.util
import io
import pathlib
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from actlab import config as config_lib
from actlab.config import Config
from actlab.errors import UserError
from actlab.files import write_atomically
from actlab.protocol import LOSS, SENSITIVITY, Claims, Contrast
from actlab.studies import sweep
from actlab.studies.deciding.orders import Orders
from actlab.studies.survival import permanently_dead, revival_rate
from actlab.studies.table import DONE, FINGERPRINT, WAITING
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


@contextlib.contextmanager
def table_of(study: Study, folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """The table to decide on: the study's own results.csv if `folder` is the study's, else what a workdir comes to.

    The latter replaces the study's own once all went well.

    Raises:
        UserError: for a workdir that lacks a run which the study's own table has, done, on that data at that scale, or
            that is to hold the verdicts too, where the study's table would take the place of its own.
    """
    if folder.resolve() == study.folder.resolve():
        if (folder / "config.json").is_file():
            raise UserError(
                f"{folder} is a workdir, whose results.csv the study's would replace: name another folder for the "
                f"verdicts, --verdicts={folder.parent}/judged/verdicts.json."
            )
        yield study.folder / RESULTS
        return
    text = collect(folder, study)
    _require_kept(study.folder / RESULTS, text, folder)
    with tempfile.TemporaryDirectory() as held:
        path = pathlib.Path(held) / RESULTS
        path.write_text(text)
        yield path
    write_atomically(study.folder / RESULTS, text)


def _require_kept(path: pathlib.Path, text: str, workdir: pathlib.Path) -> None:
    """Refuses a table that would take the place of another experiment's."""
    if not path.is_file():
        return
    held, new = (_done(csv.DictReader(table.splitlines())) for table in (path.read_text(), text))
    known = set(new)
    lost = [row for row in held if row not in known]
    if lost:
        own = path.parent / "mine" / "verdicts.json"
        name, *of = lost[0]
        raise UserError(
            f"{path} has {len(held)} runs, of which {workdir} lacks {len(lost)}, the first {name} ({', '.join(of)}): "
            f"give that study's workdir, or this one verdicts of its own, --verdicts={own}."
        )


def _done(rows: Iterable[Mapping[str, str]]) -> list[tuple[str, ...]]:
    named = {"data_fingerprint": "data {}", "parameters": "{} parameters", "tokens": "{} tokens"}
    return [
        (row["run"], *(words.format(row.get(name)) for name, words in named.items() if _is_fixed(name, row)))
        for row in rows
        if row["status"] in DONE
    ]


def _is_fixed(name: str, row: Mapping[str, str]) -> bool:
    """Whether a run trained again has that number again: when one diverges, by a bit of a sum, nobody can say."""
    return name != "tokens" or row["status"] == "finished"


def collect(workdir: pathlib.Path, study: Study) -> str:
    """A workdir's results.csv as the study's, with what its other files add, and a row for each run that is waiting.

    Added are `data_fingerprint`, `curve` (validation losses, "step:loss ..."), D6 and revival at the first census in
    the second half (`permanently_dead_fraction`, `revival_rate`), and what else the study's claims ask of the last
    probe, a mean over layers.
    """
    records = Workdir(workdir, writes=False)
    rows = records.results()
    if not rows:
        raise UserError(f"{workdir} holds no results.csv: give a workdir whose runs are done.")
    rows += _waiting(workdir, rows)
    fingerprint = records.manifest().get("data", {}).get("fingerprint", "")
    metrics, traces = _by_run(records.metrics()), _by_run(records.traces())
    wanted = sorted(study.columns - set(rows[0]) - {"permanently_dead_fraction", "revival_rate"})
    for row in rows:
        waits = row["status"] == WAITING
        mine, traced = ([] if waits else of.get(row["run"], []) for of in (metrics, traces))
        row["data_fingerprint"] = fingerprint[:FINGERPRINT]
        row["curve"] = _curve(mine)
        row |= _deaths(row["run"], traced)
        row |= {name: _last_probe(mine, name) for name in wanted}
    return _as_csv(rows)


def _waiting(workdir: pathlib.Path, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each run of the sweep that has none yet: what is missing is part of what a table tells."""
    path, known = workdir / "config.json", {row["run"] for row in rows}
    config = config_lib.load(path) if path.is_file() else Config()
    open_runs = [run for run in sweep.expand(config) if run.name not in known] if config.sweep else []
    return [{**dict.fromkeys(rows[0], ""), **_place(run, rows[0])} for run in open_runs]


def _place(run: sweep.Run, columns: Collection[str]) -> dict[str, Any]:
    own, one = config_lib.flat(run.config), run.config
    named = {
        "run": run.name,
        "activation": one.model.activation,
        "learning_rate": one.optimizer.learning_rate,
        "weight_decay": one.optimizer.weight_decay,
        "seed": one.seed,
        "data": one.data.name,
        "tokenizer": one.data.tokenizer,
        "status": WAITING,
    }
    return {**named, **{path: own[path] for path in columns if path in own}}


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
