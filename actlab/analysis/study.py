"""The folder of a study: study.py says which contrasts decide which claim, results.csv is the table that decides.

The table is a workdir's, with columns added from its other files, so that it holds all that a verdict rests on.
"""

import contextlib
import dataclasses
import itertools
import pathlib
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from actlab import config as config_lib
from actlab.analysis.protocol import LOSS, SENSITIVITY, Claims, Contrast, contrasts_of, names_in
from actlab.analysis.results import DONE, FINGERPRINT, WAITING, curve, documents as documents_of, read, waiting
from actlab.analysis.survival import permanently_dead, revival_rate
from actlab.analysis.verdicts import Orders
from actlab.config import Config, sweep, user_code
from actlab.errors import UserError
from actlab.files import write_atomically
from actlab.workdir import documents, integrity, records
from actlab.workdir.records import RESULTS, Workdir
from actlab.workdir.traces import read_censuses

FILE = "study.py"
_DIGITS = 9
_ASIDE: tuple[config_lib.Role, ...] = ("external", "recording")  # roles of fields on which no loss depends
_ASKED = "write for example ('gelu<relu', 'silu<relu'), or ('gelu<relu',) for one"


@dataclasses.dataclass(frozen=True)
class Study:
    """What a study.py says beside its config.

    The `claims` and their contrasts, `questions`, and `orders`: published losses, with which our order of activations
    is compared.
    """

    folder: pathlib.Path
    claims: Claims
    questions: tuple[str, ...]
    orders: Orders

    @property
    def columns(self) -> set[str]:
        """Columns of results.csv that its contrasts ask for."""
        contrasts = itertools.chain.from_iterable(map(contrasts_of, self.claims.values()))
        return {contrast.of for contrast in contrasts} - {LOSS, SENSITIVITY}

    def of(self, names: Collection[str]) -> "Study":
        """The part of the study that a table with these activations can answer, while others are not trained yet."""
        questions = tuple(text for text in self.questions if set(names_in(text)) <= set(names))
        return dataclasses.replace(self, questions=questions)


def load(path: pathlib.Path, folder: pathlib.Path | None = None) -> Study:
    """The study of a study.py, which is run; `folder` is that of its table and verdicts, by default the file's.

    Raises:
        UserError: for a file that cannot be read or fails, or whose CLAIMS are not contrasts.
    """
    module = user_code.run(str(path), f"--study={path}")
    claims, orders = getattr(module, "CLAIMS", {}), getattr(module, "ORDERS", {})
    questions = getattr(module, "QUESTIONS", ())
    for name, value in {"CLAIMS": claims, "ORDERS": orders}.items():
        if not isinstance(value, dict):
            raise UserError(f"{path}: {name} is not a dict: write a dict.")
    if not isinstance(questions, (list, tuple)):
        raise UserError(f"{path}: QUESTIONS is not a tuple: {_ASKED}.")
    for text in questions:
        if not isinstance(text, str) or text.count("<") != 1:
            raise UserError(f"{path}: QUESTIONS has {text!r}: {_ASKED}.")
    wrong = [id for id, entry in claims.items() if not all(isinstance(one, Contrast) for one in contrasts_of(entry))]
    if wrong:
        raise UserError(f"{path}: CLAIMS[{wrong[0]!r}] is not a contrast: write it with actlab.analysis.protocol.")
    return Study(folder or path.parent, claims, tuple(questions), orders)


def owner(folder: pathlib.Path) -> pathlib.Path | None:
    """The study.py of a study's folder, or of one of its arms'.

    It is never run unless it is named: a folder may be somebody else's.
    """
    return next((place / FILE for place in (folder, folder.absolute().parent) if (place / FILE).is_file()), None)


