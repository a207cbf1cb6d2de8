"""All commands together: one word runs each, --help explains each, bad words are one sentence and exit code 2."""

import importlib
import os
import pathlib
import re
import subprocess
import sys
import tomllib

import commands
import pytest
from absl import flags

from actlab import __main__ as actlab, activations
from actlab.activations import catalogue
from actlab.cli import command
from actlab.config import Config, replace, schema
from actlab.errors import UserError

ROOT = pathlib.Path(__file__).parents[2]
MAINS = {
    name: importlib.import_module("actlab.main" if name == "train" else f"actlab.cli.{name}").main
    for name in actlab.COMMANDS
}
SHARED_FLAGS = {"workdir", "run", "seed", "question", "from", "activations", "out"}


def listed_flags(page):
    """Flag -> its help text without the default, in the order of the page."""
    lines = page.partition("\nFlags:\n")[2]
    entries = re.findall(r"^  --(?:\[no\])?(\w+) +(.*(?:\n {20}.*)*)", lines, re.MULTILINE)
    return {name: " ".join(text.split()).partition(" By default")[0] for name, text in entries}


def test_every_command_is_listed():
    named = {path.stem for path in (ROOT / "actlab/cli").glob("*.py") if "@command.entry" in path.read_text()}
    assert {"train", *named} == set(actlab.COMMANDS)


def test_the_console_script_is_the_same_entry(monkeypatch):
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts["actlab"].partition(":")
    monkeypatch.setattr(actlab, "main", lambda: 7)
    with pytest.raises(SystemExit) as ended:
        getattr(importlib.import_module(module), function)()
    assert ended.value.code == 7


@pytest.mark.parametrize("words", ["", "'--help'"])
def test_the_list_has_a_line_each_and_imports_nothing_heavy(tmp_path, words):
    code = f"import sys; from actlab.__main__ import main; sys.argv = ['actlab', {words}]; main(); " \
        "print({'jax', 'numpy', 'absl', 'rich'} & sys.modules.keys())"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr == "" and done.stdout.endswith("set()\n")
    assert [line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")] == list(actlab.COMMANDS)
    assert "Trains the runs of a config file." in done.stdout


@pytest.mark.parametrize("name", actlab.COMMANDS)
def test_a_process_prints_the_help_of_a_command_without_importing_jax(tmp_path, name):
    module = ["actlab.main"] if name == "train" else ["actlab", name]
    line = [sys.executable, "-X", "importtime", "-m", *module, "--help"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert done.returncode == 0 and "actlab.errors" in imported and "jax" not in imported
    assert f"python -m {' '.join(module)}" in done.stdout and max(map(len, done.stdout.splitlines())) <= 120
    assert commands.call(MAINS[name], "--help") == (0, done.stdout, "")


def test_a_process_refuses_an_unknown_activation_before_jax_is_imported(tmp_path):
    words = [f"--config={ROOT}/configs/tinystories_gelu.py:small", "--config.model.activation=gleu"]
    line = [sys.executable, "-X", "importtime", "-m", "actlab.main", *words]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    *imported, told = done.stderr.splitlines()
    assert told.startswith("actlab: ") and "config.model.activation='gleu'" in told and "'gelu'" in told
    assert all(line.startswith("import time:") and not line.endswith(" jax") for line in imported)


def test_several_activations_in_one_word_are_told_how_to_be_written(refused):
    told = refused(actlab.main, "compare", "relu,gelu", "--budget=1h")
    assert "'relu,gelu' names several: separate them by spaces" in told


@pytest.mark.parametrize("words", ["activations --names=relu,gleu", "bench activations --names=gleu"])
def test_a_list_of_activations_is_checked_before_the_catalogue_is_imported(refused, monkeypatch, words):
    monkeypatch.setitem(sys.modules, "actlab.activations", None)  # importing it fails
    assert "='gleu': did you mean 'gelu'" in refused(actlab.main, *words.split())


def test_the_names_that_are_known_without_jax_are_those_of_the_catalogue():
    assert command.built_in_activations() == {*activations.names(), *catalogue._aliases}


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"model.activation": "gleu(s=1)"}, "model.activation"),
        ({"model.kind": "encoder", "model.head_activation": "gleu"}, "model.head_activation"),
        ({"model.kind": "encoder", "model.n_classes": 2, "model.pooler_activation": "gleu"}, "model.pooler_activation"),
        ({"finetune.swap.to": "gleu"}, "finetune.swap.to"),
        ({"model.activation": "gleu", "finetune.swap.from": "gleu"}, "model.activation"),
        ({"sweep": {"seed": (1, 2), "model.activation": ("relu", "gleu")}}, "model.activation"),
        ({"sweep": {"model.activation, seed": (("relu", 1), ("gleu", 2))}}, "model.activation"),
    ],
)
def test_every_field_with_an_activation_is_checked(monkeypatch, changes, path):
    config = replace(Config(), **changes)
    command.require_known_activations(config)  # the catalogue is imported, and could have such a name
    monkeypatch.delitem(sys.modules, "actlab.activations")
    with pytest.raises(UserError, match=f"config.{path}='gleu.*did you mean 'gelu'"):
        command.require_known_activations(config)


