"""Whether the files of a workdir are as they were written: what a session goes on from, and what readers may believe.

Rows are vouched for twice. A checkpoint's seal has the number and SHA-256 of its runs' rows when it was saved; a resume
goes back to the newest checkpoint whose rows are there. manifest.json has the same of each part as its last session
left it (`ended`), the SHA-256 of the files that are made from rows (`files`), results.csv and test_documents.npz, and
the fingerprint of config.json.
"""

import pathlib
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from actlab import config as config_lib
from actlab.errors import UserError
from actlab.workdir.records import MANIFEST, RESULTS, Sealed, Workdir, sha256_if_file

_MEND = "run its training command again, which repairs it."


class Checked(NamedTuple):
    """Which parts of a workdir can be trusted."""

    rows: dict[str, dict[str, str]]  # of results.csv, by run
    ended: dict[str, int]  # parts whose rows are as their last session left them, and its step
    problems: list[str]  # what differs from what was written, a clause each


def check(workdir: Workdir) -> Checked:
    """Compares config.json, the tables and test_documents.npz with what the manifest says of them.

    Raises:
        UserError: for a manifest that is not as it was written.
    """
    manifest = workdir.manifest()
    if not manifest:
        return Checked({}, {}, [])
    parts, ended = manifest.get("parts", {}), manifest.get("ended", {})
    known = {run for runs in parts.values() for run in runs}
    digests, strange = workdir.digests({part: (parts[part], one["step"]) for part, one in ended.items()}, known)
    problems = [f"{name} has lines that are not rows of its runs" for name in strange]
    sound = {}
    for part, one in ended.items():
        if told := difference(digests[part], one["rows"]):
            problems.append(f"{told} (part {part})")
        else:
            sound[part] = one["step"]
    changed = _changed(workdir, manifest)
    problems += changed
    rows = {}
    if not changed and RESULTS in manifest.get("files", {}):
        own = {run for part in sound for run in parts[part]}
        rows = {row["run"]: row for row in workdir.results() if row["run"] in own}
    if not _has_its_config(workdir, manifest):
        problems.append("config.json is lost, or not as it was written")
    return Checked(rows, sound, problems)


def _has_its_config(workdir: Workdir, manifest: Mapping[str, Any]) -> bool:
    path = workdir.path / "config.json"
    return "config" not in manifest or (
        path.is_file() and config_lib.fingerprint(config_lib.load(path)) == manifest["config"]
    )


def _changed(workdir: Workdir, manifest: Mapping[str, Any]) -> list[str]:
    """A clause for each file made from rows that is not as it was written."""
    return [
        f"{name} is {'not as it was written' if digest else 'missing'}"
        for name, known in manifest.get("files", {}).items()
        if (digest := sha256_if_file(workdir.path / name)) not in known
    ]


def difference(found: Sealed, sealed: Mapping[str, Any]) -> str | None:
    """How rows differ from those that were sealed, in a clause; None if they do not."""
    for name, (n_rows, digest) in sealed.items():
        n_found, found_digest = found[name]
        if n_found != n_rows:
            return f"{name} has {n_found:,} of {n_rows:,} rows"
        if found_digest != digest:
            return f"{name} has rows that were changed"
    return None


def require_sound(folder: pathlib.Path) -> None:
    """Refuses a workdir whose tables are not as they were written, before a reader believes them.

    A folder without manifest.json is no workdir, and nothing is known of its tables.

    Raises:
        UserError: if a file differs, or the manifest itself.
    """
    workdir = Workdir(folder, writes=False)
    if problems := _lasting(workdir, lambda: check(workdir).problems):
        mend = "restore it, or remove what is there and " if problems[0].startswith("config.json") else ""
        raise UserError(f"{folder}: {problems[0]}: {mend}{_MEND}")


def _lasting(workdir: Workdir, find: Callable[[], list[str]]) -> list[str]:
    """The problems that `find` finds while no session writes: one may end a part between two of its reads."""
    while (before := sha256_if_file(workdir.path / MANIFEST)) and (problems := find()):
        if sha256_if_file(workdir.path / MANIFEST) == before:
            return problems
    return []


def statuses(workdir: Workdir) -> dict[str, str]:
    """The status of each run that has one in results.csv; cheaper than check, which reads all rows.

    Raises:
        UserError: if the table, or the manifest, is not as it was written.
    """
    if changed := _lasting(workdir, lambda: _changed(workdir, workdir.manifest())):
        raise UserError(f"{workdir.path}: {changed[0]}: {_MEND}")
    return {row["run"]: row["status"] for row in workdir.results()}


def differing(workdir: Workdir, runs: Collection[str], step: int, sealed: Mapping[str, Any]) -> str | None:
    """How the rows of these runs up to a step differ from those that a checkpoint's seal vouches for, in a clause."""
    found, _ = workdir.digests({"": (runs, step)}, runs)
    told = difference(found[""], sealed)
    return f"is not used: {told}" if told else None
