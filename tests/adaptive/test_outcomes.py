"""What the stages of a comparison read from tables: complete seeds, losses in the answer's unit, rungs."""

import math

import numpy as np
import pytest

from actlab.adaptive import outcomes
from actlab.analysis.conditions import MARGINS

NAMES = ("gelu", "relu")


@pytest.fixture
def table(tables, tmp_path):
    """(rows) -> the folder of a table of them."""

    def write(rows):
        tables.write(tmp_path / "w" / "results.csv", rows)
        return tmp_path / "w"

    return write


def test_only_seeds_of_which_every_activation_is_done_are_judged(tables, table):
    rows = [
        tables.row(name, 1e-3, seed, 2.0, test_loss=seed / 8 + (name == "relu"), trivial_loss=5.0)
        for name in NAMES
        for seed in (20, 21, 22, 23)
        if (name, seed) != ("relu", 22)
    ]
    found = outcomes.judged(
        table([*rows, tables.row("relu", 1e-3, 22, 2.0, status="stopped")]), NAMES, 20, "next_token"
    )
    assert found.seeds == 2 and found.unlucky == []
    np.testing.assert_array_equal(found.losses["gelu"], [2.5, 2.625])
    np.testing.assert_array_equal(found.losses["relu"], [3.5, 3.625])
    assert outcomes.judged(table(rows), NAMES, 3, "next_token").seeds == 0
    nothing = outcomes.Judged(0, {}, {}, "nats/byte", MARGINS["next_token"], "")
    assert outcomes.judged(table(rows) / "none", NAMES, 20, "next_token") == nothing
    cut_short = table([row | {"status": "stopped"} for row in rows])
    assert outcomes.judged(cut_short, NAMES, 20, "next_token") == nothing, "they have no scale yet"


def test_a_loss_per_token_is_judged_per_byte_and_a_failed_run_by_its_trivial_loss(tables, table):
    of_tokens = {"tokenizer": "bpe:1024", "bytes_per_token": 4.0, "unit": "nats/token", "trivial_loss": 6.0}
    rows = [tables.row(name, 1e-3, 1, 2.0, test_loss=2.4, **of_tokens) for name in NAMES]
    rows[1] |= {"status": "diverged", "final_loss": "nan", "test_loss": ""}
    found = outcomes.judged(table(rows), NAMES, 1, "next_token")
    assert (found.losses["gelu"][0], found.losses["relu"][0]) == (0.6, 1.5)
    assert found.unlucky == ["relu"] and found.unit == "nats/byte"
    # A test loss by the test text, a trivial one by the validation text.
    found = outcomes.judged(table([row | {"test_bytes_per_token": 3.0} for row in rows]), NAMES, 1, "next_token")
    assert (found.losses["gelu"][0], found.losses["relu"][0]) == (pytest.approx(0.8), 1.5)


def test_the_search_counts_in_the_unit_of_the_answer(tables, table):
    """What a misplaced rate may cost is added to differences of the judgement."""
    n_seeds = outcomes.search.SEEDS
    rows = [tables.row("gelu", 1e-3, seed, 2.0, tokenizer="bpe:1024", bytes_per_token=4.0) for seed in range(n_seeds)]
    assert outcomes.searched(table(rows), NAMES, 25)["gelu"][1e-3].losses == (0.5,) * n_seeds
    of_masked = [row | {"objective": "masked_token"} for row in rows]
    assert outcomes.searched(table(of_masked), NAMES, 25)["gelu"][1e-3].losses == (2.0,) * n_seeds
    nothing = outcomes.judged(table(rows) / "none", NAMES, 1, "masked_token")
    assert (nothing.unit, nothing.margin) == ("nats/masked token", MARGINS["masked_token"])


def test_a_rate_has_done_the_rungs_of_its_slowest_seed(tables, table):
    n_seeds = outcomes.search.SEEDS
    rows = [
        tables.row("gelu", 1e-3, seed, 2.0, status="stopped", steps=50 + 30 * (seed == 1)) for seed in range(n_seeds)
    ]
    rows += [tables.row("gelu", 1e-2, seed, 2.0, steps=100) for seed in range(n_seeds)]
    rows += [tables.row("gelu", 1e-1, seed, 2.0, steps=100) for seed in range(n_seeds - 1)]
    rows += [tables.row("relu", 1e-3, seed, 2.0, status="stopped", steps=24) for seed in range(n_seeds)]
    found = outcomes.searched(table(rows), NAMES, 25)
    assert {rate: one.rung for rate, one in found["gelu"].items()} == {1e-3: 2, 1e-2: outcomes.search.RUNGS}
    assert found["relu"] == {}, "no quarter is done"


def test_before_the_end_only_what_learned_nothing_has_failed(tables, table):
    n_seeds = outcomes.search.SEEDS
    # Below the loss of the start, above the trivial one.
    high = {"initial_loss": 7.0, "trivial_loss": 4.0}
    early = [tables.row("gelu", 1e-3, seed, 5.0, status="stopped", steps=50, **high) for seed in range(n_seeds)]
    done = [tables.row("relu", 1e-3, seed, 5.0, steps=100, **high) for seed in range(n_seeds)]
    fell = [tables.row("gelu", 1e-2, seed, 3.0, steps=100, **high) for seed in range(n_seeds)]
    fell[0] |= {"status": "diverged", "final_loss": "nan"}
    found = outcomes.searched(table([*early, *done, *fell]), NAMES, 25)
    assert found["gelu"][1e-3].failed == (False,) * n_seeds and found["relu"][1e-3].failed == (True,) * n_seeds
    assert found["gelu"][1e-2].failed == (True, *[False] * (n_seeds - 1))
    assert math.isnan(found["gelu"][1e-2].losses[0]) and found["gelu"][1e-2].losses[1:] == (3.0,) * (n_seeds - 1)
