"""manifest.json: what the runs were trained on, and how they are grouped into programs.

It records the data, what each activation computes and which weights a run starts from once, per session the package
versions, commit and device, and digests of the other files; see integrity.py.
"""

import datetime
import functools
import importlib.metadata
import pathlib
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from actlab import config as config_lib
from actlab.config import Config
from actlab.errors import UserError
from actlab.files import n_cores
from actlab.workdir.records import MANIFEST, Sealed, Workdir

PACKAGES = "actlab jax jaxlib flax optax orbax-checkpoint tensorflow-datasets tokenizers numpy".split()
# Where functions are compared. 20 is for activations that are bounded or clipped beyond 6.
INPUTS = np.array([-20.0, *np.linspace(-6, 6, 25), 20.0], np.float32)
# A choice: a quarter of the distance between GELU and its tanh approximation. How far devices differ is not measured.
RTOL, ATOL = 1e-5, 1e-4


def require_same_config(workdir: Workdir, config: Config) -> None:
    """Raises UserError if the workdir's config.json is lost or was changed, and it was begun with another than this."""
    known, path = workdir.manifest().get("config"), workdir.path / "config.json"
    theirs = config_lib.load(path) if path.exists() else config
    if known and known not in (config_lib.fingerprint(theirs), config_lib.fingerprint(config)):
        fault = "a config.json that is not as it was written" if path.exists() else "lost its config.json"
        raise UserError(
            f"--workdir={workdir.path} has {fault}, and was begun with another config than this: restore the file, or "
            "choose another workdir."
        )


def require_same_data(workdir: Workdir, name: str, fingerprint: str) -> None:
    """Raises UserError if the workdir was begun on other data than this."""
    known = workdir.manifest()
    if known and known["data"]["fingerprint"] != fingerprint:
        raise UserError(
            f"--workdir={workdir.path} was begun on data {known['data']['name']!r} with fingerprint "
            f"{known['data']['fingerprint'][:12]}, but config.data.dir holds {name!r} with {fingerprint[:12]}: "
            "restore that data, or choose another workdir."
        )


def require_same_origins(workdir: Workdir, digests: Mapping[str, str]) -> None:
    """Raises UserError if other weights than the workdir was begun with now lie at the place of an origin."""
    known = workdir.manifest().get("origins", {})
    for name, found in digests.items():
        if known.get(name, found) != found:
            raise UserError(
                f"--workdir={workdir.path} was begun with other weights than config.finetune.from_checkpoint={name!r} "
                "holds now: restore that model, or choose another workdir."
            )


def begin(
    workdir: Workdir,
    config: Config,
    data: Mapping[str, Any],
    command: Sequence[str],
    parts: Sequence[Sequence[str]],
    activations: Mapping[str, Any],
    origins: Mapping[str, str] | None = None,
    planned: bool = False,
) -> None:
    """Records that a session begins.

    The first session also records the `data`, the names of the runs of each program (`parts`), what the `activations`
    compute and the digests of the weights that runs start from (`origins`). Later `parts` hold runs that were added.
    `extensions` records them unless they were `planned`, because a p value read before does not hold for more runs.
    """
    manifest = workdir.manifest() or {"data": data, "sessions": []}
    manifest["config"] = config_lib.fingerprint(config)
    # Those of earlier sessions are kept: free memory may differ now, but the checkpoints are those of the old parts.
    known = manifest.setdefault("parts", {})
    if known and parts and not planned:
        before, added = (sum(map(len, some)) for some in (known.values(), parts))
        _add_extension(manifest, before, added)
    first = 1 + max((int(name.rstrip("ab")) for name in known), default=-1)
    known |= {str(number): list(runs) for number, runs in enumerate(parts, first)}
    if origins:
        manifest["origins"] = {**origins, **manifest.get("origins", {})}
    manifest["activations"] = {**activations, **manifest.get("activations", {})}
    manifest["sessions"].append(
        {
            "started": _now(),
            "command": list(command),
            "commit": _commit(),
            "device": _device(),
            "python": platform.python_version(),
            "packages": {name: _version(name) for name in PACKAGES},
            "restored": [],
            "notes": [],
        }
    )
    workdir.write_manifest(manifest)


def _device() -> dict[str, Any]:
    found = {"kind": jax.devices()[0].device_kind, "count": jax.device_count(), "host": platform.machine()}
    if jax.default_backend() == "cpu":
        # How a product is divided among threads decides its last bits.
        found["cores"] = n_cores()
    return found


def note_extension(workdir: Workdir, n_before: int, n_now: int) -> None:
    """Records that a sweep whose jobs are done has grown; before that there is no manifest, and jobs record it."""
    manifest = workdir.manifest()
    if manifest and n_now > n_before:
        _add_extension(manifest, n_before, n_now - n_before)
        workdir.write_manifest(manifest)


