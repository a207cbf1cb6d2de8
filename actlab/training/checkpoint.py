"""Checkpoints of a program's state: written in the background, sealed with SHA-256, verified before they are used.

The only file that imports orbax, which restores a file with a flipped bit without an error; hence the seals. A seal
also vouches for what was beside the checkpoint when it was saved: the rows of the tables, the runs and their data.
"""

import contextlib
import functools
import json
import logging
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import orbax.checkpoint as ocp

from actlab.errors import UserError
from actlab.files import is_signed, read_json, sha256, signed, write_atomically
from actlab.training.devices import is_lost_process, wait_for_processes

SEAL = "actlab_seal.json"  # inside a step's folder, so that orbax deletes it with the step
_UNFINISHED = ".orbax-checkpoint-tmp"  # orbax has this in the names of incomplete checkpoints

# By table: how many rows belong to the runs of a checkpoint, and the SHA-256 of their lines. As records.Sealed.
Tables = Mapping[str, Any]


class Checkpoints:
    """The last `keep` steps of a program, in one folder.

    A step is valid only once it is sealed: the sizes and SHA-256 of all its files are written after orbax has committed
    it. A program that is killed in between resumes from the step before, hence `keep` is at least 2. `about` says whose
    states these are: those of other runs, or on other data, are refused.
    """

    def __init__(self, directory: pathlib.Path, keep: int = 2, read_only: bool = False, about: str = ""):
        self._directory = directory.absolute()
        self._about = about
        self._unsealed: dict[int, Tables] = {}
        self._read_only = read_only
        self._keep = keep
        if not read_only:
            self._remove_unfinished()

    @functools.cached_property
    def _manager(self) -> ocp.CheckpointManager:
        """Opened by the first save, when damaged steps have been set aside: orbax may read one for ever."""
        # Orbax logs a save that fails in the background with its traceback, twice, and raises it too.
        logging.getLogger("absl").addFilter(_is_not_raised)
        options = ocp.CheckpointManagerOptions(max_to_keep=self._keep)
        return ocp.CheckpointManager(self._directory, item_handlers=ocp.StandardCheckpointHandler(), options=options)

    def _remove_unfinished(self) -> None:
        # Not by orbax, whose clean-up goes on in the background and would race with that of the next manager.
        if jax.process_index() == 0:
            for path in self._directory.glob(f"*{_UNFINISHED}*"):
                shutil.rmtree(path)
        wait_for_processes(f"cleaned {self._directory}")

    def save(self, step: int, state: Any, tables: Tables | None = None) -> None:
        """Starts to save a step in the background; its seal will vouch for the `tables` as they are now.

        Raises:
            UserError: if this save, or the one before, could not be written.
        """
        # Saving a step deletes older ones: the one before must be valid by then, or a kill could leave none.
        self._wait_and_seal()
        # This transfer is intended, whatever transfer guard the caller has set.
        with self._failed_write(), jax.transfer_guard_device_to_host("allow"):
            saved = self._manager.save(step, args=ocp.args.StandardSave(state))
        if not saved:
            raise RuntimeError(f"orbax refused to save step {step} after step {self._manager.latest_step()}")
        self._unsealed[step] = {} if tables is None else tables

    def seal_finished(self) -> None:
        """Seals steps that have been committed by now; cheap to call often."""
        # Sealing has a barrier, and processes may disagree on whether a save is still in progress.
        if self._unsealed and jax.process_count() == 1 and not self._manager.is_saving_in_progress():
            self._wait_and_seal()

    def close(self) -> None:
        """Waits for the last save and seals it; raises UserError if it could not be written."""
        self._wait_and_seal()
        if "_manager" in self.__dict__:  # it was opened
            with self._failed_write():
                self._manager.close()

    def restore_latest(
        self, abstract_state: Any, differing: Callable[[int, Tables], str | None] = lambda step, tables: None
    ) -> tuple[Any, int, list[str]]:
        """(state, step, notes) of the newest valid step; (None, 0, notes) if there is none.

        A damaged or unsealed step is skipped with a note, and so is one for which `differing` says how the tables
        differ from what its seal vouches for. Unless reading only, it is moved to `set_aside/` beside the folder. When
        reading only, a training may delete steps meanwhile: then the steps are listed again.

        Raises:
            UserError: if a valid step has arrays of other names, shapes or dtypes than `abstract_state`, or is of
                other runs or data.
        """
        while True:
            listed = _steps(self._directory)
            try:
                found = self._restore_latest(abstract_state, differing)
            except Exception:
                if not self._read_only or set(listed) <= set(_steps(self._directory)):
                    raise
            else:
                if not self._read_only or found[0] is not None or set(listed) <= set(_steps(self._directory)):
                    return found

    def _restore_latest(
        self, abstract_state: Any, differing: Callable[[int, Tables], str | None]
    ) -> tuple[Any, int, list[str]]:
        state, newest_step, notes = None, 0, []
        for step in _steps(self._directory):
            problem, seal = self._problem(step)
            # Older steps are only checked, since orbax reads of each when it was saved.
            if problem is None and not newest_step:
                self._require_own(step, seal)
                problem = differing(step, seal.get("tables", {}))
            if problem is None and not newest_step:
                with contextlib.closing(ocp.Checkpointer(ocp.StandardCheckpointHandler())) as reader:
                    place = self._directory / str(step) / "default"  # orbax's name for what is saved alone
                    # Orbax would cast another dtype without a word.
                    self._require_same_arrays(step, reader.metadata(place).item_metadata, abstract_state)
                    state = reader.restore(place, args=ocp.args.StandardRestore(abstract_state))
                newest_step = step
                if self._read_only:
                    break
            elif problem is not None:
                notes.append(f"checkpoint {step} {problem}")
                if not self._read_only:
                    self._set_aside(step)
        return state, newest_step, notes

    def _wait_and_seal(self) -> None:
        if not self._unsealed:
            return
        with self._failed_write():
            self._manager.wait_until_finished()
            for step, tables in sorted(self._unsealed.items()):
                folder = self._directory / str(step)
                # Orbax names a folder after its step once it is complete: after a failed save there is none.
                if jax.process_index() == 0 and folder.is_dir():
                    seal = {"step": step, "about": self._about, "tables": tables, "files": _digests(folder)}
                    write_atomically(folder / SEAL, json.dumps(signed(seal), indent=1))
            # No process may go on, and perhaps look for seals or end, before they are written.
            wait_for_processes(f"sealed in {self._directory}")
            self._unsealed.clear()

    @contextlib.contextmanager
    def _failed_write(self) -> Iterator[None]:
        """Turns a failed write into a UserError; a full disk may raise nearly any exception inside orbax."""
        try:
            yield
        except Exception as error:
            if is_lost_process(error):
                raise
            reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            raise UserError(
                f"a checkpoint in {self._directory} cannot be written ({reason}): free space or make it writable, "
                "then run the same command, which resumes from the checkpoint before."
            ) from error

    def _problem(self, step: int) -> tuple[str | None, dict[str, Any]]:
        """Why a step cannot be used, if so, and its seal."""
        folder = self._directory / str(step)
        if not (folder / SEAL).is_file():
            return "was not sealed (the run was stopped while saving)", {}
        try:
            seal = read_json(folder / SEAL, "it is set aside")
        except UserError:
            return f"is damaged ({SEAL} cannot be read)", {}
        if not is_signed(seal) or seal["step"] != step:
            return f"is damaged ({SEAL} was changed)", {}
        found = _digests(folder)
        # Only sealed files count: a stray .DS_Store does no harm.
        damaged = [name for name, digest in seal["files"].items() if found.get(name) != digest]
        return (f"is damaged ({damaged[0]} differs from its SHA-256)" if damaged else None), seal

    def _require_own(self, step: int, seal: Mapping[str, Any]) -> None:
        if not self._read_only and seal["about"] != self._about:
            raise UserError(
                f"checkpoint {step} in {self._directory} was saved by runs of another config or on other data: restore "
                "the workdir's config.json and manifest.json, or choose another workdir."
            )

    def _set_aside(self, step: int) -> None:
        # Processes share the folder: none may still be reading what is moved, nor go on before it has been.
        wait_for_processes(f"looked at {step}")
        if jax.process_index() == 0:
            target = self._directory.parent / "set_aside"
            target.mkdir(exist_ok=True)
            destination = target / f"{self._directory.name}-{step}"
            shutil.rmtree(destination, ignore_errors=True)
            os.replace(self._directory / str(step), destination)
        wait_for_processes(f"set {step} aside")

    def _require_same_arrays(self, step: int, found: Any, abstract_state: Any) -> None:
        saved = _signature(found)
        wanted = _signature(abstract_state)
        for name in sorted(saved.keys() | wanted.keys()):
            if saved.get(name) != wanted.get(name):
                raise UserError(
                    f"checkpoint {step} has {name} as {saved.get(name)}, but this model needs {wanted.get(name)}: "
                    "it was saved by another model; choose another workdir."
                )


