"""The machinery is tested, and so is the test: broken machinery is found."""

import dataclasses
import itertools

import numpy as np
import pytest
from scipy import stats

from actlab import activations
from actlab.analysis import contrasts, effects, validity
from actlab.analysis import results as results_lib
from actlab.analysis.comparison import compare
from actlab.analysis.effects import Verdict
from actlab.analysis.protocol import lower
from actlab.analysis.validity import STATED, Noise, floors, measure
from actlab.config import replace
from actlab.sweeps import session

REPEATS = 100


def failed(results=(), repeats=REPEATS, n_seeds=5, seed=0, first=7):
    """Names of the checks that fail, of so many first ones."""
    checks = itertools.islice(validity.check(results, STATED, n_seeds, repeats, seed), first)
    return [one.name for one in checks if not one.holds]


def test_all_checks_hold():
    checks = list(validity.check([], STATED, 5, REPEATS, 0))
    assert len(checks) == 7 and all(one.holds for one in checks)
    assert "predicted 66." in checks[5].found


def test_a_test_without_correction_for_many_rates_is_found(monkeypatch):
    monkeypatch.setattr(effects, "holm", list)
    assert failed(first=3) == ["A/A: calls a difference at any of three rates"]


def test_a_rate_chosen_for_each_seed_on_the_others_alone_is_found(monkeypatch):
    monkeypatch.setattr(contrasts.Grid, "at_best_mean", contrasts.Grid.own_best)
    assert failed(repeats=400, first=3) == ["A/A: calls a difference at own best rate"]


def test_a_level_that_is_twice_the_nominal_one_is_found(monkeypatch):
    monkeypatch.setattr(effects, "ALPHA", 0.12)
    assert "A/A: calls a difference of LR sensitivity" in failed(repeats=300, first=3)


def test_noise_is_measured(tables):
    rng = np.random.default_rng(0)
    shared = rng.normal(scale=0.03, size=60)
    rows = [
        tables.row(name, rate, seed, 1.0 + level + shared[seed] + rng.normal(scale=0.01))
        for name, level in (("gelu", 0.0), ("relu", 0.2), ("tanh", 0.3))
        for rate in (1e-3, 1e-2)
        for seed in range(60)
    ]
    noise = measure(tables.read(rows))
    # 2 x 2 x 59 and 59 degrees of freedom: a standard error of 5% and 9%.
    assert noise.residual == pytest.approx(0.01, rel=0.15) and noise.seed == pytest.approx(0.03, rel=0.3)
    assert noise.source == "measured on 360 runs"


def test_residuals_are_not_taken_for_an_effect_of_the_seed(tables):
    rng = np.random.default_rng(0)
    rows = [
        tables.row(name, 1e-3, k, 3.0 + rng.normal(scale=0.1)) for name in ("gelu", "relu", "tanh") for k in range(99)
    ]
    noise = measure(tables.read(rows))
    assert noise.seed < 0.04 and noise.residual == pytest.approx(0.1, rel=0.15)


def test_another_power_than_the_predicted_one_is_found(monkeypatch):
    assert validity._power(STATED, 5, REPEATS, 0).holds
    for wrong in (0.5, 0.85):
        monkeypatch.setattr(validity, "paired_power", lambda *_, wrong=wrong: wrong)
        assert not validity._power(STATED, 5, REPEATS, 0).holds


def test_noise_needs_two_activations_two_seeds_and_no_divergence(tables):
    lone = [tables.row("gelu", 1e-3, seed, 1.0 + seed / 10) for seed in range(4)]
    one_seed = [tables.row(name, 1e-3, 0, 1.0) for name in ("gelu", "relu")]
    wild = [
        tables.row(name, 1e-3, seed, 1.0 + seed, status="diverged" if seed else "finished")
        for name in ("gelu", "relu")
        for seed in (0, 1)
    ]
    for rows in (lone, one_seed, wild):
        assert measure(tables.read(rows)) is None
    assert measure([]) is None and measure() is None and validity.noise_of([]) == STATED


def test_simulated_runs_have_the_noise_and_the_effect_that_were_asked_for():
    noise, levels = Noise(seed=5.0, residual=0.01, source="test"), ((1.0, 0.0), (1.0, 0.0))
    pairs = list(validity._simulated(noise, 20, 25, 0, 0.5, levels))
    effects = [pair.at_rates[1e-3].effect for pair in pairs]
    assert np.mean([effect.mean for effect in effects]) == pytest.approx(0.5, abs=0.002)
    # Both have the seed's effect, so that it cancels; the residuals of both remain.
    assert np.mean([effect.sd for effect in effects]) == pytest.approx(0.01 * 2**0.5, rel=0.1)
    assert np.mean([pair.sensitivity.effect.mean for pair in pairs]) == pytest.approx(0.0, abs=0.002)


@pytest.mark.parametrize(
    ("changes", "holds"),
    [
        ({"floor": 0.9}, True),
        ({"floor": 1.1}, False),
        ({"floor": 0.9, "best_loss": 0.8}, False),
        ({"floor": "nan"}, True),
        ({"floor": 1.1, "status": "diverged", "final_loss": "nan", "best_loss": "nan"}, True),
    ],
)
def test_no_loss_lies_below_its_floor(tables, changes, holds):
    check = floors(tables.read([tables.row("gelu", 1e-3, 1, 1.0, **changes)]))
    assert check.holds == holds and ("gelu-lr0.001-seed1" in check.found) == (not holds)


def test_a_loss_below_the_floor_is_one_of_the_checks(tables, monkeypatch):
    results = tables.read([tables.row("gelu", 1e-3, 1, 1.0, floor=1.1)])
    monkeypatch.setattr(validity, "_simulated", lambda *_: iter(()))
    assert failed(results)[-1] == "a validation loss below the corpus's floor"


@pytest.mark.slow
def test_the_checks_hold_over_many_studies_and_other_numbers_of_seeds():
    for n_seeds, seed in ((3, 1), (5, 2), (10, 3)):
        assert failed(repeats=1000, n_seeds=n_seeds, seed=seed) == []


@pytest.fixture(scope="module")
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
    results = results_lib.read([tmp_path / "w"])
    (one,) = compare(results, [lower(*aliases)])
    (pair,) = one.main.pairs
    # Within a seed the two start alike and read the same text: they end alike.
    assert {pair.own_best.verdict, pair.sensitivity.verdict} == {Verdict.EQUIVALENT}
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


def test_tables_of_equal_places_are_pooled_not_mixed(tables):
    rng = np.random.default_rng(0)

    def table(sd, level):
        rows = [
            tables.row(name, 1e-3, k, level + rng.normal(scale=sd)) for name in ("gelu", "relu") for k in range(200)
        ]
        return tables.read(rows)

    noise = measure(table(0.1, 1.0), table(0.3, 2.0))
    assert noise.residual == pytest.approx(((0.1**2 + 0.3**2) / 2) ** 0.5, rel=0.1)
    assert noise.source == "measured on 800 runs"
