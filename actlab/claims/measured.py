"""Readings of claims that are computed from the studies' tables, beside or in the place of a study's own test.

They were chosen after the runs were seen, which a study's own contrasts were not. Each takes the folder of studies and
has an arm for every place of a table at which its runs are trained; without the table it has no reading. Differences
are paired by seed, and p is adjusted by Holm over the arms of a reading.
"""

import collections
import dataclasses
import functools
import math
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from actlab.analysis import results
from actlab.analysis.conditions import MARGINS, margin_of, scale_of, varying_axes
from actlab.analysis.contrasts import Grid, score
from actlab.analysis.effects import ALPHA, CONFIDENCE, MARGIN, Effect, adjusted, judge, paired, t_test
from actlab.analysis.results import Result
from actlab.claims.claim import Arm, Reading, Verdict
from actlab.claims.relu_vs_gelu import LOSS, RATES

EQUAL_SHARE = 0.05  # of the steps, by which two may differ and count as equally fast: a choice
DECODER, ENCODER = "relu_vs_gelu", "bert_tanh_vs_gelu"
WARMUP = "optimizer.warmup_steps"
LOW, MIDDLE, HIGH = RATES  # of text B
Runs = Mapping[int, Result]  # by seed


@dataclasses.dataclass(frozen=True)
class Place:
    """A table at one place of its further axes, without the cells that have a run still to be trained."""

    table: str
    scale: str
    runs: Mapping[tuple[str, float], Runs]  # by activation and learning rate
    margin: float

    @property
    def where(self) -> str:
        """The place in words."""
        return f"experiments/{self.table}, {self.scale}"

    @property
    def warmup(self) -> int:
        """Its steps of warmup."""
        return next(int(dict(run.axes).get(WARMUP) or 0) for runs in self.runs.values() for run in runs.values())

    @property
    def text(self) -> str:
        """The name of its data."""
        return next(run.data for runs in self.runs.values() for run in runs.values())

    @functools.cached_property
    def grid(self) -> Grid:
        """Its losses."""
        every = (run for runs in self.runs.values() for run in runs.values())
        return Grid.of((run.activation, run.learning_rate, run.seed, score(run)) for run in every)

    def best(self, name: str, rates: Sequence[float]) -> float:
        """The rate of the lowest mean validation loss."""
        return self.grid.best_rate(name, rates, self.grid.complete_seeds(rates, name))

    def less(self, first: str, second: str, rate: float) -> Effect:
        """The first's loss less the second's."""
        return paired(self.grid.losses(first, rate), self.grid.losses(second, rate))


def places(folder: pathlib.Path, study: str) -> list[Place]:
    """The places of a study's table, then those of the tables in the folders within it; none without its own."""
    own = folder / study / "results.csv"
    tables = [own, *sorted(own.parent.glob("*/results.csv"))] if own.is_file() else []
    return [place for table in tables for place in _places(folder, table)]


def _places(folder: pathlib.Path, path: pathlib.Path) -> Iterator[Place]:
    runs = results.read([path])
    varying = varying_axes(runs)
    by_axes: dict[results.Axes, list[Result]] = {}
    for run in runs:
        by_axes.setdefault(run.axes_among(varying), []).append(run)
    for axes, here in by_axes.items():
        cells: dict[tuple[str, float], dict[int, Result]] = collections.defaultdict(dict)
        for run in here:
            cells[run.activation, run.learning_rate][run.seed] = run
        whole = {place: cell for place, cell in cells.items() if all(run.done for run in cell.values())}
        if whole:
            scale = scale_of([run for run in here if run.done], axes)
            yield Place(path.parent.relative_to(folder).as_posix(), scale, whole, margin_of(here))


def _numbers(effect: Effect, p: float | None = None, family: int = 1) -> str:
    if effect.mean is None or effect.interval is None:
        return effect.undecidable
    low, high = effect.interval
    adjusted_p = "" if p is None else f"; p {p:.2g} after Holm over {family}"
    return f"{effect.mean:+.4f} ({CONFIDENCE:.0%} interval {low:+.4f} to {high:+.4f}){adjusted_p}; {effect.n} seeds"


def _margin(having: Sequence[Place]) -> float:
    """The smallest margin of some places, which differ where their tokenizers do."""
    return min((place.margin for place in having), default=MARGIN)


def _judged(
    of: str, effects: Mapping[str, tuple[str, Effect]], decides: bool = True, margin: float = MARGIN
) -> Iterator[Reading]:
    """A reading that differences by place, each named by what it is, lie below 0."""
    judgements = judge([effect for _, effect in effects.values()], margin) if effects else []
    arms = []
    for (where, (what, _)), one in zip(effects.items(), judgements, strict=True):
        why = f"; {one.reason}" if one.reason else ""
        arms.append(Arm(where, Verdict(one.verdict), f"{what}: {_numbers(one.effect, one.p, one.family)}{why}."))
    if arms:
        yield Reading(of, tuple(arms), decides)


