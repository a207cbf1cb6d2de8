"""Bad inputs, a row each: every one is a sentence on standard error and exit code 2, and nothing is trained or written.

Then single mutations of good files: a reader gives what it gave before, or a UserError, and never another exception.
"""

import contextlib
import dataclasses
import errno
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys

import commands
import jax
import pytest
from hypothesis import given, strategies as st
from mutations import mutations, quick, values_of

from actlab import __main__ as actlab, config as config_lib, data
from actlab.cli import command
from actlab.config import Config, overrides, rules
from actlab.data import cache, datasets, formats, tokenizer_kinds, tokenizers
from actlab.errors import UserError, printable, sentence
from actlab.sweeps import session
from actlab.training import programs, targets

CONFIG = f"--config={pathlib.Path(__file__).parents[2]}/configs/tinystories_gelu.py:small"
LONG = "n" * 300
DEEP = "[" * 100_000
DIGITS = "9" * 5000
HUGE = "1" + "0" * 30
DEVICES = ("/dev/zero", "/dev/null", "/dev/full")
LINES = "".join(f"the cat {i} sat on the mat\n<|endoftext|>\n" for i in range(60))


@pytest.fixture
def refused(tmp_path, monkeypatch):
    """A function that calls `actlab` in a folder of files; returns the sentence with which it refuses."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLURM_STEP_NUM_TASKS", raising=False)

    def trained(*_, **__):
        raise AssertionError("something was trained")

    monkeypatch.setattr(targets, "prepare", lambda: None)  # it would hide devices from all tests that follow
    monkeypatch.setattr(programs, "build", trained)
    monkeypatch.setattr(session.Session, "train", trained)

    def refused(*words, **files) -> str:
        (tmp_path / "text.txt").write_text(LINES)
        os.mkfifo(tmp_path / "pipe")
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        before = {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")}
        code, _, error = commands.call(actlab.main, *words)
        assert (code, error.count("\n")) == (2, 1) and error.startswith("actlab: "), error
        assert "Traceback" not in error and len(error) < 1100 and printable(error) == error
        assert {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")} == before, "something was written"
        return error

    return refused


def fields(**values):
    """Rows of --config.FIELD=VALUE with what the sentence says, by path with __ for a dot."""
    for path, cases in values.items():
        name = path.replace("__", ".")
        for value, told in cases.items():
            yield f"main {CONFIG} --config.{name}={value}", name, told


def flags(line, told, *values):
    """A row for each value of the line's last flag."""
    return [(f"{line}{value}", told) for value in values]


BAD_PATHS = ("", " ", LONG, "a/" * 3000, "x\ty", "x\x1by")
BAD_NUMBERS = ("", "x", "-1", "1.5", HUGE, DIGITS)

