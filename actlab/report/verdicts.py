"""The top of a report: question, verdict with its interval, limits; and Text B's table beside a replication."""

import collections
import dataclasses
import math
from collections.abc import Iterator, Sequence

from actlab.analysis import comparison, protocol
from actlab.analysis.comparison import Comparison
from actlab.analysis.effects import ALPHA, Effect, nats, paired_resolution
from actlab.analysis.verdicts import words
from actlab.claims import relu_vs_gelu as theirs
from actlab.errors import UserError
from actlab.report import charts
from actlab.report.charts import style
from actlab.report.page import Block, Cell, Listing, Section, Table, Text
from actlab.report.study import Run, Study, words_of


@dataclasses.dataclass(frozen=True)
class Compared:
    """The comparisons of a study, one for each condition; if there is none, `reason` says why."""

    comparisons: tuple[Comparison, ...]
    reason: str = ""

    def by_condition(self, study: Study) -> dict[str, Comparison]:
        """The comparisons by condition in words."""
        of = {run.result.place: run.condition for run in study.runs if run.result}
        return {of[one.condition.results[0].place]: one for one in self.comparisons}


def compare(study: Study, questions: Sequence[str]) -> Compared:
    """Compares the activations at every condition at which two of them have ended.

    Raises:
        UserError: a question names an activation that the study lacks.
    """
    asked = [protocol.parse_question(text, study.activations) for text in questions]
    ended: dict[str, set[str]] = collections.defaultdict(set)
    for run in study.runs:
        if run.result and run.status != "stopped":
            ended[run.condition].add(run.activation)
    ready = [run.result for run in study.runs if run.result and len(ended[run.condition]) > 1]
    if not ready:
        return Compared((), "a comparison needs two activations trained to the end under the same condition.")
    try:
        return Compared(tuple(comparison.compare(ready, asked)))
    except UserError as error:
        return Compared((), str(error))


def question(study: Study) -> str:
    """The question in the study's README, else one made from its axes."""
    said = [source.question for source in study.sources if source.question]
    if said:
        return said[0]
    rates = _counted(len(study.rates), "learning rate")
    if len(study.activations) == 1:
        return f"Which validation loss does {study.activations[0]} reach at {rates}?"
    names = ", ".join(study.activations[:-1]) + f" or {study.activations[-1]}"
    return f"Which has the lowest validation loss, {names}, at {rates} and {_counted(len(study.seeds), 'seed')}?"


def lead(study: Study, compared: Compared) -> str:
    """The verdict at the first condition, in a sentence."""
    if compared.comparisons:
        return compared.comparisons[0].sentences[0]
    done = [result for result in study.results if result.status == "finished"]
    if not done:
        return f"No verdict yet: {progress(study)}."
    best = min(done, key=lambda result: result.final_loss)
    return f"No verdict: {compared.reason.rstrip('.')}. The lowest loss is {best.final_loss:.4f}, of {best.run}."


def progress(study: Study) -> str:
    """The number of runs of each status."""
    counts = collections.Counter(run.status for run in study.runs)
    return ", ".join(f"{count} {status}" for status, count in counts.items())


def section(study: Study, compared: Compared) -> Section:
    """The question, the verdict and its limits."""
    blocks: list[Block] = [Text(question(study), "lead")]
    blocks += [Text(warning, "warning") for warning in _unfinished(study)]
    for one in compared.comparisons:
        blocks += [Text(sentence[:1].upper() + sentence[1:], "lead") for sentence in one.sentences]
    if not compared.comparisons:
        blocks.append(Text(lead(study, compared), "lead"))
    blocks += [Text("Limits:"), Listing(tuple(_limits(study, compared)))]
    claims = {key: entry for source in study.sources for key, entry in source.claims.items()}
    if claims:
        rows = [
            [key, str(entry.get("verdict", "-")), words(entry.get("evidence", "-"))] for key, entry in claims.items()
        ]
        blocks.append(Table("claims", ("claim", "verdict", "evidence"), rows, "Claims settled by this study."))
    return Section("verdict", "Question and verdict", tuple(blocks))


