"""The Python API: `actlab.compare` and `actlab.train`, as the commands of these names, and `actlab.load`."""

import dataclasses
import functools
import hashlib
import inspect
import numbers
import pathlib
import re
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from absl import logging
from ml_collections import ConfigDict
from rich.console import Console

from actlab import activations as catalogue, config as config_lib, data
from actlab.adaptive.answer import Answer, Table
from actlab.adaptive.comparison import Comparison
from actlab.config import Config, convert, overrides, presets
from actlab.console import lines
from actlab.errors import UserError, shown
from actlab.files import at_colon, fault_of_path
from actlab.models import Model
from actlab.sweeps import session, trained
from actlab.training.loop import StopSignal
from actlab.workdir.records import Workdir

P = ParamSpec("P")
T = TypeVar("T")
Configured = str | pathlib.Path | Config | ConfigDict
_DURATION = re.compile(r"(?:(?P<h>[\d.]+)h)?(?:(?P<m>[\d.]+)m)?(?:(?P<s>[\d.]+)s)?")
_LONGEST_LABEL = 150  # characters; the name of a folder has at most 255 bytes
_LONGEST = 1e9  # seconds, 30 years
_MOST_SCALES = 8
_TEXTS = ("run", "activation", "data", "tokenizer", "status")  # columns of results.csv; the others hold numbers
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0}


def _named_as_in_python(function: Callable[P, T]) -> Callable[P, T]:
    """What the function refuses is told by the names of its arguments and of fields, --budget as budget.

    Not to a command, which gives its words as `command`.
    """
    flags = re.compile(rf"--(?=(?:{'|'.join(inspect.signature(function).parameters)})\b)")

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except UserError as error:
            if "command" not in kwargs:
                error.args = (flags.sub("", str(error)),)
            raise

    return called


@dataclasses.dataclass(frozen=True)
class Run:
    """A trained run: its workdir, name, row of results.csv and logged losses; its model, once that is asked for.

    The cells of the row are numbers, but for its names, its status and empty ones; until the run has ended or was
    stopped there are none.
    """

    workdir: pathlib.Path
    name: str
    result: dict[str, str | float]
    history: Table

    @functools.cached_property
    def trained(self) -> trained.Trained:
        """Its newest checkpoint; raises UserError if it diverged, which `result["status"]` says."""
        return trained.load(self.workdir, self.name)

    @property
    def model(self) -> Model:
        """Its model: `run.model.apply(run.params, tokens)`; raises UserError if its activation was changed since."""
        trained.require_same_own(Workdir(self.workdir, writes=False), [self.trained.config])
        return self.trained.model

    @property
    def params(self) -> Any:
        """The parameters after its last step."""
        return self.trained.params

    def sample(self, prompt: str = "", **options: Any) -> str:
        """Text that a decoder writes after a prompt; see training.generation.write_text for the options."""
        trained.require_same_own(Workdir(self.workdir, writes=False), [self.trained.config])
        return self.trained.sample(prompt=prompt, **options)


@_named_as_in_python
def compare(
    names: Sequence[str],
    *,
    budget: str | float,
    text: str | pathlib.Path | None = None,
    field: str = data.FIELD,
    config: Configured | None = None,
    workdir: str | pathlib.Path | None = None,
    scales: int | None = None,
    console: Console | None = None,
    command: Sequence[str] = ("actlab.compare",),
) -> Answer:
    """Which of these activations to take: searches each learning rate, then adds seeds until every pair is decided.

    `budget` is the time for all of it, "20m" or "1h30m", or in seconds; `text` a file or a folder of texts, which JSON
    lines and Parquet have in a `field`; `config` a config file with its preset, "configs/bert_gelu.py:small", a Config
    or a ConfigDict, by default a small decoder; `scales` the number of widths, the config's and its doublings. The same
    call goes on where it was stopped, and a larger budget adds seeds. The workdir gets the answer as index.html and
    answer.json.

    Raises:
        UserError: for an unknown activation, a config with a sweep, a budget that can show nothing, or a workdir of
            another comparison.
    """
    logging.set_verbosity(logging.ERROR)  # orbax warns through absl of what is meant
    if isinstance(budget, str):
        seconds = budget_seconds(budget)
    elif isinstance(budget, numbers.Real) and not isinstance(budget, bool) and 0 < budget < _LONGEST:
        seconds = float(budget)
    else:
        raise UserError(f"budget={shown(budget)} must be a time, such as '30m', or a positive number of seconds.")
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise UserError(f"names={names!r} must be a list of names, such as ['relu', 'gelu'].")
    is_whole = isinstance(scales, numbers.Integral) and not isinstance(scales, bool)
    if scales is not None and not (is_whole and 1 <= scales <= _MOST_SCALES):
        raise UserError(
            f"scales={shown(scales)}, the number of widths, must be a whole number from 1 to {_MOST_SCALES}."
        )
    chosen = [catalogue.get(name, "").name for name in names]
    base = _config(config, "with other fields by actlab.config.replace(CONFIG, **{'model.d_model': 32})")
    base = _on_text(base, text, field)
    folder = _folder(sorted(chosen), base) if workdir is None else _path("workdir", workdir)
    base = _with_data(base, folder / "search" / "config.json")
    console = console or lines()

    def show(answer: Answer, width: int) -> None:
        for line in answer.progress(width):
            console.print(line, markup=False)  # the console may be the caller's

    comparison = Comparison(base, chosen, folder, seconds, command, console, show, scales=scales and int(scales))
    with StopSignal() as stop:
        return comparison.run(stop)