FIELDS = [
    *fields(
        seed={HUGE: "maximum", "1" + "0" * 400: "maximum", DIGITS: "whole", "1e400": "whole", "-1": "minimum"},
        train__n_steps={"1e30": "maximum", "0": "minimum", "": "whole", "0x" + "f" * 300: "maximum"},
        optimizer__learning_rate={"1e400": "finite", "nan": "finite", "1e39": "maximum", "-1": "minimum", "": "number"},
        optimizer__weight_decay={"1e308": "maximum"},
        optimizer__eps={"0": "greater", "1e-60": "minimum"},
        optimizer__b2={"1": "maximum"},
        model__n_layers={"1000000": "maximum", "0": "minimum"},
        model__d_model={"1000000000": "maximum", "130": "n_heads"},
        model__n_heads={"1e9": "maximum"},
        model__d_head={"1e9": "maximum"},
        model__d_ff={"1e9": "maximum"},
        model__d_hidden={"1e9": "maximum"},
        model__context={"1e9": "maximum", "1": "minimum"},
        model__vocab_size={"2147483647": "maximum"},
        model__d_embedding={"1e9": "maximum"},
        model__base_width={"1e9": "maximum"},
        model__n_classes={"1e9": "maximum"},
        model__n_segments={"0": "minimum"},
        model__rotary_base={"1e39": "maximum"},
        model__rotary_scaling={"linear(factor=0)": "above 0", "x" * 5000: "4,096"},
        model__activation={
            LONG: "unknown",
            "": "malformed",
            "gelu\x1b": "control",
            "((((": "malformed",
            "x" * 5000: "4,096",
            "gelu_scale(s=nan)": "finite",
            "gelu_scale(s=" + "9" * 400 + ")": "finite",
            "gelu(a=1)": "takes none",
            "celu(alpha=0x1)": "number",
        },
        data__name={"": "lower-case", LONG: "lower-case", "../x": "lower-case", "\x1b[31m": "control"},
        data__dir={"": "empty", " ": "empty", LONG: "240", "x\ty": "control", "text.txt": "text.txt"},
        data__tokenizer={
            "": "take bytes",
            LONG: "take bytes",
            "wordpiece:/dev/zero": "regular",
            "wordpiece:pipe": "regular",
            "wordpiece:": "empty",
            f"wordpiece:{LONG}": "240",
            "dir:": "empty",
            "dir:/dev": "vocab.json",
            f"dir:{LONG}": "240",
            f"bpe:{DIGITS}": "4,096",
            "bpe:-1": "size",
            "bpe:": "size",
        },
        data__batch_size={"1e9": "maximum", "0": "minimum"},
        data__n_stories={"1e30": "maximum", "1e9": "maximum", "0": "minimum"},
        finetune__from_checkpoint={LONG: "240", "/dev/zero": "/dev/zero", "nosuch": "nosuch", ":run": "empty"},
        finetune__task={"x": "choose one of"},
        train__dtype={"float8": "choices", "": "choose one of"},
        devices__lane={"0": "minimum"},
        log__tensorboard={"maybe": "true or false"},
        log__wandb_project={"x\x07": "control"},
        nosuch={"1": "unknown field"},
        model={"1": "section"},
        sweep={"1": "an axis at a time"},
    ),
    (f"main {CONFIG} --config.model.n_layers=1000 --config.model.d_model=65536", "n_layers=1000", "parameters"),
    ("main --confg.seed=1", "unknown flag --confg.seed", "'config'"),
    (f"main {CONFIG} --config.data.batch_size=1e6 --config.model.context=1e6", "batch_size=1000000", "tokens"),
]

