"""The top of a report: the question, the verdict with its interval, and what the verdict does not say."""

import collections
import dataclasses
from collections.abc import Iterator, Sequence

from actlab.errors import UserError
from actlab.page import Block, Listing, Section, Table, Text
from actlab.report.study import Study, words_of
from actlab.studies import comparison
from actlab.studies.comparison import Comparison
from actlab.studies.deciding import words
from actlab.studies.statistics import ALPHA, MARGIN, nats, paired_resolution


@dataclasses.dataclass(frozen=True)
class Compared:
    """The comparisons of a study, one for each condition; none where `reason` says why."""

    comparisons: tuple[Comparison, ...]
    reason: str = ""

    def by_condition(self, study: Study) -> dict[str, Comparison]:
        """By the condition in words."""
        of = {id(run.result): run.condition for run in study.runs if run.result}
        return {of[id(one.condition.results[0])]: one for one in self.comparisons}


def compare(study: Study, questions: Sequence[str]) -> Compared:
    """Compares what can be compared: conditions in which two activations have ended.

    Raises:
        UserError: for a question about activations that the study does not have.
    """
    asked = [comparison.parse_question(text, study.activations) for text in questions]
    ended: dict[str, set[str]] = collections.defaultdict(set)
    for run in study.runs:
        if run.result and run.status != "stopped":
            ended[run.condition].add(run.activation)
    ready = [run.result for run in study.runs if run.result and len(ended[run.condition]) > 1]
    if not ready:
        return Compared((), "it takes two activations that have been trained to the end at the same setting.")
    try:
        return Compared(tuple(comparison.compare(ready, asked)))
    except UserError as error:
        return Compared((), str(error))


def question(study: Study) -> str:
    """What the study asks: its README's words, else what its axes ask."""
    said = [source.question for source in study.sources if source.question]
    if said:
        return said[0]
    rates = _counted(len(study.rates), "learning rate")
    if len(study.activations) == 1:
        return f"How far does {study.activations[0]} come, at {rates}?"
    names = ", ".join(study.activations[:-1]) + f" or {study.activations[-1]}"
    return f"Which has the lowest validation loss, {names}, at {rates} and {_counted(len(study.seeds), 'seed')}?"


def lead(study: Study, compared: Compared) -> str:
    """The verdict in a sentence, the first condition's."""
    if compared.comparisons:
        return compared.comparisons[0].sentences[0]
    done = [result for result in study.results if result.status == "finished"]
    if not done:
        return f"No verdict yet: {progress(study)}."
    best = min(done, key=lambda result: result.final_loss)
    return f"No verdict, for {compared.reason.rstrip('.')}. The lowest loss is {best.final_loss:.4f}, of {best.run}."


def progress(study: Study) -> str:
    """How many runs have come how far."""
    counts = collections.Counter(run.status for run in study.runs)
    return ", ".join(f"{count} {status}" for status, count in counts.items())


def section(study: Study, compared: Compared) -> Section:
    """Question, verdict, limits."""
    blocks: list[Block] = [Text(question(study), "lead")]
    blocks += [Text(warning, "warning") for warning in _unfinished(study)]
    for one in compared.comparisons:
        blocks += [Text(sentence[:1].upper() + sentence[1:], "lead") for sentence in one.sentences]
    if not compared.comparisons:
        blocks.append(Text(lead(study, compared), "lead"))
    blocks += [Text("What this does not say:"), Listing(tuple(_limits(study, compared)))]
    claims = {key: entry for source in study.sources for key, entry in source.claims.items()}
    if claims:
        rows = [
            [key, str(entry.get("verdict", "-")), words(entry.get("evidence", "-"))] for key, entry in claims.items()
        ]
        blocks.append(Table("claims", ("claim", "verdict", "evidence"), rows, "Claims that this study settles."))
    return Section("verdict", "Question and verdict", tuple(blocks))


def _unfinished(study: Study) -> Iterator[str]:
    open_ones = [run for run in study.runs if run.result is None]
    if any(run.status == "in training" for run in open_ones):
        yield f"Still in training: {progress(study)}. What follows is of the runs that have ended so far."
    elif open_ones:
        yield f"Not finished: {progress(study)}, and nothing trains now; the command that began it goes on."
    for source in study.sources:
        yield from source.warnings


def _limits(study: Study, compared: Compared) -> Iterator[str]:
    results = study.results
    if not results:
        yield "Anything: no run has ended."
        return
    one = max(results, key=lambda result: result.steps)
    rates = ", ".join(f"{rate:g}" for rate in sorted({run.learning_rate for run in study.ended}))
    n_seeds = len({run.seed for run in study.ended})
    yield (
        f"How it is elsewhere: all runs have {one.parameters:,} parameters or so, at most {one.steps:,} steps of "
        f"{one.data} ({one.tokenizer}), learning rates {rates}."
    )
    yield (
        f"How other seeds would do, beyond the intervals: {_counted(n_seeds, 'seed')} here. A single seed "
        "has no interval and decides nothing."
    )
    if compared.comparisons:
        yield (
            f"That a difference matters: losses within {MARGIN:g} nats count as equal only where that is shown. "
            "Intervals are 95%, each by itself; verdicts are corrected for their number (Holm)."
        )
    for each in compared.comparisons:
        warnings: list[str] = []
        for pair in each.main.pairs[:1]:
            effect, family = pair.own_best.effect, pair.own_best.family
            if effect.sd and not effect.undecidable:
                resolved = paired_resolution(effect.n, alpha=ALPHA / family) * effect.sd
                warnings.append(f"differences below {nats(resolved)} nats would mostly be missed")
        warnings += each.warnings
        place = words_of(each.condition.axes)
        if warnings:
            yield f"{place}: {'; '.join(warnings)}." if place else f"Note: {'; '.join(warnings)}."
    diverged = sum(result.status == "diverged" for result in results)
    if diverged:
        yield f"What a diverged run is worth: {diverged} count with the loss they began with."


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count != 1 else ''}"
