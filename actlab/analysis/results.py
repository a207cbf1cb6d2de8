"""Results: the one reader of results.csv.

`read` takes workdirs and tables, checks every cell, and adds the curves of metrics.jsonl where that file exists. It
accepts any mixture of runs; conditions.py says which of them may be compared.
"""

import dataclasses
import itertools
import math
import pathlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from actlab import config as config_lib
from actlab.config import LOSS_UNITS, Config, loss_unit, sweep
from actlab.errors import UserError
from actlab.workdir import documents as documents_lib, integrity, manifest, records
from actlab.workdir.documents import Documents
from actlab.workdir.results import COLUMNS

FINGERPRINT = 12  # digits of the data's fingerprint that a table has
DONE, WAITING = ("finished", "diverged"), "waiting"
STATUSES = (*DONE, "stopped", WAITING)
# Roles of fields in which workdirs may differ: a row has the field itself, or a finished run's losses do not depend on
# it.
_MAY_DIFFER: tuple[config_lib.Role, ...] = ("traced", "coordinate", "recording", "external")
_LOSSES = ("initial_loss", "final_loss")
_NUMBERS = ("steps", "tokens", "parameters", "flops_per_token")
Row = Mapping[str, str]
Axes = tuple[tuple[str, str], ...]  # (field, value) of further swept fields
Curve = tuple[tuple[int, float], ...]  # (step, validation loss)


@dataclasses.dataclass(frozen=True)
class Result:
    """A run, as its row of results.csv has it. Losses are in `unit`.

    `seconds` is the time of its program with all its `lanes`, evaluations and compilation included; `tokens_per_second`
    the median speed of training alone, of all lanes together. `test_loss` is the loss after the last step on the test
    set, which chose nothing, and `documents` has it by document; None in tables without. `trivial_loss` is that of
    predicting each token from the one before it alone; of masked tokens that of predicting them without context, of
    documents from the shares of the classes; None where the table does not say. `bytes_per_token` is of the validation
    text, `test_bytes_per_token` of the test text. `axes` are the further swept fields, `curve` the validation losses
    (step, loss) from metrics.jsonl or from the column of that name ("400:1.62 800:1.38"), `cells` the row itself. A run
    that is `waiting`, since its study is not trained to the end, has its place and no numbers.
    """

    run: str
    activation: str
    learning_rate: float
    seed: int
    data: str
    tokenizer: str
    status: str
    initial_loss: float
    final_loss: float
    steps: int
    tokens: int
    parameters: int
    flops_per_token: float
    seconds: float | None = None
    tokens_per_second: float | None = None
    objective: str = "next_token"
    lanes: int = 1
    best_loss: float | None = None
    floor: float | None = None
    test_loss: float | None = None
    test_floor: float | None = None
    trivial_loss: float | None = None
    bytes_per_token: float | None = None
    test_bytes_per_token: float | None = None
    data_fingerprint: str = ""
    axes: Axes = ()
    curve: Curve = ()
    cells: Row = dataclasses.field(default_factory=dict, compare=False, repr=False)
    documents: Documents | None = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def cell(self) -> tuple[str, float, Axes]:
        """What runs that differ in nothing but the seed have in common."""
        return self.activation, self.learning_rate, self.axes

    @property
    def place(self) -> tuple[str, float, Axes, int]:
        """What tells the runs of a comparison apart: cell and seed."""
        return *self.cell, self.seed

    def axes_among(self, paths: Collection[str]) -> Axes:
        """Its further axes, those of `paths` only."""
        return tuple((path, value) for path, value in self.axes if path in paths)

    @property
    def unit(self) -> str:
        """The unit of its losses."""
        return loss_unit(self.objective, self.tokenizer)

    @property
    def done(self) -> bool:
        """Whether it was trained to its end, which may have been a divergence."""
        return self.status in DONE

    @property
    def learned(self) -> bool:
        """Whether it ended below the loss it began with."""
        return self.status != "diverged" and self.final_loss < self.initial_loss

    @property
    def failed(self) -> str:
        """How it failed: "diverged", "learned nothing" since it began, or "collapsed" (no lower than the trivial loss).

        "" for a run that did not fail. Without a trivial loss no run is known to have collapsed.
        """
        if self.status == "diverged":
            return "diverged"
        if not self.learned:
            return "learned nothing"
        return "collapsed" if self.trivial_loss is not None and self.final_loss >= self.trivial_loss else ""

    @property
    def loss(self) -> float:
        """The smaller of final and initial loss; a diverged run counts with its initial loss.

        `read` gives a run that was not finite even there the mean initial loss of the runs with its seed.
        """
        return self.final_loss if self.learned else self.initial_loss


