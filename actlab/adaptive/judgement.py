"""The sequential test of `actlab compare`: pairs of activations at fixed rates, read again after every fresh seed.

Each pair has a confidence sequence of its mean difference, valid at all numbers of seeds at once, so that looking after
every seed, stopping when it pleases and adding seeds later cost nothing. It is made of two parts:

- The anytime-valid t test (Lai 1976, Annals of Statistics 4:265; Wang and Ramdas 2025, arXiv:2310.03722): under normal
  noise of unknown variance the Bayes factor of mean / sd ~ N(0, 1 / c^2) against mean 0, with the scale integrated out,

      E_n = sqrt(c^2 / (n + c^2)) (1 - S^2 / ((n + c^2) Q))^(-n / 2),   S = sum d,  Q = sum d^2,

  exceeds 1 / alpha at any n with probability at most alpha. It does so exactly where |t| exceeds a critical t(n).
- The interval mean -+ t(n) sd / sqrt(n) is wider on the side to which the differences are skewed, by twice the first
  Cornish-Fisher term, 2 |g| (1 + 2 t(n)^2) / (6 n) sd with g the sample skewness (Johnson 1978, JASA 73:536): a mean is
  too low, and its t too large, as long as the long tail has not been seen.

The prior is narrow, c^2 = 4 / sqrt(pairs), which asks for more at few seeds than a wide one: there noise that is not
normal misleads most. Bonferroni divides alpha among the pairs, so that all intervals hold together, over pairs and
looks. A decided pair's share of alpha is not passed on to the others: their tests would stay valid, their intervals
would not.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float64, Int
from scipy import special

from actlab.analysis.effects import ALPHA, DECIMALS, Verdict, fewest_seeds, paired_resolution, require_margin
from actlab.errors import UserError

BLOCK = 2  # fresh seeds of each activation that train between two looks
_PRIOR = 4.0  # c^2 for one pair, the precision of mean / sd; divided by the root of their number for more
_SKEW = 2.0  # times the first Cornish-Fisher term
_MOST = 100_000  # seeds that are looked ahead
_TYPICAL_SKEW = 0.25  # times (1 + 2 t^2) / n: what the skewness of normal noise adds to t(n)


@dataclasses.dataclass(frozen=True)
class PairState:
    """What the seeds so far say of first minus second: negative differences support that the first is lower.

    `low` and `high` hold for all pairs and all numbers of seeds at once. They exclude 0 if the pair is decided as
    different, lie within the margin if as equivalent, and neither while it is undecided; they are infinite before the
    first look. A decision stays, and the interval goes on narrowing with further `seeds`, until a run of the pair
    fails: earlier looks, which say nothing of a rate at which runs fail, are then discarded.
    """

    first: str
    second: str
    verdict: Verdict
    mean: float
    low: float
    high: float
    seeds: int
    decided_at: int | None  # the number of seeds at which it was
    allowance_low: float  # by which the interval is wider at either end, however many seeds there are
    allowance_high: float
    mean_low: float  # the interval without them
    mean_high: float

    def settles(self, margin: float) -> bool:
        """Whether enough seeds would decide the pair, for some mean that its interval leaves possible."""
        is_equivalent = max(self.mean_low, self.allowance_low - margin) < min(
            self.mean_high, margin - self.allowance_high
        )
        return -self.mean_low > self.allowance_high or self.mean_high > self.allowance_low or is_equivalent

    def is_open(self, margin: float) -> bool:
        """Whether it is undecided, and more seeds may decide it."""
        return self.verdict == Verdict.UNDECIDED and self.settles(margin)

    def needed(self, margin: float) -> float:
        """The half width at which the interval decides, if the mean is as it seems; not positive if none does."""
        differs = abs(self.mean) - (self.allowance_high if self.mean < 0 else self.allowance_low)
        return max(differs, margin - max(self.allowance_high + self.mean, self.allowance_low - self.mean))


def judge(
    losses: Mapping[str, Float64[np.ndarray, "n"]],
    margin: float,
    allowances: Mapping[str, float] | None = None,
    failed: Mapping[str, Bool[np.ndarray, "n"]] | None = None,
    n_tests: int | None = None,
) -> tuple[PairState, ...]:
    """All pairs in the order of the mapping, looked at after every seed from `first_look` on.

    `losses` are the test losses of each activation on the fresh seeds 1..n in their order; failed runs carry their
    trivial loss. `margin` is the largest difference that counts as none. `allowances` say by how much a loss may lie
    above that at the activation's best rate: each moves one end of the intervals. `failed` says which runs failed. From
    the first one on the allowance of its activation is infinite: where runs fail the rate is too high, whatever the
    search saw, and the activation can be called lower, but not higher. The result is a function of the losses and of
    what failed, seed by seed, so it can be computed anew from any number of seeds. `n_tests` share the 5%; None is the
    number of pairs.

    Raises:
        UserError: for a margin that is not positive, losses that are not finite, or unequal numbers of seeds.
    """
    _check(margin, [losses])
    fates = _failing(losses, [failed])
    allowed = _allowed(fates, allowances)
    pairs = list(itertools.combinations(losses, 2))
    return tuple(
        _state(
            (first, second),
            losses[first] - losses[second],
            margin,
            [allowed[first], allowed[second]],
            fates[first] + fates[second],
            n_tests or len(pairs),
        )
        for first, second in pairs
    )


def trends(
    losses: Sequence[Mapping[str, Float64[np.ndarray, "_"]]],
    margin: float,
    allowances: Mapping[str, float] | None = None,
    failed: Sequence[Mapping[str, Bool[np.ndarray, "_"]]] | None = None,
    n_tests: int | None = None,
) -> tuple[PairState, ...]:
    """How each pair's difference changes from the first scale to the last.

    `losses` has a mapping for each scale, a factor apart; seeds that all have are used. Of each seed the differences
    d_0..d_K give a change, K times their least-squares slope, and the changes are judged as `judge` does. So `mean` and
    the interval are those of the change, "equivalent" says that it is none, and a pair is undecided once a run of it
    failed at any scale. The allowances move both ends, since a rate may be misplaced at each scale.

    Raises:
        UserError: as `judge`, and for fewer than two scales.
    """
    if len(losses) < 2:
        raise UserError(f"{len(losses)} scale: a trend takes two or more.")
    _check(margin, losses)
    n = min(len(row) for scale in losses for row in scale.values())
    weights = np.arange(len(losses)) - (len(losses) - 1) / 2
    weights *= (len(losses) - 1) / (weights**2).sum()
    rows = [{name: row[:n] for name, row in scale.items()} for scale in losses]
    fates = _failing(rows[0], [{name: row[:n] for name, row in scale.items()} for scale in failed or ()])
    allowed = _allowed(fates, allowances)
    found = []
    pairs = list(itertools.combinations(rows[0], 2))
    for first, second in pairs:
        changes = sum(
            (weight * (row[first] - row[second]) for weight, row in zip(weights, rows, strict=True)), np.zeros(n)
        )
        both = np.abs(weights).sum() / 2 * (allowed[first] + allowed[second])
        n_failing = fates[first] + fates[second]
        found.append(_state((first, second), changes, margin, [both, both], n_failing, n_tests or len(pairs)))
    return tuple(found)


def _check(margin: float, scales: Sequence[Mapping[str, Float64[np.ndarray, "_"]]]) -> None:
    require_margin(margin)
    for losses in scales:
        if len({len(row) for row in losses.values()}) > 1:
            raise UserError(f"losses of {', '.join(losses)} have unequal numbers of seeds: pair them first.")
        if not all(np.isfinite(row).all() for row in losses.values()):
            raise UserError("losses are not all finite: count a failed run with its trivial loss.")


def _failing(
    losses: Mapping[str, Float64[np.ndarray, "n"]], failed: Sequence[Mapping[str, Bool[np.ndarray, "n"]] | None]
) -> dict[str, Int[np.ndarray, "n"]]:
    """1 from the first seed on with which a run failed, 0 before."""
    found = {}
    for name, row in losses.items():
        of = [one[name] for one in failed if one is not None]
        found[name] = np.maximum.accumulate(np.any(of, axis=0).astype(int)) if of else np.zeros(len(row), int)
    return found


def _allowed(
    failing: Mapping[str, Int[np.ndarray, "n"]], allowances: Mapping[str, float] | None
) -> dict[str, Float64[np.ndarray, "n"]]:
    """The allowance after each seed: infinite once a run failed."""
    given = dict.fromkeys(failing, 0.0) if allowances is None else allowances
    return {name: np.where(row, math.inf, given[name]) for name, row in failing.items()}


def _state(
    pair: tuple[str, str],
    differences: Float64[np.ndarray, "n"],
    margin: float,
    allowed: Sequence[Float64[np.ndarray, "n"]],
    n_failing: Int[np.ndarray, "n"],
    n_pairs: int,
) -> PairState:
    differences = np.round(differences, DECIMALS)
    n_seeds, first = len(differences), first_look(n_pairs)
    mean = float(differences.mean()) if n_seeds else math.nan
    low, high, verdict, decided_at = -math.inf, math.inf, Verdict.UNDECIDED, None
    of_mean = -math.inf, math.inf
    if n_seeds >= first:
        lows, highs = _intervals(differences, n_pairs)
        of_mean = float(lows.max()), float(highs.min())
        lows, highs = lows - allowed[0][first - 1 :], highs + allowed[1][first - 1 :]
        for n, (below, above) in enumerate(zip(lows.tolist(), highs.tolist(), strict=True), first):
            if n > first and n_failing[n - 1] > n_failing[n - 2]:
                low, high, verdict, decided_at = -math.inf, math.inf, Verdict.UNDECIDED, None
            # All of them hold at once, so what is outside of one of them is out; were none left, the last would stay.
            if max(low, below) <= min(high, above):
                low, high = max(low, below), min(high, above)
            if verdict == Verdict.UNDECIDED:
                verdict = _verdict(low, high, margin)
                decided_at = None if verdict == Verdict.UNDECIDED else n
    last = [float(one[-1]) if n_seeds else 0.0 for one in allowed]
    ends = (last[0], last[1], of_mean[0], of_mean[1])
    return PairState(*pair, verdict, mean, low, high, n_seeds, decided_at, *ends)


def _verdict(low: float, high: float, margin: float) -> Verdict:
    if -margin < low and high < margin:
        return Verdict.EQUIVALENT
    return Verdict.SUPPORTED if high < 0 else Verdict.REFUTED if low > 0 else Verdict.UNDECIDED


def _intervals(
    differences: Float64[np.ndarray, "*many n"], n_pairs: int
) -> tuple[Float64[np.ndarray, "*many looks"], Float64[np.ndarray, "*many looks"]]:
    """The confidence sequence at the numbers of seeds from the first look on."""
    first, n_seeds = first_look(n_pairs), differences.shape[-1]
    n = np.arange(first, n_seeds + 1)
    t = _critical(n_seeds, n_pairs)[first - 1 :]
    # From a centre, so that little is lost to rounding where the mean is large beside the spread.
    offset = np.median(differences[..., :first], axis=-1, keepdims=True)
    away = differences - offset
    one, two, three = ((away**power).cumsum(axis=-1)[..., first - 1 :] / n for power in (1, 2, 3))
    variance = two - one**2
    spread = variance > 1e-20 * two
    variance = np.where(spread, variance, 0.0)
    third = three - 3 * one * two + 2 * one**3
    skewness = np.where(spread, third / np.where(spread, variance, 1.0) ** 1.5, 0.0) * np.sqrt(n * (n - 1)) / (n - 2)
    error = np.sqrt(variance / (n - 1))
    more = _SKEW * skewness * (1 + 2 * t**2) / (6 * np.sqrt(n))
    means = one + offset
    return means - error * (t + np.maximum(-more, 0)), means + error * (t + np.maximum(more, 0))


@functools.lru_cache(maxsize=64)
def _critical(n_seeds: int, n_pairs: int) -> Float64[np.ndarray, "{n_seeds}"]:
    """Critical |t| of the mixture at 1..n seeds; infinite where no data reach it."""
    n, prior = np.arange(1, n_seeds + 1, dtype=np.float64), _PRIOR / n_pairs**0.5
    least = math.log(n_pairs / ALPHA) + np.log((n + prior) / prior) / 2
    share = (n + prior) * -np.expm1(-2 / n * least)  # of S^2 / Q, which is n t^2 / (n - 1 + t^2)
    reached = share < n
    return np.where(reached, np.sqrt(share * (n - 1) / np.where(reached, n - share, 1)), np.inf)


def first_look(n_pairs: int) -> int:
    """The fewest seeds with which anything can be decided.

    E_n, which is at most ((n + c^2) / c^2)^((n - 1) / 2), must be able to exceed n_pairs / alpha. And for noise of two
    values only, differences of one sign must be rare enough: 2^(1-n) <= alpha / n_pairs.
    """
    return max(int(np.isfinite(_critical(64, n_pairs)).argmax()) + 1, fewest_seeds(n_pairs))


def detectable(n_seeds: int, sd: float, n_pairs: int) -> float:
    """The difference found with 80% power by then, under normal noise; `sd` is that of the paired differences.

    That of the fixed t test at n seeds with the sequence's critical t; infinite before the first look.
    """
    if n_seeds < first_look(n_pairs):
        return math.inf
    t = float(_critical(n_seeds, n_pairs)[-1])
    t += _TYPICAL_SKEW * (1 + 2 * t**2) / n_seeds
    return sd * paired_resolution(n_seeds, 2 * float(special.stdtr(n_seeds - 1, -t)))


def seeds_needed(difference: float, sd: float, n_pairs: int) -> int | None:
    """The fewest seeds by which such a difference is found with 80% power; None for more than 100,000."""
    if detectable(_MOST, sd, n_pairs) > abs(difference):
        return None
    few, many = first_look(n_pairs) - 1, _MOST
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if detectable(middle, sd, n_pairs) <= abs(difference) else (middle, many)
    return many
