"""Comparisons of the activations of one condition: three views, each with its ranking, pairs and verdicts in words.

`compare` makes them of a table's results, `show` prints one to the terminal.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from actlab.analysis.contrasts import Grid, Pair, judge_pairs
from actlab.analysis.effects import (
    ALPHA,
    CONFIDENCE,
    DIFFERENT,
    MARGIN,
    Interval,
    Judgement,
    Verdict,
    dunnett,
    nats,
    paired_resolution,
)
from actlab.analysis.protocol import Contrast
from actlab.analysis.ranking import View, rank, views
from actlab.analysis.results import Condition, Result, conditions
from actlab.errors import UserError, suggestion


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One condition in three views, `margin` in nats. `dunnett` has the adjusted p of each activation to a baseline."""

    condition: Condition
    views: tuple[View, ...]
    margin: float
    asked: bool
    warnings: tuple[str, ...]
    dunnett: Mapping[str, float] | None = None

    @property
    def main(self) -> View:
        """The view at equal parameters, which decides."""
        return self.views[0]

    @property
    def sentences(self) -> list[str]:
        """A verdict in words for each question; without questions, one on the activation that comes first."""
        if self.asked:
            return [_answer(pair, self.condition.scale) for pair in self.main.pairs]
        return [_lead(self.main, self.condition.scale)]

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
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
            "views": {view.name: view.as_dict() for view in self.views},
        }


def compare(
    results: Sequence[Result], questions: Sequence[Contrast] = (), margin: float = MARGIN, baseline: str | None = None
) -> list[Comparison]:
    """Compares the activations of a table, condition by condition; without questions, all pairs.

    Differences smaller than `margin`, nats, count as none where equivalence is shown. With a `baseline`, every other
    activation is also compared with it by Dunnett's test, which takes activations for independent samples although they
    share seeds, and so finds fewer differences.

    Raises:
        UserError: as `conditions`; for activations without a common learning rate, or an unknown baseline.
    """
    return [_compare(condition, questions, margin, baseline) for condition in conditions(results)]


def _compare(condition: Condition, questions: Sequence[Contrast], margin: float, baseline: str | None) -> Comparison:
    names = {result.activation for result in condition.results}
    # A question about an activation that is not trained yet waits; one about an unknown activation is an error.
    asked = [one for one in questions if not (set(one.activations) - names) & condition.to_come]
    found = tuple(_judged(view, asked, margin) for view in views(condition))
    against = _dunnett(found[0].grid, baseline) if baseline is not None and not condition.to_come else None
    return Comparison(condition, found, margin, bool(asked), (*condition.warnings, *_warnings(found)), against)


def _judged(view: View, questions: Sequence[Contrast], margin: float) -> View:
    if view.grid is None:
        return view
    for name in {name for question in questions for name in question.activations}:
        if name not in view.grid.names:
            raise UserError(f"{name} has no runs in this condition: {suggestion(name, view.grid.names)}")
    standings, ranked = rank(view.grid, margin)
    pairs = judge_pairs(view.grid, questions or list(ranked), margin)
    return dataclasses.replace(view, standings=tuple(standings), pairs=tuple(pairs), ranked=ranked)


def _dunnett(grid: Grid | None, baseline: str) -> dict[str, float]:
    """The larger of the two p that the two choices of learning rates give, as for an Effect."""
    if grid is None or baseline not in grid.names:
        raise UserError(
            f"--baseline={baseline} is not in the table: {suggestion(baseline, grid.names if grid else ())}"
        )
    rates = grid.rates(*grid.names)
    seeds = {name: grid.complete_seeds(rates, name) for name in grid.names}
    p_values = []
    for choose in (grid.own_best, grid.at_best_mean):
        arms = {name: np.array([*choose(name, rates, seeds[name]).values()], np.float64) for name in grid.names}
        p_values.append(dunnett(arms, baseline))
    return {name: max(p[name] for p in p_values) for name in p_values[0]}


def _warnings(found: Sequence[View]) -> Iterator[str]:
    main = found[0]
    if main.grid:
        yield from _gaps(main.grid)
    for other in found[1:]:
        if other.reason:
            yield f"no view at equal {other.name}: {other.reason}"
        elif other.standings[0].activation != main.standings[0].activation:
            yield (
                f"the winner changes: {main.standings[0].activation} at equal parameters, "
                f"{other.standings[0].activation} at equal {other.name}"
            )
    for standing in main.standings:
        if standing.failed:
            yield f"{standing.activation}: {standing.failed} of {standing.runs} runs count with their initial loss"


def _gaps(grid: Grid) -> Iterator[str]:
    rates = grid.rates(*grid.names)
    for name in grid.names:
        more = sorted(set(grid.cells[name]) - set(rates))
        if more:
            listed = ", ".join(f"{rate:g}" for rate in more)
            yield f"{name}: learning rates {listed} are not shared by all and stay out of the ranking"
        seeds = grid.complete_seeds(rates, name)
        lacking = len(grid.seeds(*grid.names)) - len(seeds)
        if lacking:
            yield f"{name}: {lacking} seeds lack a run and are left out of pairs"
        if len(rates) > 2 and seeds and grid.best_rate(name, rates, seeds) in (rates[0], rates[-1]):
            yield f"{name}: its best learning rate is at the edge of the grid; a wider one may have a better"


