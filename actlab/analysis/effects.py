"""The statistics: tests and corrections on arrays of losses, then paired differences with their intervals and verdicts.

An arm is a mapping from seed to a number in nats. A difference is first minus second, so a negative one says that the
first is lower. Only seeds that both arms have are paired; the others are left out and counted. Every p is a number,
never NaN: each function defines its edge cases (no spread, ties, few values).
"""

import dataclasses
import enum
import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float64
from scipy import optimize, special, stats

from actlab.errors import UserError

Values = Float64[np.ndarray, "n"]
Alternative = Literal["two-sided", "less", "greater"]
ALPHA, CONFIDENCE, POWER = 0.05, 0.95, 0.8
# Nats per byte of text; within it two losses count as equal. It is a quarter of what SwiGLU gains on GELU in Shazeer
# 2020 (arXiv:2002.05202, table 1): 0.043 per T5 token, which is about 4.2 bytes.
MARGIN = 0.0025
# Differences are rounded here: subtracting equal float64 losses leaves 1e-16, and losses are known to 1e-7 only.
DECIMALS = 12
RESAMPLES = 9_999


class Interval(NamedTuple):
    """The ends of an interval, in nats."""

    low: float
    high: float


def from_zero(interval: Interval) -> Interval:
    """The interval of a quantity that is never negative, such as a loss."""
    return Interval(max(0.0, interval.low), max(0.0, interval.high))


def average(values: Values) -> float:
    """Mean of the values; where all are equal exactly that value, which the mean of floats may miss by a rounding."""
    return float(values.mean() if np.ptp(values) else values[0])


def standard_deviation(values: Values) -> float:
    """Sample standard deviation, sqrt(sum (x - mean)^2 / (n - 1)); exactly 0 for equal values."""
    return float(values.std(ddof=1)) if np.ptp(values) else 0.0


def t_test(values: Values, mean: float = 0.0, alternative: Alternative = "two-sided") -> float:
    """p of the one-sample t test of n > 1 values against `mean`: t = (average - mean) sqrt(n) / sd, n - 1 df.

    Without spread, the limit: p is 1 where the values equal `mean`, else 0 for the side they lie on.
    """
    sd, offset = standard_deviation(values), average(values) - mean
    if sd == 0:
        side = {"two-sided": offset != 0, "less": offset < 0, "greater": offset > 0}
        return 0.0 if side[alternative] else 1.0
    # Not scipy's ttest_1samp, whose overhead would take most of the time of validity.py's thousands of studies.
    t = offset / sd * len(values) ** 0.5
    tails = {"two-sided": -abs(t), "less": t, "greater": -t}
    return float(special.stdtr(len(values) - 1, tails[alternative])) * (2 if alternative == "two-sided" else 1)


def equivalence(values: Values, margin: float) -> float:
    """p of TOST, two one-sided t tests, for |mean| < margin: the larger of the two; Schuirmann 1987.

    p <= 0.05 exactly where the 90% t interval lies within -+ margin.
    """
    return max(t_test(values, -margin, "greater"), t_test(values, margin, "less"))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p of a family: max over the smaller ones of (m - rank) p, at most 1; Holm 1979.

    Rejecting where the adjusted p <= alpha keeps the family-wise error at alpha.
    """
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


class Trend(NamedTuple):
    """J, the number of pairs in order; tau in [-1, 1], positive if rising; two-sided p."""

    j: float
    tau: float
    p: float


def jonckheere_terpstra(groups: Sequence[Float64[np.ndarray, "_"]]) -> Trend:
    """Whether values rise or fall from group to group; Jonckheere 1954, Terpstra 1952.

    J = sum over groups i < k of #(x in i, y in k with x < y) + #(x = y) / 2. This is Kendall's S between group and
    value, so p is its normal approximation with ties corrected (Hollander and Wolfe 1999, eq. 6.19), without a
    continuity correction. Equal values have no trend: tau 0, p 1.

    Raises:
        UserError: for fewer than two groups, an empty group, fewer than three values, or a value that is not finite.
    """
    sizes = [len(group) for group in groups]
    if len(groups) < 2 or min(sizes) == 0 or sum(sizes) < 3:
        raise UserError(f"groups of {sizes} values have no trend: give at least two groups, and three values in all.")
    values, index = np.concatenate(groups), np.repeat(np.arange(len(groups)), sizes)
    if not np.isfinite(values).all():
        raise UserError("groups hold a value that is not finite: count a diverged run with its initial loss.")
    above = index[:, None] < index[None, :]
    signs = np.sign(values[None, :] - values[:, None])[above]
    j = float((signs.sum() + above.sum()) / 2)
    if not np.ptp(values):
        return Trend(j, 0.0, 1.0)
    test: Any = stats.kendalltau(index, values, method="asymptotic")
    return Trend(j, float(test.statistic), float(test.pvalue))


class Agreement(NamedTuple):
    """Kendall's tau-b of two orders and its two-sided p."""

    tau: float
    p: float


