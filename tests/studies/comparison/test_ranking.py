"""Letters and standings."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actlab.errors import UserError
from actlab.studies.comparison import Grid, Score
from actlab.studies.comparison.ranking import letters, rank

NAMES = "vwxyz"


@pytest.mark.parametrize(
    ("different", "expected"),
    [
        ([], "a a a"),
        ([("v", "w"), ("v", "x"), ("w", "x")], "a b c"),
        ([("v", "x")], "a ab b"),
        ([("v", "w"), ("v", "x")], "a b b"),
        ([("v", "w")], "a b ab"),
    ],
)
def test_letters_by_hand(different, expected):
    groups = letters("vwx", different)
    assert " ".join("".join(groups[name]) for name in "vwx") == expected


@settings(max_examples=60)
@given(st.sets(st.sampled_from(list(itertools.combinations(NAMES, 2)))))
def test_two_share_a_letter_exactly_where_they_do_not_differ(different):
    groups = letters(NAMES, sorted(different))
    for pair in itertools.combinations(NAMES, 2):
        assert bool(set(groups[pair[0]]) & set(groups[pair[1]])) == (pair not in different)
    # No group is part of another, or it would say nothing.
    members = [{name for name in NAMES if label in groups[name]} for label in set().union(*groups.values())]
    assert not any(one < other for one in members for other in members)


def test_labels_go_on_after_z():
    names = [f"n{index:02}" for index in range(30)]
    groups = letters(names, itertools.combinations(names, 2))
    assert [groups[name] for name in names[24:29]] == [("y",), ("z",), ("aa",), ("ab",), ("ac",)]


def grid(**rows):
    return Grid(
        {
            name: {
                rate: {seed: Score(loss, loss < 7) for seed, loss in enumerate(row)} for rate, row in by_rate.items()
            }
            for name, by_rate in rows.items()
        }
    )


def test_a_ranking_by_hand():
    standings, judged = rank(
        grid(
            tanh={1e-3: (3.0, 3.1, 3.2, 3.3), 1e-2: (7.0, 7.0, 3.9, 4.0)},
            gelu={1e-3: (2.0, 2.1, 2.2, 2.3), 1e-2: (3.0, 3.1, 3.2, 3.3)},
            silu={1e-3: (2.9, 2.9, 2.9, 2.9), 1e-2: (2.02, 2.08, 2.22, 2.29)},
        ),
        0.005,
    )
    assert [(one.activation, one.best_rate, one.groups) for one in standings] == [
        ("gelu", 1e-3, ("a",)),
        ("silu", 1e-2, ("a",)),
        ("tanh", 1e-3, ("b",)),
    ]
    tanh = standings[-1]
    assert (tanh.loss, tanh.runs, tanh.failed, tanh.seeds) == (pytest.approx(3.15), 8, 2, 4)
    assert tanh.sensitivity == pytest.approx(((4.0 + 3.9 + 0.7 + 0.7) / 2) / 4)
    assert {one.family for one in judged.values()} == {3}


def test_no_common_rate_is_refused():
    with pytest.raises(UserError, match="gelu, relu share no learning rate"):
        rank(grid(gelu={1e-3: (1.0,)}, relu={1e-2: (1.0,)}), 0.005)