WORDS = [
    *flags("main --config=", "path of a Python file", *BAD_PATHS, "/dev/zero", "/dev/stdin", ".", "nosuch.py", ":"),
    *flags("main --config=", ".json", "nosuch.json", "/dev/null/x.json", f"{LONG}.json", ".json"),
    *flags(f"main {CONFIG} --workdir=", "--workdir", *BAD_PATHS, *DEVICES, "/dev/null/x", "text.txt", "pipe"),
    *flags(f"main {CONFIG} --profile=", "--profile", *BAD_PATHS, *DEVICES, "/dev/null/x", "text.txt", "pipe"),
    *flags(f"main {CONFIG} --run=", "--run", "", LONG, "x" * 100_000, "\x1b[31m", "gelu-lr0.003-seed"),
    *flags(f"main {CONFIG} --dry_run --target=", "--target", "", LONG, "h101", "v5e:", "v5e:3"),
    (f"main {CONFIG} --target=h100", "--dry_run"),
    *flags(f"main {CONFIG} --config.data.name=", "--text=PATH", "/corpus", "corpus.txt"),
    *flags(f"main {CONFIG} --config.data.dir=nowhere --config.data.name=", "set data.dir", "mine"),
    (f"main {CONFIG} --config.{'x' * 100_000}=1", "unknown field"),
    (f"main {CONFIG} --config.=1", "unknown field"),
    (f"main {CONFIG} --config.devices.lane=1000000000 --workdir=w", "1000000000 lane"),
    ("main --config", "needs a value"),
    ("main", "--config is missing"),
    *flags("sample --workdir=", "--workdir", *BAD_PATHS, "/dev/zero", "nosuch", "text.txt"),
    *flags("sample --workdir=x --temperature=", "--temperature", "", "x", "-1", "nan", "inf", "1e300"),
    *flags("sample --workdir=x --top_k=", "--top_k", "", "-1", DIGITS),
    *flags("sample --workdir=x --seed=", "--seed", *BAD_NUMBERS),
    *flags("sample --workdir=x --n_tokens=", "--n_tokens", *BAD_NUMBERS),
    *flags("sample --workdir=x --activations=", "--activations", "", LONG, "/dev/zero", "/dev/null/x", "pipe"),
    *flags("verdict ", "", *BAD_PATHS[2:4], *DEVICES, "nosuch", "text.txt", "pipe"),
    *flags("verdict x --verdicts=", "--verdicts", "", LONG, *DEVICES, ".", "pipe"),
    *flags("verdict x --latex=", "--latex", "", LONG, *DEVICES, ".", "nosuch/x.tex", "pipe"),
    *flags("verdict x --margin=", "--margin", "", "x"),
    *flags("report ", "", LONG, *DEVICES, "nosuch", "pipe"),
    *flags("report x --out=", "--out", "", LONG, *DEVICES, ".", "nosuch/x.html", "pipe"),
    *flags("report x --figures=", "--figures", "", LONG, *DEVICES, "text.txt", "/dev/null/x", "pipe"),
    *flags("report x --samples=", "--samples", "", "-1", "x"),
    *flags("claims --results=", "--results", "", LONG, *DEVICES, "nosuch", "text.txt"),
    *flags("claims --id=", "", LONG, "\x1b"),
    *flags("validate --nocompare --runs=", "", "", LONG, *DEVICES, "nosuch"),
    *flags("validate --repeats=", "--repeats", *BAD_NUMBERS),
    *flags("validate --n_seeds=", "--n_seeds", *BAD_NUMBERS),
    *flags("replicate x ", "", LONG, *DEVICES, "nosuch"),
    *flags(f"launch {CONFIG} --executor=local --workdir=", "--workdir", "", LONG, *DEVICES, "text.txt", "/dev/null/x"),
    *flags(f"launch {CONFIG} --executor=local --max_parallel=", "--max_parallel", "", "0", "x", DIGITS),
    (f"launch {CONFIG} --executor=", "--executor"),
    *flags("activations --html=", "--html", "", LONG, *DEVICES, ".", "nosuch/x.html", "pipe"),
    *flags("activations --plot=", "--plot", "", LONG, *DEVICES, "text.txt", "/dev/null/x", "pipe"),
    *flags("activations --names=", "--names", "", LONG, "(" * 10_000, "relu,\x1b[31m", "relu,,gelu"),
    *flags("activations --names=relu --scale=", "--scale", "", "x"),
    *flags("bench activations --out=", "--out", "", LONG, *DEVICES, ".", "nosuch/x.csv", "pipe"),
    *flags("bench activations --repetitions=", "--repetitions", *BAD_NUMBERS),
    *flags("bench training --repetitions=", "--repetitions", *BAD_NUMBERS),
    *flags("bench activations --sizes=", "--sizes", "", "x", "0x4", "999999999x999999996", "1x" + "4" * 300),
    *flags("bench activations --dtypes=", "--dtypes", "", LONG, "float8"),
    *flags("bench training --shapes=", "--shapes", "", LONG),
    *flags("bench targets --targets=", "--targets", "", LONG, "h101", "v5e:", "v5e:3", "v5e:1,nosuch"),
    *flags("bench targets --models=", "--models", "", LONG),
    *flags("bench targets --out=", "--out", "", LONG, *DEVICES, ".", "nosuch/x.csv", "pipe", "text.txt"),
    ("bench targets --repetitions=3", "--repetitions"),
    *flags("bench ", "benchmark", "", LONG, "\x1b"),
    *flags("interop --from=", "", "", LONG, *DEVICES, "nosuch", "text.txt"),
    *flags("interop --workdir=x --to=", "--to", "", LONG, *DEVICES, "text.txt", "/dev/null/x", "pipe"),
    *flags("probe ", "", LONG, *DEVICES, "nosuch", "text.txt"),
    *flags("probe x --out=", "--out", "", LONG, *DEVICES, ".", "nosuch/x.html", "pipe"),
    *flags("probe x --text=", "--text", *BAD_PATHS),
    ("probe", "no model"),
    ("swap --to=relu", "no model"),
    *flags("swap --to=relu ", "", LONG, *DEVICES, "nosuch"),
    *flags("swap x --to=relu --workdir=", "--workdir", "", LONG, *DEVICES, "text.txt"),
    *flags("swap x --to=relu --steps=", "--steps", "", "x", "-1"),
    *flags("compare relu gelu --budget=", "--budget", "", "x", "0s", "-1h", "..h", "9" * 400 + "h", "99999999999h"),
    *flags("compare relu gelu --budget=1h --workdir=", "--workdir", "", LONG, *DEVICES, "text.txt"),
    *flags("compare relu gelu --budget=1h --text=", "", *BAD_PATHS, *DEVICES, "nosuch", "pipe"),
    *flags("compare relu gelu --budget=1h --scales=", "--scales", *BAD_NUMBERS, "0"),
    *flags("data prepare x --from=", "", *BAD_PATHS, *DEVICES, "nosuch", "pipe"),
    *flags("data prepare x --from=text.txt --dir=", "dir", *BAD_PATHS, "/dev/null", "text.txt"),
    *flags("data prepare ", "cannot be used", "", LONG, "../x", "X", "\x1b[31m"),
    *flags("data prepare x --from=text.txt --tokenizer=", "data.tokenizer", "", LONG, f"bpe:{DIGITS}", "dir:"),
    *flags("data prepare x --from=text.txt --tokenizer=", "data.tokenizer", "wordpiece:/dev/zero", "wordpiece:pipe"),
    *flags("data prepare gpt2 --from=", "", "", LONG, *DEVICES, "nosuch"),
    *flags("data prepare sst2 --from=", "", "", LONG, *DEVICES, "nosuch"),
    *flags("data prepare story_grammar --stories=", "stories", *BAD_NUMBERS, "0", "1000000000"),
    *flags("", "unknown command", LONG, "\x1b[31m", "x" * 100_000),
]  # fmt: skip