@contextlib.contextmanager
def table_of(study: Study, paths: Sequence[pathlib.Path]) -> Iterator[pathlib.Path]:
    """The table to decide on: the study's own results.csv if that or its folder is given, else one made from workdirs.

    The latter replaces the study's own when the context ends without an error. A study that was trained in parts has
    several workdirs, which differ in their sweep only.

    Raises:
        UserError: for another file; for a workdir that is to hold the verdicts itself, where the study's table would
            replace its own; for parts that are not of one study; for workdirs that lack a run which is done in the
            study's own table, on the same data at the same scale.
    """
    folders = [path.parent if path.is_file() else path for path in paths]
    for path, folder in zip(paths, folders, strict=True):
        if path.is_file() and path.name != RESULTS:
            raise UserError(f"{path} is not the table of the study in {study.folder}: give a workdir or its folder.")
        if folder.resolve() == study.folder.resolve() and (folder / "config.json").is_file():
            raise UserError(
                f"{folder} is a workdir, whose results.csv the study's would replace: name another folder for the "
                f"verdicts, --verdicts={folder.parent}/judged/verdicts.json."
            )
    if len(folders) > 1:
        _require_parts(folders)
    elif folders[0].resolve() == study.folder.resolve():
        yield study.folder / RESULTS
        return
    rows, tested = _joined(folders, [collect(folder, study) for folder in folders])
    _require_kept(study.folder / RESULTS, rows, " with ".join(map(str, folders)))
    with tempfile.TemporaryDirectory() as held:
        made = {**documents.packed(tested), RESULTS: records.table(rows)}
        for name, content in made.items():
            (pathlib.Path(held) / name).write_bytes(content)
        # An error in the caller's block is raised here, so that a table which cannot be decided on replaces none.
        yield pathlib.Path(held) / RESULTS
        if documents.FILE not in made:  # never those of an older table beside a new one
            (study.folder / documents.FILE).unlink(missing_ok=True)
        for name, content in made.items():
            write_atomically(study.folder / name, content)


def _require_parts(folders: Sequence[pathlib.Path]) -> None:
    for folder in folders:
        if not (folder / "config.json").is_file():
            raise UserError(f"{folder} has no config.json: give the workdir of each part of the study.")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise UserError(f"{' '.join(map(str, folders))} names a workdir twice: name each once.")
    read(folders)  # which refuses those whose configs differ in more than their sweep


def _joined(
    folders: Sequence[pathlib.Path], tables: Sequence[Sequence[dict[str, Any]]]
) -> tuple[list[dict[str, Any]], dict[str, documents.Documents]]:
    """The rows of all parts, and their documents. Of a run in several parts, the row of the furthest."""
    columns = [set(itertools.chain.from_iterable(table)) for table in tables]
    for folder, own in zip(folders, columns, strict=True):
        # An empty cell and a missing column mean different things.
        if lacking := sorted(set.union(*columns) - own):
            raise UserError(
                f"{folder} has no column {lacking[0]}, which another part has: train all parts with the same version "
                "of actlab, and sweep the same fields in each."
            )
    rows: dict[str, dict[str, Any]] = {}
    places: dict[str, pathlib.Path] = {}
    for folder, table in zip(folders, tables, strict=True):
        for row in table:
            name, known = row["run"], rows.get(row["run"])
            if known and known["status"] in DONE and row["status"] in DONE:
                raise UserError(
                    f"{name} comes twice, done in {places[name]} and in {folder}: give parts with no run in common."
                )
            if not known or known["status"] == WAITING or row["status"] in DONE:
                rows[name], places[name] = row, folder
    tested = {folder: documents_of(folder) for folder in folders}
    found = {name: tested[place][name] for name, place in places.items() if name in tested[place]}
    return list(rows.values()), found


def _require_kept(path: pathlib.Path, rows: Sequence[Mapping[str, Any]], given: str) -> None:
    """Refuses a table that would replace that of another experiment."""
    if not path.is_file():
        return
    held, new = _done(records.read_table(path)), _done(rows)
    # Tables of older versions lack the config.
    lost = [
        (*run, *([f"config {config}"] if config else []))
        for run, config in held.items()
        if run not in new or (config and config != new[run])
    ]
    if lost:
        own = path.parent / "mine" / "verdicts.json"
        name, *of = lost[0]
        raise UserError(
            f"{path} has {len(held)} runs, of which {given} lacks {len(lost)}, the first "
            f"{name} ({', '.join(of)}): "
            f"give that study's workdir, or write the verdicts elsewhere, --verdicts={own}."
        )


