"""The input of a report: workdirs or study folders, read back into runs, finished or not."""

import collections
import dataclasses
import operator
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from actlab import config as config_lib
from actlab.analysis import results as results_lib
from actlab.analysis.results import Result
from actlab.analysis.verdicts import words
from actlab.config import Config, sweep
from actlab.errors import UserError
from actlab.files import read_json
from actlab.workdir import integrity, manifest, records
from actlab.workdir.records import Row, Workdir
from actlab.workdir.traces import Censuses, Steps, read_censuses, read_steps

Place = tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True)
class Source:
    """A folder: its config and manifest if it is a workdir, and the question in its README."""

    path: pathlib.Path
    config: Config | None
    manifest: Mapping[str, Any]
    question: str
    claims: Mapping[str, Mapping[str, Any]]
    warnings: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Run:
    """A run of a source. Once it has ended or stopped it has a `result` and a `row`, its texts in results.csv.

    `status` is finished, diverged or stopped, else "in training" or "not finished". `listed` is the result, or before
    it what the table says of a run to come. `place` holds its values on the axes other than activation, rate and seed.
    `condition` is that place in words, and `key` the run's place on the page.
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
    listed: Result | None
    row: Mapping[str, str]
    config: Config | None
    metrics: Sequence[Row]
    steps: Steps | None
    censuses: Censuses | None
    condition: str = ""

    @property
    def step(self) -> int:
        """The last step that is known."""
        if self.result and self.result.done:
            return self.result.steps
        return max((row["step"] for row in self.metrics), default=self.result.steps if self.result else 0)

    def probes(self) -> list[Row]:
        """Its probe rows in the order of steps."""
        return [row for row in self.metrics if row["split"] == "probe"]


@dataclasses.dataclass(frozen=True)
class Study:
    """All runs of some sources, in the order of their tables."""

    sources: tuple[Source, ...]
    runs: tuple[Run, ...]

    @property
    def results(self) -> list[Result]:
        """Results of the runs that have a row, of stopped ones too."""
        return [run.result for run in self.runs if run.result]

    @property
    def activations(self) -> tuple[str, ...]:
        """Activations in the order of the table."""
        return tuple(dict.fromkeys(run.activation for run in self.runs))

    @property
    def rates(self) -> tuple[float, ...]:
        """Learning rates of the runs that have begun, ascending; of all runs if none has."""
        begun = [run for run in self.runs if run.result or run.metrics]
        return tuple(sorted({run.learning_rate for run in begun or self.runs}))

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds, ascending."""
        return tuple(sorted({run.seed for run in self.runs}))

    @property
    def conditions(self) -> tuple[str, ...]:
        """Values on the other axes in words; one empty text if there are no other axes."""
        return tuple(dict.fromkeys(run.condition for run in self.runs))

    @property
    def unit(self) -> str:
        """The unit of the losses."""
        ended = [result.unit for result in self.results]
        listed = [run.listed.unit for run in self.runs if run.listed]
        begun = [
            config_lib.loss_unit(run.config.objective, run.config.data.tokenizer) for run in self.runs if run.config
        ]
        return (ended + begun + listed)[0]

    def cells(self) -> dict[tuple[str, str, float], list[Run]]:
        """Runs that differ only in their seed, by condition, activation and rate, in the order of the table."""
        groups: dict[tuple[str, str, float], list[Run]] = collections.defaultdict(list)
        for run in self.runs:
            groups[run.condition, run.activation, run.learning_rate].append(run)
        return dict(groups)


IN_TRAINING = "in training"
_QUESTION = re.compile(r"^(?:\*\*Question\.\*\*|Question:)(.*?)(?:\n\s*\n|\Z)", re.DOTALL | re.MULTILINE)