def rank_agreement(first: Mapping[str, float], second: Mapping[str, float]) -> Agreement | None:
    """Kendall's tau-b between two tables over the names they share; p is exact without ties and for up to 33 names.

    None where they share fewer than two names, or one of them puts all of those level.
    """
    names = sorted(first.keys() & second.keys())
    ours, theirs = ([float(table[name]) for name in names] for table in (first, second))
    if len(set(ours)) < 2 or len(set(theirs)) < 2:
        return None
    test: Any = stats.kendalltau(ours, theirs)
    return Agreement(float(test.statistic), float(test.pvalue))


def paired_power(n: int, dz: float, alpha: float = ALPHA) -> float:
    """Probability that a two-sided paired t test of n seeds finds a mean difference of dz of its standard deviations.

    t^2 is noncentral F with (1, n - 1) degrees of freedom and noncentrality n dz^2; Cohen 1988, section 2.
    """
    if dz == 0:
        return alpha  # without noncentrality scipy's noncentral F is wrong, even negative
    return float(stats.ncf.sf(stats.t.isf(alpha / 2, n - 1) ** 2, 1, n - 1, n * dz**2))


def paired_resolution(n: int, alpha: float = ALPHA) -> float:
    """The dz that n > 1 pairs find four times in five.

    Raises:
        UserError: for n < 2.
    """
    if n < 2:
        raise UserError(f"n={n} seeds resolve no difference, however large: take two or more.")
    high = n**-0.5
    while paired_power(n, high, alpha) < POWER:
        high *= 2
    root: Any = optimize.brentq(lambda dz: paired_power(n, dz, alpha) - POWER, 0, high)
    return float(root)


def nats(value: float, sign: str = "") -> str:
    """A number of nats in words: four decimals, or two digits where these would all be zero."""
    text = f"{value:{sign}.4f}"
    return text if value == 0 or float(text) else f"{value:{sign}.2g}"


def span(ends: Iterable[float] | None, sign: str = "") -> str:
    """The ends of an interval in words; - where there is none."""
    return "-" if ends is None else " to ".join(nats(end, sign) for end in ends)


@dataclasses.dataclass(frozen=True)
class PermutationTest:
    """The paired permutation test of n seeds: two arms are swapped within each seed, in all 2^n ways or a sample.

    To test a difference d, it is subtracted from the first arm: the observed difference becomes D - d, that of a swap
    b of k seeds D_b - d (1 - 2 k / n). They are equal at the typical value d = (D - D_b) n / (2 k), so the sorted
    typical values give the p of every d. With nothing to choose they are the mean differences over all subsets of seeds
    (Hartigan 1969, JASA 64:1303). The smallest two-sided p is 2^(1-n).
    """

    typical: Float64[np.ndarray, "m"]  # rising; of all swaps but none

    def p(self, mean: float = 0.0, alternative: Alternative = "two-sided") -> float:
        """p against the difference `mean`."""
        above = len(self.typical) - int(np.searchsorted(self.typical, mean, "left"))
        below = int(np.searchsorted(self.typical, mean, "right"))
        less, greater = ((1 + count) / (1 + len(self.typical)) for count in (above, below))
        return {"less": less, "greater": greater, "two-sided": min(1.0, 2 * min(less, greater))}[alternative]

    @property
    def interval(self) -> Interval | None:
        """All differences that a two-sided test at 5% keeps; None where it keeps every one, as with five seeds."""
        cut = int((1 - CONFIDENCE) / 2 * (1 + len(self.typical)) + 1e-9) - 1
        return None if cut < 0 else Interval(float(self.typical[cut]), float(self.typical[-1 - cut]))

    def scaled(self, factor: float, offset: float) -> "PermutationTest":
        """The swaps for the difference times a factor, plus an offset."""
        return PermutationTest(np.sort(np.round(factor * self.typical + offset, DECIMALS)))


