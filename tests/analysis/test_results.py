"""Tables read back: what a row counts with, which runs may be compared, and one sentence for what is wrong."""

import json
import math

import pytest

from actlab import config as config_lib
from actlab.analysis import results as results_lib
from actlab.analysis.conditions import conditions, scale_of
from actlab.config import Config
from actlab.errors import UserError
from actlab.files import signed


def workdir(tables, folder, rows, metrics=(), **changes):
    """A workdir with a config."""
    tables.write(folder / "results.csv", rows)
    (folder / "config.json").write_text(config_lib.to_json(config_lib.replace(Config(), **changes)))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in metrics))
    return folder


def test_a_row_becomes_a_result(tables):
    (result,) = tables.read([tables.row("gelu", 1e-3, 2, 1.5)])
    assert (result.activation, result.learning_rate, result.seed, result.loss) == ("gelu", 1e-3, 2, 1.5)
    assert (result.lanes, result.seconds, result.floor, result.axes) == (4, 8.0, 0.5, (("weight_decay", "0.1"),))


@pytest.mark.parametrize(
    ("changes", "loss", "learned"),
    [
        ({"final_loss": 1.5}, 1.5, True),
        ({"final_loss": 9.0}, 7.0, False),
        ({"final_loss": "nan", "best_loss": "nan", "status": "diverged"}, 7.0, False),
        ({"final_loss": "inf", "status": "diverged"}, 7.0, False),
        ({"final_loss": 2.0, "status": "diverged"}, 7.0, False),
    ],
)
def test_a_run_counts_with_the_lower_of_final_and_initial_loss_a_diverged_one_with_the_initial(
    tables, changes, loss, learned
):
    (result,) = tables.read([tables.row("gelu", 1e-3, 2, 0.0, **changes)])
    assert (result.loss, result.learned) == (loss, learned)
    assert (result.best_loss is None) == ("best_loss" in changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": ""}, "line 2: seed is empty"),
        ({"seed": "nan"}, "seed='nan' is not a finite number"),
        ({"seed": 1.5}, "seed='1.5' is not a whole number"),
        (
            {"final_loss": "nan"},
            "final_loss=nan of a finished run",
        ),
        ({"final_loss": "inf"}, "final_loss=inf of a finished run"),
        ({"final_loss": "low"}, "final_loss='low'"),
        ({"initial_loss": "nan", "final_loss": 1.0}, "initial_loss='nan' is not a finite number"),
        ({"initial_loss": "nan", "status": "diverged"}, "was not finite when it began"),
        ({"learning_rate": "nan"}, "learning_rate='nan'"),
        ({"status": "done"}, "status='done'"),
        ({"objective": "next_tokn"}, "objective='next_tokn' is not one of next_token, "),
        ({"learning_rate": -0.001}, "learning_rate=-0.001 is below 0"),
        ({"test_loss": -3.0}, "test_loss=-3 is below 0"),
        ({"tokens_per_second": -3.0}, "tokens_per_second=-3 is below 0"),
        ({"steps": -5}, "steps=-5 is below 0"),
        ({"test_loss": "inf"}, "test_loss='inf' is not a finite number"),
        ({"bytes_per_token": 0}, "bytes_per_token=0 is not above 0"),
        ({"test_bytes_per_token": -2}, "test_bytes_per_token=-2 is not above 0"),
        ({"lanes": 0}, "lanes=0"),
        ({"data": " "}, "data is empty"),
    ],
)
def test_bad_cells(tables, changes, words):
    with pytest.raises(UserError, match=words):
        tables.read([tables.row("gelu", 1e-3, 2, 1.0, **changes)])


@pytest.mark.parametrize("missing", ["seed", "activation", "data", "initial_loss"])
def test_a_missing_column_is_named(tables, missing):
    row = tables.row("gelu", 1e-3, 2, 1.0)
    del row[missing]
    with pytest.raises(UserError, match=f"no column {missing}"):
        tables.read([row])


def test_columns_that_older_tables_lack_are_optional(tables):
    row = tables.row("gelu", 1e-3, 2, 1.0)
    for name in ("lanes", "seconds", "floor", "weight_decay", "best_loss"):
        del row[name]
    (result,) = tables.read([row])
    assert (result.lanes, result.seconds, result.floor, result.axes) == (1, None, None, ())