def read(paths: Sequence[pathlib.Path]) -> Study:
    """The runs of workdirs, in training or not, or of folders with a results.csv.

    Raises:
        UserError: a path holds neither file or is named twice, a file is broken, a run is in two folders, or the
            sources differ in more than activation, learning rate, seed and axes.
    """
    for path in paths:
        for folder in (path, path.absolute().parent):  # a stage of a comparison, too
            results_lib.refuse_comparison(folder)
        if path.is_file():
            raise UserError(f"{path} is a file: name its folder.")
        if not any((path / name).is_file() for name in ("config.json", records.RESULTS)):
            raise UserError(
                f"{path} holds no config.json and no results.csv: give the folder of a run, sweep or study."
            )
        if [other.resolve() for other in paths].count(path.resolve()) > 1:
            raise UserError(f"{path} is named twice: name each folder once.")
    tables = [path for path in paths if (path / records.RESULTS).is_file()]
    found = dict(zip(tables, results_lib.read_each(tables), strict=True))
    sources, runs = [], []
    for path in paths:
        if path not in found:  # a table was checked when it was read
            integrity.require_sound(path)
        results = found.get(path, ())
        counts = collections.Counter(result.run for result in results)
        if twice := [name for name, count in counts.items() if count > 1]:
            raise UserError(
                f"{path / records.RESULTS}: {twice[0]} comes twice: remove one of the rows, or divide a table of "
                "several texts or lengths."
            )
        source = _source(path, results)
        sources.append(source)
        runs += _runs(source, {result.run: result for result in results})
    axes = {path for run in runs for path, _ in run.place}
    results_lib.require_alike({source.path: source.config for source in sources if source.config}, axes)
    _require_one_text(runs)
    runs = _each_once(_placed(runs))
    words = _in_words([run.place for run in runs])
    runs = [
        dataclasses.replace(run, key=f"run-{number}", condition=words[run.place])
        for number, run in enumerate(runs, start=1)
    ]
    return Study(tuple(sources), tuple(runs))


def _source(path: pathlib.Path, results: Sequence[Result]) -> Source:
    workdir = Workdir(path, writes=False)
    file, about = path / "config.json", workdir.manifest()
    config = config_lib.load(file) if file.is_file() else None
    cut = [name for name in (records.METRICS, records.TRACES) if records.is_cut_short(path / name)]
    warnings = [f"{path / name}: the last line is incomplete, as after a kill, and was ignored" for name in cut]
    # The jobs of a launch have manifests of their own until all of them are done.
    n_done = sum(result.done for result in results)
    is_launching = (path / "jobs").is_dir() and config is not None and n_done < len(sweep.expand(config))
    if (path / records.METRICS).is_file() and not about and not is_launching:
        warnings.append(f"{path / records.MANIFEST} is missing, so nothing says whether the tables are as written")
    warnings += manifest.looks(workdir)
    return Source(
        path,
        config,
        about,
        _question(path / "README.md"),
        _claims(path / "verdicts.json"),
        tuple(warnings),
    )


def _claims(path: pathlib.Path) -> Mapping[str, Mapping[str, Any]]:
    fix = "restore the file, or remove it"
    claims = read_json(path, fix).get("claims", {}) if path.exists() else {}
    try:
        for entry in claims.values():
            words(entry.get("evidence", "-"))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is not as actlab verdict writes it, its claims have no verdicts: {fix}.") from error
    return claims


def _question(path: pathlib.Path) -> str:
    """The paragraph of a README that begins with "Question:", bold or not."""
    found = _QUESTION.search(path.read_text(encoding="utf-8", errors="replace")) if path.is_file() else None
    return " ".join(found[1].split()) if found else ""