@dataclasses.dataclass(frozen=True)
class Effect:
    """Paired differences, one per seed, in the unit of the losses, and how many seeds only one arm has.

    Where the differences rest on a choice (of learning rates), `also` holds the same seeds' differences by other ways
    to choose and `swaps` what swapping the arms shows. Every p is then the largest of the tests and an interval spans
    theirs, so a difference is found only where all find it. `unresolved` says which choice is not resolved, and
    `reason` why the differences can decide nothing, where that is known from elsewhere; both are "" otherwise.
    Statistics that need more seeds are None, never NaN.
    """

    differences: tuple[float, ...]
    left_out: int = 0
    reason: str = ""
    also: tuple[tuple[float, ...], ...] = ()
    swaps: PermutationTest | None = dataclasses.field(default=None, compare=False)  # of arrays, which have no ==
    unresolved: str = ""
    waits: bool = False  # runs of it are not trained yet: it decides nothing, but is part of its family

    def __post_init__(self):
        if not all(map(math.isfinite, itertools.chain(self.differences, *self.also))):
            raise UserError(
                f"differences={self.differences} are not all finite: count a diverged run with its initial loss."
            )

    def waiting_for(self, n_runs: int) -> "Effect":
        """The same while that many runs of its arms are not trained yet."""
        return dataclasses.replace(self, reason=f"{n_runs} {NOT_TRAINED}", waits=True) if n_runs else self

    @property
    def n(self) -> int:
        """Number of pairs."""
        return len(self.differences)

    @property
    def undecidable(self) -> str:
        """Why no test can be made; empty if one can."""
        return self.reason or ("" if self.n > 1 else "no seed is shared" if self.n == 0 else "one seed has no spread")

    @functools.cached_property
    def mean(self) -> float | None:
        """Mean difference."""
        return average(self._choices[0]) if self.n else None

    @functools.cached_property
    def sd(self) -> float | None:
        """Standard deviation of the differences, with n - 1."""
        return standard_deviation(self._choices[0]) if self.n > 1 else None

    @functools.cached_property
    def interval(self) -> Interval | None:
        """Every difference that the tests together keep at 5%: the t intervals and, with swaps, theirs.

        None with fewer than six seeds to swap, since no difference is excluded then.
        """
        if self.n < 2 or (self.swaps and not self.swaps.interval):
            return None
        spans = [t_interval(values) for values in self._choices]
        return _hull([*spans, self.swaps.interval] if self.swaps and self.swaps.interval else spans)

    @functools.cached_property
    def bootstrap(self) -> Interval | None:
        """BCa bootstrap interval of the mean over seeds, for the choices as they are; too narrow below ten seeds.

        None below three seeds, and where there is no other interval.
        """
        return _hull([bca_interval(values) for values in self._choices]) if self.n > 2 and self.interval else None

    @functools.cached_property
    def p_t(self) -> float | None:
        """Two-sided p of the paired t test."""
        return None if self.undecidable else max(map(t_test, self._choices))

    @functools.cached_property
    def p(self) -> float | None:
        """Two-sided p: the largest of the tests."""
        if self.p_t is None:
            return None
        return 1.0 if self.apart else max(self.p_t, self.swaps.p() if self.swaps else 0.0)

    @property
    def apart(self) -> bool:
        """Whether the choices point in opposite directions: they show nothing, however far each lies from 0."""
        return len({math.copysign(1, values.mean()) for values in self._choices if values.mean()}) > 1

    def p_equivalence(self, margin: float) -> float | None:
        """p that the difference lies within `margin`: twice the larger p of the two one-sided tests (TOST).

        So p <= 5% says that the 95% interval lies within it. With the 90% interval of TOST by itself 9% of differences
        of one margin were called equivalent: 16 seeds, level rates of one activation, an optimum of the other.
        """
        if self.undecidable:
            return None
        if not any(itertools.chain(self.differences, *self.also)):
            return 0.0  # the same runs under two names, which no number of seeds makes more equal
        p_values = [equivalence(values, margin) for values in self._choices]
        if self.swaps:
            p_values += [self.swaps.p(-margin, "greater"), self.swaps.p(margin, "less")]
        return min(1.0, 2 * max(p_values))

    def p_beyond(self, margin: float) -> float | None:
        """Two-sided p against a difference within `margin` of 0: twice the smaller of the tests at its ends."""
        if self.undecidable:
            return None
        tests = [functools.partial(t_test, values) for values in self._choices]
        tests += [self.swaps.p] if self.swaps else []
        ends: tuple[tuple[float, Alternative], ...] = ((margin, "greater"), (-margin, "less"))
        return min(1.0, 2 * min(max(test(*end) for test in tests) for end in ends))

    @functools.cached_property
    def _choices(self) -> list[Values]:
        return [np.asarray(values, np.float64) for values in (self.differences, *self.also)]


