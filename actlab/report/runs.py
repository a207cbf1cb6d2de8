"""The run table, and of each run what it was: config, manifest, the command that repeats it."""

import json
import math
import pathlib
import shlex
from collections.abc import Iterator, Mapping

from actlab import config as config_lib
from actlab.config import Config
from actlab.page import Block, Cell, Code, Details, Section, Table, Text
from actlab.report import scales
from actlab.report.study import Run, Source, Study

# Columns of results.csv that the table shows, and how.
_NUMBERS = {
    "initial_loss": ".4f",
    "final_loss": ".4f",
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


def section(study: Study) -> Section:
    """The table, the runs one by one, their folders."""
    several = len(study.conditions) > 1
    columns = ["run", "activation", "learning rate", "seed", *(["condition"] if several else []), "status"]
    numbers = [name for name in _NUMBERS if any(name in run.cells for run in study.runs)] or ["step"]
    rows = [
        [
            Cell(run.name, link=run.key),
            Cell(run.activation, swatch=scales.swatch(run.activation)),
            Cell(scales.rate(run.learning_rate), run.learning_rate),
            Cell(str(run.seed), run.seed),
            *([run.condition] if several else []),
            run.status,
            *(_number(run, name) for name in numbers),
        ]
        for run in study.runs
    ]
    headings = (*columns, *(name.replace("_", " ") for name in numbers))
    blocks: list[Block] = [Table("runs-table", headings, rows, "Every run; a number leads to its run.", filtered=True)]
    words = "Each run: its config, its folder's manifest, the command that repeats it"
    blocks.append(Details("each-run", words, tuple(_details(study, run) for run in study.runs)))
    blocks += [_source(number, source) for number, source in enumerate(study.sources, start=1)]
    return Section("runs", "Runs", tuple(blocks))


def _number(run: Run, name: str) -> Cell:
    if name == "step":
        return Cell(str(run.step), run.step, run.key)
    text = run.cells.get(name, "")
    try:
        value = float(text)
    except ValueError:
        return Cell("-")
    return Cell(format(value, _NUMBERS[name]), value, run.key) if math.isfinite(value) else Cell("-")


def _details(study: Study, run: Run) -> Details:
    number = study.sources.index(run.source) + 1
    blocks: list[Block] = [
        Table(f"{run.key}-is", ("what", "value"), list(_facts(run, number)), f"{run.name}: what it came to."),
    ]
    if run.config:
        columns = ("field", "default", "here")
        rows = [list(row) for row in _differences(run.config)]
        blocks.append(Table(f"{run.key}-config", columns, rows, "Where its config differs from the schema's defaults."))
        blocks.append(Code(repeat(run.source.path, run.name), "The command that repeats this run alone:"))
    else:
        blocks.append(Text("Its config is not there: the folder holds results only.", "note"))
    return Details(run.key, f"{run.name}: {run.status}", tuple(blocks))


def _facts(run: Run, number: int) -> Iterator[list[Cell | str]]:
    yield ["folder and manifest", Cell(str(run.source.path), link=f"source-{number}")]
    yield ["status", f"{run.status} at step {run.step:,}"]
    for name, text in run.cells.items():
        if name not in ("run", "status") and text not in ("", "nan"):
            yield [name, text]


def _differences(config: Config) -> Iterator[tuple[str, str, str]]:
    defaults = config_lib.flat(Config())
    for path, value in config_lib.flat(config).items():
        if value != defaults[path]:
            yield path, str(defaults[path]), str(value)


def repeat(folder: pathlib.Path, name: str) -> str:
    """The command that trains a run of a workdir once more, by itself."""
    target = "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in name)
    flags = {"config": folder / "config.json", "run": name, "workdir": f"runs/{target}"}
    return shlex.join(["python", "-m", "actlab.main", *(f"--{flag}={value}" for flag, value in flags.items())])


def _source(number: int, source: Source) -> Details:
    blocks: list[Block] = []
    if source.config:
        command = shlex.join(
            ["python", "-m", "actlab.main", f"--config={source.path}/config.json", "--workdir=runs/again"]
        )
        blocks.append(Code(command, "The command that repeats all its runs:"))
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
    blocks += [] if blocks else [Text("It holds neither config.json nor manifest.json.")]
    return Details(f"source-{number}", f"Folder {source.path}", tuple(blocks))


def _sessions(manifest: Mapping[str, object]) -> Iterator[list[str]]:
    sessions = manifest.get("sessions")
    for session in sessions if isinstance(sessions, list) else []:
        device = session.get("device", {})
        words = f"{device.get('count', '?')} x {device.get('kind', '?')} ({device.get('host', '?')})"
        command = " ".join(map(str, session.get("command", [])))
        yield [str(session.get("started", "?")), words, str(session.get("commit")), command]
