"""Jobs: each trains one program of a sweep in a workdir of its own; their workdirs are then gathered into one."""

import dataclasses
import functools
import itertools
import os
import pathlib
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from actlab import activations, config as config_lib
from actlab.config import Config, sweep
from actlab.errors import UserError
from actlab.files import parse_json, write_atomically
from actlab.sweeps import functions, plan
from actlab.training.program_spec import ProgramSpec
from actlab.workdir import documents, integrity, manifest
from actlab.workdir.records import METRICS, RESULTS, TRACES, Row, Workdir, table

TAIL = 1 << 17  # bytes at the end of a file that hold its last line; a probe row of 24 layers has 30,000


@dataclasses.dataclass(frozen=True)
class Job:
    """A program's job. `root` holds its config N.json, its workdir N/ and its output N.log.

    `files` may register the user's own activations.
    """

    number: int
    label: str
    names: tuple[str, ...]
    config: Config
    root: pathlib.Path
    files: tuple[str, ...]

    @property
    def file(self) -> pathlib.Path:
        """Its config, frozen when the job is made: edits of the config file must not reach waiting jobs."""
        return self.root / f"{self.number}.json"

    @property
    def workdir(self) -> Workdir:
        """The workdir it trains in."""
        return Workdir(self.root / str(self.number))

    @property
    def log(self) -> pathlib.Path:
        """Its output, over all its starts."""
        return self.root / f"{self.number}.log"

    @functools.cached_property
    def n_steps(self) -> int:
        """Updates of each of its runs."""
        return sweep.expand(self.config)[0].config.train.n_steps

    def command(self) -> list[str]:
        """The words of its command, to be run in the folder where launch was called."""
        own = {name for run in sweep.expand(self.config) for name in functions.named_activations(run.config).values()}
        register = [] if all(map(activations.is_built_in, own)) else [f"--activations={file}" for file in self.files]
        # Its sweep may grow while it waits in a queue; to an equal one --extend adds nothing.
        flags = [f"--config={self.file}", *register, f"--workdir={self.workdir.path}", "--extend"]
        return [sys.executable, "-m", "actlab.main", *flags]

    def write(self) -> None:
        """Writes its config."""
        self.root.mkdir(parents=True, exist_ok=True)
        write_atomically(self.file, config_lib.to_json(self.config))

    def results(self) -> dict[str, Row] | None:
        """Its rows of results.csv by run; None until all its runs have finished or diverged."""
        if self.root.is_dir():
            os.listdir(self.root)  # On NFS, files written by another machine may not show up until a folder is listed.
        rows: dict[str, Row] = dict(integrity.check(self.workdir).rows)
        done = all(name in rows and rows[name]["status"] != "stopped" for name in self.names)
        return rows if done else None

    def step(self) -> int:
        """The mean number of updates of its runs so far; they may train in several parts, one after the other."""
        # The last line may be half written, as the job goes on meanwhile.
        rows = [line for line in _tail(self.workdir.path / METRICS).splitlines() if line.endswith("}")]
        if not rows:
            return 0
        try:
            last = parse_json(rows[-1], str(self.workdir.path), "")
            done = {row["run"] for row in self.workdir.results() if row["status"] != "stopped"}
            parts = manifest.parts(self.workdir).values()
        except UserError:
            return 0  # the job itself says what is wrong, or mends it
        n_going = len(next((runs for runs in parts if last["run"] in runs), self.names))
        going = 0 if last["run"] in done else last["step"] * n_going
        return (len(done) * self.n_steps + going) // len(self.names)

    def last_words(self) -> str:
        """The last line of its output."""
        lines = [line.strip() for line in _tail(self.log).splitlines() if line.strip()]
        return lines[-1] if lines else "nothing"


def make(config: Config, specs: Sequence[ProgramSpec], root: pathlib.Path, files: tuple[str, ...]) -> list[Job]:
    """A job per program, of a config whose programs are `specs`; a program keeps its number when the sweep grows."""
    runs = {run.name: run for run in sweep.expand(config)}
    configs = [file for file in root.glob("*.json") if file.stem.isdecimal()]
    numbers = {run.name: int(file.stem) for file in configs for run in sweep.expand(config_lib.load(file))}
    fresh = itertools.count(max(numbers.values(), default=-1) + 1)
    jobs = []
    for spec, label in zip(specs, plan.labels(specs), strict=True):
        number = next((numbers[name] for name in spec.names if name in numbers), None)
        number = next(fresh) if number is None else number
        narrowed = sweep.narrow(config, [runs[name] for name in spec.names])
        jobs.append(Job(number, label, spec.names, narrowed, root, files))
    return jobs