# Columns that a table must have: the fields of a result without a default, where both of these are MISSING.
REQUIRED = [field.name for field in dataclasses.fields(Result) if field.default is field.default_factory]


def read(paths: Sequence[pathlib.Path]) -> list[Result]:
    """The runs of workdirs or results.csv files, in their order.

    A field that is an axis in one workdir and fixed in another is filled in from the latter's config.json, the data's
    fingerprint from its manifest.json.

    Raises:
        UserError: for a path without results, a missing column, an invalid cell, a finished run whose loss is not
            finite, an invalid line of metrics.jsonl, or workdirs whose configs differ in more than activation, learning
            rate, seed and axes, or which have different functions under one name.
    """
    found = list(itertools.chain(*read_each(paths)))
    done = {result.place for result in found if result.done}
    # A run that waits, or was stopped, in one workdir may be done in another, or stopped there too.
    open_ones: dict[Any, Result] = {}
    for one in found:
        if not one.done and (one.place not in open_ones or open_ones[one.place].status == WAITING):
            open_ones[one.place] = one
    return [one for one in found if one.done or (one.place not in done and open_ones[one.place] is one)]


def read_each(paths: Sequence[pathlib.Path]) -> list[list[Result]]:
    """As `read`, a list for each path, which has all of its runs."""
    sources = [_Source(path) for path in paths]
    # An axis of any table is a place of every run, or runs of two tables could not be told apart.
    axes = list(dict.fromkeys(name for source in sources for name in source.axes))
    require_alike({source.path.parent: source.config for source in sources if source.config}, axes)
    _require_one_function(sources)
    tables = [source.results(axes) for source in sources]
    every = list(itertools.chain(*tables))
    return [[_with_initial_loss(result, every) for result in table] for table in tables]


def documents(path: pathlib.Path) -> dict[str, Documents]:
    """By run, the test loss on each document; empty where a workdir or table has none beside it.

    Raises:
        UserError: for a file that is damaged.
    """
    file = path / documents_lib.FILE if path.is_dir() else path.with_name(documents_lib.FILE)
    return documents_lib.read(file) if file.is_file() else {}


def _with_initial_loss(run: Result, results: Sequence[Result]) -> Result:
    """A run that was not finite at its first evaluation gets the initial loss of the runs beside it with its seed."""
    if not run.done or math.isfinite(run.initial_loss):
        return run
    beside = [
        one
        for one in results
        if math.isfinite(one.initial_loss)  # which one that is not done has too
        and (one.data, one.tokenizer, one.axes) == (run.data, run.tokenizer, run.axes)
    ]
    known = [one.initial_loss for one in beside if one.seed == run.seed] or [one.initial_loss for one in beside]
    if not known:
        raise UserError(
            f"{run.run} was not finite when it began, nor was a run beside it, so nothing can be compared: look at the "
            "data, at config.model.init and at the activation."
        )
    return dataclasses.replace(run, initial_loss=math.fsum(known) / len(known))


def _require_one_function(sources: Sequence["_Source"]) -> None:
    """Raises UserError if an activation of one name was another function in another workdir."""
    for one, other in itertools.combinations(sources, 2):
        for name in sorted(one.functions.keys() & other.functions.keys()):
            if manifest.function_difference(one.functions[name], other.functions[name]):
                raise UserError(
                    f"{one.path.parent} and {other.path.parent} were trained with different functions named {name!r}: "
                    "compare runs of one, or give the other another name."
                )


def refuse_comparison(path: pathlib.Path) -> None:
    """Raises UserError for the folder of a comparison, which has an answer and a page of its own."""
    if (path / records.COMPARISON).is_file():
        page = path / "index.html"
        where = f"open {page}" if page.is_file() else "actlab compare goes on with it"
        raise UserError(f"{path} is a comparison, which judges its runs itself and makes a page of its own: {where}.")


