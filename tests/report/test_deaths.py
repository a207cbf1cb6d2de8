"""Survival of units: worked by hand, layer by layer, and what is said where there is nothing to draw."""

import dataclasses

import numpy as np
import pytest

from actlab.page import Figure, Text
from actlab.report import deaths, layers, scales
from actlab.report.study import read
from actlab.studies.survival import kaplan_meier
from actlab.training.traces import Censuses


@pytest.fixture(scope="module")
def study(six):
    return read([six])


def with_censuses(study, *censuses):
    runs = [dataclasses.replace(run, censuses=one) for run, one in zip(study.runs, censuses, strict=False)]
    return dataclasses.replace(study, runs=tuple(runs))


def census(*dead_PLF):
    return Censuses(np.array([100, 200, 300]), np.array(dead_PLF, bool))


# Of four units one is dead from step 100 on, one from 200 on, one dead at 200 only, one never.
ONE_LAYER = ([1, 0, 0, 0], [1, 1, 1, 0], [1, 1, 0, 0])


def test_a_curve_falls_where_units_die_for_good(study):
    found = deaths.rows(with_censuses(study, census(*([row] for row in ONE_LAYER))))
    assert [row[:5] for row in found[:2]] == [["", "relu", "0.001", "learning rate 0.001", "all"]] * 2
    together = [(step, share) for *_, layer, step, share, _, _ in found if layer == "all"]
    assert together == [(0, 1.0), (100, 0.75), (200, 0.5), (300, 0.5)]
    assert all(row[7] <= row[6] <= row[8] for row in found) and found[0][7:] == [1.0, 1.0]


def test_layers_are_told_apart_and_seeds_are_not(study):
    lives, dies = [0, 0, 0, 0], [1, 1, 1, 1]
    first = census([lives, dies], [lives, dies], [lives, dies])
    second = census([lives, lives], [lives, lives], [lives, lives])
    found = deaths.rows(with_censuses(study, first, second))
    last = {row[4]: row[6] for row in found}
    assert last == {"all": 0.75, "0": 1.0, "1": 0.5}
    (choice,) = deaths.choice(found)
    assert choice.options == ("all", "0", "1") and choice.chosen == "all"


def test_with_too_many_points_layers_stand_together(study, monkeypatch):
    monkeypatch.setattr(deaths, "_MOST_ROWS", 10)
    found = deaths.rows(study)
    assert {row[4] for row in found} == {"all"} and list(deaths.choice(found)) == []


def test_the_rows_are_the_library_s_over_the_seeds_of_a_lane(study):
    curve = kaplan_meier([run.censuses for run in study.runs if run.activation == "gelu"])
    found = [row for row in deaths.rows(study) if row[1] == "gelu" and row[4] == "all" and row[5]]
    np.testing.assert_allclose([row[6] for row in found], curve.share_E[curve.steps_E > 0])


def test_the_section_draws_them_or_says_why_not(study):
    (figure,) = [block for block in layers.section(study).blocks if getattr(block, "name", "") == "survival-figure"]
    assert isinstance(figure, Figure) and "At the end: relu at 0.001 0." in figure.alt
    filters = scales.Filters(study)
    for censuses, words in (([None] * 6, "was no census"), ([census([[0]], [[1]], [[0]])], "No unit of any run")):
        one = with_censuses(study, *censuses)
        (block,) = deaths.blocks(one, filters, deaths.rows(one))
        assert isinstance(block, Text) and words in block.words
