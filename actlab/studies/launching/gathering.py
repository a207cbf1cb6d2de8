"""Gathering: what jobs have left, as the workdir that one machine would have left."""

import itertools
import os
import pathlib
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from actlab.errors import UserError
from actlab.files import write_atomically
from actlab.studies import functions
from actlab.studies.launching.job import Job
from actlab.training import manifest
from actlab.training.records import Row, Workdir


def gather(records: Workdir, jobs: Sequence[Job], rows: Mapping[str, Row], command: Sequence[str]) -> None:
    """Writes metrics, traces and results, in the order of jobs, of those that are done, whose `rows` are given.

    Once all are: before that manifest.json, with the sessions of every job, tokenizer and links to the checkpoints.

    Raises:
        UserError: if the jobs were trained on different data.
    """
    done = [job for job in jobs if set(job.names) <= rows.keys()]
    for name in ("metrics.jsonl", "traces.jsonl"):
        write_atomically(records.path / name, "".join((job.workdir.path / name).read_text() for job in done))
    if len(done) == len(jobs):
        _gather_rest(records, jobs, command)
    # Last, because a workdir with all results counts as done.
    records.write_results([rows[name] for job in done for name in job.names])


def _gather_rest(records: Workdir, jobs: Sequence[Job], command: Sequence[str]) -> None:
    manifests = {job.number: job.workdir.manifest() for job in jobs}
    data = manifests[jobs[0].number]["data"]
    for job in jobs:
        theirs = manifests[job.number]["data"]["fingerprint"]
        if theirs != data["fingerprint"]:
            raise UserError(
                f"--workdir={records.path}: job {job.number} was trained on data with fingerprint {theirs[:12]}, job "
                f"{jobs[0].number} on {data['fingerprint'][:12]}: take another workdir and leave data.dir as it is."
            )
    parts = {(job, part): names for job in jobs for part, names in manifest.parts(job.workdir).items()}
    for (job, part), names in parts.items():
        _link(records.path / "checkpoints" / f"{job.number}-{part}", job.workdir.path / "checkpoints" / part)
        for name in names if (job.workdir.path / "tensorboard").is_dir() else ():
            _link(records.path / "tensorboard" / name, job.workdir.path / "tensorboard" / name)
    shutil.copytree(jobs[0].workdir.path / "tokenizer", records.path / "tokenizer", dirs_exist_ok=True)
    records.write_manifest(
        {
            "data": data,
            "parts": {f"{job.number}-{part}": names for (job, part), names in parts.items()},
            "activations": _computed(records.path, manifests.values()),
            "launched": list(command),
            "sessions": list(itertools.chain.from_iterable(_sessions(*item) for item in manifests.items())),
        }
    )


def _computed(path: pathlib.Path, manifests: Iterable[Mapping[str, Any]]) -> functions.Values:
    """What the activations of all jobs compute; raises UserError where one name has two functions."""
    computed: functions.Values = {}
    for name, theirs in itertools.chain.from_iterable(one.get("activations", {}).items() for one in manifests):
        if functions.difference(computed.setdefault(name, theirs), theirs):
            raise UserError(
                f"--workdir={path}: jobs were trained with different functions of the name {name!r}: take another "
                "workdir and leave the file that registers it as it is."
            )
    return computed


def _sessions(number: int, of_job: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"job": number, **session} for session in of_job["sessions"]]


def _link(link: pathlib.Path, target: pathlib.Path) -> None:
    link.parent.mkdir(exist_ok=True)
    if not link.is_symlink():
        # Relative, so that the workdir can be moved.
        link.symlink_to(os.path.relpath(target, link.parent))
