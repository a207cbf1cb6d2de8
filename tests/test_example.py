"""examples/my_activation.py, the file that README and docs/activations.md show: its table, its page, its study."""

import csv
import pathlib

import commands
import mpmath
import pytest
from pages import cells

from actlab import activations, main
from actlab.cli import activations as command, command as actlab_command
from actlab.data.sets import story_grammar
from actlab.report import explorer

ROOT = pathlib.Path(__file__).parents[1]
FILE = ROOT / "examples/my_activation.py"
CONFIG = f"--config={FILE}"
QUICK = (
    *("--config.model.d_model=16", "--config.model.context=32", "--config.data.n_stories=200"),
    *("--config.data.batch_size=4", "--config.train.steps_per_call=2", "--config.optimizer.warmup_steps=2"),
    *("--config.train.n_steps=4", "--config.train.eval_every=4", "--config.train.checkpoint_every=4"),
    *("--config.train.log_every=2", "--config.train.eval_tokens=2000"),
)


@pytest.fixture
def mine():
    """The record, registered as --activations does it."""
    actlab_command.register_activations([str(FILE)])
    return activations.get("mine(width=0.5)")


def test_the_activation_is_the_formula_that_it_shows(mine):
    for x in (-3e4, -2.0, -1e-3, 0.5, 7.0):
        true = x * (mpmath.mpf("0.5") + mpmath.atan(mpmath.mpf(x) / 0.5) / mpmath.pi)
        assert float(mine.fn(x)) == pytest.approx(float(true), rel=1e-6)


def test_the_table_marks_what_is_measured_and_not_proven(mine):
    out = commands.run(command.main, f"--activations={FILE}", "--names=mine,relu", "--scale=2")
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.strip()}
    assert rows["mine"][0] == "≈-0.3183" and rows["mine"][1] == "–" and "≈" not in "".join(rows["relu"])
    found = [cell for cell in rows["mine"][:-1] if cell != "–"]
    assert all(cell.startswith("≈") for cell in found)
    known = activations.properties("mine", 2.0)
    assert f"≈{known.forward_gain:.4g}" in rows["mine"]
    assert "≈:" in out and "≈:" not in commands.run(command.main, "--names=relu")


def test_the_page_explores_it_and_says_what_is_measured(mine, tmp_path):
    page = tmp_path / "mine.html"
    commands.run(command.main, f"--activations={FILE}", "--names=mine,relu", f"--html={page}")
    text = page.read_text()
    assert "<h1>2 activations</h1>" in text and "≈ (mine): measured" in text
    (measured,) = [texts for texts, _ in cells(text, "properties-table") if texts[0] == "mine"]
    assert "≈-0.3183" in measured
    relu = explorer.page([explorer.facts("relu")])
    assert "≈" not in relu and not any("≈" in text for texts, _ in cells(relu, "properties-table") for text in texts)


def test_the_figure_of_a_name_alone(mine, tmp_path):
    out = commands.run(command.main, f"--activations={FILE}", "--names=mine", f"--plot={tmp_path}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["others.pdf", "others.png", "others.svg"]
    assert len(out.splitlines()) == 3 and ">mine<" in (tmp_path / "others.svg").read_text()


def test_curves_without_a_formula_are_the_function_and_break_at_its_kinks():
    fn = activations.elementwise(lambda x: abs(x - 0.3))
    activations.register(activations.Activation("bent_at_0_3", fn, "|x - 0.3|", "ours"))
    f, slope, _ = explorer.facts("bent_at_0_3", complete=False).curves
    assert dict(f)[2.0] == pytest.approx(1.7) and dict(f)[-2.0] == pytest.approx(2.3)
    values = [y for _, y in slope]
    assert min(values) == -1 and max(values) == 1 and sum(y != y for y in values) == 1


def test_the_study_is_planned_and_one_of_its_runs_trains(mine, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(story_grammar, "N_HELD_OUT_STORIES", 40)
    plan = commands.run(main.main, CONFIG, *QUICK, "--dry_run")
    assert "96 runs" in plan
    commands.run(main.main, CONFIG, *QUICK, "--run=mine-lr0.01-seed1", "--workdir=w")
    (row,) = csv.DictReader((tmp_path / "w/results.csv").read_text().splitlines())
    assert (row["activation"], row["status"], row["steps"]) == ("mine", "finished", "4")
