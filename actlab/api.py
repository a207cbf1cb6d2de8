"""The Python API: `actlab.compare` and `actlab.train`, as the commands of these names, and `actlab.load`."""

import dataclasses
import functools
import hashlib
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
from actlab.adaptive.comparison import SequentialComparison
from actlab.config import Config, convert, overrides, presets
from actlab.console import lines
from actlab.errors import UserError, shown
from actlab.files import at_colon, fault_of_path
from actlab.models import Model
from actlab.sweeps import functions, session, trained
from actlab.training.signals import StopSignal
from actlab.workdir.records import Workdir

P = ParamSpec("P")
T = TypeVar("T")
Configured = str | pathlib.Path | Config | ConfigDict
_DURATION = re.compile(r"(?:(?P<h>[\d.]+)h)?(?:(?P<m>[\d.]+)m)?(?:(?P<s>[\d.]+)s)?")
_LONGEST_LABEL = 150  # characters; the name of a folder has at most 255 bytes
_LONGEST = 1e9  # seconds, 30 years
_MOST_SCALES = 8
_TEXTS = ("run", "activation", "data", "tokenizer", "status")  # columns of results.csv that stay texts
_FLAGS = re.compile(r"--(?=(?:budget|config|field|run|scales|text|workdir)\b)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0}


def _in_python(function: Callable[P, T]) -> Callable[P, T]:
    """Errors name arguments and fields as Python has them, budget and config.seed, and not the flags of a command."""

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except UserError as error:
            error.args = (_FLAGS.sub("", str(error)),)
            raise

    return called


@dataclasses.dataclass(frozen=True)
class Run:
    """A trained run: its workdir, name, row of results.csv and logged losses; its model, once that is asked for.

    `result` has a cell for each column, a number where it is one and else a text; none until the run has ended or was
    stopped.
    """

    workdir: pathlib.Path
    name: str
    result: dict[str, str | float]
    history: Table

    @functools.cached_property
    @_in_python
    def trained(self) -> trained.Trained:
        """Its newest checkpoint; raises UserError if it diverged, which `result["status"]` says."""
        return trained.load(self.workdir, self.name)

    @property
    @_in_python
    def model(self) -> Model:
        """Its model: `logits, stats = run.model.apply(run.params, tokens)`.

        Raises:
            UserError: if its activation was changed since.
        """
        functions.require_same_own(Workdir(self.workdir, writes=False), [self.trained.config])
        return self.trained.model

    @property
    def params(self) -> Any:
        """The parameters after its last step."""
        return self.trained.params

    @_in_python
    def sample(
        self, prompt: str = "", *, n_tokens: int = 256, temperature: float = 1.0, top_k: int = 0, seed: int = 0
    ) -> str:
        """A document of a decoder that begins with the prompt, up to its end or so many further tokens.

        A temperature of 0 takes the most likely token; a `top_k` of 0 samples among all of them.
        """
        functions.require_same_own(Workdir(self.workdir, writes=False), [self.trained.config])
        options = {"n_tokens": n_tokens, "temperature": temperature, "top_k": top_k, "seed": seed}
        return self.trained.sample(prompt=prompt, **options)


@_in_python
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
) -> Answer:
    """Which of these activations to take: searches each learning rate, then adds seeds until every pair is decided.

    The same call goes on where it was stopped, and a larger budget adds seeds. The workdir gets the answer as
    index.html and answer.json.

    Args:
        names: two or more activations.
        budget: the time for all of it, "20m" or "1h30m", or in seconds.
        text: a file or a folder of texts to train on, instead of the config's data.
        field: the field that holds the text, in JSON Lines and Parquet.
        config: a config file with its preset, "configs/bert_gelu.py:small", a Config or a ConfigDict; by default a
            small decoder.
        workdir: the folder to train in; by default one in runs/ that is named after the activations.
        scales: the number of widths at which to compare: the config's, and that doubled again and again. More than one
            need model.parametrization="mup".
        console: where progress is printed, by default on standard output.

    Raises:
        UserError: for an unknown activation, a config with a sweep, a budget that can show nothing, or a workdir of
            another comparison.
    """
    return comparison_of(
        names,
        budget=budget,
        text=text,
        field=field,
        config=config,
        workdir=workdir,
        scales=scales,
        console=console or lines(),
        command=["actlab.compare"],
    )


def comparison_of(
    names: Sequence[str],
    *,
    budget: str | float,
    text: str | pathlib.Path | None,
    field: str,
    config: Configured | None,
    workdir: str | pathlib.Path | None,
    scales: int | None,
    console: Console,
    command: Sequence[str],
) -> Answer:
    """As `compare`, called by a command, whose words it is given."""
    logging.set_verbosity(logging.ERROR)  # Orbax logs warnings of things that are done on purpose
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
    chosen = _distinct(names)
    base = _config(config, "with other fields by actlab.config.replace(CONFIG, **{'model.d_model': 32})")
    base = _on_text(base, text, field)
    folder = _folder(sorted(chosen), base) if workdir is None else _path("workdir", workdir)
    base = _with_data(base, folder / "search" / "config.json")

    def show(answer: Answer, width: int) -> None:
        for line in answer.progress(width):
            console.print(line, markup=False)  # the console may be the caller's

    comparison = SequentialComparison(
        base, chosen, folder, seconds, command, console, show, scales=scales and int(scales)
    )
    with StopSignal() as stop:
        return comparison.run(stop)


@_in_python
def train(
    config: Configured,
    *,
    workdir: str | pathlib.Path | None = None,
    text: str | pathlib.Path | None = None,
    field: str = data.FIELD,
    quiet: bool = False,
    **changes: Any,
) -> Run:
    """Trains one run, resumes it, or reads it if it is done.

    Args:
        config: a config file with its preset, "configs/tinystories_gelu.py:small", a Config or a ConfigDict.
        workdir: the folder to train in; by default one in runs/ whose name follows from the config.
        text: a file or a folder of texts to train on, instead of the config's data.
        field: the field that holds the text, in JSON Lines and Parquet.
        quiet: whether to print nothing but the preparation of data, on standard error.
        **changes: fields of the config, seed=2, **{"optimizer.learning_rate": 1e-3}.

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
    if code := session.run(_with_data(one, folder / "config.json"), label, folder, ["actlab.train"], quiet=quiet):
        raise KeyboardInterrupt(f"stopped with exit code {code}: the same call resumes")
    return load(folder)


@_in_python
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
        return cell


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


def _distinct(names: Sequence[str]) -> list[str]:
    """The names of the catalogue; two of one function are refused by the names that were given."""
    known: dict[str, str] = {}
    for name in names:
        found = catalogue.get(name, "").name
        if (first := known.setdefault(found, name)) != name:
            raise UserError(f"{first!r} and {name!r} are two names of one function: leave one out.")
    if len(known) < len(names):
        raise UserError(f"{', '.join(names)} names an activation twice: leave one out.")
    if len(known) < 2:
        raise UserError(f"{', '.join(known) or 'no activation'} cannot be compared: name two activations or more.")
    return [*known]


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