class _Source:
    """A workdir or a file."""

    def __init__(self, path: pathlib.Path):
        self.path = path / records.RESULTS if path.is_dir() else path
        refuse_comparison(path)
        if not self.path.is_file():
            fault = "does not exist" if path.suffix == ".csv" or not path.exists() else "holds no results.csv"
            raise UserError(f"{path} {fault}: give a workdir whose runs are done, or such a file.")
        integrity.require_sound(self.path.parent)
        self.rows = records.read_table(self.path)
        missing = [name for name in REQUIRED if self.rows and name not in self.rows[0]]
        if missing:
            raise UserError(f"{path} has no column {', '.join(missing)}: give a results.csv as a sweep writes it.")
        if not self.rows:
            raise UserError(f"{path} has no row: train first.")
        # Of a workdir, or of a launch that has no manifest yet, the sweep says what is still to come.
        if any((self.path.parent / name).exists() for name in (records.MANIFEST, "jobs")):
            self.rows += waiting(self.path.parent, self.rows)
        known = config_lib.fields()
        # A swept field's column is its path, "optimizer.warmup_steps"; weight decay has a short name in every table.
        self.axes = [name for name in self.rows[0] if name == "weight_decay" or ("." in name and name in known)]
        self._workdir = records.Workdir(self.path.parent, writes=False)
        config = self.path.with_name("config.json")
        self.config: Config | None = config_lib.load(config) if config.is_file() else None
        about = self._workdir.manifest()
        self._fingerprint: str = about.get("data", {}).get("fingerprint", "")[:FINGERPRINT]
        self.functions: dict[str, Any] = about.get("activations", {})

    def results(self, axes: Sequence[str]) -> list[Result]:
        metrics, tested = records.by_run(self._workdir.metrics()), documents(self.path)
        results = []
        for number, row in enumerate(self.rows, start=2):
            places = tuple((axis, self._place(row, axis)) for axis in axes)
            fingerprint = row["data_fingerprint"] if "data_fingerprint" in row else self._fingerprint
            kept = curve(metrics.get(row["run"], ())), tested.get(row["run"])
            results.append(_result(row, f"{self.path} line {number}", places, *kept, fingerprint))
        return results

    def _place(self, row: Row, axis: str) -> str:
        if axis in row:
            return row[axis]
        if self.config and axis != "weight_decay":
            return as_cell(config_lib.flat(self.config)[axis])
        raise UserError(f"{self.path} has no column {axis}, which another table has: compare tables of equal columns.")


def waiting(workdir: pathlib.Path, rows: Sequence[Row]) -> list[Row]:
    """A row for each run of a workdir's sweep that has none in its table yet."""
    path, known = workdir / "config.json", {row["run"] for row in rows}
    config = config_lib.load(path) if path.is_file() else Config()
    found = []
    for run in sweep.expand(config) if config.sweep else ():
        if run.name not in known:
            own = config_lib.flat(run.config)
            paths = {column: COLUMNS.get(column, column) for column in (*COLUMNS, *rows[0])}
            cells = {column: as_cell(own[path]) for column, path in paths.items() if path in own}
            found.append({**dict.fromkeys(rows[0], ""), "run": run.name, "status": WAITING, **cells})
    return found


def as_cell(value: object) -> str:
    """A field's value as results.csv has it."""
    return "" if value is None else str(value)


def curve(rows: Iterable[records.Row]) -> Curve:
    """The validation losses among the rows that a run has in metrics.jsonl, in the order of steps."""
    validated = (row for row in rows if row["split"] == "validation" and row.get("loss") is not None)
    return tuple(sorted((row["step"], float(row["loss"])) for row in validated))