def newest(directory: pathlib.Path) -> int:
    """The newest step in a folder, sealed or not; 0 if there is none."""
    return max(_steps(directory), default=0)


def newest_seal(directory: pathlib.Path) -> pathlib.Path | None:
    """The seal of the newest step that has one, or None."""
    seals = (directory / str(step) / SEAL for step in _steps(directory))
    return next((seal for seal in seals if seal.is_file()), None)


def _steps(directory: pathlib.Path) -> list[int]:
    """The steps that have a folder, the newest first."""
    return sorted(
        (int(path.name) for path in directory.glob("*") if path.name.isdecimal() and path.is_dir()), reverse=True
    )


def _is_not_raised(record: logging.LogRecord) -> bool:
    return not (record.exc_info and record.filename in ("async_checkpointer.py", "checkpoint_manager.py", "future.py"))


def _signature(tree: Any) -> dict[str, str]:
    # Saved metadata has dictionaries and lists where the state has named tuples: compare paths only.
    leaves = jax.tree_util.tree_leaves_with_path(tree, is_leaf=lambda node: hasattr(node, "shape"))
    name = functools.partial(jax.tree_util.keystr, simple=True, separator="/")
    return {name(path): f"{leaf.dtype}{list(leaf.shape)}" for path, leaf in leaves}


def _digests(folder: pathlib.Path) -> dict[str, list[int | str]]:
    found = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SEAL)
    return {str(path.relative_to(folder)): [path.stat().st_size, sha256(path)] for path in found}
