"""The Python API: what a notebook calls."""

import importlib.metadata
import shutil
import sys
import types

import commands
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import actlab
from actlab import api
from actlab.activations import Activation, catalogue, elementwise
from actlab.adaptive.answer import Table
from actlab.config import replace
from actlab.errors import UserError
from actlab.main import main
from actlab.sweeps import session, trained


def test_a_run_is_trained_once_and_read_back(small_sweep, tmp_path, capsys):
    config = replace(small_sweep, sweep=())
    run = actlab.train(config, workdir=tmp_path / "w", seed=2, **{"model.activation": "relu"})
    assert run.result["run"] == "relu-lr0.001-seed2" and run.result["status"] == "finished"
    losses = [row["loss"] for row in run.history if row["split"] == "validation"]
    assert losses[-1] == run.result["final_loss"] < losses[0]
    assert run.result["seed"] == 2 and isinstance(run.result["steps"], int) and run.result["learning_rate"] == 1e-3
    tokens = jnp.zeros((1, config.model.context), jnp.int32)
    logits, _ = run.model.apply(run.params, tokens)
    assert logits.shape[:2] == tokens.shape and bool(np.isfinite(logits).all())
    assert isinstance(run.sample("a", n_tokens=3), str)
    assert run.sample("a", n_tokens=9, seed=3, top_k=2) == run.trained.sample(prompt="a", n_tokens=9, seed=3, top_k=2)
    assert "already" not in capsys.readouterr().out
    again = actlab.train(config, workdir=tmp_path / "w", seed=2, quiet=True, **{"model.activation": "relu"})
    assert capsys.readouterr().out == ""
    jax.tree.map(np.testing.assert_array_equal, again.params, run.params)
    shutil.rmtree(tmp_path / "w/checkpoints")
    with pytest.raises(UserError, match=r"^workdir=.* holds no sound checkpoint"):
        actlab.load(tmp_path / "w").model  # noqa: B018


def test_a_run_is_loaded_by_its_workdir_and_name(small_sweep, tmp_path, monkeypatch):
    config = replace(small_sweep, **{"sweep": (("seed", (1, 2)),), "train.n_steps": 4, "model.activation": "relu"})
    session.run(config, "test", tmp_path / "w", ["test"])
    run = actlab.load(tmp_path / "w", "relu-lr0.001-seed2")
    assert (run.name, run.result["seed"], run.result["status"]) == ("relu-lr0.001-seed2", 2, "finished")
    assert {row["run"] for row in run.history} == {run.name}
    params = trained.load(tmp_path / "w", "relu-lr0.001-seed2").params
    jax.tree.map(np.testing.assert_array_equal, params, run.params)
    with pytest.raises(UserError, match=r"^run is missing: workdir=.* holds 2 runs"):
        actlab.load(tmp_path / "w")
    with pytest.raises(UserError, match=r"^run=seed3 is not in workdir=.*seed"):
        actlab.load(tmp_path / "w", "seed3")
    with pytest.raises(UserError, match=r"^run=2 must be the name"):
        actlab.load(tmp_path / "w", 2)
    with pytest.raises(UserError, match=r"^workdir=.* has no config.json"):
        actlab.load(tmp_path)
    (tmp_path / "w/results.csv").unlink()  # as while it is trained
    assert actlab.load(tmp_path / "w", run.name).result == {}


def test_a_model_of_another_function_under_the_same_name_is_refused(small_sweep, tmp_path, monkeypatch):
    def register(factor):
        made = Activation("mine", elementwise(lambda x: factor * x * x), "factor x^2", "ours")
        monkeypatch.setitem(catalogue._records, "mine", made)
        catalogue._get.cache_clear()

    register(1.0)
    changes = {"model.activation": "mine", "train.n_steps": 2, "model.init": "gpt2"}
    run = actlab.train(replace(small_sweep, sweep=()), workdir=tmp_path / "w", **changes)
    run.sample("a", n_tokens=1)
    register(2.0)
    for use in (lambda: run.sample("a", n_tokens=1), lambda: run.model):
        with pytest.raises(UserError, match="begun with another 'mine'"):
            use()
    catalogue._get.cache_clear()


