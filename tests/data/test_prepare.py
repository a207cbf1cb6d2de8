import os
import signal
import subprocess
import sys
from pathlib import Path

import commands
import pytest

import actlab.data
from actlab.cli import data as command
from actlab.data import cache, datasets, preparing
from actlab.errors import UserError

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data"


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "actlab", "data", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


# A preparation that kills itself when half of it is done.
KILLED = """
import contextlib, os, signal
from actlab import __main__
from actlab.data import preparing

@contextlib.contextmanager
def track(what, total, *, show=True, whole=preparing.track):
    done = 0
    with whole(what, total, show=show) as tell:
        def advance(amount):
            nonlocal done
            done += amount
            tell(amount)
            if done > total / 2:
                os.kill(os.getpid(), signal.SIGKILL)
        yield advance

preparing.track = track
__main__.program()
"""


def kill_in_the_middle(folder: Path, *arguments: object) -> None:
    line = [sys.executable, "-c", KILLED, "data", *map(str, arguments)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert any(folder.glob("incomplete.*"))


@pytest.fixture
def long_texts(write_texts) -> Path:
    return write_texts((f"story {i} " * 20 for i in range(8_000)), ["held out"])


def test_prepare_list_and_prepare_again(tmp_path, write_texts):
    folder, data = write_texts(["once", "upon"], ["a time"]), tmp_path / "data"
    arguments = ["prepare", "mine", f"--from={folder}", f"--dir={data}", "--tokenizer=bytes"]
    code, out, err = commands.call(command.main, *arguments)
    assert (code, "prepared now" in out, "preparing mine" in err) == (0, True, True)
    before = sorted((path, path.stat().st_mtime_ns) for path in data.rglob("*") if path.is_file())
    code, out, err = commands.call(command.main, *arguments)
    assert (code, "already prepared, nothing to do" in out, err) == (0, True, "")
    assert sorted((path, path.stat().st_mtime_ns) for path in data.rglob("*") if path.is_file()) == before
    code, out, err = commands.call(command.main, "list", f"--dir={data}")
    fingerprint = actlab.data.open_tokens("mine", data, "bytes").fingerprint
    assert code == 0 and "mine  4 documents  14 bytes" in out
    assert f"bytes  21 tokens  vocabulary 257  {fingerprint[:12]}" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no subcommand"),
        (["prepar", "x"], "did you mean 'prepare'?"),
        (["prepare"], "NAME"),
        (["prepare", "x", "from=y"], "'from=y'"),
        (["list", "x"], "'x'"),
        (["prepare", "x"], "--from=PATH"),
        (["prepare", "x", "--form=y"], "form"),
        (["prepare", "story_grammar", "--tokenizer=bpe:3"], "data.tokenizer='bpe:3'"),
        (["prepare", "story_grammar", "--tokenizer=gpt2"], "prepare gpt2"),
        (["prepare", "gpt2", "--tokenizer=bytes"], "--tokenizer=bytes"),
        (["prepare", "tiny_stories", "--stories=9"], "--stories=9"),
        (["prepare", "sst2", "--field=story"], "--field=story"),
        (["prepare", "tinystories", "--from=x"], "did you mean 'tiny_stories'"),
        (["list", "--from=x"], "--from=x"),
    ],
)
def test_wrong_commands_end_in_one_sentence(tmp_path, arguments, message):
    code, out, err = commands.call(command.main, *arguments, f"--dir={tmp_path / 'data'}")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("actlab: ") and message in err
    assert not (tmp_path / "data").exists()


def test_a_killed_prepare_leaves_nothing_in_the_way(tmp_path, long_texts):
    data = tmp_path / "data"
    kill_in_the_middle(data / "mine", "prepare", "mine", f"--from={long_texts}", f"--dir={data}")
    assert datasets.prepared(data) == []
    actlab.data.prepare("mine", data, source=long_texts, progress=False)
    assert [path.name for path in (data / "mine").iterdir()] == ["2.0.0"]
    (dataset,) = datasets.prepared(data)
    assert dataset.n_documents == {"train": 8_000, "validation": 1, "test": 1}
    assert sum(len(texts) for texts in dataset.texts("train")) == 8_000


def test_a_killed_tokenizing_leaves_nothing_in_the_way(tmp_path, long_texts):
    data = tmp_path / "data"
    actlab.data.prepare("mine", data, source=long_texts, progress=False)
    tokens = data / "mine" / "tokens"
    kill_in_the_middle(tokens, "prepare", "mine", f"--dir={data}", "--tokenizer=bytes")
    (dataset,) = datasets.prepared(data)
    assert list(cache.caches(dataset.root, [])) == []
    (tokens / "incomplete.gpt2").mkdir()
    opened = actlab.data.open_tokens("mine", data, "bytes", progress=False)
    assert opened.train.n_documents == 8_000
    assert [path.name for path in tokens.iterdir()] == ["bytes"]


def test_two_at_once_are_one_after_the_other(tmp_path, long_texts):
    data = tmp_path / "data"
    arguments = ["prepare", "mine", f"--from={long_texts}", f"--dir={data}", "--tokenizer=bytes"]
    results = [(process, *process.communicate(timeout=300)) for process in [start(*arguments), start(*arguments)]]
    assert [process.returncode for process, _, _ in results] == [0, 0]
    said = "".join(out for _, out, _ in results)
    assert said.count("prepared now") == 1 and said.count("already prepared") == 1
    assert actlab.data.open_tokens("mine", data, "bytes").train.n_documents == 8_000