def _answer(pair: Pair, scale: str) -> str:
    one, two = pair.contrast.activations
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
    if judgement.verdict in DIFFERENT and within:
        words += "; so small a difference lies within the margin"
    return f"{words}." if effect.sd else f"{words}; the difference is the same with every seed."


def _lead(view: View, scale: str) -> str:
    first, second = (standing.activation for standing in view.standings[:2])
    pairs = ((pair.activations, one) for pair, one in view.ranked.items())
    verdicts = {higher: one for (lower, higher), one in pairs if lower == first}
    # The first may differ from the second and not from the third, which has a wider interval.
    level = [name for name, one in verdicts.items() if one.verdict != Verdict.SUPPORTED]
    nearest = (level or [second])[0]
    if not level:
        word, words = Verdict.SUPPORTED, f"{first} has the lowest loss"
    elif all(verdicts[name].verdict == Verdict.EQUIVALENT for name in level):
        word, words = Verdict.EQUIVALENT, f"{first} and {', '.join(level)} are equal within the margin"
    else:
        word, words = Verdict.UNDECIDED, f"{first} comes first but cannot be told from {', '.join(level)}"
    return f"{word}: {words}, at this scale ({scale}); to {nearest}: {in_numbers(verdicts[nearest])}"


STYLE = {
    Verdict.SUPPORTED: "green",
    Verdict.REFUTED: "red",
    Verdict.EQUIVALENT: "blue",
    Verdict.UNDECIDED: "yellow",
}


def show(comparison: Comparison) -> RenderableType:
    """One comparison in full, for the terminal."""
    main, unit = comparison.main, comparison.condition.results[0].unit
    parts: list[RenderableType] = [
        Text(f"scale       {comparison.condition.scale}"),
        Text(f"ranking     validation loss at each activation's own best learning rate, {unit}"),
        _ranking(main),
        Text("pairs       first minus second, nats; each interval by itself, p after Holm; is the first lower?"),
        _pairs(main),
        Text("views       loss at own best learning rate within an equal budget"),
        _views(comparison.views),
    ]
    if comparison.dunnett is not None:
        parts.append(Text("Dunnett     " + ", ".join(f"{name} p {p:.2g}" for name, p in comparison.dunnett.items())))
    parts += [Text(f"warning     {warning}") for warning in comparison.warnings]
    parts += [Text(f"verdict     {sentence}", style="bold") for sentence in comparison.sentences]
    return Group(*parts)


def _ranking(view: View) -> Table:
    columns = ("activation", "group", "loss", "95% interval", "best rate", "LR sensitivity", "95% interval")
    grid = _grid(*columns, "seeds", "runs", "failed")
    for one in view.standings:
        rate = "-" if one.best_rate is None else f"{one.best_rate:g}"
        sensitivity = (_number(one.sensitivity), _interval(one.sensitivity_interval))
        counts = map(str, (one.seeds, one.runs, one.failed))
        loss = (_number(one.loss), _interval(one.interval))
        grid.add_row(one.activation, ",".join(one.groups), *loss, rate, *sensitivity, *counts)
    return grid


def _pairs(view: View) -> Table:
    grid = _grid("question", "where", "difference", "95% interval", "BCa", "p", "seeds", "left out", "verdict")
    for pair in view.pairs:
        rates = {f"at {rate:g}": judgement for rate, judgement in pair.at_rates.items()}
        places = {"own best": pair.own_best, **rates, "LR sensitivity": pair.sensitivity}
        for where, judgement in places.items():
            effect = judgement.effect
            verdict = Text(str(judgement.verdict), style=STYLE[judgement.verdict])
            if effect.undecidable:
                verdict.append(f" ({judgement.reason})")
            grid.add_row(
                pair.question if where == "own best" else "",
                where,
                _number(effect.mean, "+"),
                _interval(effect.interval, "+"),
                _interval(effect.bootstrap, "+"),
                "-" if judgement.p is None else f"{judgement.p:.2g}",
                str(effect.n),
                str(effect.left_out),
                verdict,
            )
    return grid


def _views(views: Sequence[View]) -> Table:
    grid = _grid("equal", "budget", "ranking")
    for one in views:
        order = ", ".join(f"{standing.activation} {_number(standing.loss)}" for standing in one.standings)
        grid.add_row(one.name, one.words, order or one.reason)
    return grid


def _grid(*columns: str) -> Table:
    return Table(*columns, box=None, pad_edge=False)


def _number(value: float | None, sign: str = "") -> str:
    return "-" if value is None else nats(value, sign)


def _interval(interval: Interval | None, sign: str = "") -> str:
    return "-" if interval is None else f"{nats(interval.low, sign)} to {nats(interval.high, sign)}"