def test_known_activations_pass(monkeypatch):
    monkeypatch.delitem(sys.modules, "actlab.activations")
    sweep = {"model.activation": ("swish_1", "gelu_scale(s=0.25)", " celu (alpha=2)")}
    command.require_known_activations(replace(Config(), sweep=sweep))
    assert "actlab.activations" not in sys.modules, "the catalogue, which takes a second, was not imported"


@pytest.mark.parametrize(("word", "answer"), [("trian", "did you mean 'train'"), ("--config=x", "nearest")])
def test_an_unknown_command_is_one_sentence_and_exit_code_2(refused, word, answer):
    assert answer in refused(actlab.main, word)


def test_the_entry_passes_words_and_exit_codes_on():
    assert commands.run(actlab.main, "--version").startswith("actlab")
    assert commands.run(actlab.main, "sample", "--help") == commands.run(MAINS["sample"], "--help")
    assert commands.call(actlab.main, "sample")[0] == 2


@pytest.mark.parametrize("name", actlab.COMMANDS)
@pytest.mark.parametrize("words", [["--wrokdir=x"], ["--no_such_flag"], ["qfirst", "qsecond", "qthird"]])
def test_words_that_a_command_does_not_take_are_refused(refused, name, words):
    if words[0] == "qfirst" and name in ("verdict", "report", "replicate"):
        return  # folders, as many as there are
    told = refused(MAINS[name], *words, *(["--budget=1h"] if name == "compare" else []))
    assert any(word.partition("=")[0] in told for word in words)


def test_a_flag_means_the_same_in_every_command():
    meanings = {}
    for name, main in MAINS.items():
        for flag, text in listed_flags(commands.run(main, "--help")).items():
            meanings.setdefault(flag, {}).setdefault(text, []).append(name)
    assert SHARED_FLAGS <= meanings.keys()
    # These belong to one kind of table or benchmark each; a workdir is read, or trained in.
    own = {"verdict", "to", "from", "workdir"}
    assert {flag: found for flag, found in meanings.items() if len(found) > 1 and flag not in own} == {}
    assert set(meanings["workdir"]) == {"Folder of a run, a sweep or a comparison.", "Folder to train in."}


@pytest.fixture
def sing():
    """A command with one flag of each kind."""

    @command.entry
    def main(argv):
        given = flags.FlagValues()
        flags.DEFINE_float("rate", 0.5, "How fast.", flag_values=given)
        flags.DEFINE_bool("loud", False, "Aloud.", flag_values=given)
        flags.DEFINE_multi_string("name", [], "Whose.", flag_values=given)
        flags.DEFINE_integer("times", 1, "How often.", lower_bound=1, flag_values=given)
        words = command.parse("Sings.\n", argv, given, n_words=1)
        print(given.rate, given.loud, given.name, given.times, words)
        if given.loud:
            raise KeyboardInterrupt
        return given.times

    return main


def test_help_lists_flags_in_order_with_their_defaults(sing):
    assert commands.run(sing, "--rate=x", "--help").splitlines() == [
        "Sings.",
        "",
        "Flags:",
        "  --rate            How fast. By default 0.5.",
        "  --[no]loud        Aloud. By default false.",
        "  --name            Whose.",
        "  --times           How often. By default 1.",
    ]


def test_words_are_parsed_anew_by_each_call_and_the_exit_code_is_returned(sing):
    assert commands.call(sing, "--name=a", "w", "--name", "b", "--times=3") == (3, "0.5 False ['a', 'b'] 3 ['w']\n", "")
    assert commands.call(sing) == (1, "0.5 False [] 1 []\n", "")


def test_without_argv_the_words_of_the_process_are_taken(sing, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["sing", "--times=4"])
    assert sing() == 4


