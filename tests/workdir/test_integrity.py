"""Whatever happens to the tables of a workdir is noticed: no lost, changed, doubled or foreign row is believed."""

import contextlib
import json
import shutil

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from actlab import config as config_lib
from actlab.config import replace
from actlab.errors import UserError
from actlab.workdir import integrity, manifest
from actlab.workdir.records import METRICS, RESULTS, TRACES, Workdir, table

RUNS = {"0": ["a", "b"], "1": ["c"]}
TABLES = (METRICS, TRACES, RESULTS)


def row(run, step):
    return {"run": run, "step": step, "split": "train", "loss": 1.5 + step / 7, "seconds": 0.25}


@pytest.fixture(scope="module")
def ended(tiny, tmp_path_factory):
    """A workdir of two parts that have ended at step 9."""
    workdir = Workdir(tmp_path_factory.mktemp("ended") / "w")
    workdir.open(tiny)
    manifest.begin(workdir, tiny, {"fingerprint": "f"}, ["test"], list(RUNS.values()), {})
    for part, names in RUNS.items():
        workdir.begin(0, names)
        workdir.append_metrics([row(name, step) for step in (0, 3, 6, 9) for name in names])
        workdir.append_traces([{"run": name, "step": 9, "kind": "steps", "loss": "AACAPw=="} for name in names])
        manifest.end(workdir, part, 9, workdir.sealed())
    results = [{"run": name, "status": "finished", "final_loss": 1.25} for name in ("a", "b", "c")]
    workdir.write_made({RESULTS: table(results)})
    workdir.close()
    return workdir.path


@pytest.fixture
def copied(ended, tmp_path):
    return shutil.copytree(ended, tmp_path / "w")


def check(path):
    return integrity.check(Workdir(path, writes=False))


def test_what_was_written_is_believed(copied):
    checked = check(copied)
    assert list(checked.rows) == ["a", "b", "c"] and checked.ended == {"0": 9, "1": 9} and not checked.problems
    integrity.require_sound(copied)


@given(st.sampled_from(TABLES), st.floats(0, 1, exclude_max=True), st.integers(1, 255))
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_byte_that_changes_is_noticed(ended, tmp_path, name, place, change):
    if not (tmp_path / "w").exists():
        shutil.copytree(ended, tmp_path / "w")
    for table_name in TABLES:  # as they were before the last example
        shutil.copyfile(ended / table_name, tmp_path / "w" / table_name)
    path = tmp_path / "w" / name
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= change
    path.write_bytes(content)
    checked = check(tmp_path / "w")
    assert checked.problems and any(name in problem for problem in checked.problems)
    with pytest.raises(UserError, match="its training command again, which repairs it"):
        integrity.require_sound(tmp_path / "w")
    if name == RESULTS:
        assert not checked.rows and len(checked.ended) == 2
    assert set(checked.rows) <= {run for part in checked.ended for run in RUNS[part]}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines[:-1],
        lambda lines: lines[1:],
        lambda lines: [],
        lambda lines: [*lines, lines[-1]],
        lambda lines: [lines[1], lines[0], *lines[2:]],
        lambda lines: [*lines[:-1], lines[-2]],
        lambda lines: [*lines, b"nonsense\n"],
    ],
    ids=["last lost", "first lost", "emptied", "doubled", "exchanged", "doubled and lost", "a foreign line"],
)
def test_any_line_that_changes_is_noticed(copied, name, change):
    lines = (copied / name).read_bytes().splitlines(keepends=True)
    (copied / name).write_bytes(b"".join(change(lines)))
    assert any(name in problem for problem in check(copied).problems)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_is_gone_is_noticed(copied, name):
    (copied / name).unlink()
    assert any(name in problem for problem in check(copied).problems)


def test_of_two_parts_the_one_that_is_sound_counts(copied):
    text = (copied / METRICS).read_text()
    (copied / METRICS).write_text(text.replace('"run": "c", "step": 3', '"run": "c", "step": 4'))
    checked = check(copied)
    assert checked.problems == ["metrics.jsonl has rows that were changed (part 1)"]
    assert list(checked.rows) == ["a", "b"] and checked.ended == {"0": 9}


def test_lines_of_no_run_are_dropped_and_the_file_of_before_is_kept(copied):
    before = (copied / METRICS).read_bytes()
    (copied / METRICS).write_bytes(before + json.dumps(row("z", 1)).encode() + b"\n")
    workdir = Workdir(copied)
    assert check(copied).problems == ["metrics.jsonl has lines that are not rows of its runs"]
    workdir.set_aside(METRICS)
    workdir.keep_only(["a", "b", "c"])
    assert (copied / METRICS).read_bytes() == before and b'"z"' in (copied / "set_aside" / METRICS).read_bytes()


