"""The files of a workdir, and what can happen to one."""

import contextlib
import json
import os
import pathlib

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
