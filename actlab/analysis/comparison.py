"""Comparisons of the activations of one condition: three views, each with its ranking, pairs and verdicts in words.

`compare` makes them of a table's results; printing.py prints one to the terminal.
"""

import collections
import dataclasses
import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from actlab.analysis import crossed
from actlab.analysis.conditions import Condition, conditions, margin_of
from actlab.analysis.contrasts import Grid, Pair, judge_own_best, judge_pairs
from actlab.analysis.effects import (
    ALPHA,
    CONFIDENCE,
    DIFFERENT,
    Judgement,
    Verdict,
    few_seeds,
    fewest_seeds,
    nats,
    paired_resolution,
    span,
)
from actlab.analysis.protocol import Contrast, lower
from actlab.analysis.ranking import View, rank, views
from actlab.analysis.results import Result
from actlab.errors import UserError, suggestion

UNRESOLVED = "rate not resolved"
COVERED = (
    "the 95% interval is for other seeds on this test text; 'seeds and documents' is for other text of its kind as well"
)
SEEDS = 8  # advised: with fewer, swaps find less than a t test would


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One condition in three views, `margin` in the unit of its losses.

    `baseline` is what the others are compared with: the one given, or the second activation of most questions.
    """

    condition: Condition
    views: tuple[View, ...]
    margin: float
    baseline: str
    warnings: tuple[str, ...]

    @property
    def main(self) -> View:
        """The view at equal parameters, which decides."""
        return self.views[0]

    @property
    def unit(self) -> str:
        """The unit of its losses."""
        return self.condition.results[0].unit

    def read_on(self, view: View) -> str:
        """A note on the losses of a view where they are not read on what the main view's are.

        A run that is cut has no test loss at its cut.
        """
        ours, theirs = self.main.grid, view.grid
        return f" (on {theirs.read_on})" if ours and theirs and theirs.read_on != ours.read_on else ""

    @property
    def answer(self) -> str:
        """What its pairs say, in one sentence without statistics but intervals."""
        return _answer(self)

    @property
    def sentences(self) -> list[str]:
        """A verdict in words for each pair."""
        return [_sentence(pair, self.condition.scale) for pair in self.main.pairs]

    def other_pairs(self) -> dict[Contrast, Judgement]:
        """The pairs that nobody asked for, at own best rates, lowest loss first, with Holm over them alone."""
        grid = self.main.grid
        asked = {frozenset(pair.contrast.activations) for pair in self.main.pairs}
        names = [standing.activation for standing in self.main.standings]
        pairs = [lower(*two) for two in itertools.combinations(names, 2) if frozenset(two) not in asked]
        judged = judge_own_best(grid, pairs, self.margin, waiting=self.condition.to_come) if grid else []
        return dict(zip(pairs, judged, strict=True))

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        results = self.condition.results
        return {
            "scale": self.condition.scale,
            "axes": dict(self.condition.axes),
            "data": results[0].data,
            "tokenizer": results[0].tokenizer,
            "runs": len(results),
            "failed": dict(collections.Counter(result.failed for result in results if result.failed)),
            "confidence": CONFIDENCE,
            "margin": self.margin,
            "unit": self.unit,
            "baseline": self.baseline,
            "answer": self.answer,
            "verdicts": self.sentences,
            "warnings": list(self.warnings),
            "views": {view.name: view.as_dict() for view in self.views},
        }


def compare(
    results: Sequence[Result],
    questions: Sequence[Contrast] = (),
    margin: float | None = None,
    baseline: str = "",
    warnings: Sequence[str] = (),
) -> list[Comparison]:
    """Compares the activations of a table, condition by condition.

    Without questions each activation is compared with the baseline; without a baseline that is the second activation
    of most questions, else the table's first activation. Differences smaller than `margin`, in the unit of the losses,
    count as none where equivalence is shown; by default it is that of `margin_of`. The `warnings`, of the
    workdirs, are part of each comparison.

    Raises:
        UserError: as `conditions` and `margin_of`; for questions beside a baseline; for two questions about one pair;
            for a question or a baseline that no place of the further axes has runs of. Where only some have, the
            others say so in a warning.
    """
    require_one_way(questions, baseline)
    pairs = [frozenset(one.activations) for one in questions]
    if twice := [pair for pair, count in collections.Counter(pairs).items() if count > 1]:
        # Holm would count one hypothesis as two.
        raise UserError(f"two questions ask about {' and '.join(sorted(twice[0]))}: ask once about each pair.")
    places = conditions(results)
    asked = [one.activations for one in questions] or [(baseline,) if baseline else ()]
    here = [{*(run.activation for run in place.results), *(name for name, _ in place.to_come)} for place in places]
    lacking_at = [[names for names in asked if not trained.issuperset(names)] for trained in here]
    every = set().union(*here)
    for names in asked:
        if all(names in lacking for lacking in lacking_at):
            if lost := next((name for name in names if name not in every), ""):
                flag = "--baseline=" if baseline else ""
                raise UserError(f"{flag}{lost} has no runs that can be compared: {suggestion(lost, sorted(every))}")
            raise UserError(
                f"{' and '.join(names)} were not trained under the same condition: ask about two that were."
            )
    left_out = [
        f"left out: {place.scale}, for lack of runs of {', '.join(sorted({*itertools.chain(*asked)} - trained))}"
        for place, trained, lacking in zip(places, here, lacking_at, strict=True)
        if lacking == asked
    ]
    found = []
    for place, lacking in zip(places, lacking_at, strict=True):
        if lacking == asked:
            continue
        one = _compare(place, [q for q in questions if q.activations not in lacking], margin, baseline)
        not_asked = [f"not asked here, for lack of runs: {' and '.join(names)}" for names in lacking]
        found.append(dataclasses.replace(one, warnings=(*one.warnings, *not_asked, *left_out, *warnings)))
    return found


def require_one_way(questions: Sequence[Contrast], baseline: str) -> None:
    """Refuses a baseline beside questions: each pair would have two answers, corrected over two families.

    Raises:
        UserError: for both.
    """
    if questions and baseline:
        raise UserError(f"--baseline={baseline} asks about every activation: leave out --question, or the baseline.")


def _compare(condition: Condition, questions: Sequence[Contrast], margin: float | None, baseline: str) -> Comparison:
    names = list(dict.fromkeys(result.activation for result in condition.results))
    to_train = {name for name, _ in condition.to_come}
    # A question about an activation that is not trained yet waits. It is part of Holm's family, or a difference would
    # be found only until the others are trained.
    asked = [one for one in questions if not (set(one.activations) - set(names)) & to_train]
    seconds = collections.Counter(one.activations[1] for one in asked)
    baseline = baseline or max(seconds, key=seconds.__getitem__, default=names[0])
    margin = margin_of(condition.results) if margin is None else margin
    others = to_train - {*names, baseline}
    to_come = len(questions) - len(asked) if questions else len(others)
    against = "" if questions or baseline not in names else baseline
    found = tuple(_judged(view, asked, against, margin, to_come, condition.to_come) for view in views(condition))
    found = (_with_documents(found[0], condition.results), *found[1:])
    warnings = (*condition.warnings, *_of_runs(condition.results), *_warnings(found))
    return Comparison(condition, found, margin, baseline, warnings)


def _judged(
    view: View,
    asked: Sequence[Contrast],
    against: str,
    margin: float,
    to_come: int,
    waiting: Collection[tuple[str, float]],
) -> View:
    """With its standings, and the pairs that are asked about or all pairs with the activation `against`."""
    if view.grid is None:
        return view
    standings = rank(view.grid)
    if against:
        asked = [lower(one.activation, against) for one in standings if one.activation != against]
    pairs = judge_pairs(view.grid, asked, margin, to_come, waiting)
    return dataclasses.replace(view, standings=standings, pairs=tuple(pairs))


def _with_documents(view: View, results: Sequence[Result]) -> View:
    """Its pairs with the intervals over seeds and documents, where the runs have their documents."""
    # A run that learned nothing counts with its initial loss, which has no documents.
    known = {result.run: result.documents for result in results if result.documents is not None and result.learned}
    if view.grid is None or not known:
        return view
    intervals = [crossed.of_pair(pair.contrast.activations, view.grid, known) for pair in view.pairs]
    pairs = zip(view.pairs, intervals, strict=True)
    return dataclasses.replace(
        view, pairs=tuple(dataclasses.replace(pair, seeds_and_documents=interval) for pair, interval in pairs)
    )


def _of_runs(results: Sequence[Result]) -> Iterator[str]:
    counts = collections.Counter(result.failed for result in results)
    if set(counts) == {""} and all(result.trivial_loss is not None for result in results):
        return
    words = [f"{counts['collapsed']} collapsed", f"{counts['diverged']} diverged"]
    if any(result.trivial_loss is None for result in results):
        words[0] = "collapse is not known, for lack of a column trivial_loss"
    if counts["learned nothing"]:
        words.append(f"{counts['learned nothing']} learned nothing")
    yield f"{len(results)} runs: {', '.join(words)}"


def _warnings(found: Sequence[View]) -> Iterator[str]:
    main = found[0]
    if main.grid:
        yield from _gaps(main.grid)
        if main.grid.read_on == "validation":
            yield "differences are read on validation losses, which also choose the rates: some run has no test loss"
        dropped = sorted(set(main.grid.rates(*main.grid.names)) - set(main.sensitivity_rates))
        if dropped:
            yield f"LR sensitivity leaves out {listed(dropped)}, where every run failed"
        for pair in main.pairs:
            if beyond := beyond_ranking(main.grid, pair):
                yield f"{pair.question} is at rates that the ranking leaves out: {beyond}"
    if main.pairs:
        n_seeds = min((pair.own_best.effect.n for pair in _decidable(main.pairs)), default=SEEDS)
        if few := _too_few(main.pairs):
            yield few
        elif n_seeds < SEEDS:
            yield f"{n_seeds} seeds: of differences at own best rates {SEEDS} or more find as much as a t test would"
    for other in found[1:]:
        if main.grid is None or other.grid is None or not other.standings:
            continue
        # A run that is cut has no test loss at its cut: both are then read on validation.
        alike = other.grid.read_on == main.grid.read_on
        before = (main.standings if alike else rank(main.grid.on_validation()))[0].activation
        if other.standings[0].activation != before:
            split = "" if alike else ", by validation losses"
            yield (
                f"the winner changes: {before} at equal parameters, {other.standings[0].activation} at equal "
                f"{other.name}{split}"
            )
    for reason in dict.fromkeys(standing.unresolved for standing in main.standings if standing.unresolved):
        names = [standing.activation for standing in main.standings if standing.unresolved == reason]
        yield f"{UNRESOLVED} of {', '.join(names)}: {reason}"


def beyond_ranking(grid: Grid, pair: Pair) -> str:
    """The best rates of a pair that are not among those of the ranking, which all activations share; empty for none."""
    names = pair.contrast.activations
    rates, ranked = grid.rates(*names), grid.rates(*grid.names)
    seeds = grid.complete_seeds(rates, *names)
    best = {name: grid.best_rate(name, rates, seeds) for name in names} if seeds else {}
    return ", ".join(f"{name} at {rate:g}" for name, rate in best.items() if rate not in ranked)


def _gaps(grid: Grid) -> Iterator[str]:
    rates = grid.rates(*grid.names)
    for name in grid.names:
        more = sorted(set(grid.cells[name]) - set(rates))
        if more:
            yield f"{name}: learning rates {listed(more)} are not shared by all and stay out of the ranking"
        seeds = grid.complete_seeds(rates, name)
        lacking = len(grid.seeds(*grid.names)) - len(seeds)
        if lacking:
            words = "1 seed lacks a run and is" if lacking == 1 else f"{lacking} seeds lack a run and are"
            fewest = min(rates, key=lambda rate: len(grid.cells[name][rate]))
            n_there, n = len(grid.cells[name][fewest]), len(grid.seeds(*grid.names))
            yield f"{name}: {words} left out of pairs; at {fewest:g} {n_there} of {n} seeds are there"


def listed(rates: Sequence[float]) -> str:
    """Learning rates in words."""
    return ", ".join(f"{rate:g}" for rate in rates)


def _sentence(pair: Pair, scale: str) -> str:
    one, two = pair.contrast.activations
    judgement = pair.own_best
    word = {
        Verdict.SUPPORTED: f"the loss of {one} is lower than that of {two}",
        Verdict.REFUTED: f"the loss of {one} is higher than that of {two}",
        Verdict.EQUIVALENT: f"the losses of {one} and {two} are equal within the margin",
        Verdict.UNDECIDED: f"whether the loss of {one} is lower than that of {two} is open",
    }[judgement.verdict]
    return f"{qualified(judgement)}: {word}, at this scale ({scale}): {in_numbers(judgement)}"


def qualified(judgement: Judgement) -> str:
    """The verdict, and whether it rests on a best rate that is not resolved."""
    decided = judgement.verdict != Verdict.UNDECIDED
    return f"{judgement.verdict}, {UNRESOLVED}" if decided and judgement.effect.unresolved else str(judgement.verdict)


def in_numbers(judgement: Judgement) -> str:
    """The effect behind a judgement, in words."""
    effect = judgement.effect
    if effect.undecidable or effect.mean is None or judgement.p is None:
        return f"{judgement.reason}."
    words = f"{nats(effect.mean, '+')} nats ("
    if effect.interval:
        words += f"{CONFIDENCE:.0%} interval {span(effect.interval, '+')}, "
    elif effect.sd:
        words += f"sd {nats(effect.sd)}, "
    words += f"{effect.n} seeds"
    words += f", {effect.left_out} left out" if effect.left_out else ""
    is_equal = judgement.verdict == Verdict.EQUIVALENT
    p = f"p of equivalence {judgement.p_equivalence:.2g}" if is_equal else f"p {judgement.p:.2g}"
    words += f", {p} after Holm over {judgement.family})"
    words += f"; {UNRESOLVED}: {effect.unresolved}" if effect.unresolved else ""
    if judgement.reason and effect.swaps and effect.n < fewest_seeds(judgement.family):
        words += f"; {judgement.reason}"
    elif judgement.reason and effect.sd:
        # Holm asks the smallest p of a family for this level, so that what is found at it is found after Holm.
        resolved = nats(paired_resolution(effect.n, alpha=ALPHA / judgement.family) * effect.sd)
        level = " at Holm's strictest level" if judgement.family > 1 else ""
        # The swaps of whole curves and the other choices of rates must agree with it, which takes more.
        more = ", and the four tests together less often" if effect.swaps else ""
        words += f"; a t test of {effect.n} seeds finds {resolved} in 80% of cases{level}{more}"
    if is_equal and judgement.p <= ALPHA:
        words += "; a difference is shown, and it lies within the margin"
    return f"{words}." if effect.sd else f"{words}; the difference is the same with every seed."


_LISTED = 4  # activations that an answer names of each kind


def _answer(comparison: Comparison) -> str:
    pairs = sorted(comparison.main.pairs, key=lambda pair: pair.own_best.effect.mean or 0.0)
    judged = [pair for pair in pairs if pair.own_best.effect.mean is not None]
    if not pairs and comparison.condition.to_come:
        return "Open: what is asked about is not trained yet."
    if not judged:
        reason = next((told for pair in pairs if (told := pair.own_best.effect.undecidable)), "")
        reason = comparison.main.reason or reason or "no two activations share a seed and a learning rate"
        return f"Open: {reason}."
    if len(pairs) == 1:
        return _answer_of_one(pairs[0], comparison)
    reasons = {pair.own_best.effect.reason for pair in pairs}
    if len(reasons) == 1 and (reason := reasons.pop()):
        return f"Open: {reason}."
    against = f" than {comparison.baseline}"
    common = all(pair.contrast.activations[1] == comparison.baseline for pair in pairs)
    found = {
        f"Lower loss{against if common else ''}": Verdict.SUPPORTED,
        f"higher{against if common else ''}": Verdict.REFUTED,
        f"equal{f' to {comparison.baseline}' if common else ''} within {comparison.margin:.2g}": Verdict.EQUIVALENT,
        "open": Verdict.UNDECIDED,
    }
    parts = []
    for words, verdict in found.items():
        of = [pair for pair in pairs if pair.own_best.verdict == verdict]
        named = [_named(pair, common) for pair in of[:_LISTED]]
        more = [f"{len(of) - _LISTED} more"] if len(of) > _LISTED else []
        if verdict == Verdict.UNDECIDED and len(of) > _LISTED:
            named, more = [f"{len(of)} of {len(pairs)} differences"], []
        if of:
            parts.append(f"{words}: {', '.join([*named, *more])}")
    text = "; ".join(parts)
    few = f" {told}." if (told := _too_few(pairs)) else ""
    return f"{text[:1].upper()}{text[1:]} ({comparison.unit}, {_seeds(_decidable(pairs) or judged)}).{few}"


def _decidable(pairs: Sequence[Pair]) -> list[Pair]:
    return [pair for pair in pairs if not pair.own_best.effect.undecidable]


def _too_few(pairs: Sequence[Pair]) -> str:
    """Why the pairs with the fewest seeds can show no difference; empty if they can, or none allows a test."""
    counts = [pair.own_best.effect.n for pair in _decidable(pairs)]
    # Those with more seeds may leave Holm's family first.
    return few_seeds(min(counts), pairs[0].own_best.family - sum(n > min(counts) for n in counts)) if counts else ""


def _named(pair: Pair, common: bool) -> str:
    judgement, (one, two) = pair.own_best, pair.contrast.activations
    if judgement.verdict not in DIFFERENT or judgement.effect.mean is None:
        return one if common else f"{one} against {two}"
    unresolved = f" ({UNRESOLVED})" if judgement.effect.unresolved else ""
    return f"{one if common else f'{one} than {two}'} by {nats(abs(judgement.effect.mean))}{unresolved}"


def _answer_of_one(pair: Pair, comparison: Comparison) -> str:
    effect, verdict, (one, two) = pair.own_best.effect, pair.own_best.verdict, pair.contrast.activations
    assert effect.mean is not None
    ends = sorted(map(abs, effect.interval)) if effect.interval and verdict in DIFFERENT else effect.interval
    known = f"95% interval {span(ends)}, " if ends else ""
    unresolved = f", {UNRESOLVED}" if effect.unresolved and verdict != Verdict.UNDECIDED else ""
    about = f" ({known}{_seeds([pair])}{unresolved})"
    if verdict in DIFFERENT:
        word = "lower" if verdict == Verdict.SUPPORTED else "higher"
        return f"The loss of {one} is {word} than that of {two} by {nats(abs(effect.mean))} {comparison.unit}{about}."
    if effect.undecidable:
        return f"Open: whether the loss of {one} is lower than that of {two}; {effect.undecidable}."
    difference = f"difference {nats(effect.mean, '+')} {comparison.unit}{about}"
    if verdict == Verdict.EQUIVALENT:
        return f"The losses of {one} and {two} are equal within {comparison.margin:.2g}: {difference}."
    return f"Open: whether the loss of {one} is lower than that of {two}; {difference}."


def _seeds(pairs: Sequence[Pair]) -> str:
    counts = sorted({pair.own_best.effect.n for pair in pairs})
    ends = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{ends} seed{'' if counts == [1] else 's'}"