def size_of_the_gap(rate: float, folder: pathlib.Path) -> Iterator[Reading]:
    """B06, B08: at a rate the gap is that of the text, whose losses are rounded to 0.01."""
    said, rounding = LOSS["relu"][RATES.index(rate)] - LOSS["gelu"][RATES.index(rate)], 0.01
    arms = []
    for place in places(folder, DECODER):
        if rate in place.grid.rates("relu", "gelu"):
            effect = place.less("relu", "gelu", rate)
            if effect.mean is None or effect.interval is None:
                continue
            low, high = effect.interval
            beyond = high < said - rounding or low > said + rounding
            mean, *ends = (
                f"{value / said:.{1 if abs(value / said) >= 1 else 2}f}" for value in (effect.mean, low, high)
            )
            ends = ends if said > 0 else ends[::-1]
            words = f"{mean} times the text's {said:.2f} ({' to '.join(ends)})"
            verdict = Verdict.REFUTED if beyond else Verdict.UNDECIDED
            arms.append(Arm(place.where, verdict, f"ReLU's loss less GELU's: {_numbers(effect)}; {words}."))
    if arms:
        yield Reading("as far apart as in the text, which names no unit of its losses", tuple(arms), decides=False)


def follow_ups(folder: pathlib.Path) -> Iterator[Reading]:
    """B07, B13: GELU is lower in the arms that change one thing, such as length or initialisation, at their rates."""
    tables = places(folder, DECODER)
    plain = max((place for place in tables if place.table == DECODER), key=lambda place: place.warmup, default=None)
    if plain is None:
        return
    tables = [place for place in tables if place.text == plain.text]  # another text is a second change
    effects = {}
    for place in tables:
        for rate in place.grid.rates("relu", "gelu") if place.table != DECODER else ():
            gap, what = place.less("gelu", "relu", rate), f"at {rate:g}, GELU's loss less ReLU's"
            if rate in plain.grid.rates("relu", "gelu"):
                change = paired(*(_gaps(one, rate) for one in (place, plain)))
                before = plain.less("gelu", "relu", rate).mean
                what += f" ({before:+.4f} as it is, changed by {_numbers(change)})"
            effects[f"{place.where}, learning rate {rate:g}"] = what, gap
    of = "GELU lower, in arms that change one thing"
    yield from _judged(of, effects, decides=False, margin=_margin(tables))


def _gaps(place: Place, rate: float) -> dict[int, float]:
    """GELU's loss less ReLU's, by seed."""
    gelu, relu = (place.grid.losses(name, rate) for name in ("gelu", "relu"))
    return {seed: gelu[seed] - relu[seed] for seed in gelu.keys() & relu.keys()}


def level_at_the_other_low_rate(folder: pathlib.Path) -> Iterator[Reading]:
    """B13: the two are level at 1e-3, too, which the study's own test of low rates leaves out."""
    having = [place for place in places(folder, DECODER) if MIDDLE in place.grid.rates("relu", "gelu")]
    found = [(place, place.less("gelu", "relu", MIDDLE)) for place in having]
    equal = adjusted([gap.p_equivalence(place.margin) for place, gap in found])
    beyond = adjusted([gap.p_beyond(place.margin) for place, gap in found])
    arms = []
    for (place, gap), p_equal, p_beyond in zip(found, equal, beyond, strict=True):
        verdict, p = Verdict.UNDECIDED, p_equal
        if p_equal is not None and p_equal <= ALPHA:
            verdict = Verdict.SUPPORTED
        elif p_beyond is not None and p_beyond <= ALPHA:
            verdict, p = Verdict.REFUTED, p_beyond
        arms.append(Arm(place.where, verdict, f"GELU's loss less ReLU's: {_numbers(gap, p, len(found))}."))
    if arms:
        yield Reading(f"level within {_margin(having):.3g} at {MIDDLE:g}", tuple(arms))
    yield from follow_ups(folder)


def above_the_best_rate(folder: pathlib.Path) -> Iterator[Reading]:
    """B12: GELU's mean excess over its best loss is lower, over the rates above the best of both activations."""
    effects, tables = {}, places(folder, DECODER)
    for place in tables:
        rates = place.grid.rates("relu", "gelu")
        best = {name: place.best(name, rates) for name in ("relu", "gelu")} if rates else {}
        high = [rate for rate in rates if rate > max(best.values())]
        if high:
            excess = {name: _excess(place, name, best[name], high) for name in best}
            listed = ", ".join(f"{rate:g}" for rate in high)
            effects[place.where] = f"GELU's less ReLU's at {listed}", paired(excess["gelu"], excess["relu"])
    of = "mean excess over the best loss, at the rates above the best"
    yield from _judged(of, effects, margin=_margin(tables))


