"""Whole comparisons: planted effects, sentences, warnings, Dunnett, and that nothing is NaN."""

import json

import numpy as np
import pytest

from actlab.analysis import comparison
from actlab.analysis.comparison import compare
from actlab.analysis.effects import Verdict, judge, nats, paired, paired_resolution
from actlab.analysis.protocol import lower
from actlab.errors import UserError

RATES = (1e-3, 3e-3, 1e-2)


def rows(tables, effects, seed=0, n=5, noise=0.004, **changes):
    """A sweep with a planted effect for each activation; the middle rate is best."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(scale=0.02, size=n)
    return [
        tables.row(name, rate, k, 1.5 + effect + shared[k] + noise * rng.normal() + 0.1 * (rate != 3e-3), **changes)
        for name, effect in effects.items()
        for rate in RATES
        for k in range(n)
    ]


def test_planted_effects_are_found_in_their_order(tables):
    (one,) = compare(tables.read(rows(tables, {"tanh": 0.1, "gelu": 0.0, "relu": 0.03})))
    assert [standing.activation for standing in one.main.standings] == ["gelu", "relu", "tanh"]
    assert [standing.groups for standing in one.main.standings] == [("a",), ("b",), ("c",)]
    assert [standing.best_rate for standing in one.main.standings] == [3e-3] * 3
    assert [pair.question for pair in one.main.pairs] == ["gelu < relu", "gelu < tanh", "relu < tanh"]
    (sentence,) = one.sentences
    assert sentence.startswith("supported: gelu has the lowest loss, at this scale (1,000 parameters, 100 steps")
    assert one.main.pairs[0].own_best.effect.mean == pytest.approx(-0.03, abs=0.01)


@pytest.mark.parametrize(
    ("effect", "noise", "verdict", "words"),
    [
        (0.03, 0.004, Verdict.SUPPORTED, "the loss of gelu is lower than that of relu"),
        (-0.03, 0.004, Verdict.REFUTED, "not lower than that of relu but higher"),
        (0.0, 0.0005, Verdict.EQUIVALENT, "equal within the margin"),
        (0.0, 0.02, Verdict.UNDECIDED, "is open"),
    ],
)
def test_a_question_is_answered_in_one_sentence(tables, effect, noise, verdict, words):
    table = tables.read(rows(tables, {"gelu": 0.0, "relu": effect, "tanh": 0.2}, noise=noise, seed=3))
    (one,) = compare(table, [lower("gelu", "relu")])
    (sentence,) = one.sentences
    assert sentence.startswith(f"{verdict}: ") and words in sentence and "at this scale" in sentence
    assert "5 seeds" in sentence and ("four times in five" in sentence) == (verdict == Verdict.UNDECIDED)
    assert len(one.main.pairs) == 1 and one.main.pairs[0].own_best.family == 1
    assert one.main.pairs[0].at_rates[1e-2].family == 3


@pytest.mark.parametrize("family", [1, 8])
def test_what_the_seeds_would_find_allows_for_holm(family):
    noise = np.random.default_rng(4).normal(size=(family, 5))
    effects = [paired(dict(enumerate(0.01 * row)), dict.fromkeys(range(5), 0.0)) for row in noise]
    judged = judge(effects)
    undecided = next(one for one in judged if one.verdict == Verdict.UNDECIDED)
    found = nats(paired_resolution(5, alpha=0.05 / family) * undecided.effect.sd)
    end = f"; 5 seeds of this spread find {found} four times in five" + (" at Holm's strictest." if family > 1 else ".")
    assert comparison.in_numbers(undecided).endswith(end)


@pytest.mark.parametrize(("effect", "noise", "within"), [(0.001, 0.0001, True), (0.03, 0.004, False)])
def test_a_difference_within_the_margin_is_said_to_be_small(tables, effect, noise, within):
    (one,) = compare(tables.read(rows(tables, {"gelu": 0.0, "relu": effect}, noise=noise)))
    (sentence,) = one.sentences
    assert sentence.startswith("supported: gelu has the lowest loss")
    assert sentence.endswith("; so small a difference lies within the margin.") == within


def test_a_leader_that_is_level_with_others_is_no_winner(tables):
    (one,) = compare(tables.read(rows(tables, {"gelu": 0.0, "relu": 0.0005, "tanh": 0.2})))
    assert one.sentences[0].startswith("undecided: ") and "cannot be told from" in one.sentences[0]
    (one,) = compare(tables.read(rows(tables, {"gelu": 0.0, "relu": 0.0, "tanh": 0.2}, noise=0.0002)))
    assert one.sentences[0].startswith("equivalent: ") and "tanh" not in one.sentences[0]


def test_one_seed_decides_nothing_and_equal_losses_are_told_as_such(tables):
    (one,) = compare(tables.read(rows(tables, {"gelu": 0.0, "relu": 0.5}, n=1)))
    assert one.sentences[0].startswith("undecided") and one.sentences[0].endswith("one seed has no spread.")
    assert {pair.own_best.verdict for pair in one.main.pairs} == {Verdict.UNDECIDED}
    (one,) = compare(tables.read(rows(tables, {"gelu": 0.0, "relu": 0.0}, noise=0.0)), [lower("gelu", "relu")])
    assert one.sentences[0].startswith("equivalent") and "the same with every seed" in one.sentences[0]


def test_gaps_and_edges_are_warned_of(tables):
    table = rows(tables, {"gelu": 0.0, "relu": 0.03})
    missing = [
        row for row in table if not (row["activation"] == "gelu" and row["seed"] == 4 and row["learning_rate"] == 1e-2)
    ]
    more = tables.row("relu", 0.1, 0, 3.0)
    (one,) = compare(tables.read([*missing, more]))
    assert "gelu: 1 seeds lack a run and are left out of pairs" in one.warnings
    assert "relu: learning rates 0.1 are not shared by all and stay out of the ranking" in one.warnings
    assert one.main.pairs[0].own_best.effect.left_out == 1
    edge = [row | {"final_loss": row["final_loss"] + 100 * row["learning_rate"]} for row in table]
    (one,) = compare(tables.read(edge))
    assert sum("at the edge of the grid" in warning for warning in one.warnings) == 2


def test_diverged_runs_are_counted_and_told(tables):
    table = rows(tables, {"gelu": 0.0, "relu": 0.0})
    wild = [row for row in table if row["activation"] == "relu" and row["learning_rate"] == 1e-2]
    for row in wild:
        row |= {
            "status": "diverged",
            "final_loss": float("nan"),
            "best_loss": float("nan"),
            "steps": 40,
            "tokens": 2560,
        }
    (one,) = compare(tables.read(table), [lower("gelu", "relu")])
    assert "relu: 5 of 15 runs count with their initial loss" in one.warnings
    assert one.main.pairs[0].at_rates[1e-2].effect.mean == pytest.approx(1.6 - 7.0, abs=0.05)
    assert one.main.pairs[0].sensitivity.verdict == Verdict.SUPPORTED


def test_dunnett_compares_with_a_baseline(tables):
    table = tables.read(rows(tables, {"relu": 0.0, "gelu": -0.001, "tanh": 0.3}))
    (one,) = compare(table, baseline="relu")
    assert list(one.dunnett) == ["gelu", "tanh"] and one.dunnett["tanh"] < 1e-3 < 0.5 < one.dunnett["gelu"]
    with pytest.raises(UserError, match="--baseline=rleu is not in the table: did you mean 'relu'"):
        compare(table, baseline="rleu")


def test_a_question_must_be_answerable_in_every_condition(tables):
    table = rows(tables, {"gelu": 0.0, "relu": 0.0}) + rows(tables, {"tanh": 0.0, "relu": 0.0}, weight_decay=0.0)
    with pytest.raises(UserError, match="gelu has no runs in this condition"):
        compare(tables.read(table), [lower("gelu", "relu")])


def test_whatever_the_table_no_verdict_holds_nan(tables):
    tied = rows(tables, {"gelu": 0.0, "relu": 0.0}, noise=0.0)
    wild = [row | {"status": "diverged", "final_loss": float("nan")} for row in tied]
    half = [row | ({"status": "diverged", "final_loss": float("nan")} if row["seed"] else {}) for row in tied]
    for table in (
        tied,
        wild,
        half,
        rows(tables, {"gelu": 0.0, "relu": 0.1}, n=1),
        rows(tables, {"a": 0.0, "b": 0.1}, n=2),
    ):
        for one in compare(tables.read(table)):
            json.dumps(one.as_dict(), allow_nan=False)
            for pair in one.main.pairs:
                for judgement in (pair.own_best, pair.sensitivity, *pair.at_rates.values()):
                    assert judgement.verdict in list(Verdict)
                    assert judgement.verdict != Verdict.UNDECIDED or judgement.reason
