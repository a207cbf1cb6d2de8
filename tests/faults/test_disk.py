"""A full disk: one sentence, and with more room the same command ends as if nothing had been."""

import gc
import os
import pathlib
import shutil
import subprocess

import pytest
from outcomes import metrics, results

from actlab import data
from actlab.data import cache
from actlab.errors import UserError
from actlab.sweeps import session

QUARTERS = [0.02, 0.3, 0.6, 0.85]  # of what is needed


def size_of(folder):
    """Bytes of its files, in pages, as a memory file system counts them."""
    return sum(-(-path.stat().st_size // 4096) * 4096 for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def disk(tmp_path):
    """(folder, function that sets its size in bytes)."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(options):
        line = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        return subprocess.run(line, capture_output=True, check=False).returncode == 0

    if not shutil.which("mount") or not mount("size=4096"):
        pytest.skip("a disk can be mounted by root only")

    def resize(size):
        assert mount(f"remount,size={int(size)}")

    yield folder, resize
    subprocess.run(["umount", str(folder)], check=True)


def fingerprint(folder):
    """That of the tokens."""
    return cache.open_cache(folder / "mine/tokens/bytes").fingerprint


def require_sentence(error):
    told = str(error.value)
    assert "\n" not in told and ("No space left on device" in told or "cannot be written" in told), told


# What orbax leaves of a save that failed closes its event loop when it is collected.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "share", [pytest.param(share, marks=() if share == 0.6 else pytest.mark.slow) for share in QUARTERS]
)
def test_a_workdir_whose_disk_is_full(disk, workdirs, small_sweep, share):
    folder, resize = disk
    resize(share * size_of(workdirs / "finished"))
    with pytest.raises(UserError) as error:
        session.run(small_sweep, "sweep", folder / "w", ["test"])
    require_sentence(error)
    gc.collect()
    resize(2**26)
    assert session.run(small_sweep, "sweep", folder / "w", ["test"]) == 0
    assert results(folder / "w") == results(workdirs / "finished")
    assert metrics(folder / "w") == metrics(workdirs / "finished")


@pytest.mark.parametrize("share", QUARTERS)
def test_a_data_folder_whose_disk_is_full(disk, tmp_path, share):
    folder, resize = disk
    (tmp_path / "text.txt").write_text("\n".join(f"a line of text, the number {i}" for i in range(20_000)))

    def prepare(place: pathlib.Path):
        return data.prepare("mine", place, source=tmp_path / "text.txt", tokenizer="bytes", progress=False)

    prepare(tmp_path / "whole")
    resize(share * size_of(tmp_path / "whole"))
    with pytest.raises(UserError) as error:
        prepare(folder / "data")
    require_sentence(error)
    resize(2**26)
    prepare(folder / "data")
    assert fingerprint(folder / "data") == fingerprint(tmp_path / "whole")
    assert not [path for path in os.listdir(folder / "data") if "tmp" in path or "incomplete" in path]
