"""Replication: the interval of one more seed, which runs belong to it, and when too few are inside."""

import numpy as np
import pytest
from scipy import stats

from actlab.errors import UserError
from actlab.studies import replication
from actlab.studies.statistics import prediction_interval


@pytest.fixture
def study(tables):
    """ReLU at two rates and two warmups, six seeds around 1.0, 1.1, 2.0 and 2.1."""
    losses = (1.00, 1.01, 0.99, 1.02, 0.98, 1.00)
    return tables.read(
        [
            tables.row("relu", rate, seed, loss + (rate == 1e-2) + (warmup > 0) / 10)
            | {"optimizer.warmup_steps": warmup}
            for rate in (1e-3, 1e-2)
            for warmup in (0, 32)
            for seed, loss in enumerate(losses)
        ]
    )


def again(tables, loss, rate=1e-3, warmup=0, **changes):
    return tables.read([tables.row("relu", rate, 77, loss) | {"optimizer.warmup_steps": warmup} | changes])


@pytest.mark.parametrize(("warmup", "rate", "level"), [(0, 1e-3, 1.0), (32, 1e-3, 1.1), (0, 1e-2, 2.0)])
def test_a_run_belongs_to_its_own_cell(study, tables, warmup, rate, level):
    (one,) = replication.repeats(study, again(tables, level + 0.03, rate, warmup))
    assert one.n == 6 and one.inside and one.expected.low < level < one.expected.high
    (other,) = replication.repeats(study, again(tables, level + 0.05, rate, warmup))
    assert not other.inside


def test_of_normal_values_one_more_falls_inside_as_often_as_it_says():
    draws = np.random.default_rng(0).normal(3.0, 0.2, (4000, 6))
    spans = [prediction_interval(row[:5]) for row in draws]
    inside = sum(low <= row[5] <= high for (low, high), row in zip(spans, draws, strict=True))
    low, high = stats.binomtest(inside, len(draws)).proportion_ci(0.99)
    assert low < 0.95 < high
    assert prediction_interval(np.full(4, 0.3)) == (0.3, 0.3)


def test_two_of_two_outside_are_no_chance_and_one_of_one_may_be(study, tables):
    outside = replication.repeats(study, again(tables, 1.5))
    assert replication.chance(outside) == pytest.approx(0.05) and replication.holds(outside)
    assert replication.chance(outside * 2) == pytest.approx(0.0025) and not replication.holds(outside * 2)
    inside = replication.repeats(study, again(tables, 1.0))
    assert replication.chance(inside) == 1 and replication.holds(inside * 9 + outside)


def test_a_diverged_run_counts_with_the_loss_it_began_with(study, tables):
    (one,) = replication.repeats(study, again(tables, "nan", status="diverged", steps=3, tokens=300))
    assert one.run.loss == one.run.initial_loss and not one.inside


@pytest.mark.parametrize(
    ("rate", "changes", "words"),
    [
        (3e-3, {}, "the study has 0 runs of relu, learning rate 0.003, weight_decay=0.1, optimizer.warmup_steps=0"),
        (1e-3, {"status": "stopped"}, "was stopped before its end"),
        (1e-3, {"steps": 7}, "has steps 7, and the study's relu-lr0.001-seed0 100"),
        (1e-3, {"tokenizer": "gpt2"}, "has tokenizer gpt2, and the study's"),
    ],
)
def test_what_cannot_be_compared_is_refused(study, tables, rate, changes, words):
    with pytest.raises(UserError, match=words):
        replication.repeats(study, again(tables, 1.0, rate, **changes))