def _result(
    row: Row,
    where: str,
    axes: Axes,
    curve: Curve,
    documents: Documents | None,
    fingerprint: str,
) -> Result:
    filled = row  # the numbers of a run that is not trained yet are empty cells
    if row["status"] == WAITING:
        filled = {**row, **dict.fromkeys(_NUMBERS, "0"), **dict.fromkeys(_LOSSES, "nan")}
    cells = _Cells(filled, where)
    result = Result(
        **{name: cells.text(name) for name in ("run", "activation", "data", "tokenizer", "status")},
        learning_rate=cells.number("learning_rate"),
        seed=cells.whole("seed"),
        initial_loss=cells.number("initial_loss", finite=row["status"] not in (WAITING, "diverged")),
        final_loss=cells.number("final_loss", finite=False),
        steps=cells.whole("steps"),
        tokens=cells.whole("tokens"),
        parameters=cells.whole("parameters"),
        flops_per_token=cells.number("flops_per_token"),
        seconds=cells.optional("seconds"),
        tokens_per_second=cells.optional("tokens_per_second"),
        objective=row.get("objective") or "next_token",  # older tables lack the column
        lanes=cells.whole("lanes") if row.get("lanes") else 1,
        best_loss=cells.optional("best_loss"),
        floor=cells.optional("floor"),
        test_loss=cells.optional("test_loss"),
        test_floor=cells.optional("test_floor"),
        trivial_loss=cells.optional("trivial_loss"),
        bytes_per_token=cells.optional("bytes_per_token"),
        test_bytes_per_token=cells.optional("test_bytes_per_token"),
        data_fingerprint=fingerprint,
        axes=axes,
        curve=curve or cells.curve(),
        cells=row,
        documents=documents,
    )
    if result.status not in STATUSES:
        raise UserError(f"{where}: status={result.status!r} is not one of {', '.join(STATUSES)}.")
    if result.objective not in LOSS_UNITS:
        raise UserError(f"{where}: objective={result.objective!r} is not one of {', '.join(LOSS_UNITS)}.")
    counts = ("steps", "tokens", "parameters", "flops_per_token", "seconds", "tokens_per_second")
    for name in ("learning_rate", *_LOSSES, "test_loss", *counts):
        value = getattr(result, name)
        if value is not None and value < 0:
            raise UserError(f"{where}: {name}={value:g} is below 0: correct the row.")
    if result.status == "finished" and not math.isfinite(result.final_loss):
        raise UserError(
            f"{where}: final_loss={result.final_loss} of a finished run is not finite: a run that diverged has "
            "status=diverged, any other must be trained again."
        )
    for name in ("bytes_per_token", "test_bytes_per_token"):
        value = getattr(result, name)
        if value is not None and value <= 0:
            raise UserError(f"{where}: {name}={value:g} is not above 0: correct the row.")
    if result.lanes < 1:
        raise UserError(f"{where}: lanes={result.lanes} must be 1 or more.")
    return result


class _Cells:
    """The cells of a row as values; an invalid one raises a UserError that names line and column."""

    def __init__(self, row: Row, where: str):
        self._row, self._where = row, where

    def text(self, name: str) -> str:
        if not self._row[name].strip():
            raise UserError(f"{self._where}: {name} is empty: fill it in.")
        return self._row[name].strip()

    def number(self, name: str, finite: bool = True) -> float:
        text = self.text(name)
        try:
            value = float(text)
        except ValueError as error:
            raise self._fault(name, "number") from error
        if finite and not math.isfinite(value):
            raise self._fault(name, "finite number")
        return value

    def whole(self, name: str) -> int:
        value = self.number(name)
        if value != int(value):
            raise self._fault(name, "whole number")
        return int(value)

    def optional(self, name: str) -> float | None:
        """None where the column is missing, empty or NaN, as the floor of a text of unknown entropy is."""
        if not self._row.get(name, "").strip():
            return None
        value = self.number(name, finite=False)
        if math.isinf(value):
            raise self._fault(name, "finite number")
        return None if math.isnan(value) else value

    def curve(self) -> Curve:
        """The column "curve"; empty where there is none."""
        text = self._row.get("curve", "")
        try:
            points = [point.split(":") for point in text.split()]
            return tuple((int(step), float(loss)) for step, loss in points)
        except ValueError as error:
            raise self._fault("curve", "list of step:loss") from error

    def _fault(self, name: str, kind: str) -> UserError:
        return UserError(f"{self._where}: {name}={self._row[name]!r} is not a {kind}: correct the row.")


def require_alike(configs: Mapping[pathlib.Path, Config], swept: Collection[str]) -> None:
    """Raises UserError for workdirs whose configs differ in more than activation, learning rate, seed and `swept`."""
    may_differ = {"sweep", *swept, *(path for role in _MAY_DIFFER for path in config_lib.paths(role))}
    flat = {workdir: config_lib.flat(config) for workdir, config in configs.items()}
    for (one, ours), (other, theirs) in itertools.pairwise(flat.items()):
        for path, value in ours.items():
            if path not in may_differ and value != theirs[path]:
                raise UserError(
                    f"config.{path} is {value!r} in {one} and {theirs[path]!r} in {other}: compare runs that differ "
                    "only in activation, learning rate, seed and the axes of a sweep."
                )
