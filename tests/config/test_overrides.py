"""The flag --config: a config file, or values from a config.json with which nothing is run; and its overrides."""

import pathlib
import sys

import pytest

from actlab import config as config_lib
from actlab.config import Config, overrides, replace, to_json
from actlab.errors import UserError

ROOT = pathlib.Path(__file__).parents[2]
GELU = str(ROOT / "configs/tinystories_gelu.py")
SWEEP = replace(Config(), sweep={"seed": (1, 2), "optimizer.warmup_steps, train.n_steps": ((0, 100), (10, 200))})


def read(*words):
    source, changes, _ = overrides.split(words)
    return overrides.read(source, changes)


@pytest.fixture
def written(tmp_path):
    """A function that writes a config and gives its --config."""

    def written(config=None, after=""):
        (tmp_path / "config.json").write_text(to_json(config or Config()))
        return f"--config={tmp_path}/config.json{after}"

    return written


@pytest.fixture
def file(tmp_path):
    """A function that writes a config file with these lines in get_config and gives its --config."""

    def file(*lines, parameters=""):
        head = f"from actlab import config\n\ndef get_config({parameters}):"
        (tmp_path / "mine.py").write_text("\n    ".join([head, *lines]))
        return f"--config={tmp_path}/mine.py"

    return file


def test_words_of_other_flags_are_left_alone():
    words = ["main", "--config", "a.py:small", "-config.seed", "3", "--noconfig.model.tie_embeddings", "--workdir=w"]
    more = ["--config.model.use_bias", "left", "--configs=b", "config.seed=4", "--", "--config.seed=5"]
    source, changes, others = overrides.split([*words, *more])
    assert source == "a.py:small"
    assert changes == [("seed", "3"), ("model.tie_embeddings", "false"), ("model.use_bias", None)]
    assert others == ["main", "--workdir=w", "left", "--configs=b", "config.seed=4", "--", "--config.seed=5"]


@pytest.mark.parametrize("config", [Config(), SWEEP, replace(Config(), **{"model.d_ff": 512, "devices.max_lanes": 4})])
def test_a_config_is_read_back_from_its_json(written, config):
    assert read(written(config)).config == config


def test_overrides_come_on_top_in_any_order(written):
    words = {
        "optimizer.warmup_steps": ("1e1", 10),
        "seed": ("0x10", 16),
        "optimizer.learning_rate": ("3e-4", 3e-4),
        "optimizer.b1": ("0", 0.0),
        "model.d_ff": ("None", None),
        "model.vocab_size": ("512", 512),
        "train.dtype": ("bfloat16", "bfloat16"),
        "finetune.swap.from": ("gelu", "gelu"),
        "data.dir": ("a=b c", "a=b c"),
    }
    first, *rest = [f"--config.{path}={text}" for path, (text, _) in words.items()]
    request = read(first, written(replace(SWEEP, **{"model.d_ff": 64})), *rest, "--config.seed=3", first)
    assert request.config == replace(SWEEP, **{path: value for path, (_, value) in words.items()} | {"seed": 3})
    assert request.overridden == set(words)


@pytest.mark.parametrize(
    ("word", "value"),
    [("--config.model.use_bias", True), ("--config.model.use_bias=T", True), ("--config.model.use_bias=1", True)]
    + [("--noconfig.model.use_bias", False), ("--config.model.use_bias=False", False)]
    + [("--config.model.use_bias=f", False), ("--config.model.use_bias=0", False)],
)
def test_booleans_have_two_spellings(written, word, value):
    config = replace(Config(), **{"model.use_bias": not value})
    assert read(written(config), word).config.model.use_bias is value


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--config.seed=1.5"], "config.seed=1.5"),
        (["--config.seed=inf"], "config.seed=inf"),
        (["--config.seed=-1"], "config.seed=-1"),
        (["--config.seed"], "config.seed"),
        (["--config.optimizer.learning_rate=fast"], "config.optimizer.learning_rate=fast"),
        (["--config.optimizer.learning_rate=nan"], "config.optimizer.learning_rate=nan"),
        (["--config.optimizer.learning_rate=1e-3,3e-3"], "with --config.sweep.optimizer.learning_rate=1e-3,3e-3"),
        (["--config.sweep.optimizer.learning_rate=(1,2)"], "learning_rate=(1,2) has the wrong type: give a number."),
        (["--config.optimizer.learning_rate=None"], "config.optimizer.learning_rate=None"),
        (["--config.model.d_ff=wide"], "config.model.d_ff=wide"),
        (["--config.model.use_bias=maybe"], "config.model.use_bias=maybe"),
        (["--config.train.dtype=float16"], "'bfloat16'"),
        (["--config.sweep=3"], "config.sweep"),
        (["--config.model.width=3"], "config.model.width"),
        (["--config.model.width"], "config.model.width"),
        (["--config.modle.d_model=3"], "'model.d_model'"),
        (["--config.model=relu"], "config.model.kind"),
        (["--noconfig.seed"], "--noconfig.seed"),
        (["--noconfig.model.use_bias=3"], "--noconfig.model.use_bias=3"),
        (["--config.optimizer.warmup_steps=9999"], "config.optimizer.warmup_steps=9999"),
    ],
)
def test_an_override_of_no_use_is_refused_by_field(written, words, names):
    with pytest.raises(UserError) as refused:
        read(written(), *words)
    assert names in str(refused.value) and "\n" not in str(refused.value)