def test_files_that_are_no_tables(tables, tmp_path):
    with pytest.raises(UserError, match="holds no results.csv"):
        results_lib.read([tmp_path])
    with pytest.raises(UserError, match="results.csv does not exist"):
        results_lib.read([tmp_path / "results.csv"])
    path = tables.write(tmp_path / "results.csv", [tables.row("gelu", 1e-3, 2, 1.0)])
    header, row = path.read_text().splitlines()
    for text, words in ((header, "has no row"), (f"{header}\n{row},7", "cells"), (f"{header}\ngelu", "cells")):
        path.write_text(text)
        with pytest.raises(UserError, match=words):
            results_lib.read([path])
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="cannot be read as a table"):
        results_lib.read([path])


def test_further_swept_fields_are_axes_and_other_columns_are_not(tables):
    row = tables.row("gelu", 1e-3, 2, 1.0, **{"optimizer.warmup_steps": 4, "grad_norm": 3.0, "my.notes": "x"})
    (result,) = tables.read([row])
    assert result.axes == (("weight_decay", "0.1"), ("optimizer.warmup_steps", "4"))


def test_validation_losses_are_read_from_metrics(tables, tmp_path):
    row = tables.row("gelu", 1e-3, 2, 1.0)
    metrics = [
        {"run": row["run"], "step": 50, "split": "validation", "loss": 2.0},
        {"run": row["run"], "step": 0, "split": "validation", "loss": 7.0},
        {"run": row["run"], "step": 50, "split": "train", "loss": 1.9},
        {"run": row["run"], "step": 60, "split": "validation", "loss": None},
        {"run": "another", "step": 70, "split": "validation", "loss": 1.8},
    ]
    folder = workdir(tables, tmp_path / "w", [row], metrics)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"run": "cut sho')
    (result,) = results_lib.read([folder])
    assert result.curve == ((0, 7.0), (50, 2.0))
    (same,) = results_lib.read([folder / "results.csv"])
    assert same == result


def test_an_axis_of_one_workdir_is_filled_in_from_the_config_of_another(tables, tmp_path):
    swept = [tables.row("gelu", 1e-3, 1, 1.0, **{"optimizer.warmup_steps": steps}) for steps in (0, 4)]
    one = workdir(tables, tmp_path / "a", swept)
    two = workdir(tables, tmp_path / "b", [tables.row("relu", 1e-3, 1, 1.0)], **{"optimizer.warmup_steps": 4})
    places = [
        (result.activation, dict(result.axes)["optimizer.warmup_steps"]) for result in results_lib.read([one, two])
    ]
    assert places == [("gelu", "0"), ("gelu", "4"), ("relu", "4")]
    # A field that is left open is an empty cell in both.
    swept = workdir(tables, tmp_path / "c", [tables.row("gelu", 1e-3, 1, 1.5, **{"model.d_hidden": ""})])
    alone = workdir(tables, tmp_path / "d", [tables.row("gelu", 1e-3, 2, 1.5)])
    assert {dict(result.axes)["model.d_hidden"] for result in results_lib.read([swept, alone])} == {""}
    (two / "config.json").unlink()
    with pytest.raises(UserError, match="has no column optimizer.warmup_steps"):
        results_lib.read([one, two])


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"model.context": 64}, "config.model.context is 128 in .*a and 64 in .*b"),
        ({"optimizer.clip_norm": 0.0}, "config.optimizer.clip_norm"),
        ({"data.n_stories": 10}, "config.data.n_stories"),
        ({"train.eval_tokens": 10}, "config.train.eval_tokens"),
        ({"seed": 3, "model.activation": "relu", "optimizer.learning_rate": 0.1}, None),
        ({"train.log_every": 5, "devices.lane": 1, "data.dir": "elsewhere", "sweep": {"seed": (1, 2)}}, None),
    ],
)
def test_workdirs_that_differ_in_what_is_not_compared_are_refused(tables, tmp_path, changes, refused):
    folders = [
        workdir(tables, tmp_path / name, [tables.row(activation, 1e-3, 1, 1.0)], **more)
        for name, activation, more in (("a", "gelu", {}), ("b", "relu", changes))
    ]
    if refused:
        alike = workdir(tables, tmp_path / "0", [tables.row("tanh", 1e-3, 1, 1.0)])
        for several in (folders, [alike, *folders]):
            with pytest.raises(UserError, match=refused):
                results_lib.read(several)
    else:
        assert len(results_lib.read(folders)) == 2