def _unfinished(study: Study) -> Iterator[str]:
    open_ones = [run for run in study.runs if run.result is None]
    if any(run.status == "in training" for run in open_ones):
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
    rates = ", ".join(f"{rate:g}" for rate in sorted({run.learning_rate for run in study.ended}))
    n_seeds = len({run.seed for run in study.ended})
    yield (
        f"Scale: the runs have about {one.parameters:,} parameters and at most {one.steps:,} steps on {one.data} "
        f"({one.tokenizer}), at learning rates {rates}. Results may differ elsewhere."
    )
    yield (
        f"Seeds: {_counted(n_seeds, 'seed')}; the intervals estimate how other seeds would do. A single seed has no "
        "interval and decides nothing."
    )
    if compared.comparisons:
        first = compared.comparisons[0]
        margin = f"{first.margin:.2g} {first.unit}"
        yield (
            f"Tests: losses count as equal only if the difference is shown to lie within {margin}. "
            "Each interval is a 95% interval by itself; verdicts are corrected for multiple tests (Holm)."
        )
    for each in compared.comparisons:
        warnings: list[str] = []
        for pair in each.main.pairs[:1]:
            effect, family = pair.own_best.effect, pair.own_best.family
            if effect.sd and not effect.undecidable:
                resolved = paired_resolution(effect.n, alpha=ALPHA / family) * effect.sd
                warnings.append(f"most differences below {nats(resolved)} nats would be missed")
        warnings += each.warnings
        place = words_of(each.condition.axes)
        if warnings:
            yield f"{place}: {'; '.join(warnings)}." if place else f"Note: {'; '.join(warnings)}."
    diverged = sum(result.status == "diverged" for result in results)
    if diverged:
        yield f"Diverged runs: {_counted(diverged, 'run')}, counted with the initial loss."


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count != 1 else ''}"


# Columns of Text B's table and the closest of ours; its `Dead %` is undefined.
_COLUMNS = (
    ("validation loss", theirs.LOSS, "loss"),
    ("dead share, taken as z < 0", theirs.DEAD, "negative_fraction"),
    ("mean output", theirs.MEAN, "post_mean"),
    ("gradient norm, ours the late median", theirs.GRADIENT, "grad_norm_p50"),
)
_SHARED = 2  # common learning rates from which on a study is a replication


def is_replication(study: Study) -> bool:
    """Whether a study has Text B's two activations at its learning rates."""
    return set(study.activations) == set(theirs.LOSS) and len(set(study.rates) & set(theirs.RATES)) >= _SHARED


def text_b(study: Study) -> Section:
    """Text B's numbers, one run each, beside ours with intervals over seeds."""
    first = max((run.result for run in study.runs if run.result), key=lambda result: result.steps, default=None)
    scale = (
        f"{first.parameters:,} parameters, {first.steps:,} steps of {first.data} ({first.tokenizer})" if first else "-"
    )
    words = (
        "Text B reports one run per cell, at about 10.7 million parameters and 5,000 steps; warmup, clipping, batch "
        f"size and the meaning of dead are not stated. Ours: {scale}; mean over seeds with its 95% interval. Losses at "
        "another tokenizer or size are not directly comparable: compare the order of the two and the differences."
    )
    blocks: list[Block] = [Text(words)]
    for condition in study.conditions:
        columns = (
            "learning rate",
            "activation",
            *(f"{who}: {name}" for name, *_ in _COLUMNS for who in ("Text B", "ours")),
        )
        at = f" at {condition}" if condition else ""
        rows = list(_rows(study, condition))
        blocks.append(Table(f"text-b-{condition}", columns, rows, f"Text B's table beside ours{at}."))
    return Section("text-b", "Text B's table beside ours", tuple(blocks))


def _rows(study: Study, condition: str) -> Iterator[list[Cell | str]]:
    found = study.cells()
    for index, rate in enumerate(theirs.RATES):
        for name in theirs.LOSS:
            runs = found.get((condition, name, rate), [])
            cells: list[Cell | str] = []
            for _, table, field in _COLUMNS:
                cells += [charts.number(table[name][index], ".3g"), _ours(runs, field, condition)]
            yield [Cell(charts.rate(rate), rate), Cell(name, swatch=style(name)), *cells]


def _ours(runs: Sequence[Run], field: str, condition: str) -> Cell:
    values = tuple(value for run in runs if (value := _value(run, field)) is not None)
    if not values:
        return Cell("-")
    effect = Effect(values)
    assert effect.mean is not None
    text = f"{effect.mean:.3g}"
    if effect.interval:
        text += f" ({effect.interval.low:.3g} to {effect.interval.high:.3g})"
    one = runs[0]
    return Cell(
        text, effect.mean, "runs-table", charts.words(one.activation, charts.rate(one.learning_rate), condition)
    )


def _value(run: Run, field: str) -> float | None:
    if run.result is None or run.status == "stopped":
        return None
    value = run.result.loss if field == "loss" else float(run.row.get(field) or "nan")
    return value if math.isfinite(value) else None