def test_a_misspelt_override_is_refused_before_the_file_is_run(file):
    with pytest.raises(UserError, match="config.sede: did you mean 'seed'"):
        read(file("1 / 0"), "--config.sede=1")


@pytest.mark.parametrize("words", [[], ["--config"], ["--config="], ["--config=nowhere.py:small"], ["--config=."]])
def test_a_config_that_is_not_there_is_named(words):
    with pytest.raises(UserError, match="--config"):
        read(*words)


def test_a_json_is_not_run(tmp_path):
    (tmp_path / "config.json").write_text("import os; os._exit(9)")
    with pytest.raises(UserError, match="JSON"):
        read(f"--config={tmp_path}/config.json")


@pytest.mark.parametrize(
    ("source", "label", "code"),
    [
        ("configs/x.py", "x", "configs/x.py"),
        ("configs/x.py:small", "x", "configs/x.py:small"),
        ("runs/x.json", "x", ""),
    ],
)
def test_the_label_is_the_name_of_the_file_and_code_what_is_run(source, label, code):
    request = overrides.Request(Config(), source, frozenset())
    assert (request.label, request.code) == (label, code)


def test_code_is_run_with_its_preset_and_a_json_gives_the_values(file, written, monkeypatch):
    seen = []
    monkeypatch.setattr(config_lib, "seen", seen, raising=False)
    source = file("config.seen.append(preset)", "return config.default()", parameters="preset=None").partition("=")[2]
    words = (f"--config={source}", f"--config={source}:a:b", f"--config={source}:", written(SWEEP))
    assert [read(word).config for word in words] == [Config()] * 3 + [SWEEP]
    assert seen == [None, "a:b", ""]
    with pytest.raises(UserError, match=r"--activations=FILE"):
        read(written(SWEEP, ":mine.py"))


def test_a_file_without_get_config_is_told_what_it_lacks(tmp_path):
    (tmp_path / "mine.py").write_text("seed = 3\n")
    with pytest.raises(UserError, match=r"mine.py: the file defines no get_config: add one"):
        read(f"--config={tmp_path / 'mine.py'}")


def test_an_override_without_a_value_takes_no_flag_for_one():
    with pytest.raises(UserError, match="--config.data.dir needs a value, and --dry_run is a flag"):
        overrides.split([f"--config={GELU}", "--config.data.dir", "--dry_run"])
    assert overrides.split(["--config.data.dir", "-x"])[1] == [("data.dir", "-x")]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ('values.model.activatoin = "relu"', "config.model.activatoin: did you mean 'model.activation'"),
        ('values.update_from_flattened_dict({"train.n_step": 3})', "config.train.n_step: did you mean"),
        ("values.finetune.swap.blokcs = 2", "config.finetune.swap.blokcs: did you mean 'finetune.swap.blocks'"),
        ("values.sede = 3", "config.sede: did you mean 'seed'"),
        ("values.modle.d_model = 3", "line 5, .*modle"),
        ('values.model.d_model = "wide"', "config.model.d_model='wide'"),
        ("values.model = 3", "config.model=3"),
        ("1 / 0", "mine.py.* line 5, .*ZeroDivisionError: division by zero"),
        ("return 3", "mine.py: get_config"),
        ("}", "line 5, fails with SyntaxError: unmatched '}'; correct it.$"),
        ('open("nothere.txt")', "line 5, fails with FileNotFoundError: .*No such file.*'nothere.txt'"),
        ('{}["depth"]', "line 5, fails with KeyError: depth; correct it.$"),
        ("import broken_helper", r"line 5, fails with SyntaxError: .*broken_helper.py, line 2\)"),
    ],
)
def test_what_a_config_file_does_wrong_is_one_sentence(file, tmp_path, monkeypatch, line, names):
    monkeypatch.setattr(sys, "path", [*sys.path])  # to which the file's folder is added
    (tmp_path / "broken_helper.py").write_text("seed = 3\nseed = (")
    with pytest.raises(UserError, match=names) as refused:
        read(file("values = config.default()", line, "return values"))
    assert "\n" not in str(refused.value)