def words_of(line: str) -> list[str]:
    """Split at single spaces, of which the last word may be one: it may be empty or white."""
    flag, equals, value = line.rpartition("=")
    if equals and " " not in flag.rpartition(" --")[2]:
        return [*flag.split(" ")[:-1], f"{flag.split(' ')[-1]}={value}"]
    return line.split(" ")


def short(value):
    return value if not isinstance(value, str) or len(value) < 80 else f"{value[:60]}...{len(value)}"


@pytest.mark.parametrize(("line", "field", "told"), FIELDS, ids=short)
def test_a_bad_field_is_refused(refused, line, field, told):
    error = refused(*words_of(line), "--workdir=w")
    assert field in error and told in error


@pytest.mark.parametrize(("line", "told"), WORDS, ids=short)
def test_bad_words_are_refused(refused, line, told):
    assert told in refused(*words_of(line))


@pytest.mark.parametrize("name", actlab.COMMANDS)
@pytest.mark.parametrize("word", ["--workdir=x\0y", "\0", "--out=\udcff.html"])
def test_a_word_that_is_no_text_is_refused_by_every_command(refused, name, word):
    assert "argument 1" in refused(name, word)


def config_with(**changes):
    return json.dumps({**json.loads(config_lib.to_json(Config())), **changes})