def test_a_run_trains_on_a_text_of_ones_own(small_sweep, tmp_path, capsys):
    text = tmp_path / "corpus.txt"
    text.write_text("".join(f"the {n} of {n * n} is {n * 7}\n<|endoftext|>\n" for n in range(600)))
    config = replace(small_sweep, **{"sweep": (), "train.n_steps": 2, "data.dir": str(tmp_path / "data")})
    run = actlab.train(config, workdir=tmp_path / "w", text=text)
    assert run.result["data"].startswith("text_corpus_txt_")
    with pytest.raises(UserError, match="both name a text"):
        actlab.train(config, text=text, **{"data.name": "story_grammar"})
    out = commands.run(main, f"--config={tmp_path / 'w/config.json'}", f"--text={text}", f"--workdir={tmp_path / 'w'}")
    assert "already finished" in out
    named = f"--config={tmp_path / 'w/config.json'}", f"--text={text}"
    assert main([*named, "--config.data.name=story_grammar"]) == 2
    assert "both name a text" in capsys.readouterr().err


def test_a_sweep_is_not_one_run(small_sweep, tmp_path):
    with pytest.raises(UserError, match="one run"):
        actlab.train(small_sweep, workdir=tmp_path / "w")


def test_arguments_of_another_type_are_refused_by_what_they_are(tmp_path, called):
    for names in ("relu", None, ["relu", 3]):
        with pytest.raises(UserError, match=r"names=.* must be a list of names"):
            actlab.compare(names, budget="1h", workdir=tmp_path / "w")
    for budget in (None, True, [1], -1, 0, float("nan"), 1e10):
        with pytest.raises(UserError, match=r"^budget=.* must be a time"):
            actlab.compare(["relu", "gelu"], budget=budget)
    for scales in (2.5, "3", True, 0, 9):
        with pytest.raises(UserError, match=r"scales=.*, the number of widths, must be a whole number"):
            actlab.compare(["relu", "gelu"], budget="1h", scales=scales)
    with pytest.raises(Called):  # numbers of NumPy are numbers
        actlab.compare(["relu", "gelu"], budget=np.int64(60), scales=np.int64(2), workdir=tmp_path / "w")
    assert called[-1][3] == 60 and type(called[-1][-1]) is int, "JSON knows none of NumPy"
    with pytest.raises(UserError, match="^field=None must be the name of the text field"):
        actlab.compare(["relu", "gelu"], budget="1h", text=tmp_path, field=None)
    with pytest.raises(UserError) as told:
        actlab.compare(["relu", "gelu"], budget="1h", text="a whole text " * 1000)
    assert len(str(told.value)) < 400
    for call in (
        lambda config: actlab.train(config),
        lambda config: actlab.compare(["relu", "gelu"], budget="1h", config=config),
    ):
        with pytest.raises(UserError, match="config=.* is of type dict: give the path"):
            call({"model.activation": "relu"})
    with pytest.raises(UserError, match="config is None"):
        actlab.train(None)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([], "no activation cannot be compared: name two"),
        (["relu"], "relu cannot be compared: name two"),
        (["relu", "gelu", "relu"], "relu, gelu, relu names an activation twice"),
        (["relu", "linear", "identity"], "'linear' and 'identity' are two names of one function"),
        (["relu", "mine"], "unknown activation 'mine'.*activations.register"),
    ],
)
def test_a_comparison_needs_two_functions(names, told, called):
    with pytest.raises(UserError, match=told):
        actlab.compare(names, budget="1h")
    assert not called


def test_a_comparison_has_one_folder_in_whatever_order_its_activations_are_named(monkeypatch, small_sweep, tmp_path):
    monkeypatch.chdir(tmp_path)
    folders = []

    def refused(config, chosen, folder, *_, **__):
        folders.append(folder)
        raise UserError("enough")

    monkeypatch.setattr("actlab.api.SequentialComparison", refused)
    for names in (["relu", "gelu"], ["gelu", "relu"], ["gelu", "tanh"]):
        with pytest.raises(UserError, match="enough"):
            actlab.compare(names, budget="1h", config=replace(small_sweep, sweep=()))
    one, same, other = folders
    assert one == same != other and one.name.startswith("compare-gelu-relu-")