def test_a_run_that_began_without_a_finite_loss_counts_with_what_its_seed_began_with(tables):
    rows = [tables.row("gelu", 1e-3, seed, 1.5, initial_loss=7.0 + seed) for seed in (1, 2)]
    nan = {"initial_loss": "nan", "final_loss": "nan", "status": "diverged"}
    rows += [tables.row("log", 1e-3, seed, 0.0, **nan) for seed in (2, 3)]
    *_, second, third = tables.read(rows)
    assert (second.loss, second.learned, third.loss) == (9.0, False, 8.5)
    # A run that was stopped, as in the search of a comparison, knows what its seed began with too.
    stopped = [row | {"status": "stopped"} if row["activation"] == "gelu" else row for row in rows]
    assert [one.loss for one in tables.read(stopped)[2:]] == [9.0, 8.5]
    # Not with that of a run on other data, or at another place of a further axis.
    other = tables.row("gelu", 1e-3, 2, 1.5, initial_loss=3.0)
    assert tables.read([*rows, other | {"tokenizer": "gpt2"}])[2].loss == 9.0
    placed = [row | {"optimizer.warmup_steps": 0} for row in rows]
    assert tables.read([*placed, other | {"optimizer.warmup_steps": 32}])[2].loss == 9.0


def grid(tables, **changes):
    """Two activations, two rates, two seeds; `changes` apply to the rows of gelu."""
    return [
        tables.row(activation, rate, seed, 1.0, **(changes if activation == "gelu" else {}))
        for activation in ("relu", "gelu")
        for rate in (1e-3, 1e-2)
        for seed in (1, 2)
    ]


def test_equal_runs_are_one_condition(tables):
    (condition,) = conditions(tables.read(grid(tables)))
    assert len(condition.results) == 8 and condition.axes == () and condition.warnings == ()
    assert condition.scale == "1,000 parameters, 100 steps, story_grammar (bytes)"


def test_further_axes_are_conditions_of_their_own(tables):
    rows = [row | {"optimizer.warmup_steps": steps, "model.n_layers": 2} for steps in (0, 4) for row in grid(tables)]
    first, second = conditions(tables.read(rows))
    assert first.axes == (("optimizer.warmup_steps", "0"),) and len(first.results) == len(second.results) == 8
    assert second.scale.endswith("optimizer.warmup_steps=4")
    # Sizes may differ between conditions, data may not.
    rows = grid(tables) + [row | {"weight_decay": 0.0, "steps": 200, "tokens": 12800} for row in grid(tables)]
    assert [max(one.steps for one in each.results) for each in conditions(tables.read(rows))] == [100, 200]
    rows = grid(tables) + [row | {"weight_decay": 0.0, "data": "tiny_stories"} for row in grid(tables)]
    with pytest.raises(UserError, match="mixes data"):
        conditions(tables.read(rows))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data": "tiny_stories"}, "mixes data story_grammar .* and tiny_stories"),
        ({"tokenizer": "gpt2"}, "mixes tokenizer bytes .* and gpt2"),
        ({"steps": 200, "tokens": 12800}, "mixes steps 100 .* and 200"),
        ({"tokens": 12800}, "mixes tokens per step 64.0 .* and 128.0"),
        ({"floor": 0.6}, "mixes floor 0.5 .* and 0.6"),
        ({"parameters": 1100}, "mixes scales: parameters is 1,000 for relu.* and 1,100 for gelu.*, 10% more"),
        ({"flops_per_token": 5000}, "mixes scales: flops_per_token is 5,000"),
        ({"parameters": 0}, "parameters=0"),
    ],
)
def test_what_is_mixed_is_refused(tables, changes, words):
    with pytest.raises(UserError, match=words):
        conditions(tables.read(grid(tables, **changes)))


def test_what_rounding_leaves_of_a_gated_layer_is_noted(tables):
    (condition,) = conditions(tables.read(grid(tables, parameters=1020)))
    assert condition.warnings == ("parameters differ by 2.0% between activations",)
    (condition,) = conditions(tables.read(grid(tables, parameters=1005)))
    assert condition.warnings == ()


def test_diverged_runs_stay_and_stopped_ones_are_left_out_with_a_warning(tables):
    rows = grid(tables)
    rows[0] |= {"status": "diverged", "final_loss": math.nan, "steps": 7, "tokens": 7 * 64}
    rows[1] |= {"status": "diverged", "final_loss": math.nan, "steps": 0, "tokens": 0}
    (condition,) = conditions(tables.read(rows))
    assert len(condition.results) == 8 and condition.warnings == ()
    rows[2] |= {"status": "stopped", "steps": 7, "tokens": 7 * 64}
    (condition,) = conditions(tables.read(rows))
    assert len(condition.results) == 7 and "1 of 8 runs are not trained to their end" in condition.warnings[0]


def test_one_activation_is_no_comparison(tables):
    with pytest.raises(UserError, match="only relu has runs: train another activation"):
        conditions(tables.read(grid(tables)[:4]))
    with pytest.raises(UserError, match="no run of relu or gelu is trained to its end: let the training"):
        conditions(tables.read([row | {"status": "stopped"} for row in grid(tables)]))
    with pytest.raises(UserError, match="no run of gelu is trained to its end"):
        conditions(
            tables.read([row | {"status": "stopped"} if row["activation"] == "gelu" else row for row in grid(tables)])
        )