def _add_extension(manifest: dict[str, Any], n_before: int, n_added: int) -> None:
    entry = {"started": _now(), "runs": n_before, "added": n_added}
    manifest.setdefault("extensions", []).append(entry)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def note(workdir: Workdir, part: str, step: int, notes: Sequence[str]) -> None:
    """Adds to the newest session that the program `part` resumed from `step`, with notes about its checkpoints.

    From now on its rows change.
    """
    manifest = workdir.manifest()
    session = manifest["sessions"][-1]
    session["restored"].append({"part": part, "step": step})
    session["notes"] += notes
    manifest.get("ended", {}).pop(part, None)
    workdir.write_manifest(manifest)


def end(workdir: Workdir, part: str, step: int, rows: Sealed) -> None:
    """Records what the rows of a program are, now that a session has trained it to `step`.

    Raises:
        UserError: if the manifest, which has the runs of each program, was removed meanwhile.
    """
    manifest = workdir.manifest()
    if not manifest:
        raise UserError(
            f"{workdir.path / MANIFEST} was removed while this training ran: run the same command again, which makes "
            "it anew and keeps what is trained."
        )
    manifest.setdefault("ended", {})[part] = {"step": step, "rows": rows}
    workdir.write_manifest(manifest)


def extensions(workdir: Workdir) -> list[dict[str, Any]]:
    """When runs were added to those that the workdir was begun with, how many there were and how many came."""
    return workdir.manifest().get("extensions", [])


def function_difference(
    one: dict[str, list[float | None]], other: dict[str, list[float | None]]
) -> tuple[str, float, float | None, float | None] | None:
    """Where two notes of an activation first differ: (function, x, one value, other value); None if they agree."""
    nothing = [None] * len(INPUTS)
    for what in sorted(one.keys() | other.keys()):
        both = one.get(what, nothing), other.get(what, nothing)
        arrays = [np.array([np.nan if value is None else value for value in values]) for values in both]
        apart = np.flatnonzero(~np.isclose(*arrays, rtol=RTOL, atol=ATOL, equal_nan=True))
        if len(apart):
            return what, float(INPUTS[apart[0]]), both[0][apart[0]], both[1][apart[0]]
    return None


def looks(workdir: Workdir) -> list[str]:
    """For each extension a sentence that says why p values of the workdir may not be valid."""
    return [
        f"{workdir.path}: {one['added']} runs were added to {one['runs']} by --extend; if their verdicts were read "
        "before, these p values and intervals are not valid at 5%, because they allow one look only."
        for one in extensions(workdir)
    ]


def mixture(manifests: Iterable[Mapping[str, Any]]) -> list[str]:
    """A sentence that names commits, versions of jax, devices and CPU cores, if the rows were made by several."""
    made = [session for one in manifests for session in _made_rows(one.get("sessions", ()))]
    found = {
        "commits": {_short(commit) for session in made if (commit := session.get("commit"))},
        "versions of jax": {session["packages"]["jax"] for session in made if "packages" in session},
        "kinds of device": {session["device"]["kind"] for session in made if "device" in session},
        "numbers of CPU cores": {str(cores) for session in made if (cores := session.get("device", {}).get("cores"))},
    }
    several = [f"several {what} ({', '.join(sorted(values))})" for what, values in found.items() if len(values) > 1]
    return [f"the rows were made by {' and '.join(several)}, and may differ by that"] if several else []


def _made_rows(sessions: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The sessions whose rows are left: what trains a part from step 0 drops those of the sessions before."""
    of_part: dict[tuple[Any, str], list[Mapping[str, Any]]] = {}
    for session in sessions:
        for one in session.get("restored", ()):
            part = session.get("job"), one["part"]
            of_part[part] = [*(of_part.get(part, []) if one["step"] else []), session]
    return [session for made in of_part.values() for session in made]


def _short(commit: str) -> str:
    digits, dash, mark = commit.partition("-")
    return digits[:7] + dash + mark


def parts(workdir: Workdir) -> dict[str, list[str]]:
    """Names of the runs of each program, in the order of training; empty before the first session."""
    return workdir.manifest().get("parts", {})


def divide(workdir: Workdir, part: str, first: int) -> None:
    """Splits a program that does not fit into memory in two, the first with its `first` runs."""
    manifest = workdir.manifest()
    divided = {}  # in the order of training, which is that of the file
    for name, runs in manifest["parts"].items():
        divided |= {f"{name}a": runs[:first], f"{name}b": runs[first:]} if name == part else {name: runs}
    workdir.write_manifest({**manifest, "parts": divided})


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None  # run from a checkout that was not installed


def _commit() -> str | None:
    """The commit the package was run from, with a mark if files differ from it; None outside a checkout."""
    here = pathlib.Path(__file__).parent
    git = functools.partial(subprocess.run, cwd=here, capture_output=True, text=True, check=True)
    try:
        git(["git", "ls-files", "--error-unmatch", "manifest.py"])  # installed, it may lie in another's repository
        return git(["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
