"""Tables of results: the rows of results.csv, validated, with the curves of metrics.jsonl where they are given.

Reading takes any mixture of runs; which of them may be compared is for `comparison.conditions` to say.
"""

import csv
import dataclasses
import json
import math
import pathlib
from collections.abc import Collection, Iterable, Mapping, Sequence

from actlab import config as config_lib
from actlab.config import Config
from actlab.errors import UserError
from actlab.training.rows import read as read_rows

REQUIRED = (
    "run",
    "activation",
    "learning_rate",
    "seed",
    "data",
    "tokenizer",
    "status",
    "initial_loss",
    "final_loss",
    "steps",
    "tokens",
    "parameters",
    "flops_per_token",
)
FINGERPRINT = 12  # digits of the data's that a table has
DONE, WAITING = ("finished", "diverged"), "waiting"
STATUSES = (*DONE, "stopped", WAITING)
# What a row says of these is what differs, or does not touch the losses of a finished run.
_FREE = (
    "seed",
    "sweep",
    "model.activation",
    "optimizer.learning_rate",
    "optimizer.weight_decay",
    "train.log_every",
    "train.eval_every",
    "train.checkpoint_every",
    "train.keep_checkpoints",
    "train.steps_per_call",
    *config_lib.NOT_IDENTITY,
)
_LOSSES = ("initial_loss", "final_loss")
_NUMBERS = ("steps", "tokens", "parameters", "flops_per_token")
Row = Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Result:
    """A run as results.csv tells it. Losses in its objective's unit, `seconds` of its program with all its `lanes`,
    evaluations and compilation in them, `tokens_per_second` the median of training alone over all lanes.

    One that is waiting, since its study is not trained to the end, has its place and no numbers.

    `axes` are the further swept fields, `curve` the validation losses (step, loss) that metrics.jsonl holds or the
    column of that name, as "400:1.62 800:1.38"; `cells` is the row itself.
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
    data_fingerprint: str = ""
    axes: tuple[tuple[str, str], ...] = ()
    curve: tuple[tuple[int, float], ...] = ()
    cells: Row = dataclasses.field(default_factory=dict, compare=False, repr=False)

    @property
    def done(self) -> bool:
        """Whether it was trained to its end, which may have been a divergence."""
        return self.status in DONE

    @property
    def learned(self) -> bool:
        """Whether it ended below the loss it began with."""
        return self.status != "diverged" and self.final_loss < self.initial_loss

    @property
    def loss(self) -> float:
        """min(final, initial) loss: what a run counts with; a diverged one counts with the loss at initialisation.

        `read` gives one that was not finite even there the mean of those of its seed.
        """
        return self.final_loss if self.learned else self.initial_loss


def read(paths: Sequence[pathlib.Path]) -> list[Result]:
    """The runs of workdirs or results.csv files, in their order.

    A field that is an axis in one workdir and fixed in another is filled in from the latter's config.json, the data's
    fingerprint from its manifest.json.

    Raises:
        UserError: for a path without results, a missing column, a cell that is no such value, a finished run whose
            loss is not finite, a line of metrics.jsonl that is no row, or workdirs whose configs differ in more than
            activation, rate, seed and axes.
    """
    sources = [_Source(path) for path in paths]
    axes = list(dict.fromkeys(name for source in sources for name in source.axes))
    configs = [source for source in sources if source.config]
    for other in configs[1:]:
        _require_alike(configs[0], other, axes)
    results = [result for source in sources for result in source.results(axes)]
    return [_with_initial_loss(result, results) for result in results]


def _with_initial_loss(run: Result, results: Sequence[Result]) -> Result:
    """A run that was not finite at its first evaluation counts with what those of its seed beside it began with."""
    if not run.done or math.isfinite(run.initial_loss):
        return run
    beside = [
        one
        for one in results
        if one.done
        and math.isfinite(one.initial_loss)
        and (one.data, one.tokenizer, one.axes) == (run.data, run.tokenizer, run.axes)
    ]
    known = [one.initial_loss for one in beside if one.seed == run.seed] or [one.initial_loss for one in beside]
    if not known:
        raise UserError(f"{run.run} was not finite when it began, nor was a run beside it: leave {run.activation} out.")
    return dataclasses.replace(run, initial_loss=math.fsum(known) / len(known))


class _Source:
    """A workdir or a file."""

    def __init__(self, path: pathlib.Path):
        self.path = path / "results.csv" if path.is_dir() else path
        if not self.path.is_file():
            fault = "is not there" if path.suffix == ".csv" else "holds no results.csv"
            raise UserError(f"{path} {fault}: give a workdir whose runs are done, or such a file.")
        self.rows = _rows(self.path)
        known = [name for name, _ in config_lib.fields()]
        self.axes = [name for name in self.rows[0] if name == "weight_decay" or ("." in name and name in known)]
        self.config = self._config()
        self.fingerprint = self._fingerprint()

    def _config(self) -> Config | None:
        path = self.path.with_name("config.json")
        return config_lib.load(path) if path.is_file() else None

    def _fingerprint(self) -> str:
        path = self.path.with_name("manifest.json")
        try:
            manifest = json.loads(path.read_text()) if path.is_file() else {}
        except ValueError as error:
            raise UserError(f"{path} is not JSON ({error}): restore the file, or remove it.") from error
        return manifest.get("data", {}).get("fingerprint", "")[:FINGERPRINT]

    def results(self, axes: Sequence[str]) -> Iterable[Result]:
        curves = _curves(self.path.with_name("metrics.jsonl"))
        for number, row in enumerate(self.rows, start=2):
            where = f"{self.path} line {number}"
            places = tuple((axis, self._place(row, axis)) for axis in axes)
            yield _result({"data_fingerprint": self.fingerprint, **row}, where, places, curves.get(row["run"], ()))

    def _place(self, row: Row, axis: str) -> str:
        if axis in row:
            return row[axis]
        if self.config and axis != "weight_decay":
            return as_cell(config_lib.flat(self.config)[axis])
        raise UserError(f"{self.path} has no column {axis}, which another table has: compare tables of equal columns.")


def as_cell(value: object) -> str:
    """A field's value as results.csv has it."""
    return "" if value is None else str(value)


