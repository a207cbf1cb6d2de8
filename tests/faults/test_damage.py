"""Every file of a workdir damaged in every way: the same command ends with the same result, or with one sentence."""

import shutil

import pytest
from damages import DAMAGES, FILES, place
from outcomes import metrics, results

from actlab.errors import UserError
from actlab.sweeps import session
from actlab.workdir import manifest
from actlab.workdir.records import Workdir

FOLDERS = ("checkpoints", "checkpoints/0", "checkpoints/1", "checkpoints/1/NEWEST", "tokenizer")


def require_equal_or_told(config, workdir, whole, capsys):
    """Runs the same command; returns what it said. It must not hang, nor raise anything but a sentence."""
    try:
        code = session.run(config, "sweep", workdir, ["test"])
    except UserError as error:
        told = str(error)
        assert "\n" not in told and told.endswith((".", "?")), told
        return told
    assert code == 0
    assert results(workdir) == results(whole)
    by_run = lambda rows: sorted(rows, key=lambda row: (row["run"], row["step"], row["split"]))
    assert by_run(metrics(workdir)) == by_run(metrics(whole))
    assert (workdir / "test_documents.npz").read_bytes() == (whole / "test_documents.npz").read_bytes()
    capsys.readouterr()
    assert session.run(config, "sweep", workdir, ["test"]) == 0 and "already finished" in capsys.readouterr().out
    return ""


STATES = ("half", "finished")


def cases(names, damages):
    """Every state, name and damage; each name with one of them in every run of the tests, the others marked slow."""
    for i, name in enumerate(names):
        for j, damage in enumerate(damages):
            for k, state in enumerate(STATES):
                is_quick = (i + j) % len(damages) == 0 and (i + k) % 2 == 0
                yield pytest.param(state, name, damage, marks=() if is_quick else pytest.mark.slow)


@pytest.mark.parametrize(("state", "name", "damage"), [*cases(FILES, DAMAGES)])
def test_a_damaged_file(small_sweep, workdirs, tmp_path, capsys, state, name, damage):
    shutil.copytree(workdirs / state, tmp_path / "w", symlinks=True)
    path = place(tmp_path / "w", name)
    DAMAGES[damage](path)
    told = require_equal_or_told(small_sweep, tmp_path / "w", workdirs / "finished", capsys)
    print(state, name, damage, "->", told or "equal")


@pytest.mark.parametrize(("state", "name", "damage"), [*cases(FOLDERS, ("deleted", "file"))])
def test_a_damaged_folder(small_sweep, workdirs, tmp_path, capsys, state, name, damage):
    shutil.copytree(workdirs / state, tmp_path / "w", symlinks=True)
    path = place(tmp_path / "w", name)
    shutil.rmtree(path)
    if damage == "file":
        path.write_text("")
    told = require_equal_or_told(small_sweep, tmp_path / "w", workdirs / "finished", capsys)
    print(state, name, damage, "->", told or "equal")


@pytest.mark.parametrize("again", [False, True])
def test_a_workdir_that_is_removed_while_it_is_trained_in_is_a_sentence(small_sweep, tmp_path, monkeypatch, again):
    folder, whole = tmp_path / "w", Workdir.append_metrics

    def append(self, rows):
        whole(self, rows)
        shutil.rmtree(folder)
        if again:
            folder.mkdir()
            (folder / "metrics.jsonl").touch()

    with monkeypatch.context() as patch:
        patch.setattr(Workdir, "append_metrics", append)
        with pytest.raises(UserError, match=r"metrics.jsonl was removed while this training .* run its command again"):
            session.run(small_sweep, "sweep", folder, ["test"])
    shutil.rmtree(folder, ignore_errors=True)
    assert session.run(small_sweep, "sweep", folder, ["test"]) == 0


def test_a_manifest_that_is_removed_while_it_is_trained_is_made_anew(small_sweep, tmp_path, monkeypatch):
    folder, whole = tmp_path / "w", manifest.end

    def end(workdir, *words):
        (folder / "manifest.json").unlink(missing_ok=True)
        whole(workdir, *words)

    with monkeypatch.context() as patch:
        patch.setattr(manifest, "end", end)
        with pytest.raises(UserError, match=r"manifest.json was removed while this training ran: run the same"):
            session.run(small_sweep, "sweep", folder, ["test"])
    rows = (folder / "metrics.jsonl").read_bytes()
    assert session.run(small_sweep, "sweep", folder, ["test"]) == 0
    assert rows and (folder / "metrics.jsonl").read_bytes().startswith(rows)
