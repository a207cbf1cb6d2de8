"""The run table; config, manifest and repeating command of each run; samples of text from the best runs."""

import itertools
import json
import math
import operator
import shlex
from collections.abc import Iterator, Mapping

from actlab import config as config_lib
from actlab.config import Config
from actlab.errors import UserError
from actlab.report import charts
from actlab.report.page import Block, Cell, Code, Details, Records, Section, Side, Table, Text
from actlab.report.study import Run, Source, Study
from actlab.sweeps import trained

# Columns of results.csv in the run table -> number format.
_NUMBERS = {
    "initial_loss": ".4f",
    "final_loss": ".4f",
    "test_loss": ".4f",
    "best_loss": ".4f",
    "best_step": ".0f",
    "steps": ".0f",
    "spikes": ".0f",
    "grad_norm_p50": ".3g",
    "grad_norm_p99": ".3g",
    "dead_fraction": ".3g",
    "negative_fraction": ".3g",
    "seconds": ".4g",
}
_DRAWING = {"n_tokens": 120, "temperature": 0.8, "seed": 0}


def section(study: Study) -> Section:
    """The run table, each run in detail, and their folders."""
    several = len(study.conditions) > 1
    columns = ["run", "activation", "learning rate", "seed", *(["at"] if several else []), "status"]
    numbers = [name for name in _NUMBERS if any(name in run.row for run in study.runs)] or ["step"]
    swatches = charts.styles(study.activations)
    rows = [
        [
            run.name,
            Cell(run.activation, swatch=swatches[run.activation]),
            Cell(charts.rate(run.learning_rate), run.learning_rate),
            Cell(str(run.seed), run.seed),
            *([run.condition] if several else []),
            run.status,
            *(_number(run, name) for name in numbers),
        ]
        for run in study.runs
    ]
    named = {"seconds": "seconds of its program"}
    headings = (*columns, *(named.get(name, name.replace("_", " ")) for name in numbers))
    links = [run.key for run in study.runs]
    words = "All runs; click a row for its details."
    table = Table("runs-table", headings, rows, words, filtered=True, links=links)
    folders = [_source(number, source) for number, source in enumerate(study.sources, start=1)]
    return Section("runs", "Runs", (table, _records(study), *folders))


def _number(run: Run, name: str) -> Cell:
    if name == "step":
        return Cell(str(run.step), run.step)
    text = run.row.get(name, "")
    try:
        value = float(text)
    except ValueError:
        return Cell("-")
    return Cell(format(value, _NUMBERS[name]), value) if math.isfinite(value) else Cell("-")


def _records(study: Study) -> Records:
    """All that is known of each run: its row, and the command that repeats it. Its folder has the config."""
    hidden = {"run", "status", "curve"}
    of_row = list(dict.fromkeys(name for run in study.runs for name in run.row if name not in hidden))
    rows = {}
    for run in study.runs:
        known = ["" if (text := run.row.get(name, "")) == "nan" else text for name in of_row]
        about = [f"{run.status} at step {run.step:,}", str(run.source.path)]
        rows[run.key] = [run.name, *about, *known, repeat(run.source, run.name) if run.config else ""]
    return Records("run", ("run", "status", "folder", *of_row, "command that repeats it"), rows)


def _differences(config: Config) -> Iterator[list[str]]:
    """The fields that differ from their defaults."""
    defaults = config_lib.flat(Config())
    for path, value in config_lib.flat(config).items():
        if value != defaults[path]:
            yield [path, str(defaults[path]), str(value)]


def repeat(source: Source, name: str = "") -> str:
    """The command that trains one run of a workdir again, or all of them."""
    target = "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in name or "again")
    flags = {"config": source.path / "config.json", "run": name, "workdir": f"runs/{target}"}
    words = [f"--{flag}={value}" for flag, value in flags.items() if value]
    return shlex.join(["python", "-m", "actlab.main", *words, *_own_activations(source)])


def _own_activations(source: Source) -> list[str]:
    """The flags that named the files of one's own activations to the last session."""
    words = list((source.manifest.get("sessions") or [{}])[-1].get("command", ()))
    pairs = itertools.zip_longest(words, words[1:], fillvalue="")
    return [
        word if "=" in word else f"{word}={after}"
        for word, after in pairs
        if word.lstrip("-").partition("=")[0] == "activations"
    ]


def _source(number: int, source: Source) -> Details:
    blocks: list[Block] = []
    if source.config:
        blocks.append(Code(repeat(source), "Command that repeats all runs of the folder:"))
        fields = Table(f"source-{number}-fields", ("field", "default", "here"), list(_differences(source.config)))
        blocks.append(fields)
        blocks.append(Code(config_lib.to_json(source.config), "config.json"))
    if source.manifest:
        blocks.append(
            Table(
                f"source-{number}-sessions",
                ("session", "device", "commit", "command"),
                list(_sessions(source.manifest)),
                "Sessions.",
            )
        )
        blocks.append(Code(json.dumps(source.manifest, indent=2), "manifest.json"))
    blocks += [] if blocks else [Text("The folder holds neither config.json nor manifest.json.")]
    return Details(f"source-{number}", f"Folder {source.path}", tuple(blocks))


def _sessions(manifest: Mapping[str, object]) -> Iterator[list[str]]:
    sessions = manifest.get("sessions")
    for session in sessions if isinstance(sessions, list) else []:
        device = session.get("device", {})
        words = f"{device.get('count', '?')} x {device.get('kind', '?')} ({device.get('host', '?')})"
        command = shlex.join(map(str, session.get("command", [])))
        yield [str(session.get("started", "?")), words, str(session.get("commit")), command]


def samples(study: Study, count: int) -> list[Section]:
    """Text from the best run of at most `count` activations, lowest loss first; nothing where none can write."""
    parts: list[tuple[str, Block]] = []
    lacking: list[tuple[Run, str]] = []
    for run in best(study)[:count]:
        try:
            parts.append((run.name, Code(trained.load(run.source.path, run.name).sample(**_DRAWING))))
        except UserError as error:
            lacking.append((run, str(error)))
    blocks: list[Block] = []
    if parts:
        words = "newest intact checkpoint, temperature 0.8, the same sampling seed"
        blocks += [Text(f"Text from the best run of each activation: {words}."), Side(tuple(parts))]
    if any(run.source.config for run, _ in lacking):  # a folder of a study has no checkpoints
        blocks += [Text(f"No text from {run.name}: {reason}") for run, reason in lacking]
    return [Section("samples", "Samples", tuple(blocks))] if blocks else []


def best(study: Study) -> list[Run]:
    """The finished run with the lowest loss of each activation, lowest first."""
    ended = [(run.result.final_loss, run) for run in study.runs if run.result and run.status == "finished"]
    lowest: dict[str, Run] = {}
    for _, run in sorted(ended, key=operator.itemgetter(0)):
        lowest.setdefault(run.activation, run)
    return list(lowest.values())