def _rows(path: pathlib.Path) -> list[dict[str, str]]:
    try:
        lines = csv.DictReader(path.read_text().splitlines())
        rows = list(lines)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} cannot be read as a table ({error}): give a results.csv.") from error
    missing = [name for name in REQUIRED if name not in (lines.fieldnames or ())]
    if missing:
        raise UserError(f"{path} has no column {', '.join(missing)}: give a results.csv as a sweep writes it.")
    if not rows:
        raise UserError(f"{path} has no row: train first.")
    for number, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise UserError(f"{path} line {number} has not as many cells as there are columns: write the table again.")
    return rows


def _curves(path: pathlib.Path) -> dict[str, tuple[tuple[int, float], ...]]:
    curves: dict[str, list[tuple[int, float]]] = {}
    for row in read_rows(path, "split"):
        if row["split"] == "validation" and row.get("loss") is not None:
            curves.setdefault(row["run"], []).append((row["step"], row["loss"]))
    return {run: tuple(sorted(points)) for run, points in curves.items()}


def _result(row: Row, where: str, axes: tuple[tuple[str, str], ...], curve: tuple[tuple[int, float], ...]) -> Result:
    if row["status"] == WAITING:
        row = {**row, **dict.fromkeys(_NUMBERS, "0"), **dict.fromkeys(_LOSSES, "nan")}
    cells = _Cells(row, where)
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
        objective=row.get("objective") or "next_token",  # tables written before there was another lack it
        lanes=cells.whole("lanes") if row.get("lanes") else 1,
        best_loss=cells.optional("best_loss"),
        floor=cells.optional("floor"),
        data_fingerprint=row["data_fingerprint"],
        axes=axes,
        curve=curve or cells.curve(),
        cells=row,
    )
    if result.status not in STATUSES:
        raise UserError(f"{where}: status={result.status!r} is none of {', '.join(STATUSES)}.")
    if result.status == "finished" and not math.isfinite(result.final_loss):
        raise UserError(
            f"{where}: final_loss={result.final_loss} of a finished run is no number: a run that diverged has "
            "status=diverged, any other is to be trained again."
        )
    if result.lanes < 1:
        raise UserError(f"{where}: lanes={result.lanes} must be 1 or more.")
    return result


class _Cells:
    """The cells of a row as values; what is none ends in a sentence that names line and column."""

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
        return value if math.isfinite(value) else None

    def curve(self) -> tuple[tuple[int, float], ...]:
        """The column "curve"; empty where there is none."""
        text = self._row.get("curve", "")
        try:
            points = [point.split(":") for point in text.split()]
            return tuple((int(step), float(loss)) for step, loss in points)
        except ValueError as error:
            raise self._fault("curve", "list of step:loss") from error

    def _fault(self, name: str, kind: str) -> UserError:
        return UserError(f"{self._where}: {name}={self._row[name]!r} is no {kind}: correct the row.")


def _require_alike(one: _Source, other: _Source, swept: Collection[str]) -> None:
    ours, theirs = (config_lib.flat(source.config) for source in (one, other) if source.config)
    for path, value in ours.items():
        if path not in _FREE and path not in swept and value != theirs[path]:
            raise UserError(
                f"config.{path} is {value!r} in {one.path.parent} and {theirs[path]!r} in {other.path.parent}: "
                "runs are compared that differ in activation, learning rate, seed and the axes of a sweep only."
            )