def _excess(place: Place, name: str, best: float, high: Sequence[float]) -> dict[int, float]:
    least, above = place.grid.losses(name, best), [place.grid.losses(name, rate) for rate in high]
    seeds = set(least).intersection(*above)
    return {seed: math.fsum(losses[seed] for losses in above) / len(above) - least[seed] for seed in sorted(seeds)}


def faster_convergence(folder: pathlib.Path) -> Iterator[Reading]:
    """B20: at 1e-3 and below ReLU needs fewer steps to the loss at which the worse of the two ends."""
    effects = {}
    for place in places(folder, DECODER):
        for rate in place.grid.rates("relu", "gelu"):
            shares = _shares(place, rate) if rate <= MIDDLE else {}
            if shares:
                mean = math.fsum(shares.values()) / len(shares)
                what = f"ReLU needs {mean:.2f} of GELU's steps, less 1"
                effects[f"{place.where}, learning rate {rate:g}"] = what, paired(shares, dict.fromkeys(shares, 1.0))
    yield from _judged(
        f"steps to the same loss, at low rates, equal within {EQUAL_SHARE:.0%}", effects, margin=EQUAL_SHARE
    )


def _shares(place: Place, rate: float) -> dict[int, float]:
    """Steps of ReLU over those of GELU to the higher of their last losses, for the seeds whose runs have curves."""
    relu, gelu = (place.runs[name, rate] for name in ("relu", "gelu"))
    found = {}
    for seed in sorted(relu.keys() & gelu.keys()):
        if relu[seed].curve and gelu[seed].curve and not relu[seed].failed and not gelu[seed].failed:
            target = max(run.curve[-1][1] for run in (relu[seed], gelu[seed]))
            found[seed] = _reaches(relu[seed], target) / _reaches(gelu[seed], target)
    return found


def _reaches(run: Result, target: float) -> float:
    """The step at which a validation curve that ends at or below a loss first does, linear between evaluations.

    A curve that flattens lies below those lines, so that the run that is ahead counts as no faster than it was.
    """
    step, high = run.curve[0]
    for after, low in run.curve:
        if low <= target:
            return float(after) if low == high else step + (after - step) * (high - target) / (high - low)
        step, high = after, low
    raise ValueError(f"{run.run} ends above {target}.")


def at_the_best_rate_of_tanh(folder: pathlib.Path) -> Iterator[Reading]:
    """C19: at tanh's own best rate GELU is worse than tanh.

    Supported by a paired t test, two-sided; refuted where GELU is not worse by more than the margin, one-sided. Each p
    is adjusted over the arms. The rate is chosen on tanh's mean loss, which favours tanh and so the claim.
    """
    found = []
    for place in places(folder, ENCODER):
        rates = place.grid.rates("tanh", "gelu")
        if rates:
            best = place.best("tanh", rates)
            found.append((place, best, place.less("gelu", "tanh", best)))
    worse = adjusted([effect.p for _, _, effect in found])
    no_worse = adjusted([_p_no_worse(effect) for _, _, effect in found])
    arms = []
    for (place, best, effect), p_worse, p_no_worse in zip(found, worse, no_worse, strict=True):
        verdict, p = Verdict.UNDECIDED, p_worse
        if p_worse is not None and p_worse <= ALPHA and (effect.mean or 0) > 0:
            verdict = Verdict.SUPPORTED
        elif p_no_worse is not None and p_no_worse <= ALPHA:
            verdict, p = Verdict.REFUTED, p_no_worse
        arms.append(
            Arm(place.where, verdict, f"GELU's loss less tanh's at {best:g}: {_numbers(effect, p, len(found))}.")
        )
    if arms:
        margin = MARGINS["masked_token"]
        yield Reading(f"GELU worse at tanh's own best rate, by more than {margin:g} one-sided", tuple(arms))


def _p_no_worse(effect: Effect) -> float | None:
    """One-sided p of the t test against a mean at the margin or above."""
    return None if effect.undecidable else t_test(np.array(effect.differences), MARGINS["masked_token"], "less")


READINGS: Mapping[str, Callable[[pathlib.Path], Iterator[Reading]]] = {
    "B06": functools.partial(size_of_the_gap, LOW),
    "B07": follow_ups,
    "B08": functools.partial(size_of_the_gap, HIGH),
    "B12": above_the_best_rate,
    "B13": level_at_the_other_low_rate,
    "B20": faster_convergence,
    "C19": at_the_best_rate_of_tanh,
}
# The study tests a stand-in, the excess over the best loss at all rates, low ones too: printed, it does not decide.
DIRECT = frozenset({"B12", "C19"})
