"""A job: one cohort of a sweep, trained by a process of its own in a workdir of its own."""

import dataclasses
import json
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from actlab import activations, axes
from actlab import config as config_lib
from actlab.config import Config
from actlab.files import write_atomically
from actlab.studies import functions, plan, sweep
from actlab.training import manifest
from actlab.training.records import Row, Workdir
from actlab.training.setting import Setting

TAIL = 1 << 17  # bytes at the end of a file in which its last line lies; a probe row of 24 layers has 30,000


@dataclasses.dataclass(frozen=True)
class Job:
    """A cohort's job. In `root` lie its config N.json, its workdir N/ and what it prints, N.log.

    `code` is the file that registers activations of one's own, empty where none does.
    """

    number: int
    label: str
    names: tuple[str, ...]
    config: Config
    root: pathlib.Path
    code: str

    @property
    def file(self) -> pathlib.Path:
        """Its config. Frozen when the job is made, lest an edit of the config file reach jobs that still wait."""
        return self.root / f"{self.number}.json"

    @property
    def workdir(self) -> Workdir:
        """Where it trains."""
        return Workdir(self.root / str(self.number))

    @property
    def log(self) -> pathlib.Path:
        """What it prints, over all its starts."""
        return self.root / f"{self.number}.log"

    @property
    def n_steps(self) -> int:
        """Updates of each of its runs."""
        return self.config.train.n_steps

    def command(self) -> list[str]:
        """The words of its command, to be run in the folder of the launch."""
        own = {name for run in sweep.expand(self.config) for name in functions.named(run.config).values()}
        registers = "" if all(map(activations.is_built_in, own)) else f":{self.code}"
        flags = [f"--config={self.file}{registers}", f"--workdir={self.workdir.path}"]
        return [sys.executable, "-m", "actlab.main", *flags]

    def write(self) -> None:
        """Writes its config."""
        self.root.mkdir(parents=True, exist_ok=True)
        write_atomically(self.file, config_lib.to_json(self.config))

    def results(self) -> dict[str, Row] | None:
        """Its rows of results.csv by run, None until all of its runs are finished or diverged."""
        if self.root.is_dir():
            os.listdir(self.root)  # NFS: looks at the server again for files it has not seen before
        rows = {row["run"]: row for row in self.workdir.results()}
        done = all(name in rows and rows[name]["status"] != "stopped" for name in self.names)
        return rows if done else None

    def step(self) -> int:
        """Updates of its runs in its records, on average: they may train in several programs, one after the other."""
        rows = [line for line in _tail(self.workdir.path / "metrics.jsonl").splitlines() if line.endswith("}")]
        if not rows:
            return 0
        last = json.loads(rows[-1])
        done = {row["run"] for row in self.workdir.results() if row["status"] != "stopped"}
        parts = manifest.parts(self.workdir).values()
        n_going = len(next((runs for runs in parts if last["run"] in runs), self.names))
        going = 0 if last["run"] in done else last["step"] * n_going
        return (len(done) * self.n_steps + going) // len(self.names)

    def last_words(self) -> str:
        """The last line that it printed."""
        lines = [line.strip() for line in _tail(self.log).splitlines() if line.strip()]
        return lines[-1] if lines else "nothing"


def make(config: Config, settings: Sequence[Setting], root: pathlib.Path, code: str) -> list[Job]:
    """A job per cohort, of a config whose cohorts are `settings`."""
    runs = {run.name: run for run in sweep.expand(config)}
    jobs = []
    for number, (setting, label) in enumerate(zip(settings, plan.labels(settings), strict=True)):
        narrowed = narrow(config, [runs[name] for name in setting.names])
        jobs.append(Job(number, label, setting.names, narrowed, root, code))
    return jobs


def narrow(config: Config, cohort: Sequence[sweep.Run]) -> Config:
    """The config with its sweep cut down to a cohort: of each axis the values that its runs take.

    That is a product again: whether two values of an axis share a program does not hang on the other axes' values,
    which within a cohort are alike in all that is static.
    """
    cut = {
        key: [value for value, row in zip(values, axes.rows((key, values)), strict=True) if _taken(key, row, cohort)]
        for key, values in config.sweep
    }
    narrowed = config_lib.replace(config, sweep=cut)
    if [run.name for run in sweep.expand(narrowed)] != [run.name for run in cohort]:
        raise RuntimeError(f"the cohort of {cohort[0].name} is no product of axes")
    return narrowed


def _taken(key: str, row: Sequence[Any], cohort: Sequence[sweep.Run]) -> bool:
    wanted = dict(zip(axes.paths(key), row, strict=True))
    return any(all(run.axes[path] == value for path, value in wanted.items()) for run in cohort)


def _tail(path: pathlib.Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL))
        return file.read().decode(errors="replace")