def _done(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, ...], str]:
    """By name, data and scale of each run that is done its config, all the same where it is trained again."""
    found = {}
    for row in rows:
        if row["status"] in DONE:
            scale = [f"data {row.get('data_fingerprint')}", f"{row.get('parameters')} parameters"]
            # The step at which a run diverges may depend on rounding, and with it the number of tokens.
            scale += [f"{row.get('tokens')} tokens"] if row["status"] == "finished" else []
            found[row["run"], *scale] = row.get("config", "")
    return found


def collect(workdir: pathlib.Path, study: Study) -> list[dict[str, Any]]:
    """The rows of a workdir's results.csv with what its other files add, and a row for each run that is waiting.

    Added are `data_fingerprint`, `config` (a fingerprint of the run's fields on which its losses depend), `curve`
    (validation losses, "step:loss ..."), D6 and revival at the first census in the second half
    (`permanently_dead_fraction`, `revival_rate`), and further columns that the study's claims ask for, from the last
    probe, a mean over layers.
    """
    integrity.require_sound(workdir)
    files = Workdir(workdir, writes=False)
    rows: list[dict[str, Any]] = list(map(dict, files.results()))
    if not rows:
        raise UserError(f"{workdir} holds no results.csv: give a workdir whose runs are done.")
    rows += map(dict, waiting(workdir, rows))
    fingerprint = files.manifest().get("data", {}).get("fingerprint", "")
    config = workdir / "config.json"
    known = sweep.expand(config_lib.load(config)) if config.is_file() else ()
    configs = {run.name: _identity(run.config) for run in known}
    metrics, traces = records.by_run(files.metrics()), records.by_run(files.traces())
    wanted = sorted(study.columns - set(rows[0]) - {"permanently_dead_fraction", "revival_rate"})
    for row in rows:
        waits = row["status"] == WAITING
        mine, traced = ([] if waits else of.get(row["run"], []) for of in (metrics, traces))
        row["data_fingerprint"] = fingerprint[:FINGERPRINT]
        row["config"] = configs.get(row["run"], "")
        row["curve"] = " ".join(f"{step}:{loss:.{_DIGITS}g}" for step, loss in curve(mine))
        row |= _deaths(row["run"], traced)
        row |= {name: _last_probe(mine, name) for name in wanted}
    return rows


def _identity(config: Config) -> str:
    """A fingerprint of what the losses of a run depend on, beside the weights that it starts from."""
    # A sweep may leave d_ff open, which is then this, and resolve it where all its runs have one width.
    d_ff = config.model.d_ff or 4 * config.model.d_model
    config = config_lib.replace(config, **{"model.d_ff": d_ff, "finetune.from_checkpoint": ""})
    return config_lib.fingerprint(config, but=_ASIDE)[:FINGERPRINT]


def _deaths(run: str, rows: list[dict[str, Any]]) -> dict[str, str]:
    """D6 and revival of the units that are dead at the first census of the second half; empty without later ones."""
    censuses = read_censuses(rows, run)
    at = 0 if censuses is None else int(np.argmax(censuses.steps_P >= censuses.steps_P[-1] / 2))
    if censuses is None or at == len(censuses.steps_P) - 1:
        return {"permanently_dead_fraction": "", "revival_rate": ""}
    share = float(permanently_dead(censuses.dead_PLF)[at].mean())
    rate = float(revival_rate(censuses.dead_PLF)[at])
    return {"permanently_dead_fraction": f"{share:.{_DIGITS}g}", "revival_rate": f"{rate:.{_DIGITS}g}"}


def _last_probe(rows: Iterable[Mapping[str, Any]], name: str) -> str:
    """The value at the last probe that has it, a mean over layers; empty if none has."""
    for row in reversed([row for row in rows if row["split"] == "probe"]):
        layers = [value for key, value in row.items() if key == name or key.endswith(f"/{name}")]
        if layers and None not in layers:
            return f"{float(np.mean(layers)):.{_DIGITS}g}"
    return ""
