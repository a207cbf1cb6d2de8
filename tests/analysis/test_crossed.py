"""The interval over seeds and documents: in worlds whose variances are known, and beside the verdict on a pair."""

import io

import numpy as np
import pytest
from rich.console import Console

from actlab.analysis import comparison, crossed, printing, results as results_lib
from actlab.analysis.contrasts import Grid, Score
from actlab.analysis.crossed import of_pair, seeds_and_documents
from actlab.analysis.effects import Effect
from actlab.workdir import documents
from actlab.workdir.documents import Documents
from actlab.workdir.records import Workdir


def world(rng, n_seeds, n_documents, of_seeds, of_documents, of_pairs, mean=0.0):
    """(nats, targets) of differences with this mean and these standard deviations, in nats per target."""
    targets = rng.integers(50, 250, n_documents)
    of_target = mean + of_seeds * rng.standard_normal((n_seeds, 1)) + of_documents * rng.standard_normal(n_documents)
    return targets * (of_target + of_pairs * rng.standard_normal((n_seeds, n_documents))), targets


def covered(n_worlds, *spreads, n_seeds=6, n_documents=40):
    """How often the interval over seeds and documents has the mean of its world, and how often the one over seeds."""
    rng, hits = np.random.default_rng(1), np.zeros(2)
    for _ in range(n_worlds):
        nats, targets = world(rng, n_seeds, n_documents, *spreads, mean=0.3)
        intervals = seeds_and_documents(nats, targets), Effect(tuple(nats.sum(axis=1) / targets.sum())).interval
        hits += [low <= 0.3 <= high for low, high in intervals]
    return hits / n_worlds


@pytest.mark.parametrize(
    ("spreads", "most"),
    [((1.0, 0.0, 0.0), 0.98), ((0.0, 9.0, 0.0), 0.98), ((1.0, 9.0, 3.0), 0.98), ((0.1, 3.0, 9.0), 1.0)],
    ids=["seeds", "documents", "both", "pairs"],
)
def test_it_covers_the_mean_of_the_world(monkeypatch, spreads, most):
    monkeypatch.setattr(crossed, "RESAMPLES", 999)  # enough for what is wrong by percents
    crossed._drawn.cache_clear()
    ours, over_seeds = covered(300, *spreads)
    # 300 worlds tell 0.95 from 0.91; where single pairs vary most, the bootstrap is known to cover more.
    assert 0.915 <= ours <= most
    if spreads[1]:
        assert over_seeds < 0.9, "an interval over seeds alone does not cover other documents"
    crossed._drawn.cache_clear()


def test_without_spread_of_documents_it_is_that_over_seeds():
    nats, targets = world(np.random.default_rng(0), 12, 50, 1.0, 0.0, 0.0, mean=0.2)
    ours = seeds_and_documents(nats, targets)
    theirs = Effect(tuple(nats.sum(axis=1) / targets.sum())).interval
    assert ours is not None and theirs is not None
    np.testing.assert_allclose(ours, theirs, rtol=0.15, atol=0.02)


def test_no_digit_of_it_hangs_on_the_order_of_sums():
    """Sums in float32 would depend on the number of threads, and shift with the mean."""
    nats, targets = world(np.random.default_rng(2), 6, 40, 0.1, 1.0, 0.5)
    shifted = seeds_and_documents(nats + 1000.0 * targets, targets)
    assert [end - 1000.0 for end in shifted] == pytest.approx(list(seeds_and_documents(nats, targets)), abs=1e-10)


def test_documents_count_by_their_targets_and_those_without_not_at_all():
    nats, targets = world(np.random.default_rng(0), 5, 40, 1.0, 1.0, 1.0)
    more = np.insert(nats, 7, 0.0, axis=1), np.insert(targets, 7, 0)
    assert seeds_and_documents(*more) == seeds_and_documents(nats, targets)
    assert seeds_and_documents(0.25 * np.ones((4, 3)) * [8, 4, 2], np.array([8, 4, 2])) == (0.25, 0.25)
    low, high = seeds_and_documents(nats, targets)
    assert seeds_and_documents(-nats, targets) == pytest.approx((-high, -low), rel=0.1, abs=0.02)


