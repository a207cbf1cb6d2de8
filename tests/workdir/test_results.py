"""The row of a run, from rows of metrics made by hand."""

import math

import numpy as np
import pytest

from actlab.models import Costs
from actlab.workdir.results import result_row
from actlab.workdir.traces import Steps

COSTS = Costs(parameters=10, non_embedding=6, flops_per_token=60, gated_mismatch=0.0)
FLOORS = 1.5, 1.75  # of validation and test
STEPS = Steps(np.full(10, 2.0, np.float32), np.arange(10, dtype=np.float32))


def validation(step, loss, **more):
    return {"run": "a", "step": step, "split": "validation", "loss": loss, "seconds": step / 2, **more}


ROWS = [validation(0, 5.0), validation(4, 2.0), {"run": "b", "step": 9, "split": "validation", "loss": 0.1}]


def test_a_finished_run(tiny):
    row = result_row(tiny, "a", [*ROWS, validation(12, 2.5)], STEPS, COSTS, FLOORS, step=12)
    own = (tiny.model.activation, tiny.optimizer.learning_rate, tiny.optimizer.weight_decay, tiny.seed)
    columns = ("activation", "learning_rate", "weight_decay", "seed", "data", "tokenizer")
    assert tuple(row[column] for column in columns) == (*own, tiny.data.name, tiny.data.tokenizer)
    assert (row["status"], row["steps"], row["tokens"]) == ("finished", 12, 12 * 4 * 8)
    assert (row["initial_loss"], row["final_loss"], row["best_loss"], row["best_step"]) == (5.0, 2.5, 2.0, 4)
    assert (row["floor"], row["test_floor"], row["seconds"], row["parameters"]) == (1.5, 1.75, 6.0, 10)
    assert math.isnan(row["tokens_per_second"])
    steps = [{**validation(step, 3.0), "split": "train", "tokens_per_second": 10.0 * step} for step in (1, 4, 5)]
    timed = result_row(tiny, "a", [*ROWS, *steps, validation(12, 2.5)], STEPS, COSTS, FLOORS, step=12)
    assert timed["tokens_per_second"] == 40.0
    assert (row["activation"], row["seed"], row["learning_rate"]) == ("gelu", 1337, 1e-3)


def test_the_test_loss_stands_beside_the_final_loss(tiny):
    tested = {**validation(12, 2.75), "split": "test"}
    row = result_row(tiny, "a", [*ROWS, validation(12, 2.5), tested], STEPS, COSTS, FLOORS, step=12)
    assert (row["final_loss"], row["test_loss"], row["best_loss"]) == (2.5, 2.75, 2.0)
    columns = list(row)
    assert columns.index("test_loss") == columns.index("final_loss") + 1
    assert columns.index("test_floor") == columns.index("floor") + 1


def test_a_stopped_run_tells_the_step_it_was_saved_at(tiny):
    row = result_row(tiny, "a", ROWS, STEPS, COSTS, (None, None), step=7)
    assert (row["status"], row["steps"], row["final_loss"]) == ("stopped", 7, 2.0)
    assert math.isnan(row["floor"]) and math.isnan(row["test_floor"]) and math.isnan(row["test_loss"])


def test_a_diverged_run_has_no_final_loss_and_ends_where_it_diverged(tiny):
    end = {"run": "a", "step": 6, "split": "train", "loss": None, "status": "diverged", "seconds": 3.0}
    row = result_row(tiny, "a", [*ROWS, end], STEPS, COSTS, FLOORS, step=8)
    assert (row["status"], row["steps"], row["best_loss"]) == ("diverged", 6, 2.0)
    assert math.isnan(row["final_loss"]) and math.isnan(row["test_loss"]) and row["initial_loss"] == pytest.approx(5.0)


def test_probes_are_the_last_ones_that_were_measured(tiny):
    probes = [
        {"run": "a", "step": 4, "split": "probe", "post_mean": 0.1, "zero_fraction": 0.5, "dead_fraction": 0.2},
        {"run": "a", "step": 8, "split": "probe", "post_mean": 0.3, "zero_fraction": None},
        {"run": "b", "step": 9, "split": "probe", "post_mean": 9.0, "dead_fraction": 0.9},
    ]
    row = result_row(tiny, "a", [*ROWS, *probes, validation(12, 2.5)], STEPS, COSTS, FLOORS, step=12)
    assert (row["post_mean"], row["zero_fraction"], row["dead_fraction"]) == (0.3, 0.5, 0.2)
    assert math.isnan(row["negative_fraction"])
    assert (row["spikes"], row["grad_norm_p50"]) == (0, 8.5), "the last fifth of ten steps is two"