@_named_as_in_python
def train(
    config: Configured,
    *,
    workdir: str | pathlib.Path | None = None,
    text: str | pathlib.Path | None = None,
    field: str = data.FIELD,
    **changes: Any,
) -> Run:
    """Trains one run, resumes it, or reads it if it is done.

    `config` is a config file with its preset, a Config or a ConfigDict; `text` a file or a folder of texts, which JSON
    lines and Parquet have in a `field`; `changes` are fields: train("configs/tinystories_gelu.py", seed=2,
    **{"optimizer.learning_rate": 1e-3}).

    Raises:
        UserError: for whatever `actlab.main` refuses, and for a config with a sweep.
        KeyboardInterrupt: if it was stopped; the same call resumes.
    """
    logging.set_verbosity(logging.ERROR)
    if config is None:
        raise UserError("config is None: name a config file with its preset, or give a Config or ConfigDict.")
    fields = "and fields as keywords, **{'model.activation': 'relu'}"
    one = config_lib.replace(_config(config, fields), **changes)
    if one.sweep:
        raise UserError("config.sweep is set: actlab.train trains one run; train a sweep with actlab.main.")
    if text is not None and "data.name" in changes:
        raise UserError("text and data.name both name a text: leave one out.")
    one = _on_text(one, text, field)
    label = pathlib.Path(at_colon(str(config))[0]).stem if isinstance(config, (str, pathlib.Path)) else "train"
    # Named before the data is known, which fills in open fields: the name follows from the call alone.
    folder = session.default_workdir(label, one) if workdir is None else _path("workdir", workdir)
    if code := session.run(_with_data(one, folder / "config.json"), label, folder, ["actlab.train"]):
        raise KeyboardInterrupt(f"stopped with exit code {code}: the same call resumes")
    return load(folder)


@_named_as_in_python
def load(workdir: str | pathlib.Path, run: str | None = None) -> Run:
    """A run of a workdir, which may still be training; `run` is its name, needed if the workdir has several.

    Raises:
        UserError: for a folder without runs, or without one of that name.
    """
    logging.set_verbosity(logging.ERROR)
    folder = trained.with_runs(_path("workdir", workdir))
    if run is not None and not isinstance(run, str):
        raise UserError(f"run={shown(run)} must be the name of a run.")
    name = trained.name_of(folder, run)
    records = Workdir(folder, writes=False)
    row = next((row for row in records.results() if row["run"] == name), {})
    result = {column: cell if column in _TEXTS else _number(cell) for column, cell in row.items()}
    return Run(folder, name, result, Table([row for row in records.metrics() if row["run"] == name]))


def budget_seconds(text: str) -> float:
    """A duration such as 30m, 1h or 2h30m, in seconds.

    Raises:
        UserError: for anything else.
    """
    match = _DURATION.fullmatch(text.strip())
    try:
        found = sum(float(match[unit] or 0) * size for unit, size in _SECONDS.items()) if match else 0.0
    except ValueError:
        found = 0.0
    if not 0 < found < _LONGEST:
        no_unit = re.fullmatch(r"[\d.]+", text.strip())
        fault = "has no unit" if no_unit else "is longer than 30 years" if found else "is not a time"
        raise UserError(f"--budget={text} {fault}: write for example --budget=90s, 30m, 1h or 2h30m.")
    return found


def _number(cell: str) -> str | float:
    try:
        return int(cell) if re.fullmatch(r"-?\d+", cell) else float(cell)
    except ValueError:
        return cell  # empty


def _path(name: str, given: str | pathlib.Path) -> pathlib.Path:
    """A path as the commands take it."""
    fault = fault_of_path(str(given)) if isinstance(given, (str, pathlib.Path)) else "is not a path"
    if fault:
        raise UserError(f"{name}={shown(given)} {fault}: name a file or a folder.")
    return pathlib.Path(given)


def _config(config: Configured | None, fields: str) -> Config:
    """A config as it may be given; `fields` says how other fields are set."""
    if isinstance(config, Config):
        return config
    if isinstance(config, ConfigDict):
        return convert.from_mapping(config.to_dict())
    if config is not None and not isinstance(config, (str, pathlib.Path)):
        raise UserError(
            f"config={shown(config)} is of type {type(config).__name__}: give the path of a config file, a Config or a "
            f"ConfigDict, {fields}."
        )
    return overrides.read(None if config is None else str(config), (), presets.compared).config


def _folder(names: Sequence[str], config: Config) -> pathlib.Path:
    """The workdir of a comparison that names none."""
    label = "compare-" + "-".join(re.sub(r"[^\w.]+", "_", name).strip("_") for name in names)
    if len(label) > _LONGEST_LABEL:
        label = f"compare-{len(names)}-activations-{hashlib.sha256(label.encode()).hexdigest()[:8]}"
    return pathlib.Path(f"runs/{label}-{config_lib.fingerprint(config)[:8]}")


def _on_text(config: Config, text: str | pathlib.Path | None, field: str) -> Config:
    """The config on a text of one's own, which is prepared; as it is without one."""
    if not isinstance(field, str):
        raise UserError(f"field={shown(field)} must be the name of the text field.")
    if text is None:
        if field != data.FIELD:
            raise UserError(f"field={shown(field)} has no effect without text: name a file or a folder of texts.")
        return config
    name = data.prepare_text(_path("text", text), config.data.dir, field=field)
    return config_lib.replace(config, **{"data.name": name})


def _with_data(config: Config, begun: pathlib.Path) -> Config:
    """With the data that "auto" means: that of the config with which a folder was begun, or what is prepared now."""
    if config.data.name != "auto":
        return config
    if begun.is_file():
        name = config_lib.load(begun).data.name
    else:
        name = data.resolve_name("auto", config.data.dir, config.finetune.task)
    return config_lib.replace(config, **{"data.name": name})
