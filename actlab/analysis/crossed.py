"""The interval over seeds and documents: how a difference would vary with other seeds and another test text.

An interval over seeds takes the test documents for given: it covers other seeds on this very text. Here both are drawn
anew. Seeds and documents are crossed, since every run is tested on every document, so neither alone is a cluster.
"""

import functools
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Float32, Int
from scipy import stats

from actlab.analysis.contrasts import Grid
from actlab.analysis.effects import CONFIDENCE, RESAMPLES, Interval
from actlab.workdir.documents import Documents


def seeds_and_documents(nats_SD: Float[np.ndarray, "S D"], targets_D: Int[np.ndarray, "D"]) -> Interval | None:
    """95% pigeonhole bootstrap interval of the mean difference per target, sum(nats) / (S sum(targets)).

    Args:
        nats_SD: difference of two runs with the same seed, in nats summed over a document's targets.
        targets_D: how many targets a document has; what is averaged is a ratio, which weighs documents by them.

    Returns:
        The ends, in nats per target; of zero width where nothing varies. None for fewer than two seeds or two documents
        with targets: what has one value cannot be drawn anew.

    Each of 9,999 resamples, by a generator with a fixed seed, draws seeds and, independently, documents with
    replacement (Owen 2007, "The pigeonhole bootstrap", Annals of Applied Statistics 1:386). Its variance is
    conservative: with variances v_s of seeds, v_d of documents and v_e of what is left of single pairs, the mean of S
    seeds and D documents varies by v_s/S + v_d/D + v_e/(SD), and the resamples by about v_s/S + v_d/D + 3 v_e/(SD). For
    few seeds, though, percentiles are too narrow: they have the factor (n - 1)/n in the variance, and no t. So they are
    moved outwards, to where n values would give the t interval (Hesterberg 2015, arXiv:1411.5279, the expanded
    percentile interval), with n - 1 of Satterthwaite: the degrees of freedom of v_s/S + v_d/D. Still no resample lies
    beyond the range of the seeds, which has the mean in 1 - 2^(1-S) where only seeds vary: 88% for four, 94% for five.
    """
    nats_SD, targets_D = nats_SD[:, targets_D > 0].astype(np.float64), targets_D[targets_D > 0].astype(np.float64)
    n_seeds, n_documents = nats_SD.shape
    if n_seeds < 2 or n_documents < 2:
        return None
    mean = nats_SD.sum() / (n_seeds * targets_D.sum())
    # The residuals of the ratio nats / targets; their variances over seeds and documents estimate that of the mean.
    left_SD = nats_SD - mean * targets_D
    of_seeds = (left_SD.sum(axis=1) / targets_D.sum()).var(ddof=1) / n_seeds
    of_documents = (left_SD.mean(axis=0) * n_documents / targets_D.sum()).var(ddof=1) / n_documents
    variance = of_seeds + of_documents
    if variance <= np.finfo(np.float64).eps ** 2 * mean**2:
        return Interval(float(mean), float(mean))
    freedom = variance**2 / (of_seeds**2 / (n_seeds - 1) + of_documents**2 / (n_documents - 1))
    outer = stats.norm.cdf(-np.sqrt((freedom + 1) / freedom) * stats.t.isf((1 - CONFIDENCE) / 2, freedom))
    seeds_MS, documents_MD = _drawn(n_seeds, n_documents)
    # In float64, so that no digit of a verdict depends on the CPU or its threads; in parts, for the memory.
    columns_DC = np.column_stack([nats_SD.T, targets_D])
    sums_MC = np.concatenate([part_MD.astype(np.float64) @ columns_DC for part_MD in np.array_split(documents_MD, 20)])
    sums_MS, totals_M = sums_MC[:, :-1], sums_MC[:, -1]
    means_M = (sums_MS * seeds_MS).sum(axis=1, dtype=np.float64) / (n_seeds * totals_M)
    low, high = np.quantile(means_M, [outer, 1 - outer])
    return Interval(float(low), float(high))


def of_pair(names: Sequence[str], grid: Grid, documents: Mapping[str, Documents]) -> Interval | None:
    """The interval of the first of two activations' test loss minus the second's, each at the rate of its lowest mean.

    The two rates are taken as fixed; the interval over seeds beside it also covers their choice. None
    where a run there has no documents, where differences are not read on test, and for fewer than two seeds.
    """
    rates = grid.rates(*names)
    seeds = grid.complete_seeds(rates, *names)
    if grid.read_on != "test" or not seeds:
        return None
    best = {name: grid.cells[name][grid.best_rate(name, rates, seeds)] for name in names}
    runs = [[best[name][seed].run for seed in seeds] for name in names]
    if not all(run in documents for arm in runs for run in arm):
        return None
    # A table pads its documents to as many as the longest test set of its runs has.
    targets = [np.trim_zeros(documents[run].targets, "b") for arm in runs for run in arm]
    if not all(np.array_equal(targets[0], other) for other in targets):
        return None
    one, two = (np.stack([documents[run].nats[: len(targets[0])] for run in arm]) for arm in runs)
    return seeds_and_documents(one.astype(np.float64) - two, targets[0])


@functools.lru_cache(1)
def _drawn(n_seeds: int, n_documents: int) -> tuple[Float32[np.ndarray, "M S"], Float32[np.ndarray, "M D"]]:
    """How often each resample has each seed and each document; kept, since all pairs of a study have as many."""
    rng = np.random.default_rng(0)
    counts = [rng.multinomial(n, np.full(n, 1 / n), RESAMPLES) for n in (n_seeds, n_documents)]
    return counts[0].astype(np.float32), counts[1].astype(np.float32)
