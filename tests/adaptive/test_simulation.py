"""Simulated comparisons: the worlds are as asked for, the checks hold, and what is wrong is found."""

import dataclasses
import math

import numpy as np
import pytest

from actlab.adaptive import judgement, search, simulation
from actlab.adaptive.search import Found
from actlab.adaptive.simulation import WORLDS
from actlab.analysis.effects import Verdict


def world(words):
    (found,) = [one for one in WORLDS if words in one.name]
    return found


def of_world(words, repeats=100):
    return simulation._of_world(world(words), repeats, np.random.default_rng(0))


@pytest.mark.parametrize(
    "words",
    ["optima between rates", "30% of the seeds", "three times as noisy, exp", "three activations", "every run fails"],
)
def test_worlds_hold(words):
    check = of_world(words)
    assert check.holds and "; power" in check.found


def test_a_test_that_forgets_the_looks_is_found(monkeypatch):
    def fixed(n_seeds, n_pairs):
        return np.where(np.arange(1, n_seeds + 1) < 7, math.inf, 2.1)

    assert of_world("lopsided").holds
    monkeypatch.setattr(judgement, "_critical", fixed)
    assert not of_world("lopsided").holds


def test_rates_that_are_not_the_best_are_found(monkeypatch):
    monkeypatch.setattr(simulation, "_search", lambda world, arm, rng: (Found(1e-3 * 1.5 ** (arm + 1), "", 0.0), 1.0))
    assert not of_world("optima between rates").holds


def test_a_bound_beside_a_failing_rate_that_forgets_noise_is_found(monkeypatch):
    monkeypatch.setattr(search._Search, "_sure", lambda self: 0.0)
    assert not of_world("every run fails").holds


def test_failures_that_are_not_passed_on_are_found(monkeypatch):
    monkeypatch.setattr(simulation, "judge", lambda losses, margin, allowances, failed: judgement.judge(losses, margin))
    assert not of_world("30% of the seeds collapse").holds


def test_simulated_comparisons_have_the_effect_the_noise_and_the_failures_that_were_asked_for(monkeypatch):
    seen = []

    def seeing(losses, margin, allowances, failed):
        if len(losses["0"]) == simulation._SEEDS:  # the others are looks at fewer
            seen.append((losses, failed))
        return judgement.judge(losses, margin, allowances, failed)

    monkeypatch.setattr(simulation, "judge", seeing)
    at_optimum = iter([Found(1e-3 * search.STEP**step, "", 0.0) for step in WORLDS[0].optima] * 100)
    monkeypatch.setattr(simulation, "_search", lambda *_: (next(at_optimum), 1.0))
    one = dataclasses.replace(WORLDS[0], spread=(2.0, 1.0), collapse=0.2)
    for _ in range(100):
        simulation._outcome(one, np.random.default_rng(len(seen)), effect=0.5)
    failed = np.array([[rows[name] for name in "01"] for _, rows in seen])
    assert failed.mean(axis=(0, 2)) == pytest.approx([0.2, 0.2], abs=0.03)
    difference = np.concatenate([losses["0"] - losses["1"] for losses, _ in seen])[~failed.any(axis=1).ravel()]
    assert difference.mean() == pytest.approx(0.5, abs=0.15) and difference.std() == pytest.approx(5**0.5, rel=0.05)


def test_a_search_costs_what_is_expected_and_a_comparison_saves_runs():
    outcomes = [simulation._outcome(WORLDS[0], np.random.default_rng(number)) for number in range(40)]
    assert np.mean([one.searched for one in outcomes]) / 2 == pytest.approx(search.EXPECTED_RUNS, rel=0.15)
    assert simulation._saving(100, np.random.default_rng(0)).holds


@pytest.mark.slow
def test_all_checks_hold_over_many_comparisons():
    assert [one.name for one in simulation.check(2000, 1) if not one.holds] == []


def test_a_comparison_ends_when_it_is_decided_whatever_fails_later(monkeypatch):
    def early(losses, margin, allowances, failed):
        pairs = judgement.judge(losses, margin, allowances, failed)
        verdict = Verdict.SUPPORTED if 10 <= len(losses["0"]) < 20 else Verdict.UNDECIDED
        return tuple(dataclasses.replace(pair, verdict=verdict) for pair in pairs)

    monkeypatch.setattr(simulation, "judge", early)
    failing = dataclasses.replace(WORLDS[0], collapse=0.5)
    assert simulation._outcome(failing, np.random.default_rng(0)).pairs[0].verdict == Verdict.SUPPORTED


def test_where_the_first_rates_diverge_a_lower_one_is_found():
    diverging, rng = world("every run diverges"), np.random.default_rng(0)
    found = [simulation._search(diverging, 0, rng)[0] for _ in range(20)]
    assert not any(one.unresolved for one in found)
    assert np.mean([simulation._step(one.rate) for one in found]) == pytest.approx(diverging.optima[0], abs=0.3)