JSONS = [
    (DEEP, "deep"),
    ('{"seed":' * 2000 + "1" + "}" * 2000, "deep"),
    (f'{{"seed": {DIGITS}}}', "digits"),
    ("", "not JSON"),
    ("{", "not JSON"),
    ("[]", "not a JSON object"),
    ("null", "not a JSON object"),
    (b"\xff\xfe{}", "not UTF-8"),
    ("{}", "seed"),
]
CONFIGS = [
    *JSONS,
    (config_with(seed=10**400), "seed"),
    (config_with(seed=None), "seed"),
    (config_with(seed=float("nan")), "seed"),
    (config_with(model=1), "config.model"),
    (config_with(model={"activation": "\ud800"}), "control"),
    (config_with(model={"activation": "\0"}), "control"),
    (config_with(optimizer={"learning_rate": 10**4000}), "learning_rate"),
    (config_with(data={"dir": ""}), "data.dir"),
    (config_with(nosuch=1), "nosuch"),
    (config_with(sweep=1), "config.sweep"),
    (config_with(sweep=[1]), "config.sweep"),
    (config_with(sweep=[[1, 2, 3]]), "config.sweep"),
    (config_with(sweep={"seed": []}), "config.sweep"),
    (config_with(sweep={"seed": [1, 1]}), "twice"),
    (config_with(sweep={"seed": [1, 10**400]}), "maximum"),
    (config_with(sweep={"seed": [[1]]}), "seed"),
    (config_with(sweep={"seed": list(range(20_000))}), "20,000 runs"),
    (
        config_with(sweep={name: list(range(1, 1001)) for name in ("seed", "train.n_steps", "model.d_ff")}),
        "1,000,000,000 runs",
    ),
]


@pytest.mark.parametrize(("content", "told"), CONFIGS, ids=short)
@pytest.mark.parametrize("name", ["main", "launch"])
def test_a_bad_config_json_is_refused(refused, name, content, told):
    more = ["--executor=local"] if name == "launch" else []
    error = refused(name, "--config=c.json", "--workdir=w", *more, **{"c.json": content})
    assert told in error and "c.json" in error


PYTHONS = [
    (b"\xff\xfe", "SyntaxError"),
    (b"a\0b", "SyntaxError"),
    ("(" * 10_000, "Error"),
    ("raise SystemExit(3)", "SystemExit"),
    ("def f(): f()\nf()", "RecursionError"),
    ("raise KeyError(chr(27) + 'x')", "\\x1bx"),
    ("raise ValueError('a' * 100_000)", "ValueError"),
    ("class E(Exception):\n  def __str__(self): raise ValueError\nraise E(E())", "fails with E"),
    ("", "get_config"),
    ("def get_config(): return 1", "ConfigDict"),
    ("from actlab import config\ndef get_config():\n  c = config.default()\n  c.seed = 10**5000\n  return c", "seed"),
    ("from actlab import config\ndef get_config():\n  c = config.default()\n  c.model = 1\n  return c", "config.model"),
    (
        "from actlab import config\ndef get_config():\n  c = config.default()\n"
        "  c.sweep = {'seed': [10**5000, 1]}\n  return c",
        "maximum",
    ),
    (
        "from actlab import config\ndef get_config():\n  c = config.default()\n"
        "  c.sweep = {'seed': range(10**9)}\n  return c",
        "1,000,000,000 runs",
    ),
]


@pytest.mark.parametrize(("content", "told"), PYTHONS, ids=short)
def test_a_bad_config_file_is_refused(refused, content, told):
    error = refused("main", "--config=c.py", "--workdir=w", **{"c.py": content})
    assert told in error


