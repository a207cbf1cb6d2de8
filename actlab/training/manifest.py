"""manifest.json: on what the runs were trained. Package versions, commit, device, data; a row per session; how the
runs were dealt into programs.
"""

import datetime
import importlib.metadata
import pathlib
import platform
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from actlab.data.cache import TokenCache
from actlab.errors import UserError
from actlab.training.records import Workdir

PACKAGES = (
    "actlab",
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax-checkpoint",
    "tensorflow-datasets",
    "tokenizers",
    "numpy",
)


def require_same_data(workdir: Workdir, tokens: TokenCache) -> None:
    """Raises UserError if the workdir was begun on other data."""
    known = workdir.manifest()
    if known and known["data"]["fingerprint"] != tokens.fingerprint:
        raise UserError(
            f"--workdir={workdir.path} was begun on data {tokens.name!r} with fingerprint "
            f"{known['data']['fingerprint'][:12]}, but config.data.dir holds {tokens.fingerprint[:12]}: "
            "restore that data or take another workdir."
        )


def begin(
    workdir: Workdir,
    tokens: TokenCache,
    command: list[str],
    parts: Mapping[str, Sequence[str]],
    activations: Mapping[str, Any],
) -> None:
    """Records that a session begins.

    The first one also records the data, the `parts`, runs by program, and the `activations`, what they compute.
    """
    manifest = workdir.manifest() or {"data": _describe(tokens), "sessions": []}
    manifest.setdefault("parts", parts)
    manifest.setdefault("activations", activations)
    manifest["sessions"].append(
        {
            "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "command": command,
            "commit": _commit(),
            "device": {"kind": jax.devices()[0].device_kind, "count": jax.device_count(), "host": platform.machine()},
            "python": platform.python_version(),
            "packages": {name: _version(name) for name in PACKAGES},
            "restored": [],
            "notes": [],
        }
    )
    workdir.write_manifest(manifest)


def note(workdir: Workdir, part: str, step: int, notes: Sequence[str]) -> None:
    """Adds to the newest session that `part` went on from `step`, and what was noticed in its checkpoints."""
    manifest = workdir.manifest()
    session = manifest["sessions"][-1]
    session["restored"].append({"part": part, "step": step})
    session["notes"] += notes
    workdir.write_manifest(manifest)


def parts(workdir: Workdir) -> dict[str, list[str]]:
    """Names of the runs of each program, in the order of training; empty before the first session."""
    return workdir.manifest().get("parts", {})


def divide(workdir: Workdir, part: str, first: int) -> None:
    """Records that a part did not fit into memory and is two from now on, the first with its `first` runs."""
    manifest = workdir.manifest()
    divided = {}
    for name, runs in manifest["parts"].items():
        divided |= {f"{name}a": runs[:first], f"{name}b": runs[first:]} if name == part else {name: runs}
    workdir.write_manifest({**manifest, "parts": divided})


def _describe(tokens: TokenCache) -> dict[str, Any]:
    meta = tokens.meta
    return {
        "name": tokens.name,
        "fingerprint": tokens.fingerprint,
        "tokenizer": meta.tokenizer,
        "documents": dict(meta.n_documents),
        "tokens": dict(meta.n_tokens),
        "licence": meta.licence,
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None  # run from a checkout that was not installed


def _commit() -> str | None:
    """The commit the package was run from, with a mark if files differ from it; None outside a checkout."""
    here = pathlib.Path(__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
