"""The command: a run of ours becomes a directory, a directory is shown."""

import importlib.util
import json
import sys

import commands
import jax
import numpy as np
import pytest

import actlab.data
from actlab import config as config_lib
from actlab.cli import interop
from actlab.config import Config, replace
from actlab.data import tokenizers
from actlab.errors import UserError
from actlab.interop import huggingface, tensors
from actlab.sweeps import session, trained


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    """A short run on byte pairs."""
    folder = tmp_path_factory.mktemp("run")
    draw = np.random.default_rng(0)
    for name, n_documents in (("train", 200), ("valid", 40)):
        words = draw.choice(
            [a + b for a in ("ca", "mi", "tro", "sul") for b in ("t", "nk", "ple", "ss")], (n_documents, 8)
        )
        text = "".join(" ".join(line) + "\n<|endoftext|>\n" for line in words)
        (folder / f"{name}.txt").write_text(text)
    actlab.data.prepare("mine", folder / "data", source=folder, progress=False)
    config = replace(
        Config(),
        **{
            "model.n_layers": 1,
            "model.d_model": 8,
            "model.n_heads": 2,
            "model.context": 16,
            "optimizer.warmup_steps": 2,
            "data.name": "mine",
            "data.dir": str(folder / "data"),
            "data.tokenizer": "bpe:270",
            "data.batch_size": 4,
            "train.n_steps": 8,
            "train.eval_every": 4,
            "train.eval_tokens": 300,
            "train.checkpoint_every": 4,
            "train.probe_every": 0,
            "train.census_every": 0,
        },
    )
    assert session.run(config, "run", folder / "w", ["test"]) == 0
    return folder / "w"


@pytest.mark.slow
def test_a_run_is_written_with_its_vocabulary_and_shown(workdir, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "step 8" in commands.run(interop.main, f"--workdir={workdir}", "--to=model")
    run, loaded = trained.load(workdir), huggingface.load(tmp_path / "model")
    jax.tree.map(np.testing.assert_array_equal, loaded.params, run.params)
    assert json.loads((tmp_path / "model" / "config.json").read_text())["model_type"] == "gpt2"
    vocabulary = tokenizers.make(f"dir:{tmp_path / 'model'}", tmp_path, ())
    assert vocabulary.hash == run.tokenizer.hash

    out = commands.run(interop.main, "--from=model")
    shown = dict(line.split("=", 1) for line in out.splitlines() if line.startswith("config."))
    assert shown.pop("config.data.tokenizer") == "'dir:model'"
    fields = {path: repr(value) for path, value in config_lib.flat(run.config).items() if path.startswith("model.")}
    assert {path.removeprefix("config."): value for path, value in shown.items()} == fields


def exported(workdir, tmp_path, tokenizer):
    """What is told of the export of a run on another tokenizer; what it was trained on is nothing to the export."""
    (tmp_path / "w").mkdir()
    for path in workdir.iterdir():
        (tmp_path / "w" / path.name).symlink_to(path)
    (tmp_path / "w" / "tokenizer").unlink()
    tokenizer.save(tmp_path / "w" / "tokenizer")
    return commands.run(interop.main, "--workdir=w", "--to=model")


def test_bytes_have_no_tokenizer_which_is_told(workdir, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = exported(workdir, tmp_path, tokenizers.make("bytes", tmp_path, ()))
    assert told.startswith("tokenizer   none is written: an id is a byte of UTF-8, and 256 the end of a text\n")
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"config.json", "model.safetensors"}
    assert json.loads((tmp_path / "model" / "config.json").read_text())["eos_token_id"] == 256


def test_the_vocabulary_of_word_pieces_goes_along(workdir, tmp_path, monkeypatch):
    pieces = tokenizers.make("wordpiece", tmp_path, ())
    monkeypatch.chdir(tmp_path)
    assert "none is written" not in exported(workdir, tmp_path, pieces)
    fields = json.loads((tmp_path / "model" / "config.json").read_text())
    assert fields["eos_token_id"] == pieces.end_of_text != tokenizers.load(workdir / "tokenizer").end_of_text
    name = tokenizers.name_in(tmp_path / "model")
    assert name == f"wordpiece:{tmp_path / 'model'}" and tokenizers.make(name, tmp_path, ()).hash == pieces.hash


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "--from=DIR"),
        (["--to=x", "--from=y"], "--from=DIR"),
        (["--to=x"], "no workdir is given"),
        (["--from=x", "--workdir=y"], "--from cannot be combined"),
        (["--from=x", "--run=y"], "--from cannot be combined"),
        (["--from=nowhere"], "nowhere has no config.json"),
    ],
)
def test_bad_words_are_refused(refused, words, told):
    assert told in refused(interop.main, *words)


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    spec = importlib.util.spec_from_file_location("again", tensors.__file__)
    assert spec is not None and spec.loader is not None
    with pytest.raises(UserError, match=r"'\.\[hf\]'"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