GPT2 = {"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 1, "vocab_size": 8, "n_positions": 8}
MODELS = [
    *JSONS[:-1],
    ("{}", "model_type"),
    ('{"model_type": "nosuch"}', "model_type"),
    ('{"model_type": 3}', "model_type"),
    ('{"model_type": "gpt2"}', "config.json"),
    (f'{{"model_type": "gpt2", "n_layer": {HUGE}}}', "n_layer"),
    (json.dumps({**GPT2, "n_layer": 10**6}), "n_layers"),
    (json.dumps({**GPT2, "n_embd": 10**6, "n_head": 1}), "d_model"),
]


@pytest.mark.parametrize(("content", "told"), MODELS, ids=short)
def test_a_bad_model_directory_is_refused(refused, content, told):
    error = refused("interop", "--from=d", **{"d/config.json": content})
    assert told in error and "d/config.json" in error


def in_a_process(tmp_path, *words, **environment):
    line = [sys.executable, "-m", "actlab", *words]
    given = {**os.environ, **environment}
    return subprocess.run(line, cwd=tmp_path, env=given, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({"JAX_COORDINATOR_ADDRESS": "x"}, "JAX_COORDINATOR_ADDRESS='x'"),
        ({"JAX_COORDINATOR_ADDRESS": "h:1", "JAX_NUM_PROCESSES": "x"}, "JAX_NUM_PROCESSES='x'"),
        ({"JAX_COORDINATOR_ADDRESS": "h:1", "JAX_NUM_PROCESSES": "0"}, "JAX_NUM_PROCESSES='0'"),
        ({"JAX_COORDINATOR_ADDRESS": "h:1", "JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "2"}, "JAX_PROCESS_ID='2'"),
        ({"JAX_COORDINATOR_ADDRESS": "h:1", "JAX_PROCESS_ID": DIGITS}, "JAX_PROCESS_ID="),
        (
            {"JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "0"},
            "JAX_NUM_PROCESSES=2 is set without JAX_COORDINATOR_ADDRESS",
        ),
        ({"SLURM_STEP_NUM_TASKS": "many"}, "SLURM_STEP_NUM_TASKS='many'"),
    ],
)
def test_a_bad_environment_is_refused(refused, monkeypatch, environment, told):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert told in refused("main", CONFIG, "--workdir=w")


@pytest.mark.parametrize("platform", ["nosuch", "cuda"])
def test_a_platform_that_jax_lacks_is_refused(tmp_path, platform):
    if platform == "cuda" and any(device.platform == "gpu" for device in jax.devices()):
        pytest.skip("there is a GPU")
    done = in_a_process(tmp_path, "bench", "activations", "--names=relu", JAX_PLATFORMS=platform)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.startswith(f"actlab: JAX_PLATFORMS={platform} cannot be used")


def test_a_setting_that_jax_refuses_is_a_sentence(tmp_path):
    done = in_a_process(tmp_path, "bench", "activations", "--names=relu", JAX_ENABLE_X64="maybe")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "JAX_ENABLE_X64" in done.stderr


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "runs/x"), "runs/x cannot be used (No space"),
        (MemoryError("Unable to allocate 516. GiB"), "516. GiB"),
    ],
)
def test_what_the_system_refuses_is_a_sentence(error, told):
    @command.entry
    def fails(argv):
        raise error

    code, _, said = commands.call(fails)
    assert code == 2 and said.count("\n") == 1 and told in said


@pytest.mark.parametrize("error", [OSError("no file"), RuntimeError("a bug"), ValueError("a bug")])
def test_a_fault_of_ours_stays_a_traceback(error):
    @command.entry
    def fails(argv):
        raise error

    with pytest.raises(type(error)):
        commands.call(fails)


@given(st.text(), st.sampled_from(["\x1b[2J", "\x07", "\x9b", "\r", "\x7f", "\ud800"]))
def test_control_characters_are_printed_as_escapes(text, control):
    shown = printable(text + control)
    assert shown.encode() and all(sign in "\n\t" or not (ord(sign) < 32 or 127 <= ord(sign) < 160) for sign in shown)
    assert printable(shown) == shown and (text.isprintable() <= shown.startswith(text))
    assert "\n" not in sentence(text + control)