def test_a_waiting_process_says_so(tmp_path, write_texts):
    with preparing.locked(tmp_path, "mine", show=False):
        process = start("prepare", "mine", f"--from={write_texts(['a'], ['b', 'c'])}", f"--dir={tmp_path}")
        assert process.stderr is not None
        assert "waiting for another process that prepares mine" in process.stderr.readline() + process.stderr.readline()
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0 and "prepared now" in out


def test_auto_is_tiny_stories_where_it_is_prepared(tmp_path, write_texts):
    assert actlab.data.resolve_name("auto", tmp_path) == "story_grammar"
    actlab.data.prepare("tiny_stories", tmp_path, source=write_texts(["a"], ["b", "c"]), progress=False)
    assert actlab.data.resolve_name("auto", tmp_path) == "tiny_stories"


def test_names_that_are_not_prepared_get_the_command_and_the_nearest(tmp_path, write_texts):
    actlab.data.prepare("fairy_tales", tmp_path, source=write_texts(["a"], ["b", "c"]), progress=False)
    with pytest.raises(UserError, match="prepare fairy_tale --from=PATH.*did you mean 'fairy_tales'?"):
        actlab.data.resolve_name("fairy_tale", tmp_path)
    assert actlab.data.resolve_name("story_grammar", tmp_path) == "story_grammar"


def test_the_data_directory_may_be_read_only_once_all_is_made(tmp_path, write_texts, monkeypatch):
    actlab.data.prepare("mine", tmp_path, source=write_texts(["a"], ["b", "c"]), tokenizer="bytes", progress=False)
    monkeypatch.setattr(preparing, "locked", lambda *args, **kwargs: pytest.fail("wants to write"))
    assert actlab.data.open_tokens("mine", tmp_path, "bytes", progress=False).train.n_documents == 1


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.exists(), reason="needs ../shared")
@pytest.mark.parametrize(("tokenizer", "train_tokens"), [("bytes", 4_190_283), ("bpe:1024", None), ("gpt2", None)])
def test_the_real_excerpt_goes_all_the_way(tmp_path, tokenizer, train_tokens):
    actlab.data.prepare("gpt2", tmp_path, source=SHARED / "gpt2", progress=False)
    actlab.data.prepare("tiny_stories", tmp_path, source=SHARED / "tinystories", progress=False)
    opened = actlab.data.open_tokens("auto", tmp_path, tokenizer, progress=False)
    assert (opened.name, opened.train.n_documents, opened.validation.n_documents + opened.test.n_documents) == (
        "tiny_stories",
        5235,
        400,
    )
    assert train_tokens in (None, len(opened.train.tokens))
    first = opened.validation.tokens[1 : opened.validation.starts[1] - 1]
    assert opened.tokenizer.decode(first).startswith("Once upon a time, in a small town, there lived")
    assert os.listdir(tmp_path / "tiny_stories" / "tokens") == [tokenizer.replace(":", "-")]


@pytest.mark.parametrize(
    ("place", "words"), [("out/x", "data.dir=.*cannot be written"), ("else", "else cannot be used")]
)
def test_a_file_that_fails_is_told_by_its_own_place(tmp_path, place, words):
    with pytest.raises(UserError, match=words), preparing.locked(tmp_path / "out", "x", show=False):
        (tmp_path / place).read_text()


def test_what_is_prepared_under_a_name_like_a_known_one_stays_usable(tmp_path, write_texts, monkeypatch):
    source = write_texts(["a"], ["b", "c"])
    with monkeypatch.context() as patch:
        patch.setattr(actlab.data.datasets, "require_meant", lambda *_: None)
        actlab.data.prepare("tinystories", tmp_path, source=source, progress=False)
    assert actlab.data.resolve_name("tinystories", tmp_path) == "tinystories"
    assert "already prepared" in actlab.data.prepare("tinystories", tmp_path, source=source, progress=False)


@pytest.mark.parametrize("n_stories", [0, 1.5, "3", True])
def test_a_number_of_stories_is_a_whole_number(tmp_path, n_stories):
    with pytest.raises(UserError, match="is not a number of stories: ask for 1 to"):
        actlab.data.prepare("story_grammar", tmp_path / "data", n_stories=n_stories, progress=False)
    assert not (tmp_path / "data").exists()


def test_damaged_tokens_hide_no_other(tmp_path, write_texts):
    data = tmp_path / "data"
    for name in ("a", "b"):
        texts = write_texts(["one " * 100] * 40, ["two " * 100] * 4)
        actlab.data.prepare(name, data, source=texts, tokenizer="bytes", progress=False)
    (damaged,) = (data / "a").glob("**/tokens/*/meta.json")
    damaged.write_text("{}")
    code, out, _ = commands.call(command.main, "list", f"--dir={data}")
    assert code == 0 and "damaged: " in out and str(damaged) in out and "b  " in out and out.count("  bytes  ") == 1


def test_a_damaged_dataset_hides_no_other(tmp_path, write_texts):
    data = tmp_path / "data"
    for name in ("broken", "sound"):
        actlab.data.prepare(name, data, source=write_texts(["one " * 100] * 40, ["two " * 100] * 4), progress=False)
    (data / "broken/2.0.0/metadata.json").write_text("{}")
    code, out, _ = commands.call(command.main, "list", f"--dir={data}")
    assert code == 0 and "damaged: " in out and "broken" in out and "sound  " in out
    with pytest.raises(UserError, match="did you mean 'sound'"):
        actlab.data.resolve_name("sounds", data)
