"""examples/compare.ipynb, run cell by cell, but for its first one, which installs."""

import ast
import json
import pathlib

import pytest

from actlab.adaptive.answer import BLOCK, Answer, Table
from actlab.adaptive.comparison import SequentialComparison
from actlab.adaptive.search import RUNGS, BestRate, Task
from actlab.config import presets
from actlab.data.sets import story_grammar

ROOT = pathlib.Path(__file__).parents[1]
NOTEBOOK = json.loads((ROOT / "examples/compare.ipynb").read_text())
INSTALL, *CELLS = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
SMALL = {
    **{"data.n_stories": 200, "data.batch_size": 4, "train.eval_tokens": 2000, "model.n_layers": 1},
    **{"model.d_model": 8, "model.n_heads": 1, "model.context": 16, "train.n_steps": 12, "train.steps_per_call": 2},
    **{"optimizer.warmup_steps": 2, "optimizer.schedule": "constant", "train.log_every": 2, "data.tokenizer": "bytes"},
    **{"train.probe_every": 0, "train.census_every": 0},
}


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """One rate for a quarter and to its end, then seeds for a budget that is over soon; models of width 8."""

    def one_rate(known, start, _n_activations):
        rung = max((one.rung for one in known.values()), default=0)
        return BestRate(start, "", 0.0) if rung == RUNGS else (Task(start, 1 if rung == 0 else RUNGS),)

    def small(*arguments):
        values = of_preset(*arguments)
        values.update_from_flattened_dict(SMALL)
        return values

    of_preset = presets._overridden
    monkeypatch.setattr(presets, "_overridden", small)
    monkeypatch.setattr(story_grammar, "N_HELD_OUT_STORIES", 40)
    monkeypatch.setattr("actlab.data.rows.bigram_loss", lambda *_: 50.0)
    monkeypatch.setattr("actlab.adaptive.search.next_tasks", one_rate)
    monkeypatch.setattr(SequentialComparison, "_calibrated", lambda *_: 0.01)
    monkeypatch.setattr(SequentialComparison, "_left", lambda self: 0.0 if any(self.answer().pairs) else 1e3)
    monkeypatch.chdir(tmp_path)


def shown(source, names):
    """Runs a cell; what its last line shows."""
    *before, last = ast.parse(source).body
    exec(compile(ast.Module(before, []), "cell", "exec"), names)
    if isinstance(last, ast.Expr):
        return eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return exec(compile(ast.Module([last], []), "cell", "exec"), names)


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom(quick, capsys):
    assert "pip" in INSTALL and compile(INSTALL, "install", "exec")
    assert all(not cell.get("outputs") for cell in NOTEBOOK["cells"])
    names = {"checkout": ROOT}
    values = [shown(cell, names) for cell in CELLS]
    answers = [value for value in values if isinstance(value, Answer)]
    assert [one.name for one in answers[1].activations] == ["gelu", "mine"]
    for answer in answers:
        assert answer.pairs[0].seeds == BLOCK and answer.sentences[0] in answer._repr_html_()
    assert f"{BLOCK} seeds   relu less gelu" in capsys.readouterr().out
    tables = [value for value in values if isinstance(value, Table)]
    assert all(tables)
    assert len(list(pathlib.Path("runs").iterdir())) == 3
