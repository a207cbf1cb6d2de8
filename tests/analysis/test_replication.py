"""Replication: the interval of one more seed, which runs belong to it, and when too few are inside."""

import types

import numpy as np
import pytest
from scipy import stats

from actlab.analysis import replication
from actlab.analysis.effects import holm
from actlab.analysis.replication import prediction_interval, prediction_p
from actlab.errors import UserError


@pytest.fixture
def study(tables):
    """ReLU at two rates and two warmups, six seeds around 1.0, 1.1, 2.0 and 2.1."""
    losses = (1.00, 1.01, 0.99, 1.02, 0.98, 1.00)
    return tables.read(
        [
            tables.row("relu", rate, seed, loss + (rate == 1e-2) + (warmup > 0) / 10)
            | {"optimizer.warmup_steps": warmup, "data_fingerprint": "abcd"}
            for rate in (1e-3, 1e-2)
            for warmup in (0, 32)
            for seed, loss in enumerate(losses)
        ]
    )


def again(tables, loss, rate=1e-3, warmup=0, **changes):
    return tables.read([tables.row("relu", rate, 77, loss) | {"optimizer.warmup_steps": warmup} | changes])


@pytest.mark.parametrize(("warmup", "rate", "level"), [(0, 1e-3, 1.0), (32, 1e-3, 1.1), (0, 1e-2, 2.0)])
def test_a_run_belongs_to_its_own_cell(study, tables, warmup, rate, level):
    (one,) = replication.compare(study, again(tables, level + 0.03, rate, warmup)).repeats
    assert len(one.losses) == 6 and one.inside and one.expected.low < level < one.expected.high
    (other,) = replication.compare(study, again(tables, level + 0.05, rate, warmup)).repeats
    assert not other.inside


def test_of_normal_values_one_more_falls_inside_as_often_as_it_says():
    draws = np.random.default_rng(0).normal(3.0, 0.2, (4000, 6))
    spans = [prediction_interval(row[:5]) for row in draws]
    inside = sum(low <= row[5] <= high for (low, high), row in zip(spans, draws, strict=True))
    low, high = stats.binomtest(inside, len(draws)).proportion_ci(0.99)
    assert low < 0.95 < high
    assert prediction_interval(np.full(4, 0.3)) == (0.3, 0.3)


def test_p_is_that_of_the_interval_s_end():
    values = np.array([1.0, 1.1, 0.9, 1.05])
    low, high = prediction_interval(values)
    assert prediction_p(values, low) == pytest.approx(0.05) == prediction_p(values, high)
    assert prediction_p(values, values.mean()) == 1.0
    assert (prediction_p(np.full(3, 0.3), 0.3), prediction_p(np.full(3, 0.3), 0.31)) == (1.0, 0.0)


def test_one_run_far_away_is_no_chance_and_a_little_outside_may_be(study, tables):
    far = replication.compare(study, again(tables, 4.0))
    assert not far.holds and far.p < 1e-6
    near = replication.compare(study, again(tables, 1.05))
    assert not near.repeats[0].inside and near.holds and 0.01 < near.p < 0.05
    more = replication.Replication(near.repeats * 5)
    assert more.p == pytest.approx(5 * near.p) and more.holds


@pytest.mark.parametrize("n", [2, 5])
def test_of_runs_that_are_of_its_kind_one_in_a_hundred_studies_is_called_not_replicated(n):
    rng = np.random.default_rng(1)
    found = [min(holm([prediction_p(row[:n], one) for one in row[n:]])) for row in rng.normal(3.0, 0.2, (2000, n + 6))]
    interval = stats.binomtest(sum(p <= 0.01 for p in found), len(found)).proportion_ci(0.99)
    assert 0 < interval.low < 0.01


@pytest.mark.parametrize(("p", "holds"), [(0.0051, True), (0.0049, False)])
def test_it_holds_unless_a_run_is_outside_by_a_p_of_a_hundredth_over_all_runs(p, holds):
    repeats = tuple(types.SimpleNamespace(p=value) for value in (p, 0.9))
    assert replication.Replication(repeats).holds == holds


def test_a_diverged_run_counts_with_the_loss_it_began_with(study, tables):
    (one,) = replication.compare(study, again(tables, "nan", status="diverged", steps=3, tokens=300)).repeats
    assert one.run.loss == one.run.initial_loss and not one.inside
    assert not replication.Replication((one,)).holds


@pytest.mark.parametrize(
    ("rate", "changes", "words"),
    [
        (3e-3, {}, "fewer than two runs of relu, learning rate 0.003, weight_decay=0.1, optimizer.warmup_steps=0"),
        (1e-3, {"status": "stopped"}, "is not trained to its end"),
        (1e-3, {"steps": 7}, "has steps 7, and the study's relu-lr0.001-seed0 100"),
        (1e-3, {"tokenizer": "gpt2"}, "has tokenizer gpt2, and the study's"),
        (1e-3, {"data_fingerprint": "ffff"}, "has data_fingerprint ffff, and the study's relu-lr0.001-seed0 abcd"),
    ],
)
def test_what_cannot_be_compared_is_refused(study, tables, rate, changes, words):
    with pytest.raises(UserError, match=words):
        replication.compare(study, again(tables, 1.0, rate, **changes))
