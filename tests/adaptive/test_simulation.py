"""Simulated comparisons: the worlds are as asked for, the checks hold, and what is wrong is found."""

import dataclasses
import math

import numpy as np
import pytest

from actlab.adaptive import judgement, search, simulation
from actlab.adaptive.search import BestRate
from actlab.adaptive.simulation import WORLDS
from actlab.analysis.effects import Verdict


def world(words):
    return next(one for one in WORLDS if words in one.name)


def of_world(words, repeats=100):
    return simulation._of_world(world(words), repeats, np.random.default_rng(0))


@pytest.mark.parametrize(
    "words",
    [
        *("optima between rates", "30% of the seeds", "three times as noisy, exp", "three activations"),
        *("six activations, beyond", "six activations, 10%"),
    ],
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
    monkeypatch.setattr(
        simulation, "_search", lambda world, arm, rng: (BestRate(1e-3 * 1.5 ** (arm + 1), "", 0.0), 1.0)
    )
    assert not of_world("optima between rates").holds


def test_a_bound_beside_a_failing_rate_that_forgets_noise_is_found(monkeypatch):
    monkeypatch.setattr(search._Search, "_quantile", lambda self: 0.0)
    assert not of_world("beyond the best rate every run fails").holds


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
    at_optimum = iter([BestRate(1e-3 * search.STEP**step, "", 0.0) for step in WORLDS[0].optima] * 100)
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


def judged(failing_at, apart=10.0, **noise):
    """Three activations, the first `apart` above the second; it fails with one seed."""
    rng = np.random.default_rng(0)
    losses = {
        name: base + noise.get(name, 1.0) * rng.normal(size=40) for name, base in (("a", apart), ("b", 0), ("c", 5))
    }
    failed = {name: np.arange(40) == (failing_at if name == "a" else -1) for name in losses}
    return simulation._judged(losses, 0.25, dict.fromkeys(losses, 0.0), failed)


def test_a_comparison_ends_when_it_is_decided_whatever_fails_later():
    pairs, called = judged(failing_at=25)
    assert called and [pair.verdict for pair in pairs] == [Verdict.REFUTED, Verdict.REFUTED, Verdict.SUPPORTED]


def test_a_call_that_a_later_failure_revokes_counts():
    pairs, called = judged(failing_at=25, c=1000.0)
    assert called and pairs[0].verdict == Verdict.UNDECIDED and pairs[0].seeds == 40
    assert not judged(failing_at=0, c=1000.0)[1]
    # Eleven seeds decide the first pair, but a comparison looks at ten and at twelve, of which the last failed.
    called = judged(failing_at=39, apart=2.8, c=1000.0)[1]
    assert called and judged(failing_at=12, apart=2.8, c=1000.0)[1]
    assert not judged(failing_at=11, apart=2.8, c=1000.0)[1]


def test_a_bound_beside_a_rate_where_one_seed_fails_is_found_wrong(monkeypatch):
    def bounded(self, best):
        """As where every run fails."""
        return 1.0 if best - 1 in self._usable and best + 1 in self.at else math.inf

    monkeypatch.setattr(search._Search, "_beyond", bounded)
    assert not of_world("six activations, 10%").holds


def test_the_simulated_search_knows_how_many_activations_there_are(monkeypatch):
    asked = []
    monkeypatch.setattr(search, "next_tasks", lambda *given: asked.append(given[-1]) or BestRate(1e-3, "", 0.0))
    for words in ("three activations", "six activations, 10%"):
        simulation._search(world(words), 0, np.random.default_rng(0))
    assert asked == [3, 6]


def test_with_more_activations_the_allowances_are_wider():
    known = dict(zip((1e-3 / 1.5, 1e-3, 1.5e-3), ((2.0, 2.1), (1.0, 1.2), (9.0, 9.0)), strict=True))
    of = {rate: search.Progress(search.RUNGS, losses, (losses[0] == 9,) * 2) for rate, losses in known.items()}
    two, six = (search.next_tasks(of, 1e-3, n).allowance for n in (2, 6))
    assert math.isfinite(six) and 2 * two < six


def test_where_the_first_rates_diverge_a_lower_one_is_found():
    diverging, rng = world("every run diverges"), np.random.default_rng(0)
    found = [simulation._search(diverging, 0, rng)[0] for _ in range(20)]
    assert not any(one.unresolved for one in found)
    assert np.mean([simulation._step(one.rate) for one in found]) == pytest.approx(diverging.optima[0], abs=0.3)
