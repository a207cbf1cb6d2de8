"""Weights & Biases: one W&B run for each run of a program; a resumed session continues it."""

import json
import pathlib
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import wandb  # pyright: ignore[reportMissingImports]

from actlab import config as config_lib
from actlab.callbacks import Callback, ResumeContext, scalars
from actlab.config import Config
from actlab.errors import UserError
from actlab.files import read_json, write_atomically
from actlab.workdir.records import Row

IDS = "wandb/ids.json"  # in the workdir: run -> id


def require_login(project: str) -> None:
    """Raises UserError if W&B has no login for its online mode; it does not prompt for one."""
    if wandb.setup(settings=wandb.Settings(silent=True)).settings.mode != "online":
        return
    try:
        known = wandb.login(prompt=False)
    except wandb.Error as error:
        raise _refused(project, error) from error
    if not known:
        raise _refused(project, "no login here")


def _refused(project: str, words: object) -> UserError:
    return UserError(
        f"config.log.wandb_project={project!r}: Weights & Biases says: {words}; run `wandb login`, or set "
        "WANDB_MODE=offline."
    )


class WandbRuns(Callback):
    """Runs of `project`, grouped by workdir. W&B cannot replace rows, so no row is sent twice, also after a resume."""

    def __init__(self, project: str, workdir: pathlib.Path, configs: Mapping[str, Config]):
        self._project, self._workdir, self._configs = project, workdir, configs
        self._runs: dict[str, Any] = {}
        self._sent: set[tuple[str, int, str]] = set()

    def on_begin(self, resumed: ResumeContext) -> None:
        """Starts the W&B runs, or continues them.

        Raises:
            UserError: if W&B refuses, for example without a login.
        """
        file = self._workdir / IDS
        ids: dict[str, str] = read_json(file, "restore the file, or remove it") if file.is_file() else {}
        self._sent = {_key(row) for row in (*resumed.kept, *resumed.dropped) if row["run"] in ids}
        new = {name: secrets.token_hex(4) for name in self._configs if name not in ids}
        ids |= new
        for name in self._configs:
            self._runs[name] = self._begin(name, ids[name])
        # After W&B has accepted the runs: earlier rows of a run that has an id here count as sent.
        file.parent.mkdir(exist_ok=True)
        write_atomically(file, json.dumps(ids, indent=2) + "\n")
        self.on_rows(resumed.kept)

    def _begin(self, name: str, identity: str) -> Any:
        try:
            return wandb.init(
                project=self._project,
                name=name,
                id=identity,
                resume="allow",
                reinit="create_new",  # the runs of a program train side by side
                group=self._workdir.absolute().name,
                config=config_lib.flat(self._configs[name]),
                dir=str(self._workdir),
                settings=wandb.Settings(silent=True, console="off"),
            )
        except wandb.Error as error:
            raise _refused(self._project, error) from error

    def on_rows(self, rows: Sequence[Row]) -> None:
        """Sends rows that W&B does not have; the summary of a run that diverged says so."""
        for row in rows:
            if _key(row) not in self._sent:
                run = self._runs[row["run"]]
                run.log(scalars(row), step=row["step"])
                if "status" in row:
                    run.summary["status"] = row["status"]

    def on_end(self) -> None:
        """Waits until everything has been sent."""
        for run in self._runs.values():
            run.finish()


def _key(row: Row) -> tuple[str, int, str]:
    return row["run"], row["step"], row["split"]
