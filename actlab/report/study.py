"""What a report is of: workdirs or study folders, read back into runs, finished or not."""

import collections
import csv
import dataclasses
import json
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from actlab import config as config_lib
from actlab.config import Config
from actlab.errors import UserError
from actlab.studies import sweep, table
from actlab.studies.table import Result
from actlab.training import rows as row_files
from actlab.training.objectives import NEXT_TOKEN, UNITS
from actlab.training.records import Workdir
from actlab.training.rows import Row
from actlab.training.traces import Censuses, Steps, read_censuses, read_steps

_MAIN_AXES = ("model.activation", "optimizer.learning_rate", "seed")
Place = tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True)
class Source:
    """A folder: its config and manifest where it is a workdir, and what its README says the question is."""

    path: pathlib.Path
    config: Config | None
    manifest: Mapping[str, Any]
    question: str
    claims: Mapping[str, Mapping[str, Any]]
    warnings: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Run:
    """A run of a source. `result` and `cells`, its row of results.csv, are there once it has ended.

    `status` is finished, diverged or stopped, else "in training" or "not finished". `place` is where it lies on the
    axes beside activation, rate and seed. `key` is its place on the page.
    """

    key: str
    name: str
    source: Source
    activation: str
    learning_rate: float
    seed: int
    place: Place
    status: str
    result: Result | None
    cells: Mapping[str, str]
    config: Config | None
    metrics: Sequence[Row]
    steps: Steps | None
    censuses: Censuses | None

    @property
    def step(self) -> int:
        """How far it has come."""
        return self.result.steps if self.result else max((row["step"] for row in self.metrics), default=0)

    @property
    def condition(self) -> str:
        """Its place in words."""
        return words_of(self.place)

    def probes(self) -> list[Row]:
        """Its probe rows, by step."""
        return [row for row in self.metrics if row["split"] == "probe"]


