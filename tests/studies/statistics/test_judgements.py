"""The words of verdicts, and what a family does to them."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actlab.errors import UserError
from actlab.studies.statistics import Effect, Verdict, holm, judge

LOWER, NEAR, WIDE = (-0.10, -0.11, -0.09, -0.10), (0.001, -0.001, 0.0005, 0.0), (0.1, -0.1, 0.05, -0.02)


def verdicts(*differences, margin=0.005):
    return [judgement.verdict for judgement in judge([Effect(row) for row in differences], margin)]


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        (LOWER, Verdict.SUPPORTED),
        (tuple(-x for x in LOWER), Verdict.REFUTED),
        (NEAR, Verdict.EQUIVALENT),
        (WIDE, Verdict.UNDECIDED),
        ((0.0,) * 5, Verdict.EQUIVALENT),
        ((-0.1,) * 5, Verdict.SUPPORTED),
        ((-0.1,), Verdict.UNDECIDED),
        ((), Verdict.UNDECIDED),
    ],
)
def test_words(differences, verdict):
    assert verdicts(differences) == [verdict]


def test_a_difference_that_is_found_goes_before_equivalence():
    assert verdicts((-0.001, -0.0011, -0.0009)) == [Verdict.SUPPORTED]


def test_the_margin_makes_equivalence():
    assert verdicts(NEAR, margin=1e-5) == [Verdict.UNDECIDED]
    assert verdicts(WIDE, margin=1.0) == [Verdict.EQUIVALENT]


def test_a_bad_margin_is_refused_whatever_is_judged():
    with pytest.raises(UserError, match="margin=0"):
        judge([], 0.0)


def test_holm_over_the_family_takes_a_lone_finding_away():
    barely = (-0.05, -0.09, -0.02, -0.06)
    assert verdicts(barely) == [Verdict.SUPPORTED]
    family = judge([Effect(barely), Effect(WIDE), Effect(WIDE)])
    assert family[0].verdict == Verdict.UNDECIDED and family[0].family == 3
    assert [one.p for one in family] == holm([one.effect.p for one in family])


def test_what_allows_no_test_is_no_part_of_the_family():
    barely = (-0.05, -0.09, -0.02, -0.06)
    judged = judge([Effect(barely), Effect((0.1,)), Effect(WIDE, reason="the cat sat on it")])
    assert [one.verdict for one in judged] == [Verdict.SUPPORTED, Verdict.UNDECIDED, Verdict.UNDECIDED]
    assert judged[0].family == 1 and judged[1].p is None
    assert "one seed" in judged[1].reason and judged[2].reason == "the cat sat on it"


@settings(max_examples=40)
@given(st.lists(st.lists(st.floats(-1, 1), min_size=0, max_size=5), min_size=1, max_size=4))
def test_swapping_all_signs_swaps_the_words_and_nothing_is_nan(family):
    turned = {Verdict.SUPPORTED: Verdict.REFUTED, Verdict.REFUTED: Verdict.SUPPORTED}
    rows = [tuple(round(x, 12) for x in row) for row in family]
    ours = judge([Effect(row) for row in rows])
    theirs = judge([Effect(tuple(-x for x in row)) for row in rows])
    assert [one.verdict for one in theirs] == [turned.get(one.verdict, one.verdict) for one in ours]
    json.dumps([one.effect.p for one in ours], allow_nan=False)
    for one in ours:
        assert bool(one.reason) == (one.verdict == Verdict.UNDECIDED)


def test_everything_about_a_judgement_is_json():
    for one in judge([Effect(LOWER), Effect((0.0, 0.0, 0.0)), Effect((1.0,)), Effect(())]):
        text = json.loads(json.dumps(one.as_dict(), allow_nan=False))
        assert text["seeds"] == one.effect.n and text["verdict"] in list(Verdict)


def test_verdicts_err_no_more_often_than_one_in_twenty():
    rng = np.random.default_rng(0)
    families = [judge([Effect(tuple(row)) for row in rng.normal(size=(3, 5))]) for _ in range(400)]
    wrong = sum(any(one.verdict in (Verdict.SUPPORTED, Verdict.REFUTED) for one in family) for family in families)
    assert wrong < 35  # 99.9% of binomial(400, 0.05)
