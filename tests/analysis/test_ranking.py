"""Views at equal parameters, FLOPs and seconds; standings."""

import dataclasses
import io

import pytest
from rich.console import Console

from actlab.analysis.comparison import compare
from actlab.analysis.conditions import conditions
from actlab.analysis.contrasts import Grid, Score
from actlab.analysis.printing import show
from actlab.analysis.ranking import View, rank, views


def grid(**losses):
    return Grid.of(
        (name, rate, seed, Score(float(loss), "" if loss < 7 else "diverged"))
        for name, rows in losses.items()
        for rate, row in rows.items()
        for seed, loss in enumerate(row)
    )


def test_a_ranking_by_hand():
    standings = rank(
        grid(
            tanh={1e-3: (3.0, 3.1, 3.2, 3.3) * 2, 1e-2: (7.0, 7.0, 3.9, 4.0) * 2, 1e-1: (7,) * 8},
            gelu={1e-3: (2.0, 2.1, 2.2, 2.3) * 2, 1e-2: (3.0, 3.1, 3.2, 3.3) * 2, 1e-1: (7,) * 8},
            silu={1e-3: (2.9, 2.9, 2.9, 2.9) * 2, 1e-2: (2.02, 2.08, 2.22, 2.29) * 2, 1e-1: (7,) * 8},
        )
    )
    assert [(one.activation, one.best_rate) for one in standings] == [
        ("gelu", 1e-3),
        ("silu", 1e-2),
        ("tanh", 1e-3),
    ]
    tanh = standings[-1]
    assert (tanh.loss, tanh.runs, tanh.failed, tanh.seeds) == (pytest.approx(3.15), 24, {"diverged": 12}, 8)
    assert tanh.unresolved == "0.001 is at the edge of the grid"
    assert standings[1].unresolved == "the rates beside 0.01 are a factor 10 away"
    # At 0.1 every run of every activation failed: sensitivities are over the other two rates.
    assert tanh.sensitivity == pytest.approx(((4.0 + 3.9 + 0.7 + 0.7) / 2) / 4)


def test_of_one_usable_rate_there_is_no_sensitivity():
    standings = rank(grid(tanh={1e-3: (3.0, 3.1), 1e-1: (7, 7)}, gelu={1e-3: (2.0, 2.1), 1e-1: (7, 7)}))
    assert all(one.sensitivity is one.sensitivity_interval is None and one.loss is not None for one in standings)


@pytest.mark.parametrize(
    ("budget", "words"), [(None, "-"), (12.345, "12.3 s"), (999.6, "1,000 s"), (1234.5, "1,234 s"), (1e12, "1e+12 s")]
)
def test_a_budget_in_words(budget, words):
    assert View("seconds", "s", budget, {}, None).words == words


CURVE = ((0, 7.0), (40, 3.0), (80, 2.0), (100, 1.8))


def results(tables, curve=CURVE, **changes):
    """Gelu and relu, three seeds, relu a little worse; `changes` apply to gelu, and so does the curve's last loss."""
    rows = [
        tables.row(name, 1e-3, seed, 1.8 + seed / 100 + 0.1 * (name == "relu"), **(changes if name == "gelu" else {}))
        for name in ("gelu", "relu")
        for seed in (1, 2, 3)
    ]
    return [
        dataclasses.replace(result, curve=curve if result.activation == "gelu" else ()) for result in tables.read(rows)
    ]


def seen(results):
    (condition,) = conditions(results)
    return {view.name: view for view in views(condition)}


def losses_of(view, name):
    return {seed: score.loss for seed, score in view.grid.cells[name][1e-3].items()}


def test_equal_costs_make_equal_views(tables):
    all_three = seen(results(tables, curve=()))
    assert all_three["parameters"].grid == all_three["flops"].grid == all_three["seconds"].grid
    assert all_three["flops"].budget == 6000 * 6400 and all_three["seconds"].budget == pytest.approx(8 / 4)


def test_the_dearer_activation_is_cut_short_between_evaluations(tables):
    view = seen(results(tables, seconds=8.0 / 0.6))["seconds"]
    assert view.steps == {"gelu": pytest.approx(60), "relu": 100.0}
    # Halfway from step 40 to 80 lies halfway from 3 to 2.
    assert losses_of(view, "gelu") == {seed: pytest.approx(2.5) for seed in (1, 2, 3)}
    assert losses_of(view, "relu")[1] == pytest.approx(1.91)


