"""Readers of a damaged workdir: what they print is what they print of a sound one, or they say what differs."""

import functools
import shutil

import commands
import pytest
from damages import DAMAGES, FILES, place

from actlab.cli import report, sample, verdict

RUN = "relu-lr0.01-seed1"  # of part 0


def words_of(command, workdir, out):
    """The words of a reader's command."""
    return {
        sample: ["--workdir", workdir, "--run", RUN, "--n_tokens=20"],
        verdict: [workdir, "--verdicts", out / "verdicts.json"],
        report: [workdir, "--samples=0", "--out", out / "report.html"],
    }[command]


def said(command, workdir, out):
    """The exit code, what it says, its errors, and what it writes, without the paths."""
    out.mkdir()
    code, text, error = commands.call(command.main, *words_of(command, workdir, out))
    written = [path.read_text() for path in sorted(out.iterdir())]
    return code, *(one.replace(str(out), "").replace(str(workdir.parent), "") for one in (text, error, *written))


def cases():
    for command in (sample, verdict, report):
        for i, name in enumerate(FILES):
            for j, damage in enumerate(DAMAGES):
                quick = command is not report and (i + j) % len(DAMAGES) == 0
                id = f"{command.__name__.rpartition('.')[2]}-{name}-{damage}"
                yield pytest.param(command, name, damage, id=id, marks=() if quick else pytest.mark.slow)


@pytest.fixture(scope="module")
def whole(workdirs, tmp_path_factory):
    """What a command says of the sound workdir."""

    @functools.cache
    def of(command):
        folder = tmp_path_factory.mktemp("sound")
        shutil.copytree(workdirs / "finished", folder / "finished", symlinks=True)
        code, text, error, *written = said(command, folder / "finished", folder / "out")
        assert code == 0 and not error
        return text, *written

    return of


@pytest.mark.parametrize(("command", "name", "damage"), [*cases()])
def test_a_damaged_file(workdirs, whole, tmp_path, command, name, damage):
    workdir = tmp_path / "finished"
    shutil.copytree(workdirs / "finished", workdir, symlinks=True)
    DAMAGES[damage](place(workdir, name))
    code, text, error, *written = said(command, workdir, tmp_path / "out")
    if code == 0 and command is report and damage in ("deleted", "dangling link") and name == "manifest.json":
        assert "manifest.json is missing, so nothing says whether the tables are as written" in written[0]
    elif code == 0 and not error:
        assert (text, *written) == whole(command)
    elif code == 0:
        assert command is sample and "step 8 is read instead" in error, error
    else:
        assert code == 2 and error.startswith("actlab: ") and error.count("\n") == 1, error
        assert not text and not written
