"""A sweep is the product of its axes; runs that differ in traced fields only make one program."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from actlab.config import Config, replace
from actlab.config.sweep import expand, find, narrow, programs
from actlab.errors import UserError

GRID = {"model.activation": ("relu", "gelu"), "optimizer.learning_rate": (1e-4, 1e-3, 3e-3), "seed": (1, 2, 3)}


def runs_of(sweep, **changes):
    return expand(replace(Config(), sweep=sweep, **changes))


def test_a_range_is_a_list_of_values_and_an_array_is_told_how_to_be_one():
    assert [run.config.seed for run in runs_of({"seed": range(3)})] == [0, 1, 2]
    with pytest.raises(UserError, match=r"config.sweep\['seed'\]=array.* must be a list .* write .tolist\(\)"):
        runs_of({"seed": np.arange(3)})


def test_a_config_without_a_sweep_is_one_run():
    (run,) = expand(Config())
    assert run.config == Config() and run.axes == {} and run.name == "gelu-lr0.001-seed1337"


def test_axes_multiply_the_last_one_fastest():
    runs = runs_of(GRID)
    assert [(run.config.model.activation, run.config.optimizer.learning_rate, run.config.seed) for run in runs] == [
        (activation, rate, seed) for activation in ("relu", "gelu") for rate in (1e-4, 1e-3, 3e-3) for seed in (1, 2, 3)
    ]
    assert runs[0].name == "relu-lr0.0001-seed1" and len({run.name for run in runs}) == 18
    assert all(run.config.sweep == () for run in runs)


def test_one_run_is_found_by_its_name():
    config = replace(Config(), sweep=GRID)
    run = find(config, "gelu-lr0.001-seed2")
    assert run == expand(config)[13]
    assert run.config == replace(Config(), **{"model.activation": "gelu", "optimizer.learning_rate": 1e-3, "seed": 2})
    with pytest.raises(UserError, match="--run=gelu-lr0.001-seed4 is not a run of the config: did you mean"):
        find(config, "gelu-lr0.001-seed4")


def test_one_run_is_found_with_another_seed():
    config = replace(Config(), seed=7, sweep=GRID)
    assert find(config, "gelu-lr0.001-seed2", {"seed"}).name == "gelu-lr0.001-seed7"
    assert find(config, "gelu-lr0.001-seed2", {"seed"}).config == replace(
        Config(), **{"model.activation": "gelu", "optimizer.learning_rate": 1e-3, "seed": 7}
    )
    assert find(config, "gelu-lr0.001-seed2", {"train.n_steps"}) == find(config, "gelu-lr0.001-seed2")


def test_fields_of_one_axis_move_together():
    runs = runs_of({"train.n_steps, optimizer.warmup_steps": ((1600, 0), (3200, 64)), "seed": (1, 2)})
    assert [(run.config.train.n_steps, run.config.optimizer.warmup_steps, run.config.seed) for run in runs] == [
        (1600, 0, 1),
        (1600, 0, 2),
        (3200, 64, 1),
        (3200, 64, 2),
    ]
    assert runs[2].name == "gelu-lr0.001-seed1-n_steps3200-warmup_steps64"
    assert runs[2].axes == {"train.n_steps": 3200, "optimizer.warmup_steps": 64, "seed": 1}


def test_traced_fields_share_a_program_and_static_ones_do_not():
    sweep = GRID | {"optimizer.weight_decay": (0.0, 0.1), "optimizer.warmup_steps": (0, 32)}
    groups = programs(runs_of(sweep))
    assert [len(group) for group in groups] == [18, 18, 18, 18]
    for group in groups:
        assert len({(run.config.model.activation, run.config.optimizer.warmup_steps) for run in group}) == 1


def test_runs_whose_fields_are_at_odds_are_refused():
    with pytest.raises(UserError, match="config.optimizer.warmup_steps=200 is longer"):
        runs_of({"train.n_steps": (1000, 100)}, **{"optimizer.warmup_steps": 200})


VALUES = {
    "model.activation": ("relu", "gelu", "tanh"),
    "optimizer.learning_rate": (1e-3, 1e-2, 1e-1),
    "seed": (1, 2, 3),
    "optimizer.weight_decay": (0.0, 0.1),
}


@st.composite
def sweeps(draw):
    """Axes of one to three fields each, of traced and static fields in any company."""
    fields = draw(st.permutations(list(VALUES)))
    axes = {}
    while fields:
        n = draw(st.integers(1, min(3, len(fields))))
        mine, fields = fields[:n], fields[n:]
        row = (
            st.tuples(*(st.sampled_from(VALUES[field]) for field in mine))
            if n > 1
            else st.sampled_from(VALUES[mine[0]])
        )
        axes[", ".join(mine)] = draw(st.lists(row, min_size=1, max_size=3, unique=True))
    return axes


@settings(max_examples=20)
@given(sweeps())
def test_the_parts_of_a_sweep_are_its_programs(axes):
    config = replace(Config(), sweep=axes)
    for program in programs(expand(config)):
        assert list(expand(narrow(config, program))) == program


def test_a_run_without_a_sweep_is_its_own_part():
    assert narrow(Config(), expand(Config())) == Config()