def test_a_config_file_may_import_what_lies_beside_it_or_in_the_current_folder(file, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    (tmp_path / "beside_the_config.py").write_text("SEED = 3\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/in_the_folder.py").write_text("SEED = 4\n")
    monkeypatch.chdir(tmp_path / "sub")
    source = file("import beside_the_config, in_the_folder", "return config.default()")
    assert read(source).config == Config()


def test_a_path_may_have_a_colon(tmp_path):
    folder = tmp_path / "r 05:33"
    folder.mkdir()
    (folder / "config.json").write_text(to_json(SWEEP))
    assert read(f"--config={folder}/config.json").config == SWEEP
    (folder / "mine.py").write_text("from actlab import config\ndef get_config(of=''):\n    return config.default()\n")
    for preset in ("", ":small"):
        request = read(f"--config={folder}/mine.py{preset}")
        assert request.config == Config() and request.label == "mine" and request.code.endswith(f"mine.py{preset}")
    with pytest.raises(UserError, match="a JSON file has no presets: leave :small out"):
        read(f"--config={folder}/config.json:small")
    checkpoint = replace(Config(), **{"finetune.from_checkpoint": f"{folder}:run"})
    assert checkpoint.finetune.from_checkpoint.endswith("05:33:run")


def test_an_override_of_a_section_that_the_config_lacks_is_refused(file):
    source = file("values = config.default()", "del values.log", "return values")
    for words in ((), ("--config.log.tensorboard=true",)):
        with pytest.raises(UserError, match=r"config.log is missing|the config has no log: add that section"):
            read(source, *words)


def test_an_unknown_preset_is_told_in_the_words_of_the_file():
    with pytest.raises(UserError, match="'smal': did you mean 'small'"):
        read(f"--config={GELU}:smal")


def test_an_override_that_a_sweep_would_undo_is_refused(written):
    overrides.require_effect(read(written(SWEEP), "--config.model.d_ff=64"))
    for path in ("seed", "train.n_steps"):
        with pytest.raises(UserError, match=f"config.{path} "):
            overrides.require_effect(read(written(SWEEP), f"--config.{path}=300"))


def test_axes_on_the_command_line_join_those_of_the_file_and_replace_equal_ones(written):
    words = ("--config.sweep.model.activation=relu, gelu_scale(s=0.5)", "--config.sweep.seed", "7,8")
    before = dict(SWEEP.sweep)
    after = dict(read(written(SWEEP), *words).config.sweep)
    assert after == {**before, "model.activation": ("relu", "gelu_scale(s=0.5)"), "seed": (7, 8)}
    assert dict(read(written(), *words[1:]).config.sweep) == {"seed": (7, 8)}


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("--config.sweep=1", "--config.sweep.seed=1,2,3"),
        ("--config.sweep.seed=", "--config.sweep.seed needs values"),
        ("--config.sweep.seed=1,b", "--config.sweep.seed=b"),
        ("--config.sweep.seed=1,2,", "--config.sweep.seed=1,2, has an empty value"),
        ("--config.sweep.sede=1,2", "did you mean 'seed'"),
        ("--config.sweep.data.name=a,b", "all runs of a sweep share data.name"),
    ],
)
def test_an_axis_that_cannot_be_is_refused(written, word, names):
    with pytest.raises(UserError, match=names):
        read(written(), word)