def _tail(path: pathlib.Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL))
        return file.read().decode(errors="replace")


def gather(records: Workdir, jobs: Sequence[Job], rows: Mapping[str, Row], command: Sequence[str]) -> None:
    """Writes what actlab.main would have left: metrics, traces and results of the jobs that are done, in their order.

    `rows` are the results of the runs that are done. With the last job, and with each of a sweep that grew, it also
    writes manifest.json with the sessions of every job, the tokenizer, and links to the checkpoints.

    Raises:
        UserError: if the jobs were trained on different data.
    """
    done = [job for job in jobs if set(job.names) <= rows.keys()]
    for name in (METRICS, TRACES):
        write_atomically(records.path / name, b"".join((job.workdir.path / name).read_bytes() for job in done))
    # Of a sweep that grew, the manifest that is there would miss the parts that these rows are of.
    if len(done) == len(jobs) or (done and records.manifest()):
        _gather_rest(records, done, command)
    names = [name for job in done for name in job.names]
    # Last, because a workdir with all results counts as done.
    records.write_made({**documents.made(records.traces(), names), RESULTS: table([rows[name] for name in names])})


def _gather_rest(records: Workdir, jobs: Sequence[Job], command: Sequence[str]) -> None:
    manifests = {job.number: job.workdir.manifest() for job in jobs}
    data = manifests[jobs[0].number]["data"]
    for job in jobs:
        theirs = manifests[job.number]["data"]["fingerprint"]
        if theirs != data["fingerprint"]:
            raise UserError(
                f"--workdir={records.path}: job {job.number} was trained on data with fingerprint {theirs[:12]}, job "
                f"{jobs[0].number} on {data['fingerprint'][:12]}: choose another workdir, and leave data.dir unchanged."
            )
    parts = {(job, part): names for job in jobs for part, names in manifest.parts(job.workdir).items()}
    for job, part in parts:
        _link(records.path / "checkpoints" / f"{job.number}-{part}", job.workdir.path / "checkpoints" / part)
    for place in (place for job in jobs for place in (job.workdir.path / "tensorboard").glob("*")):
        _link(records.path / "tensorboard" / place.name, place)
    shutil.copytree(jobs[0].workdir.path / "tokenizer", records.path / "tokenizer", dirs_exist_ok=True)
    records.write_manifest(
        {
            "data": data,
            "parts": {f"{job.number}-{part}": names for (job, part), names in parts.items()},
            "ended": {
                f"{number}-{part}": ended
                for number, of_job in manifests.items()
                for part, ended in of_job.get("ended", {}).items()
            },
            "config": config_lib.fingerprint(config_lib.load(records.path / "config.json")),
            "activations": _computed(records.path, manifests.values()),
            "launched": list(command),
            # A sweep that grew while jobs trained had no manifest here, but theirs.
            "extensions": manifest.extensions(records)
            or [one for of_job in manifests.values() for one in of_job.get("extensions", [])],
            "sessions": [
                {"job": number, **session} for number, of_job in manifests.items() for session in of_job["sessions"]
            ],
        }
    )


def _computed(path: pathlib.Path, manifests: Iterable[Mapping[str, Any]]) -> functions.Values:
    """What the activations of all jobs compute; raises UserError if one name has two functions."""
    computed: functions.Values = {}
    for name, theirs in itertools.chain.from_iterable(one.get("activations", {}).items() for one in manifests):
        if manifest.function_difference(computed.setdefault(name, theirs), theirs):
            raise UserError(
                f"--workdir={path}: jobs were trained with different functions named {name!r}: choose another "
                "workdir, and leave the file that registers it unchanged."
            )
    return computed


def _link(link: pathlib.Path, target: pathlib.Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        # Relative, so that the workdir can be moved.
        link.symlink_to(os.path.relpath(target, link.parent))
