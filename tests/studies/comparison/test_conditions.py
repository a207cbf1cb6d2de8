"""Which runs may be compared, and one sentence for those that may not."""

import math

import pytest

from actlab.errors import UserError
from actlab.studies.comparison import conditions


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


def test_sizes_may_differ_between_conditions(tables):
    rows = grid(tables) + [row | {"weight_decay": 0.0, "steps": 200, "tokens": 12800} for row in grid(tables)]
    assert [max(one.steps for one in each.results) for each in conditions(tables.read(rows))] == [100, 200]


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


def test_data_may_not_be_mixed_between_conditions_either(tables):
    rows = grid(tables) + [row | {"weight_decay": 0.0, "data": "tiny_stories"} for row in grid(tables)]
    with pytest.raises(UserError, match="mixes data"):
        conditions(tables.read(rows))


def test_what_rounding_leaves_of_a_gated_layer_is_noted(tables):
    (condition,) = conditions(tables.read(grid(tables, parameters=1020)))
    assert condition.warnings == ("parameters differ by 2.0% between activations",)
    (condition,) = conditions(tables.read(grid(tables, parameters=1005)))
    assert condition.warnings == ()


def test_diverged_runs_stay_and_are_no_other_scale(tables):
    rows = grid(tables)
    rows[0] |= {"status": "diverged", "final_loss": math.nan, "steps": 7, "tokens": 7 * 64}
    rows[1] |= {"status": "diverged", "final_loss": math.nan, "steps": 0, "tokens": 0}
    (condition,) = conditions(tables.read(rows))
    assert len(condition.results) == 8


def test_stopped_runs_are_left_out_with_a_warning(tables):
    rows = grid(tables)
    rows[0] |= {"status": "stopped", "steps": 7, "tokens": 7 * 64}
    (condition,) = conditions(tables.read(rows))
    assert len(condition.results) == 7 and "1 of 8 runs are not trained to their end" in condition.warnings[0]


def test_one_activation_is_no_comparison(tables):
    with pytest.raises(UserError, match="only relu: a comparison needs two activations"):
        conditions(tables.read(grid(tables)[:4]))
    rows = grid(tables) + [row | {"weight_decay": 0.0} for row in grid(tables)[4:]]
    with pytest.raises(UserError, match="only gelu at weight_decay=0.0"):
        conditions(tables.read(rows))
    with pytest.raises(UserError, match="only stopped runs"):
        conditions(tables.read([row | {"status": "stopped"} for row in grid(tables)]))


def test_a_run_given_twice_is_refused(tables):
    with pytest.raises(UserError, match="relu at learning rate 0.001 with seed 1 comes twice"):
        conditions(tables.read([*grid(tables), grid(tables)[0]]))


def test_no_runs_are_refused():
    with pytest.raises(UserError, match="no runs"):
        conditions([])
