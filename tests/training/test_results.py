"""The row of a run, from rows of metrics made by hand."""

import math

import pytest

from actlab.models import Costs
from actlab.training.results import result_row

COSTS = Costs(parameters=10, non_embedding=6, flops_per_token=60, gated_mismatch=0.0)


def validation(step, loss, **more):
    return {"run": "a", "step": step, "split": "validation", "loss": loss, "seconds": step / 2, **more}


ROWS = [validation(0, 5.0), validation(4, 2.0), {"run": "b", "step": 9, "split": "validation", "loss": 0.1}]


def test_a_finished_run(tiny):
    row = result_row(tiny, "a", [*ROWS, validation(12, 2.5)], COSTS, 1.5, step=12)
    assert (row["status"], row["steps"], row["tokens"]) == ("finished", 12, 12 * 4 * 8)
    assert (row["initial_loss"], row["final_loss"], row["best_loss"], row["best_step"]) == (5.0, 2.5, 2.0, 4)
    assert (row["floor"], row["seconds"], row["parameters"]) == (1.5, 6.0, 10)
    assert (row["activation"], row["seed"], row["learning_rate"]) == ("gelu", 1337, 1e-3)


def test_a_stopped_run_tells_the_step_it_was_saved_at(tiny):
    row = result_row(tiny, "a", ROWS, COSTS, None, step=7)
    assert (row["status"], row["steps"], row["final_loss"]) == ("stopped", 7, 2.0)
    assert math.isnan(row["floor"])


def test_a_diverged_run_has_no_final_loss_and_ends_where_it_diverged(tiny):
    end = {"run": "a", "step": 6, "split": "train", "loss": None, "status": "diverged", "seconds": 3.0}
    row = result_row(tiny, "a", [*ROWS, end], COSTS, 1.5, step=8)
    assert (row["status"], row["steps"], row["best_loss"]) == ("diverged", 6, 2.0)
    assert math.isnan(row["final_loss"]) and row["initial_loss"] == pytest.approx(5.0)
