"""The top of a report: question, answer and limits."""

import collections
import dataclasses
from collections.abc import Iterator, Sequence

from actlab.analysis import comparison, protocol
from actlab.analysis.comparison import Comparison
from actlab.analysis.effects import ALPHA, fewest_seeds, nats, paired_resolution
from actlab.analysis.verdicts import words
from actlab.console import counted
from actlab.errors import UserError, suggestion
from actlab.report.page import Block, Details, Listing, Section, Table
from actlab.report.study import IN_TRAINING, Study
from actlab.workdir import manifest


@dataclasses.dataclass(frozen=True)
class Compared:
    """The comparisons of a study, one for each condition; if there is none, `reason` says why."""

    comparisons: tuple[Comparison, ...]
    reason: str = ""

    def by_condition(self, study: Study) -> dict[str, Comparison]:
        """The comparisons by condition in words."""
        of = {run.result.place: run.condition for run in study.runs if run.result}
        return {of[one.condition.results[0].place]: one for one in self.comparisons}


def compare(study: Study, questions: Sequence[str], baseline: str = "") -> Compared:
    """Compares the activations at every condition at which two of them have ended.

    Raises:
        UserError: a question or the baseline names an activation that the study lacks.
    """
    if baseline and baseline not in study.activations:
        raise UserError(f"--baseline={baseline} has no runs here: {suggestion(baseline, study.activations)}")
    asked = [protocol.parse_question(text, study.activations) for text in questions]
    comparison.require_one_way(asked, baseline)
    ended: dict[str, set[str]] = collections.defaultdict(set)
    for run in study.runs:
        if run.result and run.result.done:
            ended[run.condition].add(run.activation)
    # With the runs to come, which are part of Holm's family.
    ready = [run.listed for run in study.runs if run.listed and len(ended[run.condition]) > 1]
    if not ready:
        return Compared((), "a comparison needs two activations trained to the end under the same condition.")
    try:
        return Compared(tuple(comparison.compare(ready, asked, baseline=baseline)))
    except UserError as error:
        return Compared((), str(error))


_NAMED = 6  # activations that a question names


def question(study: Study) -> str:
    """The question in the study's README, else one made from its axes."""
    said = [source.question for source in study.sources if source.question]
    if said:
        return said[0]
    several = len(study.rates) > 1
    rates = counted(len(study.rates), "learning rate") if several else f"a learning rate of {study.rates[0]:g}"
    names = study.activations
    if len(names) == 1:
        return f"Which validation loss does {names[0]} reach at {rates}?"
    if len(names) > _NAMED:
        which = f"Which of {len(names)} activations has the lowest loss"
    else:
        which = f"Which has the lowest loss, {', '.join(names[:-1])} or {names[-1]}"
    return f"{which}, at {rates} and {counted(len(study.seeds), 'seed')}?"


def lead(study: Study, compared: Compared) -> str:
    """The answer in a sentence, for each condition."""
    if compared.comparisons:
        found = compared.by_condition(study)
        several = len(found) > 1
        told = {name: one.answer[:1].lower() + one.answer[1:] if several else one.answer for name, one in found.items()}
        return " ".join(f"With {name}, {answer}" if several else answer for name, answer in told.items())
    done = [result for result in study.results if result.status == "finished"]
    if not done:
        return f"No verdict yet: {progress(study)}."
    best = min(done, key=lambda result: result.final_loss)
    lowest = f"The lowest loss is {best.final_loss:.4f} {best.unit}, of {best.run}."
    return f"{lowest} No verdict: {compared.reason.rstrip('.')}."


def progress(study: Study) -> str:
    """The number of runs of each status."""
    counts = collections.Counter(run.status for run in study.runs)
    return ", ".join(f"{count} {status}" for status, count in counts.items())


def section(study: Study, compared: Compared) -> Section:
    """What the answer holds for, folded; each verdict in full; the claims that the study settles."""
    blocks: list[Block] = [
        Details("scope", "What this holds for, and warnings", (Listing(tuple(_limits(study, compared))),))
    ]
    sentences = [sentence for one in compared.comparisons for sentence in one.sentences]
    if sentences:
        told = Listing(tuple(f"{sentence[:1].upper()}{sentence[1:]}" for sentence in sentences))
        blocks.append(Details("full", "Each verdict in full", (told,)))
    claims = {key: entry for source in study.sources for key, entry in source.claims.items()}
    if claims:
        rows = [
            [key, str(entry.get("verdict", "-")), words(entry.get("evidence", "-"))] for key, entry in claims.items()
        ]
        table = Table("claims", ("claim", "verdict", "evidence"), rows)
        blocks.append(Details("settled", f"Claims that this study decides on: {len(claims)}", (table,)))
    return Section("limits", "Limits", tuple(blocks))


def unfinished(study: Study) -> Iterator[str]:
    """Warnings about runs that have not ended, and about files."""
    open_ones = [run for run in study.runs if not (run.result and run.result.done)]
    if any(run.status == IN_TRAINING for run in open_ones):
        yield f"Still in training: {progress(study)}. This page shows the runs that have ended so far."
    elif open_ones:
        yield f"Not finished: {progress(study)}, and no process is training. Repeat the training command to resume."
    for source in study.sources:
        yield from source.warnings


def _limits(study: Study, compared: Compared) -> Iterator[str]:
    results = study.results
    if not results:
        yield "No run has ended, so nothing is known yet."
        return
    one = max(results, key=lambda result: result.steps)
    sizes = sorted({result.parameters for result in results})
    # Activations of one size differ by what a gate's width or a scalar adds.
    size = f"about {sizes[0]:,}" if sizes[-1] < 1.1 * sizes[0] else f"{sizes[0]:,} to {sizes[-1]:,}"
    known = sorted({result.learning_rate for result in results})
    rates, word = comparison.listed(known), "learning rates" if len(known) > 1 else "learning rate"
    n_seeds = len({result.seed for result in results})
    yield (
        f"Scale: the runs have {size} parameters and at most {one.steps:,} steps on {one.data} "
        f"({one.tokenizer}), at {word} {rates}. Results may differ elsewhere."
    )
    yield (
        f"Seeds: {counted(n_seeds, 'seed')}; the intervals estimate how other seeds would do. A single seed has no "
        "interval and decides nothing."
    )
    if compared.comparisons:
        first = compared.comparisons[0]
        margin = f"{first.margin:.2g} {first.unit}"
        yield (
            f"Tests: losses count as equal only if the difference is shown to lie within {margin}. "
            "Each interval is a 95% interval by itself; verdicts are corrected for multiple tests (Holm)."
        )
    for place, each in compared.by_condition(study).items():
        warnings: list[str] = []
        for pair in each.main.pairs[:1]:
            effect, family = pair.own_best.effect, pair.own_best.family
            if effect.sd and not effect.undecidable and effect.n >= fewest_seeds(family):
                resolved = paired_resolution(effect.n, alpha=ALPHA / family) * effect.sd
                found = f"a t test of {effect.n} seeds finds a difference of {nats(resolved)} nats in 80% of cases"
                warnings.append(f"of {pair.question} {found}")
        warnings += each.warnings
        if warnings:
            yield f"{place}: {'; '.join(warnings)}." if place else f"Note: {'; '.join(warnings)}."
    for sentence in manifest.mixture(source.manifest for source in study.sources):
        yield f"Note: {sentence}."
    diverged = sum(result.status == "diverged" for result in results)
    if diverged:
        yield f"Diverged runs: {counted(diverged, 'run')}, counted with the initial loss."