def _hull(intervals: Iterable[Interval]) -> Interval:
    lows, highs = zip(*intervals, strict=True)
    return Interval(min(lows), max(highs))


def paired(first: Mapping[int, float], second: Mapping[int, float]) -> Effect:
    """The effect first - second over the seeds that both arms have.

    Raises:
        UserError: for a number that is not finite.
    """
    seeds = sorted(first.keys() & second.keys())
    differences = tuple(round(float(first[seed]) - float(second[seed]), DECIMALS) for seed in seeds)
    return Effect(differences, len(first.keys() | second.keys()) - len(seeds))


def t_interval(values: Values) -> Interval:
    """mean -+ t_{n-1} sd / sqrt(n), the interval of the mean of n > 1 values; zero width where they are equal."""
    return interval_around(values, 1 / len(values))


def interval_around(values: Values, variance: float) -> Interval:
    """mean -+ t_{n-1} sd sqrt(variance), for a quantity whose distance from the mean has so many times the variance."""
    half = float(stats.t.isf((1 - CONFIDENCE) / 2, len(values) - 1)) * standard_deviation(values) * variance**0.5
    return Interval(average(values) - half, average(values) + half)


def bca_interval(values: Values) -> Interval:
    """Bias-corrected and accelerated bootstrap of the mean over n > 1 values; Efron 1987, JASA 82:171.

    9,999 resamples by a generator with a fixed seed; zero width where values are equal. Below ten values it is too
    narrow: verdicts.json has it beside the t interval, and it decides nothing.
    """
    if not np.ptp(values):
        return Interval(float(values[0]), float(values[0]))
    low, high = stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="BCa",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return Interval(float(low), float(high))


class Verdict(enum.StrEnum):
    """What the runs say of "the first is lower than the second"."""

    SUPPORTED = "supported"  # lower: the adjusted p is at most ALPHA
    REFUTED = "refuted"  # higher, by the same test
    EQUIVALENT = "equivalent"  # the difference is shown to lie within the margin, whether or not it is 0
    UNDECIDED = "undecided"


NOT_TRAINED = "of its runs are not trained yet"
DIFFERENT = (Verdict.SUPPORTED, Verdict.REFUTED)