def _runs(source: Source, found: Mapping[str, Result]) -> Iterator[Run]:
    workdir = Workdir(source.path, writes=False)
    metrics, traces = records.by_run(workdir.metrics()), records.by_run(workdir.traces())
    of = {run.name: run for run in sweep.expand(source.config)} if source.config else {}
    places = (source.path, *source.path.glob("jobs/*/"))
    waiting = IN_TRAINING if source.config and any(map(_is_in_use, places)) else "not finished"
    for name in dict.fromkeys([*of, *found]):
        listed = found.get(name)
        about, row = _about(listed, of.get(name)), listed.cells if listed else {}
        result = listed if listed and listed.status != results_lib.WAITING else None
        # The row of a stopped run stays until the training that takes it up again ends.
        status = result.status if result and (result.done or waiting != IN_TRAINING) else waiting
        kept = traces.get(name, ())
        steps = read_steps(kept, name) if any(row["kind"] == "steps" for row in kept) else None
        censuses = read_censuses(kept, name)
        config = of[name].config if name in of else None
        yield Run("", name, source, *about, status, result, listed, row, config, metrics.get(name, ()), steps, censuses)


def _is_in_use(path: pathlib.Path) -> bool:
    # Asking would create the lock file, and a report changes nothing.
    return (path / ".lock").is_file() and Workdir(path, writes=False).is_in_use()


def _about(result: Result | None, run: sweep.Run | None) -> tuple[str, float, int, Place]:
    place = dict(result.axes if result else ())
    if run:
        own = {path: value for path, value in run.axes.items() if path not in config_lib.paths("coordinate")}
        place |= {_column(path): results_lib.as_cell(value) for path, value in own.items()}
    if result:
        return result.activation, result.learning_rate, result.seed, tuple(place.items())
    assert run, "a run comes from a table or from a sweep"
    return run.config.model.activation, run.config.optimizer.learning_rate, run.config.seed, tuple(place.items())


def _column(path: str) -> str:
    """The column of a field in results.csv."""
    return "weight_decay" if path == "optimizer.weight_decay" else path


def _placed(runs: Sequence[Run]) -> list[Run]:
    """The runs with the axes that vary, in one order. What is fixed for a run is in its config."""
    axes = dict.fromkeys(path for run in runs for path, _ in run.place)
    places = []
    for run in runs:
        known = dict(run.place)
        if run.config and axes.keys() - known.keys():
            own = {_column(path): results_lib.as_cell(value) for path, value in config_lib.flat(run.config).items()}
            known = own | known
        places.append({path: known[path] for path in axes if path in known})
    varying = [path for path in axes if len({place.get(path) for place in places}) > 1]
    return [
        dataclasses.replace(run, place=tuple((path, place[path]) for path in varying if path in place))
        for run, place in zip(runs, places, strict=True)
    ]


def _in_words(places: Sequence[Place]) -> dict[Place, str]:
    """Values on the axes in words. Of axes that are swept together the first tells the others."""
    count = lambda paths: len({tuple(dict(place).get(path) for path in paths) for place in places})
    told: list[str] = []
    for path in dict.fromkeys(path for place in places for path, _ in place):
        if count([*told, path]) > count(told):
            told.append(path)
    return {
        place: ",".join(f"{path.rpartition('.')[2]}={value or None}" for path, value in place if path in told)
        for place in places
    }


def _each_once(runs: Sequence[Run]) -> list[Run]:
    """Each run as the folder has it in which it came furthest: done, or else stopped, or else waiting.

    Raises:
        UserError: for a run that is done in two folders, which would count as two seeds.
    """
    done: dict[tuple[str, float, int, Place], Run] = {}
    place = operator.attrgetter("activation", "learning_rate", "seed", "place")
    for run in runs:
        if run.result and run.result.done:
            first = done.setdefault(place(run), run)
            if first.source is not run.source:
                raise UserError(
                    f"{run.name} is in {first.source.path} and in {run.source.path}: leave out one of the folders, or "
                    "give the axis that tells the runs apart its column."
                )
    furthest: dict[tuple[str, float, int, Place], Run] = {}
    for run in runs:
        if place(run) not in furthest or (run.result and not furthest[place(run)].result):
            furthest[place(run)] = done.get(place(run), run)
    return [run for run in runs if furthest[place(run)].source is run.source]


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