def test_a_run_that_is_cut_short_is_not_read_on_the_test_set_of_its_whole_length(tables):
    whole, cut = (results(tables, seconds=seconds) for seconds in (8.0, 8.0 / 0.6))
    read_on = [
        seen([dataclasses.replace(run, test_loss=1.0) for run in runs])["seconds"].grid.read_on for runs in (whole, cut)
    ]
    assert read_on == ["test", "validation"]


def test_the_cost_of_a_step_is_that_of_its_tokens_of_one_lane_the_median_over_runs(tables):
    view = seen(results(tables, flops_per_token=6240))["flops"]
    assert view.steps["gelu"] == pytest.approx(100 / 1.04) and view.budget == 6000 * 6400
    equal = {"gelu": 100.0, "relu": 100.0}
    assert seen(results(tables, seconds=16.0, lanes=8))["seconds"].steps == equal
    one_slow = results(tables)
    one_slow[0] = dataclasses.replace(one_slow[0], seconds=800.0)
    assert seen(one_slow)["seconds"].steps == equal


def test_without_curves_or_seconds_a_view_says_why_it_is_missing(tables):
    view = seen(results(tables, curve=(), seconds=9.0))["seconds"]
    assert view.grid is None and "metrics.jsonl" in view.reason
    view = seen(results(tables, seconds=""))["seconds"]
    assert view.grid is None and view.reason == "3 runs of gelu have no seconds"


def test_diverged_runs_count_with_their_initial_loss_in_every_view(tables):
    runs = results(tables, seconds=16.0)
    runs[0] = dataclasses.replace(
        runs[0], status="diverged", final_loss=float("nan"), steps=70, tokens=70 * 64, seconds=1.0
    )
    for view in seen(runs).values():
        assert view.grid.cells["gelu"][1e-3][1][:2] == (7.0, "diverged")
    # What it took until it diverged is no cost of a step.
    assert seen(runs)["seconds"].steps["gelu"] == pytest.approx(50)


def test_where_every_run_diverged_there_is_no_budget(tables):
    runs = [
        dataclasses.replace(result, status="diverged", final_loss=float("nan"), steps=7, tokens=7 * 64)
        for result in results(tables)
    ]
    assert seen(runs)["seconds"].budget is None
    (comparison,) = compare(runs)
    assert comparison.sentences[0].startswith("undecided") and "every run diverged" in comparison.sentences[0]


def test_a_warning_where_the_winner_changes(tables):
    (comparison,) = compare(results(tables, seconds=16.0))
    assert comparison.main.standings[0].activation == "gelu"
    assert "the winner changes: gelu at equal parameters, relu at equal seconds" in comparison.warnings
    (comparison,) = compare(results(tables, seconds=8.001))
    assert not any("winner" in warning for warning in comparison.warnings)


def test_a_winner_changes_by_the_budget_and_not_by_the_split_that_is_read(tables):
    """On validation gelu is the lower, by 0.1; on test relu. Where gelu is cut, both are read on validation."""
    for seconds, changes in ((8.0 / 0.99, False), (16.0, True)):
        runs = results(tables, seconds=seconds)
        tested = {"gelu": 2.0, "relu": 1.9}
        (comparison,) = compare([dataclasses.replace(run, test_loss=tested[run.activation]) for run in runs])
        assert comparison.main.standings[0].activation == "relu"
        told = [warning for warning in comparison.warnings if "winner" in warning]
        said = "the winner changes: gelu at equal parameters, relu at equal seconds, by validation losses"
        assert told == ([said] if changes else [])
        console = Console(file=io.StringIO(), width=200)
        console.print(show(comparison))
        lines = {line.split()[0]: line for line in console.file.getvalue().splitlines() if line.strip()}
        assert "(on validation)" in lines["seconds"] and "(on" not in lines["parameters"]


def test_a_speed_goes_before_the_time_of_a_session_that_compiled_too(tables):
    # 64 tokens a step: at 3,200 tokens/s fifty steps a second.
    timed = results(tables, seconds=800.0, tokens_per_second=1600.0)
    timed = [dataclasses.replace(run, tokens_per_second=run.tokens_per_second or 3200.0) for run in timed]
    view = seen(timed)["seconds"]
    assert view.budget == pytest.approx(2.0) and view.steps == {"gelu": pytest.approx(50), "relu": 100.0}