def test_a_kill_between_manifest_and_results_leaves_results_that_are_believed(copied, monkeypatch):
    workdir, before = Workdir(copied), (copied / RESULTS).read_bytes()
    changed = [{"run": name, "status": "finished", "final_loss": 1.0} for name in ("a", "b", "c")]
    with monkeypatch.context() as patch:
        patch.setattr("actlab.workdir.records.write_atomically", only_the_first(patch))
        with pytest.raises(KeyboardInterrupt):
            workdir.write_made({RESULTS: table(changed)})
    assert (copied / RESULTS).read_bytes() == before and not check(copied).problems
    workdir.write_made({RESULTS: table(changed)})
    assert not check(copied).problems
    (copied / RESULTS).write_bytes(table(changed[:2]))
    assert check(copied).problems == ["results.csv is not as it was written"]
    (copied / RESULTS).unlink()
    assert check(copied).problems == ["results.csv is missing"]


def only_the_first(patch):
    from actlab.files import write_atomically

    def write(path, content):
        write_atomically(path, content)
        raise KeyboardInterrupt

    return write


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "not a manifest"),
        (b'{"data": {"fingerprint": "f"}}', "not a manifest"),
        (b'{"data": {"fingerprint": 3}, "sessions": []}', "not a manifest"),
        (b'{"data": {"fingerprint": "f"}, "sessions": [], "parts": {"0": "a"}}', "not a manifest"),
        (b"\xff\xfe", "UTF-8"),
        (b"[" * 100_000, "deeply"),
        ("halved", "not JSON"),
        ("edited", "was changed"),
    ],
)
def test_a_manifest_that_is_not_as_it_was_written_is_refused(copied, content, words):
    path = copied / "manifest.json"
    if content == "halved":
        content = path.read_bytes()[: path.stat().st_size // 2]
    if content == "edited":
        content = path.read_bytes().replace(b'"step": 9', b'"step": 8', 1)
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"{words}.*restore the file"):
        check(copied)


def test_without_its_manifest_nothing_is_known_of_a_table(copied):
    (copied / "manifest.json").unlink()
    assert check(copied) == ({}, {}, [])
    integrity.require_sound(copied)


def test_a_lost_config_is_written_again_only_if_it_is_the_same(copied, tiny):
    (copied / "config.json").unlink()
    manifest.require_same_config(Workdir(copied), tiny)
    with pytest.raises(UserError, match="has lost its config.json"):
        manifest.require_same_config(Workdir(copied), replace(tiny, seed=2))


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: (path.unlink(), path.symlink_to("/dev/null")),
        lambda path: path.write_text(path.read_text().replace('"n_steps": ', '"n_steps": 1')),
    ],
    ids=["lost", "a folder", "a device", "edited"],
)
def test_a_config_that_is_not_as_it_was_written_is_noticed(copied, tiny, damage):
    damage(copied / "config.json")
    with pytest.raises(UserError, match="config.json is lost, or not as it was written: restore it"):
        integrity.require_sound(copied)
    if (copied / "config.json").is_file():
        with pytest.raises(UserError, match="a config.json that is not as it was written"):
            manifest.require_same_config(Workdir(copied), config_lib.load(copied / "config.json"))


def test_an_extension_that_was_killed_before_its_config_was_written_is_begun_again(copied, tiny, monkeypatch):
    larger = replace(tiny, sweep={"seed": (1, 2, 3)})
    workdir, begun = Workdir(copied), replace(tiny, sweep={"seed": (1, 2)})
    (copied / "config.json").write_text(config_lib.to_json(begun))
    manifest.begin(workdir, begun, {"fingerprint": "f"}, ["test"], [], {})
    integrity.require_sound(copied)
    with monkeypatch.context() as patch:
        patch.setattr("actlab.workdir.records.write_atomically", only_the_first(patch))
        with pytest.raises(KeyboardInterrupt):
            workdir.open(larger, extend=True)
    workdir.close()
    manifest.require_same_config(Workdir(copied), larger)
    with contextlib.closing(Workdir(copied)) as workdir:
        workdir.open(larger, extend=True)
    integrity.require_sound(copied)


def test_what_is_set_aside_twice_is_kept_twice(copied):
    workdir, before = Workdir(copied), (copied / METRICS).read_bytes()
    workdir.set_aside(METRICS)
    (copied / METRICS).write_bytes(b"")
    workdir.set_aside(METRICS)
    kept = sorted((copied / "set_aside").iterdir())
    assert [path.name for path in kept] == [f"2-{METRICS}", METRICS]
    assert [path.read_bytes() for path in kept] == [b"", before]


def test_a_reader_between_two_writes_of_a_session_looks_again(copied, monkeypatch):
    real, looks = integrity.check, []

    def check_while_a_session_writes(workdir):
        looks.append(1)
        if len(looks) > 1:
            return real(workdir)
        (copied / "manifest.json").write_text((copied / "manifest.json").read_text() + "\n")
        return real(workdir)._replace(problems=["results.csv is not as it was written"])

    monkeypatch.setattr(integrity, "check", check_while_a_session_writes)
    integrity.require_sound(copied)
    assert len(looks) == 2