def same_or_refused(read, expected):
    """What a reader gives equals what it gave, or it raises a UserError of one line."""
    with contextlib.suppress(UserError):
        assert read() == expected


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A prepared data set with its tokens."""
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "text.txt").write_text(LINES)
    data.prepare("mine", folder / "data", source=folder / "text.txt", tokenizer="bytes", progress=False)
    return folder / "data"


GOOD = config_lib.replace(Config(), sweep={"seed": (1, 2), "optimizer.learning_rate": (1e-3, 1e-2)})


@quick
@given(
    st.one_of(
        mutations(config_lib.to_json(GOOD).encode()), values_of(json.loads(config_lib.to_json(GOOD))), st.binary()
    )
)
def test_any_config_json_is_a_config_or_refused(tmp_path, content):
    (tmp_path / "config.json").write_bytes(content)
    with contextlib.suppress(UserError):
        found = config_lib.load(tmp_path / "config.json")
        # Another valid value cannot be seen. What is read can be written, and is a sweep that can be trained.
        assert config_lib.from_json(config_lib.to_json(found)) == found
        assert len(found.sweep) < 100


@quick
@given(st.sampled_from(list(config_lib.fields())), st.one_of(st.text(), st.integers().map(str), st.floats().map(str)))
def test_any_override_is_a_value_or_refused(path, text):
    with contextlib.suppress(UserError):
        found = overrides.read(None, [(path, text)], config_lib.default).config
        assert config_lib.from_json(config_lib.to_json(found)) == found


@quick
@given(
    words=st.lists(
        st.one_of(st.text(max_size=20), st.text(max_size=5).map(lambda text: f"--config.{text}")), max_size=4
    )
)
def test_any_words_are_split_or_refused(words):
    with contextlib.suppress(UserError):
        overrides.split(words)


@quick
@given(
    st.recursive(
        st.one_of(st.none(), st.integers(), st.floats(), st.text()),
        lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    )
)
def test_any_value_of_a_sweep_is_axes_or_refused(value):
    with contextlib.suppress(UserError):
        rules.parse_sweep(value)


@functools.cache
def bytes_of(path):
    return path.read_bytes()


@quick
@given(chosen=st.data(), name=st.sampled_from(["meta.json", "tokenizer/tokenizer.json"]))
def test_a_changed_record_of_tokens_is_noticed(prepared, tmp_path, chosen, name):
    source = prepared / "mine/tokens/bytes"
    expected = cache.open_cache(source)
    content = bytes_of(source / name)
    changed = chosen.draw(st.one_of(mutations(content), values_of(json.loads(content)), st.binary()))
    folder = tmp_path / "bytes"
    shutil.copytree(source, folder, dirs_exist_ok=True)
    (folder / name).write_bytes(changed)

    def read():
        found = cache.open_cache(folder)
        # The name of a tokenizer is in meta.json too, which is signed.
        return found.meta, found.tokenizer.hash

    same_or_refused(read, (expected.meta, expected.tokenizer.hash))


@quick
@given(chosen=st.data())
def test_a_changed_record_of_a_data_set_is_noticed(prepared, tmp_path, chosen):
    (good,) = datasets.prepared(prepared)
    record = good.root / "2.0.0/metadata.json"
    changed = chosen.draw(st.one_of(mutations(bytes_of(record)), values_of(json.loads(bytes_of(record))), st.binary()))
    path = tmp_path / "mine/2.0.0/metadata.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(changed)
    same_or_refused(lambda: datasets.prepared(tmp_path), [dataclasses.replace(good, root=tmp_path / "mine")])


TRAINED = tokenizers.train([f"the cat {i * i} sat on the mat" for i in range(200)], 300)
TEXT = "The cat sat, 12 times.\n"


def of_library() -> str:
    """A tokenizer.json of the library."""
    return json.dumps({**json.loads(TRAINED._library.to_str())})


@quick
@given(chosen=st.data(), name=st.sampled_from(["vocab.json", "merges.txt"]))
def test_changed_files_of_byte_pairs_are_a_tokenizer_or_refused(tmp_path, chosen, name):
    TRAINED.save(tmp_path)
    content = (tmp_path / name).read_bytes()
    kinds = [mutations(content), st.binary()] + ([values_of(json.loads(content))] if name == "vocab.json" else [])
    (tmp_path / name).write_bytes(chosen.draw(st.one_of(kinds)))
    with contextlib.suppress(UserError):
        found = tokenizers.make(f"dir:{tmp_path}", tmp_path, ())
        assert found.decode(found.encode(TEXT)) is not None
    # What was saved with its hash is refused.
    same_or_refused(lambda: tokenizers.load(tmp_path).hash, TRAINED.hash)


@quick
@given(chosen=st.data(), name=st.sampled_from(["tokenizer.json", "tokenizer_config.json"]))
def test_changed_files_of_the_library_are_a_tokenizer_or_refused(tmp_path, chosen, name):
    library = json.loads(of_library())
    model = {**library["model"], "vocab": TRAINED.vocabulary}
    good = {"tokenizer.json": {**library, "model": model}, "tokenizer_config.json": {"eos_token": "<|endoftext|>"}}
    for file, value in good.items():
        (tmp_path / file).write_text(json.dumps(value))
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(chosen.draw(st.one_of(mutations(content), values_of(good[name]), st.binary())))
    with contextlib.suppress(UserError):
        found = tokenizers.make(f"dir:{tmp_path}", tmp_path, ())
        assert found.decode(found.encode(TEXT)) is not None
        assert found.specials.ids()


@quick
@given(chosen=st.data())
def test_a_changed_vocabulary_of_word_pieces_is_a_tokenizer_or_refused(tmp_path, chosen):
    pieces = [
        *tokenizer_kinds.SPECIALS,
        *"abcdefghijklmnopqrstuvwxyz",
        *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz"),
    ]
    content = "".join(f"{piece}\n" for piece in pieces).encode()
    (tmp_path / "vocab.txt").write_bytes(chosen.draw(st.one_of(mutations(content), st.binary())))
    with contextlib.suppress(UserError):
        found = tokenizers.make(f"wordpiece:{tmp_path}", tmp_path, ())
        assert found.decode(found.encode(TEXT)) is not None
        assert found.specials.ids()


ROWS = b'{"text": "the cat sat"}\n{"text": "on\\n the mat", "n": 1}\n\n{"text": null}\n'


@quick
@given(content=st.one_of(mutations(ROWS), st.binary()), suffix=st.sampled_from(list(formats.READERS)))
def test_any_file_of_texts_is_read_or_refused(tmp_path, content, suffix):
    path = tmp_path / f"x{suffix}"
    path.write_bytes(content)
    with contextlib.suppress(UserError):
        assert all(text.encode() for text in formats.documents(path))


LINE = "write an object"
TEXTS = [
    (DEEP, "deep"),
    (f'{{"text": {DIGITS}}}', "digits"),
    ("[]", "JSON object"),
    ('{"text": 1}', "int"),
    ('{"txt": "a"}', "'text'"),
    ('{"text": "\\ud800"}', "surrogate"),
    (b'{"text": "\xff"}', "UTF-8"),
    ('{"text": "a"} {"text": "b"}', "not JSON"),
]


@pytest.mark.parametrize(("content", "told"), TEXTS, ids=short)
def test_a_bad_line_of_texts_is_refused(tmp_path, content, told):
    content = content if isinstance(content, bytes) else content.encode()
    (tmp_path / "x.jsonl").write_bytes(b'{"text": "fine"}\n' + content)
    with pytest.raises(UserError, match="line 2") as caught:
        data.prepare("x", tmp_path / "data", source=tmp_path / "x.jsonl", progress=False)
    assert told in str(caught.value) and not (tmp_path / "data").exists()
