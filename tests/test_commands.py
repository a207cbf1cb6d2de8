"""All commands together: one word runs each, each explains itself, a flag means the same wherever it is."""

import ast
import importlib
import os
import pathlib
import subprocess
import sys
import tomllib

import pytest

from actlab import __main__ as actlab
from actlab import command

ROOT = pathlib.Path(__file__).parents[1]
PACKAGE = ROOT / "actlab"


def file_of(name):
    return next(path for path in (PACKAGE / f"{name}.py", PACKAGE / name / "__main__.py") if path.is_file())


def definitions(name):
    """Name -> everything else that is said of a flag where a command defines it."""
    calls = [node for node in ast.walk(ast.parse(file_of(name).read_text())) if isinstance(node, ast.Call)]
    found = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr.startswith("DEFINE_")]
    of_values = lambda nodes: tuple(map(ast.unparse, nodes))  # noqa: E731
    return {
        ast.literal_eval(call.args[0]): (
            call.func.attr,
            # Defaults may differ: what one command must be told another knows.
            of_values(call.args[2:]),
            of_values(keyword.value for keyword in call.keywords),
        )
        for call in found
    }


def call(*words, folder):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    line = [sys.executable, *words]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def test_the_list_of_commands_is_complete():
    runs = {path for path in PACKAGE.rglob("*.py") if "\n    command.run(main" in path.read_text()}
    assert runs == {file_of(name) for name in actlab.COMMANDS}


def test_the_console_script_is_that_function():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts["actlab"].partition(":")
    assert getattr(importlib.import_module(module), function) is actlab.main


@pytest.mark.parametrize("words", ["", "'--help'"])
def test_the_list_has_a_line_each_and_imports_nothing_heavy(tmp_path, words):
    code = f"import sys; from actlab.__main__ import main; sys.argv = ['actlab', {words}]; main(); " \
        "print({'jax', 'numpy', 'absl', 'rich'} & sys.modules.keys())"  # fmt: skip
    status, out, error = call("-c", code, folder=tmp_path)
    assert (status, error) == (0, "") and out.endswith("set()\n")
    assert [line.split()[0] for line in out.splitlines() if line.startswith("  ")] == list(actlab.COMMANDS)
    assert "Trains what a config file names." in out


@pytest.mark.parametrize(("word", "answer"), [("mian", "did you mean 'main'"), ("--config=x", "valid: activations")])
def test_a_command_that_is_none_is_one_sentence_and_exit_code_2(tmp_path, word, answer):
    status, out, error = call("-m", "actlab", word, folder=tmp_path)
    assert (status, out, error.count("\n")) == (2, "", 1) and answer in error


def test_the_version_is_printed(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["actlab", "--version"])
    actlab.main()
    assert capsys.readouterr().out.startswith("actlab")


@pytest.mark.parametrize("words", [["main", "--config=nowhere.py"], ["data", "list"], ["bench", "tarining"]])
def test_the_word_is_the_module(tmp_path, words):
    name, *rest = words
    assert call("-m", "actlab", *words, folder=tmp_path) == call("-m", f"actlab.{name}", *rest, folder=tmp_path)


@pytest.mark.parametrize("name", actlab.COMMANDS)
def test_help_is_a_page_with_an_example_and_the_commands_own_flags(tmp_path, name):
    status, out, error = call("-m", "actlab", name, "--help", folder=tmp_path)
    assert (status, error) == (0, "") and f"python -m actlab.{name}" in out
    flags = [line.split()[0] for line in out.partition("\nFlags:\n")[2].splitlines() if line.startswith("  --")]
    shared = {"config": "config_flag.define()", "activations": "registering.define()"}
    own = [flag for flag, call in shared.items() if call in file_of(name).read_text()] + list(definitions(name))
    assert [flag.removeprefix("--").removeprefix("[no]") for flag in flags] == own
    assert max(map(len, out.splitlines())) <= 120


def test_help_tells_defaults(monkeypatch):
    from absl import flags

    values = flags.FlagValues()
    monkeypatch.setattr(command.flags, "FLAGS", values)
    holders = {
        "a": flags.DEFINE_float("rate", 0.5, "How fast.", flag_values=values),
        "b": flags.DEFINE_bool("loud", False, "Aloud.", flag_values=values),
        "c": flags.DEFINE_multi_string("name", [], "Whose.", flag_values=values),
    }
    page = command.page({"__doc__": "Sings.\n", **holders, "other": 3})
    assert page.split("\n") == [
        "Sings.",
        "",
        "Flags:",
        "  --rate            How fast. By default 0.5.",
        "  --[no]loud        Aloud. By default false.",
        "  --name            Whose.",
    ]


def test_a_flag_means_the_same_in_every_command():
    meanings = {}
    for name in actlab.COMMANDS:
        for flag, meaning in definitions(name).items():
            meanings.setdefault(flag, {}).setdefault(meaning, []).append(name)
    assert {"workdir", "seed"} <= meanings.keys()
    assert {flag: found for flag, found in meanings.items() if len(found) > 1} == {}