def test_an_interrupt_is_exit_code_130(sing):
    code, _, error = commands.call(sing, "--loud")
    assert code == 130 and error.startswith("actlab: interrupted")


def test_so_is_one_while_the_command_is_still_imported(monkeypatch):
    def importing():
        raise KeyboardInterrupt

    ended = []
    monkeypatch.setattr(os, "_exit", ended.append)
    with pytest.raises(SystemExit):
        actlab.program(importing)
    assert ended == [130]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--tmies=2"], ["--tmies", "'times'"]),
        (["--times=0"], ["--times=0", "positive integer"]),
        (["--times=many"], ["--times=many", "positive integer"]),
        (["--rate=fast: very"], ["--rate=fast", "number"]),
        (["--loud=maybe"], ["--loud=maybe", "true or false"]),
        (["--rate"], ["rate"]),
        (["w", "rate=3"], ["'rate=3'", "--rate=3"]),
        (["w", "v"], ["'v'", "--help"]),
    ],
)
def test_bad_words_are_named(refused, sing, words, told):
    sentence = refused(sing, *words)
    assert all(word in sentence for word in told)


MINE = """
from __future__ import annotations
import jax.numpy as jnp
from actlab import activations
fn = activations.elementwise(lambda x: x + jnp.abs(x))
def register(name):
    activations.register(activations.Activation(name, fn, "x + |x|", "ours"))
"""


@pytest.mark.parametrize(
    ("more", "preset", "name"),
    [
        ('import dataclasses\n@dataclasses.dataclass\nclass Own:\n    a: int\nregister("bent")', "", "bent"),
        ("def get_config(preset):\n    register(preset)", ":bent_by_preset", "bent_by_preset"),
        ('def get_config():\n    register("bent_without")', "", "bent_without"),
    ],
)
def test_a_file_registers_activations(tmp_path, more, preset, name):
    (tmp_path / "mine.py").write_text(MINE + more)
    with pytest.raises(UserError):
        activations.get(name)
    command.register_activations([f"{tmp_path}/mine.py{preset}"])
    assert float(activations.get(name).fn(-2.0)) == 0


def test_a_file_that_fails_to_register_is_named_with_its_line(tmp_path):
    (tmp_path / "mine.py").write_text("\nimport nothing_of")
    with pytest.raises(UserError, match=f"--activations={tmp_path}/mine.py: .* line 2, .*ModuleNotFoundError"):
        command.register_activations([f"{tmp_path}/mine.py"])


@pytest.mark.parametrize("words", [["sample", "--workdir=w"], ["interop", "--from=w"], ["report", "w"]])
def test_every_command_that_builds_a_trained_model_registers_them(refused, words):
    assert "--activations=nowhere.py" in refused(actlab.main, *words, "--activations=nowhere.py")


def test_too_little_memory_on_a_device_is_one_sentence():
    @command.entry
    def main(argv):
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes.\nand a stack")

    code, _, error = commands.call(main)
    assert code == 2 and error.count("\n") == 1 and "allocating 9 bytes" in error


@pytest.mark.parametrize("name", ["sample", "interop"])
def test_a_workdir_is_a_word_or_a_flag(refused, tmp_path, name):
    more = ["--to=out"] if name == "interop" else []
    for words in (["--workdir=nowhere"], ["nowhere"]):
        assert "--workdir=nowhere has no config.json" in refused(MAINS[name], *words, *more)
    assert "both name a workdir" in refused(MAINS[name], "a", "--workdir=b", *more)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "no activation is named"),
        (["relu", "gelu", "--config.model.activation=relu"], "sets --config.model.activation itself: leave it out"),
        (
            ["relu", "gelu", "--config.train.eval_every=5", "--config.train.probe_every=5"],
            "sets --config.train.eval_every and --config.train.probe_every itself: leave them out",
        ),
        (
            ["relu", "gelu", "--scales=2", "--config.model.parametrization=standard"],
            "--scales=2 carries the learning rates to other widths",
        ),
    ],
)
def test_a_comparison_says_what_it_lacks_and_what_it_sets_itself(refused, words, told):
    assert told in refused(MAINS["compare"], *words, "--budget=1h")


def test_the_fields_of_a_config_are_listed_with_default_unit_and_purpose():
    listed = commands.run(MAINS["train"], "--fields").splitlines()
    found = [line.partition(" = ")[0] for line in listed if not line.startswith(" ")]
    assert found == [path for path in schema.fields() if path != "sweep"]
    assert "model.context = 128 tokens: longest input" in listed
