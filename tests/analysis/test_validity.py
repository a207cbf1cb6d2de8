"""The machinery is tested, and so is the test: broken machinery is found."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from actlab import activations
from actlab.analysis import best_rates, effects, results as results_lib, validity
from actlab.analysis.comparison import compare
from actlab.analysis.effects import PermutationTest, Verdict
from actlab.analysis.protocol import lower
from actlab.analysis.validity import WORLDS, floors
from actlab.config import replace
from actlab.sweeps import session

REPEATS = 100


def world(words):
    (found,) = [one for one in WORLDS if words in one.name]
    return found


def of_world(words, n_seeds=8, repeats=300):
    return validity._of_world(world(words), n_seeds, repeats, 0)


@pytest.mark.slow
def test_all_worlds_hold_but_the_known_limits():
    checks = list(validity.check([], 6, REPEATS, 0))
    assert all(one.holds for one in checks)
    limits = {one.name: float(one.found.partition("%")[0]) for one in checks if one.limit}
    assert len(limits) == 12
    # They are there because they err; of four of them, at 7 or 8%, a hundred studies may not show it.
    rarely = ("opposite", "seven level", "two level rates beside a cliff", "fourth power")
    shown = {name: share for name, share in limits.items() if not any(words in name for words in rarely)}
    assert len(shown) == 8 and all(share > 5 for share in shown.values()), limits


def idle(self, mean=0.0, alternative="two-sided"):
    """As if nothing were swapped."""
    return 0.0


def test_choosing_and_then_a_t_test_is_found_where_seeds_collapse(monkeypatch):
    monkeypatch.setattr(PermutationTest, "p", idle)
    assert not of_world("20% of the seeds collapse").holds and of_world("five level rates").holds


@pytest.mark.parametrize(
    "words", ["five level rates of one", pytest.param("an optimum on the grid", marks=pytest.mark.slow)]
)
def test_rates_that_are_chosen_by_all_seeds_alone_are_found(monkeypatch, words):
    monkeypatch.setattr(effects, "t_test", lambda *_: 0.0)
    assert not of_world(words, n_seeds=10).holds


def test_rates_of_the_grid_alone_are_found_where_an_optimum_lies_between(monkeypatch):
    monkeypatch.setattr(best_rates, "left_out", lambda curves, degree: best_rates.at_best(curves))
    assert not of_world("an optimum on the grid").holds


@pytest.mark.parametrize(
    ("degree", "words"),
    [(2, "lopsided valleys, one"), pytest.param(3, "far up the steep side", marks=pytest.mark.slow)],
)
def test_one_curve_between_the_rates_alone_is_found(monkeypatch, degree, words):
    left_out = best_rates.left_out
    monkeypatch.setattr(best_rates, "left_out", lambda curves, _: left_out(curves, degree))
    assert not of_world(words).holds


def test_a_test_without_correction_for_many_rates_is_found(monkeypatch):
    monkeypatch.setattr(effects, "holm", list)
    failed = [one.name for one in validity._at_given_rates(6, 200, 0) if not one.holds]
    assert failed == ["at any of three given rates"]


def test_another_power_than_the_predicted_one_is_found(monkeypatch):
    for wrong in (0.5, 0.99):
        monkeypatch.setattr(validity, "paired_power", lambda *_, wrong=wrong: wrong)
        checks = list(validity._at_given_rates(6, REPEATS, 0))
        assert [one.holds for one in checks] == [True, True, True, False]


def test_simulated_runs_have_the_noise_the_failures_and_the_effect_that_were_asked_for():
    one = dataclasses.replace(world("20% collapse at the top two rates"), spread=(1.0, 2.0))
    assert one.collapse == (0.2, 0.4)
    grids = list(validity.grids(one, 20, 100, np.random.default_rng(0), effect=0.5))
    rates = grids[0].rates("one", "other")
    assert np.divide(rates[1:], rates[:-1]) == pytest.approx(1.8)
    by_arm = [[grid.curves(name, rates, range(20)) for grid in grids] for name in ("one", "other")]
    failed = np.mean([curves.failed for arm in by_arm for curves in arm], axis=(0, 2))
    assert failed == pytest.approx([0, 0, 0.2, 0.4], abs=0.02)
    assert all((curves.failed[3] >= curves.failed[2]).all() for arm in by_arm for curves in arm)
    first, second = (np.array([curves.chosen[:2] for curves in arm]) for arm in by_arm)
    assert (first - second).mean(axis=(0, 2)) == pytest.approx([0.5, 0.5], abs=0.2)
    # Both have the seed's effect, so that it cancels; the residuals of both remain.
    assert (first - second).std() == pytest.approx(5**0.5, rel=0.05)
    assert first.std(axis=(0, 2)) == pytest.approx(2**0.5, rel=0.05)


@pytest.mark.parametrize(
    ("changes", "holds"),
    [
        ({"floor": 0.9}, True),
        ({"floor": 1.1}, False),
        ({"floor": 0.9, "best_loss": 0.8}, False),
        ({"floor": 0.9, "curve": "10:2.0 20:0.85 30:1.0"}, False),
        ({"floor": "nan"}, True),
        ({"floor": 1.1, "status": "diverged", "final_loss": "nan", "best_loss": "nan"}, True),
    ],
)
def test_no_loss_lies_below_its_floor(tables, changes, holds):
    check = floors(tables.read([tables.row("gelu", 1e-3, 1, 1.0, **changes)]))
    assert check.holds == holds and ("gelu-lr0.001-seed1" in check.found) == (not holds)


@pytest.mark.slow
def test_the_checks_hold_over_many_studies_and_other_numbers_of_seeds():
    for n_seeds, seed in ((6, 1), (8, 2), (10, 3)):
        assert [one.name for one in validity.check([], n_seeds, 1000, seed) if not one.holds] == []


@pytest.fixture
def aliases():
    """Relu under two more names."""
    relu = activations.get("relu")
    for name in ("relu_one", "relu_two"):
        activations.register(dataclasses.replace(relu, name=name))
    return ("relu_one", "relu_two")


@pytest.mark.slow
def test_the_same_activation_under_two_names_is_never_called_different(small_sweep, aliases, tmp_path):
    axes = {"model.activation": aliases, "optimizer.learning_rate": (1e-3, 1e-2), "seed": tuple(range(1, 13))}
    assert session.run(replace(small_sweep, sweep=axes), "aa", tmp_path / "w", ["test"]) == 0
    # After so few steps no run beats predicting each byte from the one before; without that loss none has collapsed.
    results = [dataclasses.replace(run, trivial_loss=None) for run in results_lib.read([tmp_path / "w"])]
    (one,) = compare(results, [lower(*aliases)])
    (pair,) = one.main.pairs
    # Within a seed the two start alike and read the same text: they end alike.
    assert pair.own_best.verdict == Verdict.EQUIVALENT
    assert pair.own_best.effect.differences == (0.0,) * 12

    # The noise of real runs: twelve seeds of one of them dealt at random between two names, as if of two activations.
    runs = [result for result in results if result.activation == aliases[0]]
    rng, called = np.random.default_rng(0), 0
    for _ in range(200):
        called += _calls_a_difference(_dealt(runs, rng.permutation(12) + 1, aliases), aliases)
    assert stats.binomtest(called, 200, 0.05, "greater").pvalue > 1e-3


def _dealt(runs, order, aliases):
    """The first half of the seeds under one name, the second under the other, both numbered alike."""
    place = {seed: (aliases[index // 6], index % 6) for index, seed in enumerate(order.tolist())}
    return [
        dataclasses.replace(run, activation=name, seed=seed, seconds=None)
        for run, (name, seed) in ((run, place[run.seed]) for run in runs)
    ]


def _calls_a_difference(results, aliases):
    (one,) = compare(results, [lower(*aliases)])
    return one.main.pairs[0].own_best.verdict in (Verdict.SUPPORTED, Verdict.REFUTED)