@dataclasses.dataclass(frozen=True)
class Judgement:
    """An effect with its verdict. Each kind of p is adjusted by Holm over a family of `family` tests.

    `reason` says why a verdict is undecided, and is "" otherwise. `inconclusive`: the seeds are enough for a test, and
    it shows neither a difference nor equivalence.
    """

    effect: Effect
    verdict: Verdict
    p: float | None
    p_equivalence: float | None
    family: int
    reason: str
    inconclusive: bool

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        effect = self.effect
        return {
            "verdict": str(self.verdict),
            "reason": self.reason,
            "mean_difference": effect.mean,
            "differences": effect.differences,
            "sd": effect.sd,
            "seeds": effect.n,
            "seeds_left_out": effect.left_out,
            "interval": effect.interval,
            "bca_interval": effect.bootstrap,
            "p_t": effect.p_t,
            "p_swaps": effect.swaps.p() if effect.swaps and not effect.undecidable else None,
            "rate_not_resolved": effect.unresolved,
            "p_holm": self.p,
            "family": self.family,
            "p_equivalence_holm": self.p_equivalence,
        }


def require_margin(margin: float) -> None:
    """Raises UserError for a margin that is not positive and finite."""
    if not 0 < margin < math.inf:
        raise UserError(f"--margin={margin:g}: give a positive number, the largest difference that counts as none.")


def judge(effects: Sequence[Effect], margin: float = MARGIN, to_come: int = 0) -> list[Judgement]:
    """The verdict on each effect of a family. A difference that lies within the margin is equivalence, even if found.

    Effects that allow no test are undecided, and not part of the family. Those that wait for runs are, and so are
    `to_come` further tests: what is found now must stand when all runs are trained. `margin`, in the unit of the
    differences, is the largest that counts as none.

    Raises:
        UserError: for a margin that is not positive and finite.
    """
    require_margin(margin)
    to_come += sum(effect.waits for effect in effects)
    differ = adjusted([effect.p for effect in effects], to_come)
    equal = adjusted([effect.p_equivalence(margin) for effect in effects], to_come)
    family = sum(not effect.undecidable for effect in effects) + to_come
    # Tests without swaps, or with more seeds, may have a lower p, and then leave Holm's family first.
    of_swaps = [effect.n for effect in effects if effect.swaps and not effect.undecidable]
    judged = []
    for effect, p, p_equivalence in zip(effects, differ, equal, strict=True):
        verdict, reason, inconclusive = Verdict.UNDECIDED, effect.undecidable, False
        if p is not None and p_equivalence is not None and effect.mean is not None:
            if p_equivalence <= ALPHA:
                verdict = Verdict.EQUIVALENT
            elif p <= ALPHA:
                verdict = Verdict.SUPPORTED if effect.mean < 0 else Verdict.REFUTED
            elif effect.swaps and (few := few_seeds(effect.n, sum(n <= effect.n for n in of_swaps) + to_come)):
                reason = few
            else:
                inconclusive = True
                reason = f"neither a difference nor equivalence within {margin:g} is shown"
                reason += "; the ways to choose the rates point in opposite directions" if effect.apart else ""
        judged.append(Judgement(effect, verdict, p, p_equivalence, family, reason, inconclusive))
    return judged


def fewest_seeds(family: int) -> int:
    """The fewest seeds n with which swaps can find one difference of a family of m tests: 2^(1-n) <= alpha / m."""
    return 1 + math.ceil(math.log2(family / ALPHA))


def few_seeds(n: int, family: int) -> str:
    """Why n seeds cannot find a difference, in words; empty if they can."""
    if n >= (needed := fewest_seeds(family)):
        return ""
    tests = "one test" if family == 1 else f"a family of {family} tests"
    seeds = f"{n} seed shows" if n == 1 else f"{n} seeds show"
    return f"{seeds} no difference at own best rates, whatever it is: {tests} takes {needed} or more"


def adjusted(p_values: Sequence[float | None], to_come: int = 0) -> list[float | None]:
    """Holm-adjusted p values; None stays None. `to_come` tests not made yet enlarge the family, each with p = 1."""
    corrected = iter(holm([*(p for p in p_values if p is not None), *([1.0] * to_come)]))
    return [None if p is None else next(corrected) for p in p_values]