@pytest.mark.parametrize("shape", [(1, 9), (9, 1)])
def test_what_has_one_value_cannot_be_drawn_anew(shape):
    assert seeds_and_documents(np.ones(shape), np.ones(shape[1], np.int32)) is None


def test_two_seeds_and_two_documents_are_enough():
    low, high = seeds_and_documents(np.array([[1.0, 2.0], [1.5, 3.0]]), np.ones(2, np.int32))
    assert low < 1.875 < high


N_SEEDS, TARGETS = 6, np.arange(20, 60)
RATES = (1e-3, 3e-3, 1e-2)


def table(tables, tmp_path, lacking=(), other_targets=(), without_test=()):
    """A sweep of two activations whose test loss is that of its documents; the middle rate is best on validation."""
    rng, rows, traces, known = np.random.default_rng(0), [], [], {}
    of_documents = rng.normal(size=len(TARGETS))
    for name, effect in (("gelu", 0.0), ("relu", 0.05)):
        for rate in RATES:
            for seed in range(N_SEEDS):
                level = 1.5 + effect * (1 + of_documents) + 0.01 * rng.normal() + 0.1 * (rate != 3e-3)
                nats = (TARGETS * (level + 0.02 * rng.normal(size=len(TARGETS)))).astype(np.float32)
                row = tables.row(name, rate, seed, level.mean(), test_loss=nats.sum() / TARGETS.sum())
                run = str(row["run"])
                known[name, rate, seed] = nats.astype(np.float64)
                rows.append(row | ({"test_loss": ""} if run in without_test else {}))
                targets = TARGETS + (run in other_targets)
                traces += [] if run in lacking else [documents.row(run, 100, nats, targets)]
    tables.write(tmp_path / "results.csv", rows)
    Workdir(tmp_path).write_made(documents.made(traces, [str(row["run"]) for row in rows]))
    (compared,) = comparison.compare(results_lib.read([tmp_path]))
    return compared, known


def shown(compared):
    console = Console(file=io.StringIO(), width=200)
    console.print(printing.show(compared))
    return console.file.getvalue()


def test_a_pair_at_its_best_rates_has_the_interval_of_its_documents(tables, tmp_path):
    compared, known = table(tables, tmp_path)
    (pair,) = compared.main.pairs
    at_best = [np.stack([known[name, 3e-3, seed] for seed in range(N_SEEDS)]) for name in ("relu", "gelu")]
    expected = seeds_and_documents(at_best[0] - at_best[1], TARGETS)
    assert pair.seeds_and_documents == pytest.approx(expected, rel=1e-4)
    low, high = pair.seeds_and_documents
    assert low < pair.own_best.effect.mean < high
    t_low, t_high = Effect(pair.own_best.effect.differences).interval
    assert high - low > 1.2 * (t_high - t_low), "the effect differs between documents"
    found = compared.as_dict()["views"]["parameters"]["pairs"][0]
    assert found["own_best"]["seeds_and_documents"] == (low, high)
    assert all("seeds_and_documents" not in one for one in found["at_rates"].values())
    said = shown(compared)
    assert "seeds and documents" in said and f"{low:+.4f} to {high:+.4f}" in said and "covered  " in said


@pytest.mark.parametrize("missing", ["lacking", "other_targets", "without_test"])
def test_without_all_documents_of_the_best_rates_there_is_none(tables, tmp_path, missing):
    compared, _ = table(tables, tmp_path, **{missing: ("relu-lr0.003-seed2",)})
    (pair,) = compared.main.pairs
    assert pair.seeds_and_documents is None and "seeds_and_documents" not in pair.as_dict()["own_best"]
    assert "seeds and documents" not in shown(compared)


def test_documents_that_another_part_padded_with_empty_ones_are_the_same():
    rng = np.random.default_rng(1)
    entries = [
        (name, 1e-3, seed, Score(0.0, "", f"{name}{seed}", test=0.0)) for name in "ab" for seed in range(N_SEEDS)
    ]
    known = {score.run: Documents(rng.normal(size=len(TARGETS)).astype("f4"), TARGETS) for _, _, _, score in entries}
    padded = {
        run: Documents(np.append(one.nats, [0, 0]), np.append(one.targets, [0, 0])) if run[1] < "3" else one
        for run, one in known.items()
    }
    assert of_pair("ab", Grid.of(entries), padded) == of_pair("ab", Grid.of(entries), known) is not None