@dataclasses.dataclass(frozen=True)
class Study:
    """All runs of some sources, in the order of their tables."""

    sources: tuple[Source, ...]
    runs: tuple[Run, ...]

    @property
    def results(self) -> list[Result]:
        """Of the runs that have one."""
        return [run.result for run in self.runs if run.result]

    @property
    def activations(self) -> tuple[str, ...]:
        """In the order of the table."""
        return tuple(dict.fromkeys(run.activation for run in self.runs))

    @property
    def rates(self) -> tuple[float, ...]:
        """Learning rates of the runs that have begun, rising; of all if none has."""
        begun = [run for run in self.runs if run.result or run.metrics]
        return tuple(sorted({run.learning_rate for run in begun or self.runs}))

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds, rising."""
        return tuple(sorted({run.seed for run in self.runs}))

    @property
    def ended(self) -> tuple["Run", ...]:
        """Runs that have a result."""
        return tuple(run for run in self.runs if run.result)

    @property
    def conditions(self) -> tuple[str, ...]:
        """Places on the further axes, in words; a single empty one where there are no such axes."""
        return tuple(dict.fromkeys(run.condition for run in self.runs))

    @property
    def unit(self) -> str:
        """Of the losses."""
        return next((UNITS[result.objective] for result in self.results), NEXT_TOKEN.unit)

    def lanes(self) -> dict[tuple[str, str, float], list[Run]]:
        """Runs that differ in their seed only, by condition, activation and rate, in the order of the table."""
        groups: dict[tuple[str, str, float], list[Run]] = collections.defaultdict(list)
        for run in self.runs:
            groups[run.condition, run.activation, run.learning_rate].append(run)
        return dict(groups)


_QUESTION = re.compile(r"(?:\*\*Question\.\*\*|Question:)(.*)", re.DOTALL)


def words_of(place: Place) -> str:
    """A place on axes in words."""
    return ",".join(f"{path.rpartition('.')[2]}={value}" for path, value in place)


def read(paths: Sequence[pathlib.Path]) -> Study:
    """The runs of workdirs, in training or not, or of folders with a results.csv.

    Raises:
        UserError: for a path that holds neither or comes twice, a broken file, and sources of other data, tokenizers
            or configs.
    """
    for path in paths:
        if not any((path / name).is_file() for name in ("config.json", "results.csv")):
            raise UserError(
                f"{path} holds no config.json and no results.csv: give the folder of a run, sweep or study."
            )
        if [other.resolve() for other in paths].count(path.resolve()) > 1:
            raise UserError(f"{path} is named twice: name each folder once.")
    tables = [path for path in paths if (path / "results.csv").is_file()]
    results = iter(table.read(tables))
    sources, runs = [], []
    for path in paths:
        source = _source(path)
        cells = _cells(path)
        found = {row["run"]: (next(results), row) for row in cells} if path in tables else {}
        sources.append(source)
        runs += _runs(source, found)
    runs = [dataclasses.replace(run, key=f"run-{number}") for number, run in enumerate(_placed(runs), start=1)]
    _require_one_text(runs)
    return Study(tuple(sources), tuple(runs))


def _source(path: pathlib.Path) -> Source:
    config = path / "config.json"
    cut = [name for name in ("metrics.jsonl", "traces.jsonl") if row_files.is_cut_short(path / name)]
    return Source(
        path,
        config_lib.load(config) if config.is_file() else None,
        _json(path / "manifest.json"),
        _question(path / "README.md"),
        _json(path / "verdicts.json").get("claims", {}),
        tuple(f"{path / name}: the last line was cut short, as a kill does, and is left out" for name in cut),
    )


def _json(path: pathlib.Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text()) if path.is_file() else {}
    except ValueError as error:
        raise UserError(f"{path} is not JSON ({error}): restore the file, or remove it.") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} holds no object: restore the file, or remove it.")
    return content


def _question(path: pathlib.Path) -> str:
    """The paragraph of a README that begins with "Question:", bold or not."""
    paragraphs = path.read_text().split("\n\n") if path.is_file() else []
    found = [match for text in paragraphs if (match := _QUESTION.match(text))]
    return " ".join(found[0].group(1).split()) if found else ""


def _cells(path: pathlib.Path) -> list[dict[str, str]]:
    file = path / "results.csv"
    return list(csv.DictReader(file.read_text().splitlines())) if file.is_file() else []


def _runs(source: Source, found: Mapping[str, tuple[Result, Mapping[str, str]]]) -> Iterator[Run]:
    metrics = _by_run(row_files.read(source.path / "metrics.jsonl", "split"))
    traces = _by_run(row_files.read(source.path / "traces.jsonl", "kind"))
    of = {run.name: run for run in sweep.expand(source.config)} if source.config else {}
    waiting = "in training" if source.config and _is_in_use(source.path) else "not finished"
    for name in dict.fromkeys([*of, *found]):
        result, cells = found.get(name, (None, {}))
        about = _about(result, of.get(name))
        result = result if result and result.status != table.WAITING else None
        status = result.status if result else waiting
        steps = read_steps(traces[name], name) if traces.get(name) else None
        censuses = read_censuses(traces.get(name, ()), name)
        config = of[name].config if name in of else None
        yield Run("", name, source, *about, status, result, cells, config, metrics.get(name, ()), steps, censuses)


def _by_run(rows: Iterable[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["run"], []).append(row)
    return groups


def _is_in_use(path: pathlib.Path) -> bool:
    # Asking creates the lock's file, and a report changes nothing.
    return (path / ".lock").is_file() and Workdir(path, writes=False).is_in_use()


def _about(result: Result | None, run: sweep.Run | None) -> tuple[str, float, int, Place]:
    place = dict(result.axes if result else ())
    if run:
        place |= {_column(path): str(value) for path, value in run.axes.items() if path not in _MAIN_AXES}
    if result:
        return result.activation, result.learning_rate, result.seed, tuple(place.items())
    assert run, "a run is of a table or of a sweep"
    return run.config.model.activation, run.config.optimizer.learning_rate, run.config.seed, tuple(place.items())


def _column(path: str) -> str:
    """What a table calls a field."""
    return "weight_decay" if path == "optimizer.weight_decay" else path


def _placed(runs: Sequence[Run]) -> list[Run]:
    """With axes left out that do not vary."""
    values = collections.defaultdict(set)
    for path, value in (pair for run in runs for pair in run.place):
        values[path].add(value)
    return [
        dataclasses.replace(run, place=tuple(pair for pair in run.place if len(values[pair[0]]) > 1)) for run in runs
    ]


def _require_one_text(runs: Sequence[Run]) -> None:
    for what, field in (("data", "data.name"), ("tokenizer", "data.tokenizer")):
        found: dict[str, Run] = {}
        for run in runs:
            if run.result:
                found.setdefault(getattr(run.result, what), run)
            elif run.config:
                found.setdefault(config_lib.flat(run.config)[field], run)
        if len(found) > 1:
            (one, first), (other, second), *_ = found.items()
            raise UserError(
                f"the runs mix {what} {one} ({first.name}) and {other} ({second.name}), whose losses cannot be "
                "compared: give workdirs of one data set and tokenizer."
            )