def test_activations_without_a_common_rate_are_no_comparison(tables):
    apart = [row | {"learning_rate": 1e-2} if row["activation"] == "gelu" else row for row in grid(tables)]
    with pytest.raises(UserError, match="relu, gelu share no learning rate: train them"):
        conditions(tables.read([row for row in apart if row["activation"] == "gelu" or row["learning_rate"] < 1e-2]))


def test_a_place_that_cannot_be_compared_is_left_out_with_a_warning(tables):
    alone = [row | {"weight_decay": 0.0} for row in grid(tables) if row["activation"] == "gelu"]
    apart = [
        row | {"weight_decay": 0.5}
        for row in grid(tables)
        if (row["activation"] == "gelu") == (row["learning_rate"] == 1e-3)
    ]
    (condition,) = conditions(tables.read([*alone, *grid(tables), *apart]))
    assert condition.axes == (("weight_decay", "0.1"),) and len(condition.results) == 8
    assert condition.warnings == (
        "left out: only gelu has runs at weight_decay=0.0: train another activation at the same learning rates",
        "left out: relu, gelu share no learning rate at weight_decay=0.5: train them at the same ones",
    )
    with pytest.raises(UserError, match="only gelu has runs at"):
        conditions(tables.read([*alone, *apart]))


def test_a_run_given_twice_and_no_runs_are_refused(tables):
    with pytest.raises(UserError, match="relu at learning rate 0.001 with seed 1 comes twice"):
        conditions(tables.read([*grid(tables), grid(tables)[0]]))
    with pytest.raises(UserError, match="no runs"):
        conditions([])


def test_a_run_that_was_stopped_in_one_workdir_and_done_in_another_is_done(tables, tmp_path):
    rows = grid(tables)
    stopped = [rows[0] | {"status": "stopped", "steps": 7, "tokens": 7 * 64}, *rows[1:2]]
    paths = [workdir(tables, tmp_path / name, of) for name, of in (("a", stopped), ("b", [rows[0], *rows[2:]]))]
    (condition,) = conditions(results_lib.read(paths))
    assert len(condition.results) == len(rows) and not condition.warnings and not condition.to_come
    both = [workdir(tables, tmp_path / name, of) for name, of in (("c", stopped), ("d", [stopped[0], *rows[2:]]))]
    (condition,) = conditions(results_lib.read(both))
    assert len(condition.results) == len(rows) - 1 and len(condition.to_come) == 1, "one run, stopped in both"
    waiting = workdir(tables, tmp_path / "e", [rows[0] | {"status": "waiting"}, *rows[1:2]])
    for order in ([waiting, both[1]], [both[1], waiting]):
        (found,) = [run for run in results_lib.read(order) if not run.done]
        assert found.status == "stopped", "it came further than where it waits"


def test_workdirs_whose_activations_of_one_name_differ_are_not_compared(tables, tmp_path):
    rows = grid(tables)
    paths = [workdir(tables, tmp_path / name, of) for name, of in (("a", rows[:2]), ("b", rows[2:]))]
    for path, value in zip(paths, (0.1, 0.1), strict=True):
        (path / "manifest.json").write_text(json.dumps(signed({"activations": {"gelu": {"fn": [value] * 27}}})))
    results_lib.read(paths)
    (paths[1] / "manifest.json").write_text(json.dumps(signed({"activations": {"gelu": {"fn": [0.9] * 27}}})))
    with pytest.raises(UserError, match="different functions named 'gelu'"):
        results_lib.read(paths)


def test_a_scale_has_the_range_of_what_differs_by_more_than_rounding(tables):
    rows = [
        tables.row("relu", 1e-3, seed, 1.0, steps=steps, parameters=parameters)
        for seed, (steps, parameters) in enumerate([(100, 1000), (100, 1010), (400, 1020)], 1)
    ]
    at = (("data.batch_size", "8"),)
    assert (
        scale_of(tables.read(rows), at)
        == "1,020 parameters, 100 to 400 steps, story_grammar (bytes), data.batch_size=8"
    )
    rows[0] |= {"parameters": 500, "status": "diverged", "steps": 7}
    assert scale_of(tables.read(rows), ()).startswith("1,020 parameters, 100 to 400 steps"), "of finished runs"
    rows[1]["parameters"] = 500
    assert scale_of(tables.read(rows), ()).startswith("500 to 1,020 parameters, ")
