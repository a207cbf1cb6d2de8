"""Every file of a workdir damaged in every way: the same command ends with the same result, or with one sentence."""

import contextlib
import json
import os
import pathlib
import shutil

import pytest
from outcomes import metrics, results

from actlab.errors import UserError
from actlab.sweeps import session

# Of a checkpoint: its seal, orbax's own records, and the file with most of the parameters.
FILES = (
    "config.json",
    "manifest.json",
    "metrics.jsonl",
    "traces.jsonl",
    "results.csv",
    "test_documents.npz",
    "tokenizer/tokenizer.json",
    "checkpoints/0/12/actlab_seal.json",
    "checkpoints/0/12/_CHECKPOINT_METADATA",
    "checkpoints/0/12/default/_METADATA",
    "checkpoints/0/12/LARGEST",
    "checkpoints/1/NEWEST/actlab_seal.json",
    "checkpoints/1/NEWEST/LARGEST",
)
FOLDERS = ("checkpoints", "checkpoints/0", "checkpoints/1", "checkpoints/1/NEWEST", "tokenizer")


def run(config, workdir):
    return session.run(config, "sweep", workdir, ["test"])


@pytest.fixture(scope="module")
def workdirs(small_sweep, tmp_path_factory):
    """A finished sweep, and one stopped in its second program, at a step between two checkpoints."""
    folder = tmp_path_factory.mktemp("whole")
    assert run(small_sweep, folder / "finished") == 0
    with pytest.MonkeyPatch.context() as patch:
        whole = session.Session._train

        def train(self, part, *rest):
            calls = iter(range(100))

            def asked(self):
                self.received = 15 if part == "1" and next(calls) >= 3 else None
                return self.received is not None

            patch.setattr(session.StopSignal, "__call__", asked)
            return whole(self, part, *rest)

        patch.setattr(session.Session, "_train", train)
        assert run(small_sweep, folder / "half") == 143
    return folder


def place(workdir: pathlib.Path, name: str) -> pathlib.Path:
    """The path of a name of FILES."""
    newest = max((int(path.name) for path in (workdir / "checkpoints/1").glob("[0-9]*")), default=0)
    path = workdir / name.replace("NEWEST", str(newest))
    if path.name == "LARGEST":
        files = [file for file in (path.parent / "default").rglob("*") if file.is_file()]
        path = max(files, key=lambda file: file.stat().st_size)
    return path


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def edit(path):
    """A change after which the file is as valid as before."""
    content = path.read_bytes()
    changed = content
    for old, new in (
        (b'"loss": 5.', b'"loss": 4.'),
        (b",5.", b",4."),
        (b'"step": 2', b'"step": 1'),
        (b"tanh", b"relu"),
    ):
        if old in content:
            changed = content.replace(old, new, 1)
            break
    else:
        with contextlib.suppress(ValueError):
            value = json.loads(content)
            value[next(iter(value))] = None
            changed = json.dumps(value).encode()
    path.write_bytes(changed if changed != content else content + content[-1:])


def folder(path):
    path.unlink()
    path.mkdir()


def link(path):
    path.unlink()
    path.symlink_to(path.parent / "nowhere")


def special(path):
    path.unlink()
    os.mkfifo(path)


DAMAGES = {
    "flipped": flip,
    "empty": lambda path: path.write_bytes(b""),
    "halved": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "deleted": lambda path: path.unlink(),
    "edited": edit,
    "folder": folder,
    "dangling link": link,
    "device": lambda path: (path.unlink(), path.symlink_to("/dev/full")),
    "fifo": special,
}


def require_equal_or_told(config, workdir, whole, capsys):
    """Runs the same command; returns what it said. It must not hang, nor raise anything but a sentence."""
    try:
        code = run(config, workdir)
    except UserError as error:
        told = str(error)
        assert "\n" not in told and told.endswith("."), told
        return told
    assert code == 0
    assert results(workdir) == results(whole)
    by_run = lambda rows: sorted(rows, key=lambda row: (row["run"], row["step"], row["split"]))  # noqa: E731
    assert by_run(metrics(workdir)) == by_run(metrics(whole))
    assert (workdir / "test_documents.npz").read_bytes() == (whole / "test_documents.npz").read_bytes()
    capsys.readouterr()
    assert run(config, workdir) == 0 and "was done before" in capsys.readouterr().out
    return ""


STATES = ("half", "finished")


def cases(names, damages):
    """Every state, name and damage; each name with one of them in every run of the tests, the others marked slow."""
    for i, name in enumerate(names):
        for j, damage in enumerate(damages):
            for k, state in enumerate(STATES):
                is_quick = (i + j) % len(damages) == 0 and (i + k) % 2 == 0
                yield pytest.param(state, name, damage, marks=() if is_quick else pytest.mark.slow)


@pytest.mark.parametrize(("state", "name", "damage"), cases(FILES, DAMAGES))
def test_a_damaged_file(small_sweep, workdirs, tmp_path, capsys, state, name, damage):
    shutil.copytree(workdirs / state, tmp_path / "w", symlinks=True)
    path = place(tmp_path / "w", name)
    DAMAGES[damage](path)
    told = require_equal_or_told(small_sweep, tmp_path / "w", workdirs / "finished", capsys)
    print(state, name, damage, "->", told or "equal")


@pytest.mark.parametrize(("state", "name", "damage"), cases(FOLDERS, ("deleted", "file")))
def test_a_damaged_folder(small_sweep, workdirs, tmp_path, capsys, state, name, damage):
    shutil.copytree(workdirs / state, tmp_path / "w", symlinks=True)
    path = place(tmp_path / "w", name)
    shutil.rmtree(path)
    if damage == "file":
        path.write_text("")
    told = require_equal_or_told(small_sweep, tmp_path / "w", workdirs / "finished", capsys)
    print(state, name, damage, "->", told or "equal")