def test_what_is_refused_is_told_by_the_names_of_arguments(small_sweep, tmp_path):
    config = replace(small_sweep, sweep=())
    with pytest.raises(UserError, match=r"^scales=2 .* set it to mup, and config\.model\.init"):
        actlab.compare(["relu", "gelu"], budget="1h", scales=2, config=config, workdir=tmp_path / "w")
    with pytest.raises(UserError, match=r"^budget=soon .* for example budget=90s"):
        actlab.compare(["relu", "gelu"], budget="soon")
    with pytest.raises(UserError, match=r"^budget=90 has no unit: write for example budget=90s"):
        actlab.compare(["relu", "gelu"], budget="90")
    (tmp_path / "comparison.json").write_text("{}")
    with pytest.raises(UserError, match=r"^workdir="):
        actlab.train(config, workdir=tmp_path)


@pytest.mark.parametrize("path", ["", "~/x", "a\0b", "a\ud800", "b" * 300, 3])
def test_a_path_that_no_file_can_have_is_refused(small_sweep, tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    for call in (
        lambda: actlab.train(replace(small_sweep, sweep=()), workdir=path),
        lambda: actlab.compare(["relu", "gelu"], budget="1h", config=replace(small_sweep, sweep=()), workdir=path),
        lambda: actlab.compare(["relu", "gelu"], budget="1h", text=path),
    ):
        with pytest.raises(UserError, match=r"(workdir|text)=.* name a file or a folder"):
            call()
    assert list(tmp_path.iterdir()) == []


def test_a_table_becomes_a_data_frame(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=lambda rows: rows))
    assert Table([{"a": 1}, {"a": 2}]).to_pandas() == [{"a": 1}, {"a": 2}]


FILE = """
from actlab import config

def get_config():
    values = config.default()
    values.data.dir = {!r}
    return values
"""


def test_a_field_without_text_is_refused(called):
    with pytest.raises(UserError, match="field='body' has no effect without text"):
        actlab.compare(["relu", "gelu"], budget="1h", field="body")


class Called(Exception):
    """Stands for the work."""


@pytest.fixture
def called(monkeypatch):
    """What the work is called with, which is not done."""
    seen = []

    def work(*given, scales=None, **_):
        seen.append(given if scales is None else (*given, scales))
        raise Called

    monkeypatch.setattr(api.session, "run", work)
    monkeypatch.setattr(api, "SequentialComparison", work)
    return seen


def test_a_config_is_a_file_a_dict_or_the_dataclass_and_a_budget_may_be_a_number(texts, tmp_path, called):
    values = actlab.config.default()
    values.data.dir = texts
    file = tmp_path / "mine.py"
    file.write_text(FILE.format(texts))
    for config in (values, file, str(file), actlab.config.from_mapping(values.to_dict())):
        with pytest.raises(Called):
            actlab.train(config, seed=5)
    configs = [given[0] for given in called]
    assert all(config == configs[0] for config in configs) and (configs[0].seed, configs[0].data.dir) == (5, texts)
    for budget in (1200, "20m"):
        with pytest.raises(Called):
            actlab.compare(["relu", "gelu"], budget=budget, config=values)
        assert called[-1][3] == 1200.0


def test_auto_is_the_data_that_a_folder_was_begun_with_or_what_is_prepared_now(called, monkeypatch, tmp_path):
    monkeypatch.setattr(api.data, "resolve_name", lambda *_: "tiny_stories")
    begun = replace(actlab.config.Config(), **{"data.name": "story_grammar"})
    (tmp_path / "config.json").write_text(actlab.config.to_json(begun))
    for folder in (tmp_path, tmp_path / "new"):
        with pytest.raises(Called):
            actlab.train(actlab.config.Config(), workdir=folder)
    assert [given[0].data.name for given in called] == ["story_grammar", "tiny_stories"]


def test_a_run_that_diverged_says_so_and_has_no_model(small_sweep, tmp_path):
    config = replace(small_sweep, sweep=(), **{"optimizer.learning_rate": 1e30, "optimizer.warmup_steps": 0})
    run = actlab.train(config, workdir=tmp_path / "w")
    assert run.result["status"] == "diverged" and run.history
    with pytest.raises(UserError, match="diverged and left no model"):
        run.model  # noqa: B018


def test_the_version_is_that_of_the_package():
    assert importlib.metadata.version("actlab") == actlab.__version__
