"""A comparison of the activations of one condition: three views, each with its ranking, pairs and verdicts."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

from actlab.errors import UserError, suggestion
from actlab.studies.comparison.conditions import Condition, conditions
from actlab.studies.comparison.grid import Grid
from actlab.studies.comparison.pairs import Pair, Question, judge_pairs
from actlab.studies.comparison.ranking import Standing, rank
from actlab.studies.comparison.views import View, views
from actlab.studies.statistics import (
    ALPHA,
    CONFIDENCE,
    MARGIN,
    Judgement,
    Verdict,
    dunnett,
    nats,
    paired_resolution,
)
from actlab.studies.table import Result


@dataclasses.dataclass(frozen=True)
class Seen:
    """A view with what it shows: standings, lowest loss first, and the pairs asked for."""

    view: View
    standings: tuple[Standing, ...] = ()
    pairs: tuple[Pair, ...] = ()
    ranked: Mapping[Question, Judgement] = dataclasses.field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Everything about it, for JSON."""
        return {
            "unit": self.view.unit,
            "budget": self.view.budget,
            "steps": dict(self.view.steps),
            "reason": self.view.reason,
            "ranking": [dataclasses.asdict(standing) for standing in self.standings],
            "pairs": [pair.as_dict() for pair in self.pairs],
        }


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One condition in three views, `margin` in nats. `dunnett` has the adjusted p of each activation to a baseline."""

    condition: Condition
    seen: tuple[Seen, ...]
    margin: float
    asked: bool
    warnings: tuple[str, ...]
    dunnett: Mapping[str, float] | None = None

    @property
    def main(self) -> Seen:
        """The view at equal parameters, which decides."""
        return self.seen[0]

    @property
    def sentences(self) -> list[str]:
        """A verdict in words for each question; without questions one on whoever comes first."""
        if self.asked:
            return [_answer(pair, self.condition.scale) for pair in self.main.pairs]
        return [_lead(self.main, self.condition.scale)]

    def as_dict(self) -> dict[str, Any]:
        """Everything about it, for JSON."""
        results = self.condition.results
        return {
            "scale": self.condition.scale,
            "axes": dict(self.condition.axes),
            "data": results[0].data,
            "tokenizer": results[0].tokenizer,
            "runs": len(results),
            "diverged": sum(result.status == "diverged" for result in results),
            "confidence": CONFIDENCE,
            "margin": self.margin,
            "verdicts": self.sentences,
            "warnings": list(self.warnings),
            "dunnett": None if self.dunnett is None else dict(self.dunnett),
            "views": {seen.view.name: seen.as_dict() for seen in self.seen},
        }


def compare(
    results: Sequence[Result], questions: Sequence[Question] = (), margin: float = MARGIN, baseline: str | None = None
) -> list[Comparison]:
    """Compares the activations of a table, a comparison for each condition; without questions, all pairs.

    Differences smaller than `margin`, nats, count as none where equivalence is shown. With a `baseline`, losses at own
    best are compared to its by Dunnett's test too, which takes activations for independent and so errs towards none.

    Raises:
        UserError: as `conditions`; for activations without a common learning rate, or an unknown baseline.
    """
    return [_compare(condition, questions, margin, baseline) for condition in conditions(results)]


def _compare(condition: Condition, questions: Sequence[Question], margin: float, baseline: str | None) -> Comparison:
    names = {result.activation for result in condition.results}
    asked = [one for one in questions if not (set(one) - names) & condition.to_come]
    seen = tuple(_see(view, asked, margin) for view in views(condition))
    warnings = [*condition.warnings, *_warnings(seen)]
    against = None
    if baseline is not None and not condition.to_come:
        against = _dunnett(seen[0].view, baseline)
    return Comparison(condition, seen, margin, bool(asked), tuple(warnings), against)


def _see(view: View, questions: Sequence[Question], margin: float) -> Seen:
    if view.grid is None:
        return Seen(view)
    for name in {name for question in questions for name in question}:
        if name not in view.grid.activations:
            raise UserError(f"{name} has no runs in this condition: {suggestion(name, view.grid.activations)}")
    standings, ranked = rank(view.grid, margin)
    pairs = judge_pairs(view.grid, questions or list(ranked), margin)
    return Seen(view, tuple(standings), tuple(pairs), ranked)


def _dunnett(view: View, baseline: str) -> dict[str, float]:
    grid = view.grid
    if grid is None or baseline not in grid.activations:
        names = grid.activations if grid else ()
        raise UserError(f"--baseline={baseline} is not in the table: {suggestion(baseline, names)}")
    rates = grid.rates(*grid.activations)
    seeds = {name: grid.complete_seeds(rates, name) for name in grid.activations}
    p_values = [
        dunnett({name: _values(choose(name, rates, seeds[name])) for name in grid.activations}, baseline)
        for choose in (grid.own_best, grid.at_best_mean)
    ]
    return {name: max(p[name] for p in p_values) for name in p_values[0]}


def _values(arm: Mapping[int, float]) -> Float64[np.ndarray, "n"]:
    return np.asarray(list(arm.values()), np.float64)


def _warnings(seen: Sequence[Seen]) -> Iterator[str]:
    main = seen[0]
    if main.view.grid:
        yield from _gaps(main.view.grid)
    for other in seen[1:]:
        if other.view.reason:
            yield f"no view at equal {other.view.name}: {other.view.reason}"
        elif other.standings[0].activation != main.standings[0].activation:
            yield (
                f"the winner changes: {main.standings[0].activation} at equal parameters, "
                f"{other.standings[0].activation} at equal {other.view.name}"
            )
    for standing in main.standings:
        if standing.failed:
            yield f"{standing.activation}: {standing.failed} of {standing.runs} runs count with their initial loss"


def _gaps(grid: Grid) -> Iterator[str]:
    rates = grid.rates(*grid.activations)
    for name in grid.activations:
        more = sorted(set(grid.scores[name]) - set(rates))
        if more:
            listed = ", ".join(f"{rate:g}" for rate in more)
            yield f"{name}: learning rates {listed} are not shared by all and stay out of the ranking"
        lacking = len(grid.seeds(*grid.activations)) - len(grid.complete_seeds(rates, name))
        if lacking:
            yield f"{name}: {lacking} seeds lack a run and are left out of pairs"
        if _at_edge(grid, name, rates):
            yield f"{name}: its best learning rate is at the edge of the grid; a wider one may have a better"


def _at_edge(grid: Grid, name: str, rates: Sequence[float]) -> bool:
    seeds = grid.complete_seeds(rates, name)
    return len(rates) > 2 and bool(seeds) and grid.best_rate(name, rates, seeds) in (rates[0], rates[-1])


def _answer(pair: Pair, scale: str) -> str:
    one, two = pair.question
    judgement = pair.own_best
    word = {
        Verdict.SUPPORTED: f"the loss of {one} is lower than that of {two}",
        Verdict.REFUTED: f"the loss of {one} is not lower than that of {two} but higher",
        Verdict.EQUIVALENT: f"the losses of {one} and {two} are equal within the margin",
        Verdict.UNDECIDED: f"whether the loss of {one} is lower than that of {two} is open",
    }[judgement.verdict]
    return f"{judgement.verdict}: {word}, at this scale ({scale}): {in_numbers(judgement)}"


def in_numbers(judgement: Judgement) -> str:
    """The effect behind a judgement, in words."""
    effect = judgement.effect
    if effect.undecidable or effect.mean is None or effect.interval is None or judgement.p is None:
        return f"{judgement.reason}."
    mean, low, high = (nats(value, "+") for value in (effect.mean, *effect.interval))
    words = f"{mean} nats ({CONFIDENCE:.0%} interval {low} to {high}, {effect.n} seeds"
    words += f", {effect.left_out} left out" if effect.left_out else ""
    words += f", p {judgement.p:.2g} after Holm over {judgement.family})"
    if judgement.reason and effect.sd:
        # Holm asks the smallest p of a family for this level, so that what is found at it is found after Holm.
        resolved = nats(paired_resolution(effect.n, alpha=ALPHA / judgement.family) * effect.sd)
        strict = " at Holm's strictest" if judgement.family > 1 else ""
        words += f"; {effect.n} seeds of this spread find {resolved} four times in five{strict}"
    within = judgement.p_equivalence is not None and judgement.p_equivalence <= ALPHA
    if judgement.verdict in (Verdict.SUPPORTED, Verdict.REFUTED) and within:
        words += "; so small a difference lies within the margin"
    return f"{words}." if effect.sd else f"{words}; the difference is the same with every seed."


def _lead(seen: Seen, scale: str) -> str:
    first, second = (standing.activation for standing in seen.standings[:2])
    verdicts = {question.higher: one for question, one in seen.ranked.items() if question.lower == first}
    level = [name for name, one in verdicts.items() if one.verdict != Verdict.SUPPORTED]
    nearest = (level or [second])[0]
    if not level:
        word, words = Verdict.SUPPORTED, f"{first} has the lowest loss"
    elif all(verdicts[name].verdict == Verdict.EQUIVALENT for name in level):
        word, words = Verdict.EQUIVALENT, f"{first} and {', '.join(level)} are equal within the margin"
    else:
        word, words = Verdict.UNDECIDED, f"{first} comes first but cannot be told from {', '.join(level)}"
    return f"{word}: {words}, at this scale ({scale}); to {nearest}: {in_numbers(verdicts[nearest])}"
